"""Effects on one node: its state in BKENode, and the Command that its agent carries out (design §2.3, §2.4).

The agents have no lock (openfuyao-nodes.md §1.5), so the unfinished Command is the lock: nothing is begun on a node
that another one may be working on.
"""

from __future__ import annotations

from hopline.domain.agent_push import is_ping_of
from hopline.domain.cluster import ClusterFacts, NodeFacts
from hopline.domain.command_state import CommandPhase, command_state, is_unfinished
from hopline.domain.errors import AlreadyExists, Blocked, NotFound, bounded
from hopline.domain.node_commands import (
    NodeCommand,
    command_document,
    is_collected,
    is_for,
    is_of_node_upgrade,
    is_same_work,
)
from hopline.domain.resources import (
    BKE_NODE,
    COMMAND,
    LABEL_CLUSTER_NAME,
    Document,
    ObjectRef,
)
from hopline.domain.wire import ClusterKey, WireModel
from hopline.operations.following import Followed, following, until
from hopline.operations.shared_lists import SharedLists
from hopline.ports import ClusterClient

STATE_READY, MESSAGE_DONE = "Ready", "Upgrading success"
STATE_UPGRADING, MESSAGE_UPGRADING = "Upgrading", "Upgrading"
STATE_FAILED = "UpgradeFailed"

SUSPEND_SECONDS = 4.0
"""How long an agent is given to say that it has seen a suspension: each of its writes takes a second (§1.6)."""

MAX_NAMES_TRIED = 100


class BegunCommand(WireModel):
    """The Command that works on the node now; `adopted`: it was there already."""

    name: str
    adopted: bool = False


class ReleasedNode(WireModel):
    """A Command that was given up.

    Attributes:
        gone: it is not there.
        untouched: its agent had not begun it.
        may_run: the sentence that says what still may be running; empty: nothing is, and the Command can be deleted.
    """

    gone: bool = False
    untouched: bool = False
    may_run: str = ""


def node_ref(cluster: ClusterKey, node: NodeFacts) -> ObjectRef:
    """The BKENode."""
    return ObjectRef(kind=BKE_NODE, name=node.name, kube_namespace=cluster.kube_namespace)


def command_ref(cluster: ClusterKey, name: str) -> ObjectRef:
    """A Command of the cluster."""
    return ObjectRef(kind=COMMAND, name=name, kube_namespace=cluster.kube_namespace)


async def mark_node(management: ClusterClient, cluster: ClusterKey, node: NodeFacts, state: str, message: str) -> str:
    """Write the BKENode's state if it differs, and return the state that was there before.

    Raises Conflict when somebody writes at the same time: the caller's next attempt reads again.
    """
    ref = node_ref(cluster, node)
    found = await management.get(ref)
    status = found.get("status") or {}
    wanted = {"state": state, "message": bounded(message)}
    changed = {key: value for key, value in wanted.items() if status.get(key) != value}
    if changed:
        version = found["metadata"]["resourceVersion"]
        await management.patch(ref, {"metadata": {"resourceVersion": version}, "status": changed}, subresource="status")
    return str(status.get("state") or "")


async def claim_node(
    management: ClusterClient,
    facts: ClusterFacts,
    node: NodeFacts,
    command: NodeCommand,
    stamp: int = 0,
    lists: SharedLists | None = None,
) -> BegunCommand | None:
    """Adopt an unfinished Command that does the same; None: the node is free for a new one.

    With `stamp`, the Command that an interrupted `create_command` of the same stamp has made is ours in whatever state:
    its agent may have ended it before anybody heard of it, and it must not run twice. A suspended one is not: an
    earlier run has given it up, maybe within the same second.
    Earlier node upgrades that nobody else collects are removed: an agent that restarts runs a failed Command again, and
    whoever takes the suspension off a suspended one starts it (openfuyao-nodes.md §1.6, §1.7). Raises Blocked while
    another Command holds the node; it is named.
    """
    others = await _commands_of(lists or management, facts.key, node)
    for other in others:
        if stamp and _is_made_by(other, command, node, stamp) and not _is_given_up(other):
            return BegunCommand(name=other["metadata"]["name"])
        if is_same_work(other, command, node) and _is_open(other, node):
            return BegunCommand(name=other["metadata"]["name"], adopted=True)
    for other in others:
        if is_unfinished(other, node):
            raise _held(other, node)
    for other in others:
        if _is_leftover(other, node):
            await _remove(management, facts.key, other)
    return None


