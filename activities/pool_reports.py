"""What a rollout is told of a pool: the next stretch of it, by name, in a payload that stays small."""

from __future__ import annotations

from activities.requests import RunRequest
from hopline.domain.errors import bounded
from hopline.domain.name_lists import NameList, fitting, some_of
from hopline.domain.node_versions import NodeSighting
from hopline.domain.plan import PlannedComponent, Pool
from hopline.domain.wire import WireModel
from hopline.operations.node_sightings import PoolSighting

MAX_TODO = 100
TODO_BYTES = 40_000
"""Nodes in one report: payloads stay small in pools of thousands (design §2, §8)."""

MAX_LEFT_OUT = 20
MAX_SEEN = 200
"""Characters about one node."""


class PoolRequest(RunRequest):
    """One component on one pool; nodes up to and including `after` are behind us, those up to `noted` are counted."""

    component: PlannedComponent
    pool: Pool
    after: str = ""
    noted: str = ""


class PoolReport(WireModel):
    """The next stretch of a pool, by name.

    Attributes:
        todo: nodes that are not settled, at most 100.
        settled: display names of those behind `noted`, and before the last of `todo`, that are.
        left_out: at most 20.
        more: there are nodes behind the last of `todo`.
        total: nodes of the whole pool.
        last: the last name of this stretch.
        control_plane: hostnames; only for a component whose nodes must not get ahead of an API server.
    """

    todo: tuple[NodeSighting, ...] = ()
    settled: NameList = NameList()
    left_out: tuple[str, ...] = ()
    total: int = 0
    more: bool = False
    last: str = ""
    control_plane: tuple[str, ...] = ()


def stretch_of(request: PoolRequest, seen: PoolSighting) -> PoolReport:
    """What of a pool fits into one report."""
    ahead = [one for one in seen.nodes if one.node.name > request.after]
    unsettled = [one for one in ahead if not one.settled]
    todo = fitting((_short(one) for one in unsettled[:MAX_TODO]), TODO_BYTES)
    is_cut = len(todo) < len(unsettled)
    stretch = [one for one in ahead if not is_cut or one.node.name <= todo[-1].node.name]
    settled = [one.node.display_name for one in stretch if one.settled and one.node.name > request.noted]
    return PoolReport(
        todo=todo,
        settled=NameList.of(settled),
        left_out=some_of(seen.left_out, MAX_LEFT_OUT),
        total=len(seen.nodes),
        more=len(stretch) < len(ahead),
        last=stretch[-1].node.name if stretch else "",
    )


def _short(sighting: NodeSighting) -> NodeSighting:
    return sighting.model_copy(update={"seen": bounded(sighting.seen, MAX_SEEN)})
