"""A verified snapshot of etcd, taken by the agent of a node whose member serves, before the first member is changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime

from hopline.domain.cluster import ClusterFacts, NodeFacts
from hopline.domain.command_state import CommandPhase, command_state
from hopline.domain.errors import Blocked, ClusterNotReady, ComponentFailed, NotFound, Transient
from hopline.domain.etcd import EtcdSighting
from hopline.domain.etcd_snapshots import EtcdSnapshot, read_snapshot, snapshot_command, snapshot_node
from hopline.domain.node_commands import NodeCommand, members_of
from hopline.domain.node_versions import ETCD_POD, STATIC_POD_NAMESPACE, image_tag
from hopline.domain.plan import Pool
from hopline.domain.release import InlineHandler
from hopline.domain.resources import CLUSTER_VERSION, COMMAND, POD, Document, ObjectRef
from hopline.domain.wire import ClusterKey, WireModel
from hopline.operations import nodes
from hopline.operations.etcd_care import EtcdCare
from hopline.operations.following import Followed, following, until
from hopline.operations.node_watch import NodePhase
from hopline.ports import Clusters, Store

KEPT_RECORDS = 10
RECORD = "etcd-snapshot"
"""Key in `about` of its records, which tells them from those of hops."""

AGENT_REMEDY = "look at the agent on {host} (journalctl -u bkeagent) and at its disk; then retry"


class SnapshotToTake(WireModel):
    """What an agent is to be told: fixed before it is told, so that a second attempt tells it nothing else.

    Attributes:
        version: what the member on the node runs.
        stamp: unix second of the Command's name.
    """

    node: NodeFacts
    version: str
    stamp: int = 0


class SnapshotChoice(WireModel):
    """Where a snapshot is to be taken.

    Attributes:
        leader: of etcd, as far as it was seen.
        work: None: nowhere now; then `problem` and `remedy` say why.
        passes: it may be over in a moment.
    """

    leader: str = ""
    work: SnapshotToTake | None = None
    problem: str = ""
    remedy: str = ""
    passes: bool = False


class SnapshotReport(WireModel):
    """How far a snapshot is; `snapshot` when it is there and right."""

    phase: NodePhase = NodePhase.WAITING
    message: str = ""
    remedy: str = ""
    snapshot: EtcdSnapshot | None = None


class EtcdSnapshots:
    """Has snapshots taken, verifies and records them."""

    def __init__(self, clusters: Clusters, care: EtcdCare, store: Store) -> None:
        self._clusters = clusters
        self._management = clusters.management
        self._care = care
        self._store = store

    async def choose(self, facts: ClusterFacts, target: str) -> SnapshotChoice:
        """A node whose member serves, and does not lead where there is a choice. `target`: what etcd shall get."""
        seen: EtcdSighting | None = None
        try:
            seen = await self._care.look(facts)
        except (ClusterNotReady, Transient) as error:
            blind = self._care.blindness(error)
            if blind is not None:
                return SnapshotChoice(problem=blind.message, remedy=blind.remedy, passes=blind.passes)
        members = members_of(facts, InlineHandler.ETCD.value, Pool.CONTROL_PLANE).nodes
        node = snapshot_node(members, seen)
        if node is None:
            return SnapshotChoice(
                problem="no node of etcd has a member that serves and an agent that is ready to take a snapshot",
                remedy="bring one back (status.stateCode of its BKENode needs bit 2); then retry",
                passes=True,
            )
        version = await self._version_of(facts.key, node)
        if not version:
            return SnapshotChoice(
                problem=f"pod {STATIC_POD_NAMESPACE}/{ETCD_POD}-{node.display_name} does not show which etcd it runs",
                remedy="bring the pod back; then retry",
                passes=True,
            )
        # The agent compares without the `v`; the release decides how it is written.
        written = f"v{version}" if target.startswith("v") else version
        return SnapshotChoice(leader=seen.leader if seen else "", work=SnapshotToTake(node=node, version=written))

    async def _version_of(self, cluster: ClusterKey, node: NodeFacts) -> str:
        name = f"{ETCD_POD}-{node.display_name}"
        target = await self._clusters.target(cluster)
        try:
            pod = await target.get(ObjectRef(kind=POD, name=name, kube_namespace=STATIC_POD_NAMESPACE))
        except NotFound:
            return ""
        tag = image_tag(pod, ETCD_POD)
        return "" if tag == "none" else tag.removeprefix("v")

    async def take(
        self,
        facts: ClusterFacts,
        work: SnapshotToTake,
        *,
        seconds: float,
        tell: Callable[[str], None] = lambda _: None,
    ) -> SnapshotReport:
        """Tell the agent once, wait for it, and verify what it has left; at the latest after `seconds`."""
        node, command = work.node, _command(facts, work)
        try:
            begun = await nodes.claim_node(self._management, facts, node, command, work.stamp)
        except Blocked as blocked:
            tell(str(blocked))
            await nodes.wait_for_commands(self._management, facts.key, timeout_seconds=min(seconds, 5.0))
            return SnapshotReport(message=str(blocked))
        begun = begun or await nodes.create_command(self._management, facts, node, command, work.stamp)
        place = f"Command {facts.key.kube_namespace}/{begun.name}"
        document = await self._ended(
            facts.key, node, begun.name, seconds, lambda phase: tell(f"{place}: {phase.value}")
        )
        remedy = AGENT_REMEDY.format(host=node.display_name)
        if document is None:
            return SnapshotReport(phase=NodePhase.FAILED, message=f"{place} was deleted", remedy=remedy)
        state = command_state(document, node)
        if state.phase in (CommandPhase.ABSENT, CommandPhase.RUNNING):
            return SnapshotReport(message=f"a snapshot of etcd by the agent of {node.display_name} ({place})")
        if state.phase is not CommandPhase.SUCCEEDED:
            told = f"{place}, a snapshot of etcd, failed: {state.message}; no member was touched"
            return SnapshotReport(phase=NodePhase.FAILED, message=told, remedy=remedy)
        try:
            found = read_snapshot(document, node)
        except ComponentFailed as error:
            return SnapshotReport(phase=NodePhase.FAILED, message=str(error.message), remedy=error.remedy)
        return SnapshotReport(phase=NodePhase.DONE, message=str(found), snapshot=found)

    async def _ended(
        self, cluster: ClusterKey, node: NodeFacts, name: str, seconds: float, tell: Callable[[CommandPhase], None]
    ) -> Document | None:
        """The Command when it is over, or as it is when the time is; None: it is gone."""
        commands = Followed(self._management.watch(COMMAND, kube_namespace=cluster.kube_namespace, name=name))
        unknown: Document = {}

        def look() -> Document | None:
            found = commands.get(name) if commands.is_synced else unknown
            if found:
                tell(command_state(found, node).phase)
            return found

        def is_over(document: Document | None) -> bool:
            if document is None:
                return True
            ended = (CommandPhase.SUCCEEDED, CommandPhase.FAILED, CommandPhase.SKIPPED)
            return bool(document) and command_state(document, node).phase in ended

        async with following(commands) as changes:
            return await until(changes, look, is_over, timeout_seconds=seconds)

    async def record(
        self, cluster: ClusterKey, snapshot: EtcdSnapshot, about: Mapping[str, str], at: datetime
    ) -> EtcdSnapshot:
        """Keep it in the Store, as a record of the ClusterVersion; the last ten are kept."""
        ref = ObjectRef(kind=CLUSTER_VERSION, name=cluster.name, kube_namespace=cluster.kube_namespace)
        owner = await self._management.get(ref)
        text = json.dumps({RECORD: snapshot.model_dump(mode="json", exclude={"digest"})}, sort_keys=True)
        kept = await self._store.put(owner, text.encode(), about={RECORD: snapshot.node, **about}, at=at)
        records = [one for one in await self._store.records(owner) if RECORD in one.about]
        for record in records[:-KEPT_RECORDS]:
            await self._store.delete(owner, record.digest)
        return snapshot.model_copy(update={"digest": kept.digest})

    async def drop(self, facts: ClusterFacts, work: SnapshotToTake) -> str:
        """Nothing of a snapshot that was given up begins later; what may still be running, as a sentence."""
        name = await nodes.created_command(self._management, facts, work.node, _command(facts, work), work.stamp)
        if not name:
            return ""
        released = await nodes.suspend_command(self._management, facts.key, work.node, name)
        if not released.may_run:
            await nodes.remove_command(self._management, facts.key, name)
        return released.may_run


def _command(facts: ClusterFacts, work: SnapshotToTake) -> NodeCommand:
    return snapshot_command(facts, work.node, work.version)