async def clear_node(management: ClusterClient, cluster: ClusterKey, node: NodeFacts) -> None:
    """Before an agent is restarted: nothing is unfinished on its node, and it finds no failed upgrade to repeat.

    Raises Blocked while a Command holds the node; it is named.
    """
    others = await _commands_of(management, cluster, node)
    for other in others:
        if is_unfinished(other, node) and not is_ping_of(other, node):
            raise _held(other, node)
    for other in others:
        if _is_leftover(other, node):
            await _remove(management, cluster, other)


async def is_busy(management: ClusterClient, cluster: ClusterKey, node: NodeFacts) -> bool:
    """A Command works on the node, or may do so without anybody doing anything."""
    return any(is_unfinished(one, node) for one in await _commands_of(management, cluster, node))


async def create_command(
    management: ClusterClient, facts: ClusterFacts, node: NodeFacts, command: NodeCommand, stamp: int
) -> BegunCommand:
    """Create `<prefix>-<stamp>`; the second counts up while the name belongs to another node.

    A name that is taken by the same work on the same node is an earlier attempt of our own.
    """
    for second in range(stamp, stamp + MAX_NAMES_TRIED):
        name = f"{command.prefix}-{second}"
        try:
            await management.create(command_document(facts, command, node, name), kind=COMMAND)
        except AlreadyExists:
            if await _is_ours(management, command_ref(facts.key, name), command, node):
                return BegunCommand(name=name)
        else:
            return BegunCommand(name=name)
    raise Blocked(
        f"{MAX_NAMES_TRIED} names for a new Command are taken",
        subject=str(command_ref(facts.key, f"{command.prefix}-{stamp}")),
        remedy="delete Commands that have ended: kubectl -n "
        f"{facts.key.kube_namespace} delete commands -l {LABEL_CLUSTER_NAME}={facts.key.name}",
    )


async def _is_ours(management: ClusterClient, ref: ObjectRef, command: NodeCommand, node: NodeFacts) -> bool:
    try:
        taken = await management.get(ref)
    except NotFound:
        # The holder of the name was being deleted, as the Commands of the node before are.
        return False
    return is_same_work(taken, command, node) and not _is_given_up(taken)


async def created_command(
    management: ClusterClient, facts: ClusterFacts, node: NodeFacts, command: NodeCommand, stamp: int
) -> str:
    """Name of the Command that an interrupted `create_command` has left, or empty."""
    for other in await _commands_of(management, facts.key, node):
        if _is_made_by(other, command, node, stamp):
            return str(other["metadata"]["name"])
    return ""


def _is_made_by(document: Document, command: NodeCommand, node: NodeFacts, stamp: int) -> bool:
    names = {f"{command.prefix}-{second}" for second in range(stamp, stamp + MAX_NAMES_TRIED)}
    return document["metadata"]["name"] in names and is_same_work(document, command, node)


def _is_given_up(document: Document) -> bool:
    return bool(document["spec"].get("suspend")) or "deletionTimestamp" in document["metadata"]


def _is_leftover(document: Document, node: NodeFacts) -> bool:
    succeeded = command_state(document, node).phase is CommandPhase.SUCCEEDED
    return is_of_node_upgrade(document, node) and not (succeeded and is_collected(document))


def _is_open(document: Document, node: NodeFacts) -> bool:
    state = command_state(document, node)
    going = state.phase in (CommandPhase.ABSENT, CommandPhase.RUNNING) and not state.suspended
    return going and "deletionTimestamp" not in document["metadata"]


async def _commands_of(lists: ClusterClient | SharedLists, cluster: ClusterKey, node: NodeFacts) -> list[Document]:
    labels = f"{LABEL_CLUSTER_NAME}={cluster.name}"
    listing = await lists.list(COMMAND, kube_namespace=cluster.kube_namespace, labels=labels)
    return [one for one in listing.items if is_for(one, node)]


