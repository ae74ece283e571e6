"""Waiting for one node: its Command, then the gate, seen by watches (openfuyao-nodes.md §2.4 to §2.6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hopline.domain.cluster import NodeFacts
from hopline.domain.command_state import CommandPhase, command_state
from hopline.domain.drains import devices_missing
from hopline.domain.node_commands import NodeStep
from hopline.domain.node_versions import STATIC_POD_LABELS, STATIC_POD_NAMESPACE, NodeView, gate
from hopline.domain.resources import COMMAND, NODE, POD
from hopline.domain.wire import ClusterKey, WireEnum, WireModel
from hopline.operations.following import Followed, following, until
from hopline.operations.node_sightings import NodeLevelComponent
from hopline.ports import ClusterClient


class NodePhase(WireEnum):
    """Where a node is with one step."""

    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"


class NodeObservation(WireModel):
    """What is seen of a node in hand.

    Attributes:
        message: what it waits for, or why it failed; a sentence.
        command_over: its Command has ended well, and only the gate is left.
        may_retry: its agent says that the Command failed and is over: another one may do better.
    """

    phase: NodePhase = NodePhase.WAITING
    message: str = ""
    command_over: bool = False
    may_retry: bool = False


class NodeWatch:
    """Looks at one step on one node.

    Args:
        command: name of the Command; empty: only the gate is looked at.
        devices: allocatable devices before the work began; the gate waits until the node offers them again.
    """

    def __init__(
        self,
        cluster: ClusterKey,
        component: NodeLevelComponent,
        node: NodeFacts,
        step: NodeStep,
        command: str,
        devices: Mapping[str, str] | None = None,
    ) -> None:
        self._devices = devices or {}
        self._cluster = cluster
        self._component = component
        self._node = node
        self._step = step
        self._command = command

    async def wait(
        self,
        management: ClusterClient,
        target: ClusterClient,
        last: NodeObservation,
        *,
        timeout_seconds: float,
        quiet_seconds: float = 0.0,
        on_seen: Callable[[str], None] = lambda _: None,
    ) -> NodeObservation:
        """Return when the node is done or has failed, at once; when it waits for something else than in `last`, not
        before `quiet_seconds`; and at the latest when the time is over."""
        commands = Followed(management.watch(COMMAND, kube_namespace=self._cluster.kube_namespace, name=self._command))
        nodes = Followed(target.watch(NODE, name=self._node.display_name))
        pods = Followed(target.watch(POD, kube_namespace=STATIC_POD_NAMESPACE, labels=STATIC_POD_LABELS))
        watches = self._needed(commands, nodes, pods)

        def look() -> NodeObservation:
            view = NodeView(node=nodes.get(self._node.display_name), pods=pods.documents)
            seen = self._judge(commands, view, is_read=all(one.is_synced for one in watches))
            on_seen(seen.message)
            return seen

        def has_ended(seen: NodeObservation) -> bool:
            return seen.phase is not NodePhase.WAITING

        def is_news(seen: NodeObservation) -> bool:
            return has_ended(seen) or (bool(seen.message) and seen != last)

        async with following(*watches) as changes:
            quiet = min(quiet_seconds, timeout_seconds)
            seen = await until(changes, look, has_ended, timeout_seconds=quiet)
            if not has_ended(seen):
                seen = await until(changes, look, is_news, timeout_seconds=timeout_seconds - quiet)
        if seen.phase is NodePhase.WAITING and not seen.message:
            return seen.model_copy(update={"message": f"to see {self._node.display_name}: no answer from its cluster"})
        return seen

    def _needed(self, commands: Followed, nodes: Followed, pods: Followed) -> list[Followed]:
        if self._step is NodeStep.RESET:
            return [commands]
        watches = [nodes] if self._node.is_worker else [nodes, pods]
        return [*watches, commands] if self._command else watches

    def _judge(self, commands: Followed, view: NodeView, *, is_read: bool) -> NodeObservation:
        if self._command and not commands.is_synced:
            return NodeObservation()
        if self._command:
            seen = self._judge_command(commands, view, is_read=is_read)
            if seen is not None:
                return seen
        if self._step is NodeStep.RESET:
            return NodeObservation(phase=NodePhase.DONE, message="the old runtime is gone", command_over=True)
        if not is_read:
            return NodeObservation(command_over=bool(self._command))
        missing = self._missing(view)
        if missing:
            return NodeObservation(message=missing, command_over=bool(self._command))
        return NodeObservation(phase=NodePhase.DONE, message=f"at {self._component.version}", command_over=True)

    def _missing(self, view: NodeView) -> str:
        """What the node still waits for; empty: at the version, well, and with the devices that it had."""
        missing = gate(self._component.handler, self._component.version, self._node, view)
        if missing or view.node is None:
            return missing
        return devices_missing(self._devices, view.node)

    def _judge_command(self, commands: Followed, view: NodeView, *, is_read: bool) -> NodeObservation | None:
        """None: the Command has done its part."""
        document = commands.get(self._command)
        place = f"Command {self._cluster.kube_namespace}/{self._command}"
        if document is None:
            return self._vanished(place, view, is_read=is_read)
        state = command_state(document, self._node)
        if state.phase is CommandPhase.SUCCEEDED:
            return None
        if state.phase is CommandPhase.SKIPPED and self._step is NodeStep.RESET:
            # A node without a runtime cannot stop one: taking it away "fails", and putting the new one there heals it.
            return None
        if state.phase in (CommandPhase.FAILED, CommandPhase.SKIPPED):
            return NodeObservation(phase=NodePhase.FAILED, message=f"{place} failed: {state.message}", may_retry=True)
        if state.suspended:
            return NodeObservation(message=f"{place} is suspended (spec.suspend)")
        doing = "no agent has begun" if state.phase is CommandPhase.ABSENT else "the agent runs"
        if state.strange:
            doing = f"the agent tells the phase {state.strange!r}, which is none that is documented, of"
        return NodeObservation(message=f"{doing} {place}")

    def _vanished(self, place: str, view: NodeView, *, is_read: bool) -> NodeObservation | None:
        """A Command that ended long ago may be collected; what the node shows decides."""
        if self._step is NodeStep.RESET:
            return NodeObservation(phase=NodePhase.FAILED, message=f"{place} was deleted before it had ended")
        if not is_read:
            return NodeObservation()
        missing = self._missing(view)
        if not missing:
            return None
        return NodeObservation(
            phase=NodePhase.FAILED, message=f"{place} was deleted, and the node is not done: {missing}"
        )
