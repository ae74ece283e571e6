"""Draining one node through the Eviction API, seen by watches (design §8, "Nodes").

A pod that nothing can ever evict is named before anything is evicted, and costs no request. Refusals are told apart.
The drain is over when the pods are gone by uid; after its deadline nothing is evicted any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from hopline.domain.budgets import Budget, budget_of, hindrance
from hopline.domain.drains import PodDecision, PodFate, decide_pod
from hopline.domain.errors import Forbidden, NotFound, PortError, bounded
from hopline.domain.evictions import EvictionAnswer, answer_of, sentence
from hopline.domain.node_strategy import DrainPolicy, DrainRules
from hopline.domain.resources import DAEMON_SET, NODE, POD, POD_DISRUPTION_BUDGET, Document, ObjectRef
from hopline.domain.wire import WireModel
from hopline.operations.following import Changes, Followed, by_place, following
from hopline.operations.node_cordons import cordon_owner, is_cordoned
from hopline.operations.node_watch import NodePhase
from hopline.ports import ClusterClient

FIRST_PAUSE_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 30.0
FORCED_SECONDS = 60.0
"""How long pods that were deleted past their budgets are waited for."""
MAX_NAMED = 3
MAX_LEFT = 20
MAX_TEXT = 300
"""Characters of a server's own words."""

_LOST = (EvictionAnswer.BUDGET, EvictionAnswer.TWO_BUDGETS)


class DrainObservation(WireModel):
    """How far the drain of a node is.

    Attributes:
        message: what it waits for, or why it failed; a sentence.
        left: pods that stay on the node although they run, each with the reason; at most 20.
    """

    phase: NodePhase = NodePhase.WAITING
    message: str = ""
    left: tuple[str, ...] = ()


@dataclass
class _Attempt:
    """The last answer to the eviction of one pod."""

    answer: EvictionAnswer
    words: str
    again_at: float
    pause: float
    budgets: str


