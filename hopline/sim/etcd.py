"""`EtcdProbe` on the simulation's file: a member per machine with the role etcd, as well as its static pod."""

from __future__ import annotations

import base64
import binascii

from hopline.domain.cluster import ClusterFacts
from hopline.domain.errors import ClusterNotReady, Transient
from hopline.domain.etcd import EtcdAlarm, EtcdAlarmType, EtcdMember, EtcdSighting
from hopline.domain.pods import is_ready
from hopline.domain.resources import SECRET, Document
from hopline.domain.wire import ClusterKey
from hopline.sim.database import Session
from hopline.sim.kinds import MANAGEMENT
from hopline.sim.machines import Machine, machines, static_pod_ref, static_pod_tag, target_storage
from hopline.sim.script import FaultType, change_leader, has_fault
from hopline.sim.storage import Storage
from hopline.sim.watching import Ticker

COMPONENT = "etcd"
SECRET_SUFFIX = "-etcd-healthcheck-client"
CERTIFICATE = "tls.crt"
GOOD_CERTIFICATE = "a certificate of the simulated etcd"
"""What the Secret has to hold; anything else is refused, as by members that do not know the authority."""

DB_SIZE, QUOTA = 24 * 1024**2, 8 * 1024**3


def credentials(cluster: ClusterKey) -> Document:
    """The Secret that an installation leaves."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {"name": f"{cluster.name}{SECRET_SUFFIX}", "namespace": cluster.kube_namespace},
        "data": {CERTIFICATE: base64.b64encode(GOOD_CERTIFICATE.encode()).decode()},
    }


class SimulatedEtcd:
    """Asks simulated members; what is wrong with them is in the script."""

    def __init__(self, ticker: Ticker) -> None:
        self._ticker = ticker

    async def look(self, facts: ClusterFacts) -> EtcdSighting:
        """Members, leader, alarms and space."""

        def call() -> EtcdSighting:
            with self._ticker.database.reading() as session:
                return _look(session, facts.key)

        return await self._ticker.run(call)

    async def move_leader(self, facts: ClusterFacts, leader: str, successor: str) -> None:
        """The script says from then on who leads."""

        def call() -> None:
            with self._ticker.database.writing() as session:
                _move(session, facts, leader, successor)

        await self._ticker.run(call)


def _move(session: Session, facts: ClusterFacts, leader: str, successor: str) -> None:
    seen = _look(session, facts.key)
    ill = next((one for one in seen.members if one.name in (leader, successor) and not one.is_well), None)
    if ill is not None:
        raise Transient(
            f"etcd member {leader} does not hand over its lead to {successor}: {ill.name}: {ill.problem}",
            subject=facts.subject,
            remedy=f"etcdctl move-leader {successor}",
        )
    if seen.leader == leader:
        names = {one.name for one in seen.members} | {one.address for one in seen.members}
        change_leader(session, names, successor)


def _look(session: Session, cluster: ClusterKey) -> EtcdSighting:
    _check_credentials(session, cluster)
    found = [one for one in machines(session, cluster.kube_namespace, cluster.name) if one.facts.is_etcd]
    members = [_member(session, one) for one in found]
    if all(one.problem for one in members):
        told = "; ".join(f"{one.name}: {one.problem}" for one in members)
        raise Transient(
            f"no member of etcd answers: {told or 'there is none'}",
            subject=f"BKECluster {cluster}",
            value=", ".join(f"https://{one.address}:2379" for one in members),
            remedy="see that etcd runs, and that its client port is reachable from here",
        )
    seen = EtcdSighting(members=tuple(members))
    if seen.healthy < seen.quorum:
        lost = [one if one.problem else one.model_copy(update={"problem": "no leader"}) for one in members]
        return EtcdSighting(members=tuple(lost), alarms_unread="no leader")
    alarms = [
        EtcdAlarm(member=one.name, type=EtcdAlarmType(text))
        for one in found
        if (text := _fault(session, FaultType.ETCD_ALARM, one))
    ]
    return seen.model_copy(update={"leader": _leader(session, found, members), "alarms": tuple(alarms)})


def _check_credentials(session: Session, cluster: ClusterKey) -> None:
    name = f"{cluster.name}{SECRET_SUFFIX}"
    secret = Storage(session, MANAGEMENT).find(SECRET, name, cluster.kube_namespace)
    try:
        content = base64.b64decode(str(((secret or {}).get("data") or {}).get(CERTIFICATE, ""))).decode()
    except (binascii.Error, UnicodeDecodeError):
        content = ""
    if content == GOOD_CERTIFICATE:
        return
    what = "there is no client certificate for it" if secret is None else "its members do not take this certificate"
    raise ClusterNotReady(
        f"etcd cannot be asked: {what}",
        subject=f"Secret {cluster.kube_namespace}/{name}",
        field=f"data[{CERTIFICATE}]",
        value="no such Secret" if secret is None else "",
        remedy="write the client certificate of the etcd nodes into it",
    )


def _member(session: Session, machine: Machine) -> EtcdMember:
    storage = target_storage(session, machine.cluster)
    ref = static_pod_ref(COMPONENT, machine)
    pod = storage.find(ref.kind, ref.name, ref.kube_namespace) if storage is not None else None
    problem = _fault(session, FaultType.ETCD_DOWN, machine)
    if not problem and (pod is None or not is_ready(pod)):
        problem = f"no answer from {machine.facts.ip}:2379: Connection refused"
    size, _, quota = _fault(session, FaultType.ETCD_SPACE, machine).partition("/")
    return EtcdMember(
        name=machine.name,
        address=machine.facts.ip,
        listed=True,
        problem=problem,
        version=static_pod_tag(storage, COMPONENT, machine) if storage is not None else "",
        db_size=int(size or DB_SIZE),
        db_in_use=int(size or DB_SIZE),
        quota=int(quota or QUOTA),
    )


def _leader(session: Session, found: list[Machine], members: list[EtcdMember]) -> str:
    """The scripted one, else the last by name; another one while it does not serve."""
    well = [machine for machine, member in zip(found, members, strict=True) if member.is_well]
    chosen = [machine.name for machine in well if _fault(session, FaultType.ETCD_LEADER, machine)]
    return (chosen or [machine.name for machine in well])[-1]


def _fault(session: Session, fault: FaultType, machine: Machine) -> str:
    """Text of a scripted fault of a machine, by its name or address; empty: there is none."""
    for name in (machine.name, machine.facts.ip):
        found = has_fault(session, fault, node=name)
        if found is not None:
            return found[1]
    return ""
