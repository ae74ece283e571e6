"""A plan of five thousand nodes with the longest names travels in pages that are small, and comes back whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopline.domain.node_waves import waves
from hopline.domain.plan import (
    ComponentType,
    Finding,
    HopPlan,
    NodeDrainPlan,
    PlannedComponent,
    Severity,
    UpgradePlan,
)
from hopline.domain.plan_pieces import PlanInPieces, PlanPage, joined
from hopline.domain.wire import ClusterKey

LIMIT = 64 * 1024
CLUSTER = ClusterKey(kube_namespace="east", name="east")


def component(name: str, nodes: int, *, pods: int = 0, wave: int = 50) -> PlannedComponent:
    names = [f"{number:05}-{'n' * 57}" for number in range(nodes)]
    listed = tuple(f"{'s' * 63}/{number:02}-{'p' * 250}" for number in range(pods))
    blocked = tuple(f"{pod}: PodDisruptionBudget {'b' * 253}: 不允许" for pod in listed)
    drain = tuple(NodeDrainPlan(node=one, evict=listed, stay=listed, blocked=blocked) for one in names) if pods else ()
    return PlannedComponent(
        name=name, version="v2", type=ComponentType.NODE, waves=tuple(waves(names, wave, 1)), drain=drain
    )


def plan(*hops: HopPlan, findings: tuple[Finding, ...] = ()) -> UpgradePlan:
    return UpgradePlan(cluster=CLUSTER, from_version="v1", to_version="v9", digest="d", hops=hops, findings=findings)


def hop(number: int, *components: PlannedComponent) -> HopPlan:
    return HopPlan(from_version=f"v{number}", to_version=f"v{number + 1}", digest=f"d{number}", components=components)


def pages_of(whole: PlanInPieces) -> list[PlanPage]:
    pages = [whole.page()]
    while pages[-1].next:
        pages.append(whole.page(pages[-1].next))
    return pages


def size(page: PlanPage) -> int:
    return len(page.model_dump_json().encode())


def test_five_thousand_nodes_and_as_many_findings_fit_into_pages() -> None:
    blocks = Finding(severity=Severity.BLOCKS, object="Node w", message="m" * 900, remedy="r" * 300)
    warns = [
        Finding(severity=Severity.WARNS, object=f"Node {number}", message="m" * 900, remedy="r" * 300)
        for number in range(5000)
    ]
    first = hop(1, component("containerd", 5000, pods=2), component("kubernetes-worker", 5000, pods=2))
    made = plan(first, hop(2, component("containerd", 0)), findings=(blocks, *warns))
    assert len(made.model_dump_json()) > 100 * LIMIT
    pages = pages_of(PlanInPieces(made))
    assert max(map(size, pages)) < LIMIT
    assert {page.of for page in pages} == {pages[0].of}
    assert joined(piece for page in pages for piece in page.pieces) == made
    assert joined(pages[0].pieces).blocking == (blocks,)


def test_the_largest_node_of_all_fits_into_a_page() -> None:
    made = plan(hop(1, component("kubernetes-worker", 3, pods=20)))
    pages = pages_of(PlanInPieces(made))
    assert max(map(size, pages)) < LIMIT
    assert joined(piece for page in pages for piece in page.pieces) == made


def test_hops_come_before_nodes() -> None:
    made = plan(hop(1, component("kubernetes-worker", 2000)), hop(2, component("kubernetes-worker", 0)))
    page = PlanInPieces(made).page()
    assert page.has_nodes
    assert [len(one.components) for one in joined(page.pieces).hops] == [1, 1]


def test_pages_tell_whether_they_belong_together() -> None:
    def of(*components: PlannedComponent) -> str:
        return PlanInPieces(plan(hop(1, *components))).page().of

    drained = component("kubernetes-worker", 10, pods=1)
    moved = drained.model_copy(update={"drain": tuple(NodeDrainPlan(node=one.node) for one in drained.drain)})
    assert of(drained) == of(moved)
    assert len({of(drained), of(component("kubernetes-worker", 11, pods=1)), of(component("containerd", 10))}) == 3
    assert of(component("kubernetes-worker", 10, wave=3)) != of(component("kubernetes-worker", 10, wave=4))


def test_without_its_first_piece_there_is_no_plan() -> None:
    with pytest.raises(ValueError, match="first piece"):
        joined(PlanInPieces(plan(hop(1))).page(1).pieces)


@given(st.lists(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 2)), max_size=4), max_size=3))
def test_what_is_taken_apart_comes_together_again(hops: list[list[tuple[int, int]]]) -> None:
    made = plan(
        *(
            hop(number, *(component(f"c{index}", nodes, pods=pods) for index, (nodes, pods) in enumerate(components)))
            for number, components in enumerate(hops)
        )
    )
    assert joined(piece for page in pages_of(PlanInPieces(made)) for piece in page.pieces) == made