class NodeDrain:
    """Drains one cordoned node.

    Args:
        until: the deadline, in UTC; afterwards the policy decides about what is left.
        workflow_id: whose cordon it must be: without it nothing is evicted.
    """

    def __init__(self, target: ClusterClient, node: str, rules: DrainRules, until: datetime, workflow_id: str) -> None:
        self._target = target
        self._node = node
        self._rules = rules
        self._until = until
        self._workflow_id = workflow_id
        self._tried: dict[str, _Attempt] = {}
        self._daemon_sets: frozenset[str] | None = None
        self._deleted: set[str] = set()

    async def carry_on(
        self,
        last: DrainObservation,
        *,
        timeout_seconds: float,
        quiet_seconds: float = 0.0,
        on_seen: Callable[[str], None] = lambda _: None,
    ) -> DrainObservation:
        """Evict, and return when the drain has ended; when it waits for something else than in `last`, not before
        `quiet_seconds`; and at the latest when the time is over. Raises what the watches raise."""
        self._daemon_sets = await self._look_at_daemon_sets()
        nodes = Followed(self._target.watch(NODE, name=self._node))
        pods = Followed(self._target.watch(POD, fields=f"spec.nodeName={self._node}"), by_place)
        budgets = Followed(self._target.watch(POD_DISRUPTION_BUDGET), by_place)
        began = _now()
        async with following(nodes, pods, budgets) as changes:
            while True:
                seen = DrainObservation(message=f"to see the pods of {self._node}")
                if nodes.is_synced and pods.is_synced and budgets.is_synced:
                    seen = await self._step(nodes.get(self._node), pods, budgets)
                on_seen(seen.message)
                passed = _now() - began
                if seen.phase is not NodePhase.WAITING or passed >= timeout_seconds:
                    return seen
                if passed >= quiet_seconds and seen != last:
                    return seen
                await self._pause(changes, timeout_seconds - passed, quiet_seconds - passed)

    async def _pause(self, changes: Changes, left: float, quiet: float) -> None:
        """Until something changes, an eviction is due again, the deadline passes, or the caller wants to hear."""
        due = [attempt.again_at - _now() for attempt in self._tried.values()]
        moments = [left, *due, (self._until - datetime.now(UTC)).total_seconds(), quiet]
        await changes.wait(max(0.05, min(one for one in [*moments, left] if one > 0)))

    async def _step(self, node: Document | None, pods: Followed, budgets: Followed) -> DrainObservation:
        if node is None:
            return DrainObservation(phase=NodePhase.FAILED, message=f"Node {self._node} is gone")
        if cordon_owner(node) != self._workflow_id or not is_cordoned(node):
            return DrainObservation(
                phase=NodePhase.FAILED,
                message=f"somebody has uncordoned {self._node} in the middle of its drain: nothing more is evicted",
            )
        known = [budget_of(one) for one in budgets.documents.values()]
        decisions = [(decide_pod(pod, self._rules.policy, self._daemon_sets), pod) for pod in pods.documents.values()]
        decisions.sort(key=lambda pair: str(pair[0]))
        left = tuple(_staying(decision) for decision, _ in decisions if _is_worth_a_word(decision))[:MAX_LEFT]
        going = [(one, pod) for one, pod in decisions if one.fate is not PodFate.LEAVE]
        self._forget_gone(one.uid for one, _ in going)
        if not going:
            return DrainObservation(phase=NodePhase.DONE, message=f"{self._node} is drained", left=left)
        hopeless = {one.uid: why for one, pod in going if (why := _never(one, pod, known))}
        waits = self._rules.waits
        if datetime.now(UTC) >= self._until or (not waits and len(hopeless) == len(going)):
            return await self._out_of_time([one for one, _ in going], hopeless, left)
        if not (hopeless and waits):
            await self._evict_due([(one, pod) for one, pod in going if one.uid not in hopeless], known)
        return DrainObservation(message=self._waiting_for([one for one, _ in going], hopeless), left=left)

    async def _evict_due(self, going: list[tuple[PodDecision, Document]], budgets: list[Budget]) -> None:
        for decision, pod in going:
            state = "".join(f"{one}{one.allowed}{one.desired}" for one in budgets if one.covers(pod))
            open_again = all(one.allowed > 0 for one in budgets if one.covers(pod))
            if decision.fate is PodFate.EVICT and self._is_due(decision.uid, state, open_again):
                await self._evict(decision, state)
            if datetime.now(UTC) >= self._until:
                return

    def _is_due(self, uid: str, budgets: str, open_again: bool) -> bool:
        tried = self._tried.get(uid)
        if tried is None or _now() >= tried.again_at:
            return True
        return tried.answer in _LOST and tried.budgets != budgets and open_again

    async def _evict(self, decision: PodDecision, budgets: str) -> None:
        ref = ObjectRef(kind=POD, name=decision.name, kube_namespace=decision.kube_namespace)
        before = self._tried.get(decision.uid)
        answer, words = EvictionAnswer.ACCEPTED, ""
        try:
            await self._target.evict(ref, uid=decision.uid, grace_seconds=self._rules.grace_seconds)
        except PortError as error:
            answer, words = answer_of(error), bounded(error.message, MAX_TEXT)
        pause = min(before.pause * 2, LONGEST_PAUSE_SECONDS) if before else FIRST_PAUSE_SECONDS
        if answer is EvictionAnswer.ACCEPTED:
            pause = LONGEST_PAUSE_SECONDS
        self._tried[decision.uid] = _Attempt(answer, words, _now() + pause, pause, budgets)

    async def _out_of_time(
        self, going: list[PodDecision], hopeless: dict[str, str], left: tuple[str, ...]
    ) -> DrainObservation:
        """The deadline has passed: nothing is evicted any more, the policy decides."""
        why = self._waiting_for(going, hopeless)
        if self._rules.policy is DrainPolicy.FORCE:
            return await self._force(going, why, left)
        devices = next((one for one in going if one.devices), None)
        if self._rules.policy is DrainPolicy.SKIP and devices is None:
            names = tuple(f"{one} (it could not be evicted in time)" for one in going)
            message = f"{self._node} is drained but for {len(going)} pods"
            return DrainObservation(phase=NodePhase.DONE, message=message, left=(*left, *names)[:MAX_LEFT])
        held = f"; {devices} holds {', '.join(devices.devices)}, so it is not left" if devices else ""
        seconds = f"{self._rules.timeout_seconds:.0f} s"
        return DrainObservation(phase=NodePhase.FAILED, message=f"not drained within {seconds}: {why}{held}", left=left)

    async def _force(self, going: list[PodDecision], why: str, left: tuple[str, ...]) -> DrainObservation:
        for one in going:
            if one.uid not in self._deleted and one.fate is not PodFate.GOING:
                self._deleted.add(one.uid)
                ref = ObjectRef(kind=POD, name=one.name, kube_namespace=one.kube_namespace)
                try:
                    await self._target.delete(ref, uid=one.uid)
                except NotFound:
                    continue
                except PortError as error:
                    self._deleted.discard(one.uid)
                    why = f"{one}: {bounded(error.message, MAX_TEXT)}"
        late = (datetime.now(UTC) - self._until).total_seconds()
        phase = NodePhase.FAILED if late >= FORCED_SECONDS else NodePhase.WAITING
        return DrainObservation(phase=phase, message=f"deleted past their budgets: {why}", left=left)

    def _waiting_for(self, going: list[PodDecision], hopeless: dict[str, str]) -> str:
        """The pods that are in the way first, then the others by number."""
        told = [f"{one}: {hopeless[one.uid]}" for one in going if one.uid in hopeless]
        if told and self._rules.waits:
            more = f"; and {len(told) - MAX_NAMED} more" if len(told) > MAX_NAMED else ""
            return f"nothing is evicted from {self._node}, because {'; '.join(told[:MAX_NAMED])}{more}"
        for one in going:
            tried = self._tried.get(one.uid)
            if one.uid not in hopeless and tried is not None and tried.answer is not EvictionAnswer.ACCEPTED:
                told.append(sentence(str(one), tried.answer, tried.words))
        rest = len(going) - len(told)
        if rest:
            told.append(f"{rest} pods to end" if told else f"{rest} pods of {self._node} to end")
        more = f"; and {len(told) - MAX_NAMED} more" if len(told) > MAX_NAMED + 1 else ""
        return f"{'; '.join(told[: MAX_NAMED + 1])}{more}"

    def _forget_gone(self, present: Iterable[str]) -> None:
        kept = set(present)
        self._tried = {uid: tried for uid, tried in self._tried.items() if uid in kept}

    async def _look_at_daemon_sets(self) -> frozenset[str] | None:
        try:
            listing = await self._target.list(DAEMON_SET)
        except Forbidden:
            return None
        return frozenset(str(one["metadata"]["uid"]) for one in listing.items)


def _never(decision: PodDecision, pod: Document, budgets: list[Budget]) -> str:
    """Why waiting does not help this pod; empty: it may."""
    if decision.fate is PodFate.BLOCK:
        return decision.reason
    return hindrance(pod, budgets) if decision.fate is PodFate.EVICT else ""


def _is_worth_a_word(decision: PodDecision) -> bool:
    """A pod that stays: one with devices, or one that other drains would have moved."""
    others = "no controller" in decision.reason or "tolerates" in decision.reason
    return decision.fate is PodFate.LEAVE and (bool(decision.devices) or others)


def _staying(decision: PodDecision) -> str:
    devices = f", and it holds {', '.join(decision.devices)}" if decision.devices else ""
    return f"{decision}: {decision.reason}{devices}"


def _now() -> float:
    return asyncio.get_running_loop().time()
