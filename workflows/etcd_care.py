"""Etcd around one node's turn: nothing is taken down that etcd needs, and nobody goes on before a member is back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from activities.etcd import EtcdActivities, MemberReport, SpareReport
    from activities.nodes import NodeRequest
    from hopline.domain.cluster import NodeFacts
    from hopline.domain.node_commands import handler_named
    from hopline.domain.release import InlineHandler
    from hopline.operations.etcd_care import TOUCHES_MEMBERS
    from workflows import activity_options
    from workflows.cancellation import raise_if_cancelled
    from workflows.etcd_preparation import ILL_LIMIT
    from workflows.messages import RolloutInput
    from workflows.node_failure import NodeFailed
    from workflows.target_patience import TargetPatience

BACK_LIMIT = timedelta(minutes=5)
"""What a member may take to serve again after its Command (openfuyao-nodes.md §2.4)."""


class EtcdCare:
    """Asks etcd before and after a node of it is worked on."""

    def __init__(
        self,
        rollout: RolloutInput,
        node: NodeFacts,
        request: Callable[[], dict[str, Any]],
        activity_id: Callable[[str], str],
        patience: TargetPatience,
    ) -> None:
        self._rollout = rollout
        self._node = node
        self._request = request
        self._activity_id = activity_id
        self._patience = patience

    async def before(self, say: Callable[[str], None]) -> None:
        """Return when etcd can do without the member on this node.

        Raises NodeFailed, with nothing touched, at once for what only a person can mend, else after five minutes.
        """
        if not self._node.is_etcd or handler_named(self._rollout.component.handler) not in TOUCHES_MEMBERS:
            return
        limit = self._patience.now() + ILL_LIMIT
        while True:
            report = await self._patience.reaching(self._ask)
            raise_if_cancelled()
            found = report.objection
            if found is None:
                return
            say(found.message)
            if not found.passes or self._patience.now() >= limit:
                raise NodeFailed(found.message, found.remedy, untouched=True)

    async def after(self, say: Callable[[str], None]) -> None:
        """Return when the member that was changed serves again. Raises NodeFailed after five minutes."""
        if not self._node.is_etcd or self._rollout.component.handler != InlineHandler.ETCD:
            return
        limit = self._patience.now() + BACK_LIMIT
        while True:
            report = await self._patience.reaching(self._look)
            raise_if_cancelled()
            if not report.missing:
                return
            say(report.missing)
            if self._patience.now() >= limit:
                host = self._node.display_name
                raise NodeFailed(
                    f"not back in etcd {int(BACK_LIMIT.total_seconds())} s after its Command: {report.missing}",
                    f"look at the etcd pod of {host} (kubectl -n kube-system logs etcd-{host}); then retry",
                )

    async def _ask(self) -> SpareReport:
        return await workflow.execute_activity_method(
            EtcdActivities.ask_for_spare,
            NodeRequest(**self._request()),
            activity_id=self._activity_id("etcd"),
            summary=f"can etcd do without {self._node.display_name}",
            **activity_options.within(activity_options.READ, self._left()),
        )

    async def _look(self) -> MemberReport:
        return await workflow.execute_activity_method(
            EtcdActivities.await_member,
            NodeRequest(**self._request()),
            activity_id=self._activity_id("member"),
            summary=f"wait for the etcd member of {self._node.display_name}",
            **activity_options.within(activity_options.READ, BACK_LIMIT),
        )

    def _left(self) -> timedelta:
        return self._rollout.deadline - self._patience.now()
