"""`make bench`: measures what the design promises, on this machine, in this run; judges only against targets."""

from __future__ import annotations

import asyncio
import os
import platform
import sys

from benchmarks import manifests
from benchmarks.large_component import three_hundred_objects
from benchmarks.measure import Figure, server
from benchmarks.node_hop import slow_agents
from benchmarks.offline_transfer import offline_transfer
from benchmarks.orchestration import component_cost, critical_path
from benchmarks.planning import path_search, plan_shown
from benchmarks.real_hop import ten_no_op_components
from benchmarks.registry_requests import new_release
from benchmarks.thousand_nodes import thousand_nodes
from benchmarks.two_hops import two_hops

ON_A_REAL_SERVER = (
    new_release,
    offline_transfer,
    ten_no_op_components,
    two_hops,
    three_hundred_objects,
    slow_agents,
)


async def _on_a_server() -> list[Figure]:
    figures: list[Figure] = []
    for measure in (component_cost, critical_path, plan_shown, thousand_nodes):
        async with server() as client:
            for figure in await measure(client):
                print(figure.line(), flush=True)
                figures.append(figure)
    return figures


def main() -> int:
    """Exit code 1 when a target is missed."""
    print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}"
    )
    figures = [*path_search(), *manifests.reading(), *asyncio.run(manifests.blocked())]
    for figure in figures:
        print(figure.line(), flush=True)
    figures += asyncio.run(_on_a_server())
    for on_a_real_server in ON_A_REAL_SERVER:
        for figure in on_a_real_server():
            print(figure.line(), flush=True)
            figures.append(figure)
    return int(any(figure.verdict == "MISSED" for figure in figures))


if __name__ == "__main__":
    sys.stdout.flush()
    code = main()
    sys.stdout.flush()
    os._exit(code)
