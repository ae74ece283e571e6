"""One controller: nobody else reconciles the objects of an upgrade, and they can be written (design §2.3, §2.7).

Two controllers on one ClusterVersion write over each other for ever, and the existing one starts a hop of its own as
soon as it sees a wish. So everything that an upgrade changes asks here first. Nothing here writes.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from hopline.domain.cluster import ClusterFacts
from hopline.domain.cluster_checks import LEFTOVERS
from hopline.domain.errors import (
    ClusterNotReady,
    Forbidden,
    HoplineError,
    NotFound,
    OtherController,
    PortError,
    Rejected,
    Transient,
)
from hopline.domain.other_controllers import (
    ControllerPolicy,
    RunningController,
    configurations_of,
    delete_webhooks,
    own_webhooks,
    refusal_of,
    running_controller,
)
from hopline.domain.plan import Finding, Severity
from hopline.domain.resources import (
    ANNOTATION_UPGRADE_READY,
    BKE_CLUSTER,
    CLUSTER_VERSION,
    MUTATING_WEBHOOKS,
    SERVICE,
    VALIDATING_WEBHOOKS,
    Document,
    Kind,
    ObjectRef,
)
from hopline.ports import ClusterClient

FRESH_SECONDS = 2.0
"""How long "nobody else is there" holds for one worker: however many effects ask, it costs one read in that time.
That somebody is there is never remembered."""

OBSERVING = "this worker only observes: it plans and reports, and changes nothing"
_WEBHOOK_FAILED = re.compile(r'failed calling webhook "(?P<name>[^"]+)"')
_NO_DRY_RUN = "does not support dry run"


@dataclass(frozen=True)
class HopWrites:
    """What a hop is going to write: its target and the version fields of `spec`."""

    to_version: str
    targets: dict[str, str]


@dataclass(frozen=True)
class _Probe:
    """One write that must be possible. `parts`: the same, one by one, to find out which of them is refused."""

    ref: ObjectRef
    field: str
    body: Document
    subresource: str = ""
    parts: tuple[_Probe, ...] = ()


class OneController:
    """Looks for other controllers in the management cluster, for all runs of a worker.

    Args:
        clock: seconds that only go forward.
    """

    def __init__(
        self,
        management: ClusterClient,
        policy: ControllerPolicy,
        *,
        observing: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._management = management
        self._clock = clock
        self.policy = policy
        self._observing = observing
        self._alone_until = 0.0
        self._look = asyncio.Lock()

    async def find(self) -> RunningController | None:
        """The other controller that is there, with its webhooks; None when we are alone. Raises PortError."""
        for ref in self.policy.deployments:
            try:
                deployment = await self._management.get(ref)
            except NotFound:
                continue
            found = running_controller(ref, deployment, self.policy)
            if found is not None:
                return await self._with_webhooks(found, deployment)
        self._alone_until = self._clock() + FRESH_SECONDS
        return None

    async def refusal(self) -> OtherController | None:
        """Why nothing may be started; None: nothing forbids it. Raises Transient when nobody can tell just now."""
        if self._is_fresh:
            return None
        try:
            found = await self.find()
        except Transient:
            raise
        except PortError as error:
            # "Could not look" is never "nobody is there" (design §8).
            return OtherController(
                f"whether another controller is there cannot be seen: {error.message}",
                subject=error.subject,
                field="spec.replicas",
                value="unknown",
                remedy="allow it: kubectl apply -f deploy/rbac.yaml",
            )
        reason = refusal_of(found) if found is not None else None
        return _observing(reason) if self._observing else reason

    async def require_alone(self, *, again: bool = False) -> None:
        """Raise OtherController before an effect that must not happen beside another controller.

        With `again` nothing that was seen before counts: between a failure and its retry somebody may have come.
        A look that is not allowed is tried again: an API server that is being replaced says so for a while.
        """
        if self._is_fresh and not again:
            return
        async with self._look:
            if self._is_fresh and not again:
                return
            try:
                found = await self.find()
            except Forbidden as error:
                raise Transient(error.message, subject=error.subject, remedy=error.remedy) from error
        reason = refusal_of(found) if found is not None else None
        reason = _observing(reason) if self._observing else reason
        if reason is not None:
            raise reason

    @property
    def _is_fresh(self) -> bool:
        """We were alone a moment ago."""
        return not self._observing and self._clock() < self._alone_until

    async def findings(self) -> tuple[Finding, ...]:
        """The refusal as a finding of a plan."""
        reason = await self.refusal()
        if reason is None:
            return ()
        return (
            Finding(
                severity=Severity.BLOCKS,
                object=reason.subject,
                field=reason.field,
                message=reason.message,
                remedy=reason.remedy,
            ),
        )

    async def _with_webhooks(self, found: RunningController, deployment: Document) -> RunningController:
        try:
            services, configurations = await asyncio.gather(
                self._management.list(SERVICE, kube_namespace=found.ref.kube_namespace), self._configurations()
            )
        except PortError as error:
            return found.model_copy(update={"unread": error.message})
        return found.model_copy(update={"webhooks": own_webhooks(deployment, services.items, configurations)})

    async def _configurations(self) -> list[Document]:
        listed = await asyncio.gather(*(self._typed(kind) for kind in (VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS)))
        return [document for documents in listed for document in documents]

    async def _typed(self, kind: Kind) -> list[Document]:
        """A list leaves apiVersion and kind of its items out."""
        listing = await self._management.list(kind)
        return [{**document, "apiVersion": kind.api_version, "kind": kind.kind} for document in listing.items]

    # Can they be written?

    async def unwritable(self, facts: ClusterFacts, writes: HopWrites) -> HoplineError | None:
        """Why one of the objects of a hop cannot be written, by a dry run of each write; None: all can be.

        A webhook that cannot dry-run is "not checked", and its own write is its check. Raises Transient.
        """
        return await self._first_refusal(_probes(facts, writes))

    async def _first_refusal(self, probes: tuple[_Probe, ...]) -> HoplineError | None:
        refused = await asyncio.gather(*(self._try(probe) for probe in probes))
        for probe, error in zip(probes, refused, strict=True):
            if error is not None:
                return await self._first_refusal(probe.parts) or error
        return None

    async def _try(self, probe: _Probe) -> HoplineError | None:
        try:
            await self._management.patch(probe.ref, probe.body, subresource=probe.subresource, dry_run=True)
        except Transient as error:
            silent = _WEBHOOK_FAILED.search(error.message)
            if silent is None:
                raise
            return await self._of_a_silent_webhook(probe, silent["name"], error)
        except (Rejected, Forbidden) as error:
            if _NO_DRY_RUN in error.message:
                return None
            return _unwritable(probe, error.message, error.remedy)
        except NotFound as error:
            return _unwritable(probe, error.message, "kubectl get bkecluster,clusterversion -A shows what is there")
        return None

    async def _of_a_silent_webhook(self, probe: _Probe, webhook: str, error: Transient) -> HoplineError:
        remedy = error.remedy or f"see that the service behind webhook {webhook} runs"
        message = error.message
        try:
            found = configurations_of(webhook, await self._configurations())
        except PortError as unread:
            return _unwritable(probe, f"{message}; which configuration it is cannot be read: {unread.message}", remedy)
        if found:
            message = f"{', '.join(str(one) for one in found)} asks a webhook that does not answer: {message}"
            remedy = f"start the service behind it, or, when its controller is gone: {delete_webhooks(found)}"
        return _unwritable(probe, message, remedy)


def _probes(facts: ClusterFacts, writes: HopWrites) -> tuple[_Probe, ...]:
    names = {"name": facts.key.name, "kube_namespace": facts.key.kube_namespace}
    cluster, version = ObjectRef(kind=BKE_CLUSTER, **names), ObjectRef(kind=CLUSTER_VERSION, **names)
    # Newer versions are refused by the existing webhook while a leftover of an earlier run stands in the health state;
    # the hop clears it before it declares them, which no dry run can show.
    targets = {key: value for key, value in writes.targets.items() if value}
    if facts.health_state in LEFTOVERS:
        targets = {"openFuyaoVersion": writes.to_version}
    annotation = {"metadata": {"annotations": {ANNOTATION_UPGRADE_READY: writes.to_version}}}
    spec = {"spec": {"clusterConfig": {"cluster": targets}}}
    parts = (
        _Probe(cluster, f"metadata.annotations[{ANNOTATION_UPGRADE_READY}]", annotation),
        _Probe(cluster, "spec.clusterConfig.cluster", spec),
    )
    return (
        _Probe(cluster, "metadata.annotations and spec", {**annotation, **spec}, parts=parts),
        _Probe(cluster, "status.clusterHealthState", {"status": {"clusterHealthState": "Upgrading"}}, "status"),
        _Probe(version, "spec.desiredVersion", {"spec": {"desiredVersion": writes.to_version}}),
        _Probe(version, "status.phase", {"status": {"phase": "Upgrading"}}, "status"),
    )


def _unwritable(probe: _Probe, why: str, remedy: str) -> ClusterNotReady:
    return ClusterNotReady(
        f"a dry run of this write is refused: {why}",
        subject=str(probe.ref),
        field=probe.field,
        remedy=remedy or "correct what refuses it, then start again",
    )


def _observing(beside: OtherController | None) -> OtherController:
    remedy = "start the worker without --observe (HOPLINE_OBSERVE) once no other controller runs"
    if beside is None:
        return OtherController(
            OBSERVING, subject="hopline-worker", field="HOPLINE_OBSERVE", value="true", remedy=remedy
        )
    return OtherController(
        f"{OBSERVING}; {beside.message}",
        subject=beside.subject,
        field=beside.field,
        value=beside.value,
        remedy=f"{beside.remedy}; then {remedy}",
    )
