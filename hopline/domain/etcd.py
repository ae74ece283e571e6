"""What is seen of an etcd cluster, and whether one of its members may be taken down: decisions on values only.

A cluster of n members answers as long as n // 2 + 1 of them are there. Clusters of one or two members cannot lose one
without a stop; their members are taken all the same, because nothing better can be done for them (design §8, "One-node
clusters work, and say what stops").
"""

from __future__ import annotations

from collections.abc import Iterable

from hopline.domain.cluster import ClusterFacts, NodeFacts, client_port
from hopline.domain.wire import WireEnum, WireModel

DEFAULT_CLIENT_PORT = 2379
DEFAULT_QUOTA = 2 * 1024**3
"""Bytes: what etcd allows its database where nothing is said (`--quota-backend-bytes`)."""

FULL_SHARE = 0.9
"""Of its quota: a database that is fuller is called full before etcd does, which then refuses every write."""

MAX_LAG = 1000
"""Entries of the log that a member may be behind the furthest one: more, and it is still catching up."""

SMALLEST_WITH_SPARE = 3
"""Members of the smallest cluster that can lose one."""


class EtcdProbing(WireEnum):
    """What an etcd that nobody can look at means for its upgrade (HOPLINE_ETCD_PROBE)."""

    REQUIRED = "required"
    """It waits, or is not begun (default)."""
    OPTIONAL = "optional"
    """It goes on: an operator looks, where no worker can reach etcd."""
    UNKNOWN = "unknown"


class EtcdAlarmType(WireEnum):
    """Alarms that etcd raises by itself and that only a person takes back."""

    NOSPACE = "NOSPACE"
    """The database has reached its quota: every write is refused."""
    CORRUPT = "CORRUPT"
    """Members differ in what they hold."""
    UNKNOWN = "UNKNOWN"


class EtcdAlarm(WireModel):
    """An alarm that is active on a member, by the member's name."""

    member: str
    type: EtcdAlarmType


class EtcdMember(WireModel):
    """One member, as the list of members and its own answers show it.

    Attributes:
        name: display name of its node, else the name in the list.
        address: of its node; empty: no BKENode with the role etcd is this member.
        listed: it is in the list of members, and has started once.
        problem: why it does not serve; empty: it answers and reaches the quorum.
        learner: it does not vote yet.
        version: of its etcd.
        applied: last entry of the log that it has carried out.
        db_size, db_in_use, quota: bytes; quota 0: it does not say.
    """

    name: str
    address: str = ""
    listed: bool = False
    problem: str = ""
    learner: bool = False
    version: str = ""
    applied: int = 0
    db_size: int = 0
    db_in_use: int = 0
    quota: int = 0

    @property
    def is_well(self) -> bool:
        """It is a voting member that serves."""
        return self.listed and not self.problem and not self.learner


class EtcdSighting(WireModel):
    """An etcd cluster at one moment.

    Attributes:
        members: by name; every listed one, and every node with the role etcd that is not listed.
        leader: name of the leader; empty: there is none, or the members do not agree.
        alarms_unread: why the alarms could not be asked for; empty: `alarms` is all there is.
    """

    members: tuple[EtcdMember, ...] = ()
    leader: str = ""
    alarms: tuple[EtcdAlarm, ...] = ()
    alarms_unread: str = ""

    def of(self, node: NodeFacts) -> EtcdMember | None:
        """The member on a node."""
        return next((one for one in self.members if one.address == node.ip), None)

    @property
    def voters(self) -> int:
        """Members that count for the quorum."""
        return sum(1 for one in self.members if one.listed and not one.learner)

    @property
    def quorum(self) -> int:
        """How many of them must be there."""
        return self.voters // 2 + 1

    @property
    def healthy(self) -> int:
        """How many of them serve."""
        return sum(1 for one in self.members if one.is_well)

    @property
    def has_spare(self) -> bool:
        """The cluster is large enough to lose a member without a stop."""
        return self.voters >= SMALLEST_WITH_SPARE


class Objection(WireModel):
    """Why a member must not be taken down now.

    Attributes:
        passes: it may be over in a moment; else somebody has to do something.
    """

    message: str
    remedy: str
    passes: bool = False


class EtcdEndpoint(WireModel):
    """Where the member of a node listens for clients."""

    name: str
    ip: str
    port: int = DEFAULT_CLIENT_PORT

    @property
    def url(self) -> str:
        """With TLS, always."""
        return f"https://{f'[{self.ip}]' if ':' in self.ip else self.ip}:{self.port}"


def endpoints(facts: ClusterFacts) -> tuple[EtcdEndpoint, ...]:
    """One per node with the role etcd; the port is the node's own, else the cluster's, else 2379."""
    port = client_port(_section(facts)) or DEFAULT_CLIENT_PORT
    return tuple(
        EtcdEndpoint(name=node.display_name, ip=node.ip, port=node.etcd_port or port)
        for node in facts.nodes
        if node.is_etcd
    )


def _section(facts: ClusterFacts) -> object:
    found: object = facts.document
    for step in ("spec", "clusterConfig", "cluster", "etcd"):
        found = found.get(step) if isinstance(found, dict) else None
    return found