def _in_words(entry: Document) -> str:
    """A builtin with its arguments; anything else by its id, because a shell line may be a whole script."""
    if entry.get("type") == "BuiltIn":
        return " ".join(map(str, entry.get("command") or ()))
    return f"{entry.get('type')} {entry.get('id')}"


def _held(document: Document, node: NodeFacts) -> Blocked:
    metadata = document["metadata"]
    told = [_in_words(one) for one in document["spec"].get("commands") or ()]
    state = command_state(document, node)
    doing = "is not taken up yet" if state.phase is CommandPhase.ABSENT else "may still be running there"
    if "deletionTimestamp" in metadata:
        doing = "is being deleted, and its agent has not let go of it yet"
    name, place = metadata["name"], metadata["namespace"]
    return Blocked(
        f"another Command holds node {node.display_name}: {'; '.join(told)} {doing}",
        subject=f"Command {place}/{name}",
        field="status",
        value=state.phase.value,
        remedy=f"wait for it; when nothing of it runs on the node any more: kubectl -n {place} delete command {name}",
    )


async def wait_for_commands(management: ClusterClient, cluster: ClusterKey, *, timeout_seconds: float) -> None:
    """Return at the first change of any Command of the cluster, or when the time is over."""
    labels = f"{LABEL_CLUSTER_NAME}={cluster.name}"
    commands = Followed(management.watch(COMMAND, kube_namespace=cluster.kube_namespace, labels=labels))
    seen: list[dict[str, Document]] = []

    def look() -> bool:
        if commands.is_synced:
            seen.append(dict(commands.documents))
        return bool(seen) and seen[-1] != seen[0]

    async with following(commands) as changes:
        await until(changes, look, bool, timeout_seconds=timeout_seconds)


async def remove_command(management: ClusterClient, cluster: ClusterKey, name: str) -> None:
    """Delete a Command that has ended or was never begun; its agent lets go of it, its finalizer is never stripped.

    One that is gone is fine.
    """
    try:
        await management.delete(command_ref(cluster, name))
    except NotFound:
        return


async def _remove(management: ClusterClient, cluster: ClusterKey, document: Document) -> None:
    try:
        await management.delete(
            command_ref(cluster, document["metadata"]["name"]), uid=document["metadata"].get("uid", "")
        )
    except NotFound:
        return


async def suspend_command(
    management: ClusterClient, cluster: ClusterKey, node: NodeFacts, name: str, *, patience: float = SUSPEND_SECONDS
) -> ReleasedNode:
    """Make a Command harmless before it is deleted, and say whether it has touched the node.

    What may still be running keeps its Command, suspended, because that is the node's lock: deleting would not stop
    the agent. The next Command that begins on the node removes it, once its agent has told that it is over.
    """
    ref = command_ref(cluster, name)
    try:
        found = await management.get(ref)
        if not command_state(found, node).over:
            found = await management.patch(ref, {"spec": {"suspend": True}})
            found = await _acknowledged(management, cluster, node, found, patience)
    except NotFound:
        return ReleasedNode(gone=True)
    state = command_state(found, node)
    if state.over or state.phase is CommandPhase.ABSENT:
        return ReleasedNode(untouched=state.phase is CommandPhase.ABSENT)
    return ReleasedNode(
        may_run=f"Command {cluster.kube_namespace}/{name} is suspended and may still be running on "
        f"{node.display_name}; it holds the node until its agent says that it is over"
    )


async def _acknowledged(
    management: ClusterClient, cluster: ClusterKey, node: NodeFacts, found: Document, patience: float
) -> Document:
    """The Command after its agent has had the time to say whether it had begun."""
    name = str(found["metadata"]["name"])
    commands = Followed(management.watch(COMMAND, kube_namespace=cluster.kube_namespace, name=name))

    def look() -> Document:
        if not commands.is_synced:
            return found
        present = commands.get(name)
        if present is None:
            raise NotFound("the Command is gone", subject=f"Command {cluster.kube_namespace}/{name}")
        return present

    def enough(document: Document) -> bool:
        state = command_state(document, node)
        return state.over or (state.suspended and state.acknowledged)

    async with following(commands) as changes:
        return await until(changes, look, enough, timeout_seconds=patience)
