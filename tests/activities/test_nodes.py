"""Looking at a large pool: pages, counts, and payloads that stay small."""

from __future__ import annotations

from pathlib import Path

from temporalio.testing import ActivityEnvironment

from activities.nodes import NodeActivities
from activities.pool_reports import MAX_TODO, PoolReport, PoolRequest
from activities.requests import ManagementFence
from hopline.domain.plan import ComponentType, PlannedComponent, Pool
from hopline.domain.release import InlineHandler
from hopline.domain.resources import NODE, ObjectRef
from hopline.sim import open_simulation
from hopline.sim.scenarios import create_scenario

EXAMPLES = Path(__file__).parents[2] / "deploy" / "examples"
WORKERS = 230


async def test_a_large_pool_comes_in_pages_and_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "simulation.db"
    key = create_scenario(path, examples=EXAMPLES, nodes=(1, WORKERS))
    clusters = open_simulation(path)
    target = await clusters.target(key)
    body = {"status": {"nodeInfo": {"kubeletVersion": "v1.34.4-of.1"}}}
    done = [f"w{number}" for number in range(1, WORKERS + 1, 10)]
    for name in done:
        await target.patch(ObjectRef(kind=NODE, name=name), body, subresource="status")
    activities = NodeActivities(clusters, ManagementFence(clusters.management))
    component = PlannedComponent(
        name="kubernetes-worker", version="v1.34.4-of.1", type=ComponentType.NODE, handler=InlineHandler.WORKER.value
    )
    pages: list[PoolReport] = []
    after = ""
    while not pages or pages[-1].more:
        request = PoolRequest(cluster=key, component=component, pool=Pool.WORKERS, after=after)
        pages.append(await ActivityEnvironment().run(activities.look_at_pool, request))
        after = pages[-1].todo[-1].node.name
    await clusters.aclose()
    todo = [one.node.name for page in pages for one in page.todo]
    assert [len(page.todo) for page in pages] == [MAX_TODO, MAX_TODO, WORKERS - len(done) - 2 * MAX_TODO]
    assert todo == sorted(todo)
    assert sorted(name for page in pages for name in page.settled.kept()) == sorted(done)
    assert {page.total for page in pages} == {WORKERS}
    assert max(len(page.model_dump_json()) for page in pages) < 64 * 1024
