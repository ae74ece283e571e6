"""`NodeAgentInstaller` on the simulation's file: an installation is a timer, its result a fact of the machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hopline.domain.cluster import ClusterFacts, NodeFacts
from hopline.domain.plan import Finding
from hopline.domain.wire import ClusterKey
from hopline.ports import InstallPhase, InstallState, tell_nobody
from hopline.sim import journal
from hopline.sim.agents import restart_agent
from hopline.sim.database import Session
from hopline.sim.journal import Effect, EffectType
from hopline.sim.machines import AGENT, find_machine, read_state, write_state
from hopline.sim.script import DurationScope, FaultType, duration, take_fault
from hopline.sim.watching import Ticker


class SimulatedInstaller:
    """Installs node agents on simulated machines."""

    def __init__(self, ticker: Ticker) -> None:
        self._ticker = ticker

    async def review(self, facts: ClusterFacts, nodes: Sequence[NodeFacts], version: str) -> tuple[Finding, ...]:
        """Nothing is ever in the way; what goes wrong is scripted."""
        return ()

    async def install(
        self, cluster: ClusterKey, node_ip: str, version: str, *, tell: Callable[[str], None] = tell_nobody
    ) -> InstallState:
        """Start the installation if it is not running or done, and say how far it is.

        A failure is reported once; the next call starts anew.
        """

        def call() -> InstallState:
            with self._ticker.database.writing() as session:
                return _install(session, cluster, node_ip, version)

        state = await self._ticker.run(call)
        self._ticker.wake()
        return state


def _install(session: Session, cluster: ClusterKey, ip: str, version: str) -> InstallState:
    machine = find_machine(session, cluster.kube_namespace, cluster.name, ip)
    if machine is None:
        return InstallState(phase=InstallPhase.FAILED, message=f"cluster {cluster} has no node {ip}")
    row = session.execute(
        "SELECT version, phase, message FROM installs WHERE cluster = ? AND ip = ?", str(cluster), ip
    ).fetchone()
    if row is not None:
        running, phase, message = row
        if phase == InstallPhase.RUNNING:
            return InstallState(phase=InstallPhase.RUNNING, message=f"{running} is being installed")
        session.execute("DELETE FROM installs WHERE cluster = ? AND ip = ?", str(cluster), ip)
        if phase == InstallPhase.FAILED and running == version:
            return InstallState(phase=InstallPhase.FAILED, message=message)
    if read_state(session, machine, AGENT) == version:
        return InstallState(phase=InstallPhase.DONE, message=f"{version} is there")
    effect = journal.record(
        session,
        Effect(
            type=EffectType.INSTALL,
            subject=f"BKECluster {cluster}",
            node=machine.key,
            arguments=(version,),
            started=session.now,
            outcome="running",
        ),
    )
    session.execute(
        "INSERT INTO installs VALUES (?, ?, ?, ?, '', ?)", str(cluster), ip, version, InstallPhase.RUNNING.value, effect
    )
    session.schedule(
        duration(session, DurationScope.INSTALL, node=ip),
        "install.finish",
        kube_namespace=cluster.kube_namespace,
        name=cluster.name,
        ip=ip,
    )
    return InstallState(phase=InstallPhase.RUNNING, message=f"{version} is being installed")


def _finish(session: Session, kube_namespace: str, name: str, ip: str) -> None:
    cluster = ClusterKey(kube_namespace=kube_namespace, name=name)
    version, effect = session.execute(
        "SELECT version, effect FROM installs WHERE cluster = ? AND ip = ?", str(cluster), ip
    ).fetchone()
    fault = take_fault(session, FaultType.INSTALL, node=ip)
    phase = InstallPhase.DONE if fault is None else InstallPhase.FAILED
    message = fault[1] if fault is not None else ""
    session.execute(
        "UPDATE installs SET phase = ?, message = ? WHERE cluster = ? AND ip = ?",
        phase.value,
        message,
        str(cluster),
        ip,
    )
    journal.close(session, effect, outcome="done" if fault is None else "failed", detail=message)
    machine = find_machine(session, kube_namespace, name, ip)
    if machine is not None and fault is None:
        write_state(session, machine, AGENT, version)
        restart_agent(session, machine)


ACTIONS: dict[str, Callable[..., None]] = {"install.finish": _finish}
