"""A plan in pieces: that of a cluster of thousands of nodes takes more than the 64 KiB of one payload (design §8).

The pieces come in the order in which they are wanted: what blocks, then the hops, then node after node.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

from hopline.domain.name_lists import fitting
from hopline.domain.plan import Finding, HopPlan, NodeDrainPlan, PlannedComponent, UpgradePlan
from hopline.domain.wire import WireModel

PAGE_BYTES = 40_000


class PlannedNode(WireModel):
    """A node of a component: the wave that it goes with, and what its drain meets.

    Attributes:
        hop, wave: counted from 0.
        drain: None: the component's nodes are not drained, or nobody could look.
    """

    hop: int
    component: str
    wave: int
    node: str
    drain: NodeDrainPlan | None = None


class PlanPiece(WireModel):
    """One of the five: the plan without findings and hops, a finding, a hop without components, a component of the hop
    before it without its nodes, or a node."""

    plan: UpgradePlan | None = None
    finding: Finding | None = None
    hop: HopPlan | None = None
    component: PlannedComponent | None = None
    node: PlannedNode | None = None

    @property
    def key(self) -> str:
        """What has to be the same for pages to fit together: what a drain meets may differ from look to look."""
        if self.plan is not None:
            return f"plan {self.plan.digest}"
        if self.hop is not None:
            return f"hop {self.hop.to_version} {self.hop.digest}"
        if self.component is not None:
            return f"component {self.component.name}"
        if self.node is not None:
            return f"node {self.node.hop} {self.node.component} {self.node.wave} {self.node.node}"
        return "finding"


class PlanPage(WireModel):
    """Pieces that follow each other.

    Attributes:
        of: pages with the same text belong to one plan.
        next: number of the first piece of the next page; 0: there is none.
    """

    pieces: tuple[PlanPiece, ...] = ()
    of: str = ""
    next: int = 0

    @property
    def has_nodes(self) -> bool:
        """Hops and findings are complete."""
        return any(piece.node is not None for piece in self.pieces)


class PlanInPieces:
    """A plan that is handed out page by page."""

    def __init__(self, plan: UpgradePlan) -> None:
        self._pieces = tuple(_pieces_of(plan))
        self._of = hashlib.sha256("\n".join(piece.key for piece in self._pieces).encode()).hexdigest()

    def page(self, after: int = 0) -> PlanPage:
        """The page that begins with piece number `after`: as many as fit, at least one."""
        left = self._pieces[after:]
        chosen = fitting(left, PAGE_BYTES) or left[:1]
        end = after + len(chosen)
        return PlanPage(pieces=chosen, of=self._of, next=end if end < len(self._pieces) else 0)


def joined(pieces: Iterable[PlanPiece]) -> UpgradePlan:
    """The plan of all its pieces; of the first ones, as much as they say. Raises ValueError without the very first."""
    given = tuple(pieces)
    head = next((piece.plan for piece in given if piece.plan is not None), None)
    if head is None:
        raise ValueError("the first piece of a plan is missing")
    findings = tuple(piece.finding for piece in given if piece.finding is not None)
    hops: list[HopPlan] = []
    components: list[list[PlannedComponent]] = []
    nodes: dict[tuple[int, str], list[PlannedNode]] = {}
    for piece in given:
        if piece.hop is not None:
            hops.append(piece.hop)
            components.append([])
        elif piece.component is not None:
            components[-1].append(piece.component)
        elif piece.node is not None:
            nodes.setdefault((piece.node.hop, piece.node.component), []).append(piece.node)
    whole = (
        hop.model_copy(update={"components": tuple(_with(one, nodes.get((number, one.name), ())) for one in listed)})
        for number, (hop, listed) in enumerate(zip(hops, components, strict=True))
    )
    return head.model_copy(update={"hops": tuple(whole), "findings": findings})


def _pieces_of(plan: UpgradePlan) -> Iterator[PlanPiece]:
    yield PlanPiece(plan=plan.model_copy(update={"hops": (), "findings": ()}))
    for finding in plan.findings:
        yield PlanPiece(finding=finding)
    for hop in plan.hops:
        yield PlanPiece(hop=hop.model_copy(update={"components": ()}))
        for component in hop.components:
            yield PlanPiece(component=component.model_copy(update={"waves": (), "drain": ()}))
    for number, hop in enumerate(plan.hops):
        for component in hop.components:
            drains = {one.node: one for one in component.drain}
            for wave, names in enumerate(component.waves):
                for name in names:
                    node = PlannedNode(
                        hop=number, component=component.name, wave=wave, node=name, drain=drains.get(name)
                    )
                    yield PlanPiece(node=node)


def _with(component: PlannedComponent, nodes: Sequence[PlannedNode]) -> PlannedComponent:
    waves: dict[int, list[str]] = {}
    for node in nodes:
        waves.setdefault(node.wave, []).append(node.node)
    drains = tuple(node.drain for node in nodes if node.drain is not None)
    return component.model_copy(update={"waves": tuple(map(tuple, waves.values())), "drain": drains})