def health_problems(seen: EtcdSighting, facts: ClusterFacts) -> tuple[str, ...]:
    """Everything that is not well with an etcd cluster (check `etcd-health`)."""
    found = [told for one in seen.members if (told := member_problem(one, seen))]
    if not seen.leader:
        found.append("etcd has no leader that its members agree on")
    if seen.healthy < seen.quorum:
        found.append(f"etcd has no quorum: {seen.healthy} of {seen.voters} members serve, {seen.quorum} must")
    missing = [node for node in facts.nodes if node.is_etcd and seen.of(node) is None]
    found.extend(f"etcd has no member on node {node.display_name}" for node in missing)
    found.extend(_told(alarm) for alarm in seen.alarms)
    if seen.alarms_unread:
        found.append(f"nobody knows whether etcd has raised an alarm: {seen.alarms_unread}")
    return (*found, *space_problems(seen))


def member_problem(member: EtcdMember, seen: EtcdSighting) -> str:
    """What is wrong with one member; empty: nothing."""
    name = f"etcd member {member.name}"
    if not member.listed:
        return f"{name} is not in the list of members{f' ({member.problem})' if member.problem else ''}"
    if member.problem:
        return f"{name} does not serve: {member.problem}"
    if member.learner:
        return f"{name} is a learner, and does not vote yet"
    behind = max(one.applied for one in seen.members) - member.applied
    if behind > MAX_LAG:
        return f"{name} is {behind} entries behind the others"
    return ""


def space_problems(seen: EtcdSighting) -> tuple[str, ...]:
    """Members whose database is nearly as large as it may be."""
    full = [one for one in seen.members if one.db_size > FULL_SHARE * (one.quota or DEFAULT_QUOTA)]
    return tuple(
        f"the database of etcd member {one.name} has {_mib(one.db_size)} of at most {_mib(one.quota or DEFAULT_QUOTA)}"
        for one in full
    )


def objection(seen: EtcdSighting, node: NodeFacts, *, changes_etcd: bool) -> Objection | None:
    """Why the member on a node must not be taken down now; None: it may.

    Args:
        changes_etcd: the member itself is changed: then every other one has to be well, and no alarm may be active.
            Else only the quorum of the others counts.
    """
    others = [one for one in seen.members if one.address != node.ip]
    ill = [told for one in others if (told := member_problem(one, seen))]
    if seen.has_spare and _left(others) < seen.quorum:
        return Objection(
            message=f"without {node.display_name} etcd would lose its quorum of {seen.quorum} of {seen.voters}: "
            + ("; ".join(ill) or "too few other members serve"),
            remedy=_repair(ill),
            passes=True,
        )
    if not changes_etcd:
        return None
    return _of_alarms(seen) or _of_others(seen, ill) or _of_space(seen)


def _left(others: Iterable[EtcdMember]) -> int:
    return sum(1 for one in others if one.is_well)


def _of_alarms(seen: EtcdSighting) -> Objection | None:
    if seen.alarms:
        first = seen.alarms[0]
        way = (
            "make room (compact, then etcdctl defrag on each member)"
            if first.type is EtcdAlarmType.NOSPACE
            else "bring the member back from a good one, or from a snapshot"
        )
        return Objection(
            message="; ".join(_told(alarm) for alarm in seen.alarms),
            remedy=f"{way}, then etcdctl alarm disarm; then retry",
        )
    if seen.alarms_unread:
        return Objection(
            message=f"nobody knows whether etcd has raised an alarm: {seen.alarms_unread}",
            remedy="see that the members reach each other: etcdctl alarm list",
            passes=True,
        )
    return None


def _of_others(seen: EtcdSighting, ill: list[str]) -> Objection | None:
    """The member in hand may be ill: its Command is what heals it. The others have to carry the cluster."""
    if ill:
        return Objection(message="; ".join(ill), remedy=_repair(ill), passes=True)
    if seen.has_spare and not seen.leader:
        return Objection(
            message="etcd has no leader that its members agree on",
            remedy="see that the members reach each other: etcdctl endpoint status --cluster",
            passes=True,
        )
    return None


def _of_space(seen: EtcdSighting) -> Objection | None:
    full = space_problems(seen)
    if not full:
        return None
    return Objection(
        message="; ".join(full), remedy="compact, then etcdctl defrag on each member, or raise the quota; then retry"
    )


def successor(seen: EtcdSighting, node: NodeFacts) -> str:
    """Which member shall lead while that of a node is away: the last one by name that is well.

    Empty: the member of the node does not lead, or the cluster cannot lose one without a stop.
    """
    member = seen.of(node)
    if member is None or member.name != seen.leader or not seen.has_spare:
        return ""
    others = (one for one in seen.members if one.address not in ("", node.ip) and not member_problem(one, seen))
    return max((one.name for one in others), default="")


def not_back(seen: EtcdSighting, node: NodeFacts) -> str:
    """What the member on a node still lacks after its change; empty: it serves again, and the next one may go."""
    member = seen.of(node)
    if member is None:
        return f"etcd has no member on node {node.display_name}"
    told = member_problem(member, seen)
    if told:
        return told
    return "" if seen.leader else "etcd has no leader that its members agree on"


def _repair(ill: list[str]) -> str:
    names = ", ".join(dict.fromkeys(told.split()[2] for told in ill if told.startswith("etcd member ")))
    where = f" of {names}" if names else ""
    return f"bring the etcd pod{where} back (kubectl -n kube-system get pods -l component=etcd -o wide); then retry"


def _told(alarm: EtcdAlarm) -> str:
    return f"etcd member {alarm.member} has raised the alarm {alarm.type.value}"


def _mib(size: int) -> str:
    return f"{size / 1024**2:.0f} MiB"
