"""The recorded upgrade of two hops with workloads, on a real API server: seconds and requests (observed.md §2)."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import Figure
from benchmarks.real_hop import WORKER, arrival
from controlplane.agent_script import AgentScript
from controlplane.audit import AuditEvent
from controlplane.binaries import BinariesUnavailable, find_binaries
from controlplane.lab_site import LabSite
from hopline.kube.client import connect
from hopline.kube.credentials import default_source
from observed_input import CONTROLLER_IMAGE, VERSIONS, write_observed_input

EXISTING_SECONDS = (23.47, 45.90)
"""From the patch to each version in `currentVersion`."""

EXISTING_REQUESTS, EXISTING_WRITES = 145 + 170, 73 + 110
TARGET_SECONDS = 8.0


@dataclass(frozen=True)
class _Upgrade:
    """Seconds from the patch until each hop was recorded, and what the worker asked meanwhile."""

    seconds: tuple[float, ...]
    requests: int
    writes: int


def two_hops() -> list[Figure]:
    """One upgrade of a fresh worker, so that nothing is known before: every rollout of the workloads is waited for."""
    try:
        binaries = find_binaries()
    except BinariesUnavailable as error:
        print(f"not measured: {error}")
        return []
    with tempfile.TemporaryDirectory() as folder:
        examples = write_observed_input(Path(folder))
        settings = {"HOPLINE_OWN_IMAGES": CONTROLLER_IMAGE}
        with LabSite(binaries, AgentScript(), examples=examples, without=(), settings=settings) as site:
            measured = asyncio.run(_upgrade(site))
    first, both = measured.seconds
    existing = f"existing controller: {EXISTING_REQUESTS}, {EXISTING_WRITES} of them writes"
    return [
        Figure(
            "two hops with workloads, the first", first, "s", detail=f"existing controller: {EXISTING_SECONDS[0]} s"
        ),
        Figure("... both", both, "s", TARGET_SECONDS, f"existing controller: {EXISTING_SECONDS[1]} s"),
        Figure("... API requests of the worker", measured.requests, "", detail=f"{measured.writes} writes; {existing}"),
    ]


async def _upgrade(site: LabSite) -> _Upgrade:
    key, control_plane = site.cluster.key, site.control_plane
    client = await connect(default_source(control_plane.kubeconfig))
    try:
        await asyncio.to_thread(site.until_ready)
        mark = control_plane.audit_mark()
        arrivals = [asyncio.create_task(arrival(client, key, version)) for version in VERSIONS[1:]]
        wish = json.dumps({"spec": {"desiredVersion": VERSIONS[-1]}})
        where = ["clusterversion", key.name, "-n", key.kube_namespace]
        began = time.monotonic()
        await asyncio.to_thread(control_plane.kubectl, "patch", *where, "--type", "merge", "-p", wish)
        seconds = tuple([await one - began for one in arrivals])
        requests = list(_counted(await asyncio.to_thread(control_plane.audit_events, since=mark, user=WORKER)))
    finally:
        await client.aclose()
    return _Upgrade(seconds, len(requests), sum(event.is_write for event in requests))


def _counted(events: Iterable[AuditEvent]) -> Iterable[AuditEvent]:
    """Without discovery, as the recorded figures."""
    return (event for event in events if event.resource)
