"""The plan: values only, with their rules as a list.

Rules of an UpgradePlan:
- hops follow each other: the target of one is the source of the next;
- the components of a hop are in batch order, and in a batch by name;
- a component that depends on another one stands in a later batch;
- the digest covers what will be done (path, release digests, components, edges, checks), not what is already there;
- a finding that blocks means: not startable, nothing has changed.
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from hopline.domain.image_overrides import ImageRewrite
from hopline.domain.node_strategy import DrainWish, WaveStrategy
from hopline.domain.wire import ClusterKey, WireEnum, WireModel


class ComponentType(WireEnum):
    """Which road a component takes."""

    MANIFEST = "manifest"
    RESOURCES = "resources"
    """`pre-upgrade-resources`: objects created once in the management cluster."""
    NODE = "node"
    """One Command per node."""
    AGENT = "agent"
    """The node agent itself, which has no Command."""
    UNKNOWN = "unknown"


class Action(WireEnum):
    """Whether a component has work in this hop."""

    RUN = "run"
    SKIP = "skip"
    UNKNOWN = "unknown"


class Pool(WireEnum):
    """A node pool that is upgraded under one lock."""

    CONTROL_PLANE = "control-plane"
    WORKERS = "workers"
    UNKNOWN = "unknown"


class SchedulingMode(StrEnum):
    """How the graph is walked (design §2.9)."""

    BATCHES = "batches"
    """The guide's barriers: a batch starts when the one before it has ended."""
    EAGER = "eager"
    """A component starts when its own dependencies are done, the longest remaining path first."""
    UNKNOWN = "unknown"

    @classmethod
    def _missing_(cls, value: object) -> SchedulingMode:
        return cls.BATCHES


class Severity(WireEnum):
    """What a finding means for the start."""

    BLOCKS = "blocks"
    WARNS = "warns"
    INFO = "info"
    UNKNOWN = "unknown"


class Finding(WireModel):
    """Something that a person should know before the start. Part of the stable JSON of `hopline plan`."""

    severity: Severity
    object: str = ""
    field: str = ""
    message: str
    remedy: str = ""


class CheckStage(WireEnum):
    """When a named check of the catalogue runs."""

    BEFORE = "before"
    AFTER = "after"
    UNKNOWN = "unknown"


class CheckResult(StrEnum):
    """What a check saw. "Could not look" is never "ok" (design §8)."""

    OK = "ok"
    FAILED = "failed"
    COULD_NOT_LOOK = "could not look"
    UNKNOWN_CHECK = "unknown check"
    NOT_RUN = "not run"

    @classmethod
    def _missing_(cls, value: object) -> CheckResult:
        return cls.COULD_NOT_LOOK


class PlannedCheck(WireModel):
    """A check that an edge of the catalogue names.

    Attributes:
        edge: that edge, as `from -> to`.
    """

    name: str
    required: bool = False
    edge: str = ""
    stage: CheckStage = CheckStage.BEFORE
    result: CheckResult = CheckResult.NOT_RUN
    message: str = ""


class NodeDrainPlan(WireModel):
    """What a drain of one node meets now. Part of the stable JSON of `hopline plan`.

    Attributes:
        evict: pods that are evicted, as `namespace/name`.
        stay: pods that stay although they run, each with the reason.
        blocked: what is in the way: pods and budgets, each with the reason.
    """

    node: str
    evict: tuple[str, ...] = ()
    stay: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()


class PlannedComponent(WireModel):
    """One component of one hop. The first seven fields are the stable JSON of `hopline plan`.

    Attributes:
        current: the version seen or recorded before the hop, empty when unknown.
        reason: why it runs, or why not, for a person.
        record_version: the version under which `declarativeUpgrade.completed` knows it (openfuyao-api.md §6.3).
        handler: the inline handler, empty for manifests.
        pools: the pools of a node-level component, control plane first.
        timeout_seconds: the whole component's deadline (`upgradeStrategy.timeout`; 900 manifest, 2400 node).
        without_pods: it brings another controller, which is applied with no replicas (HOPLINE_FOREIGN_PROVIDER).
        expected_seconds: a guess for the critical path and the screens.
        strategy, drain_rules: how its nodes go together, and what the release says about drains.
        waves, drain: names of nodes that go together, and what each drain meets: only in `hopline plan` of a cluster.
    """

    name: str
    version: str
    current: str = ""
    type: ComponentType
    action: Action = Action.RUN
    reason: str = ""
    dependencies: tuple[str, ...] = ()
    record_version: str = ""
    handler: str = ""
    pools: tuple[Pool, ...] = ()
    timeout_seconds: int = 900
    expected_seconds: int = 60
    failure_policy: str = "FailFast"
    without_pods: bool = False
    strategy: WaveStrategy = WaveStrategy()
    drain_rules: DrainWish = DrainWish()
    waves: tuple[tuple[str, ...], ...] = ()
    drain: tuple[NodeDrainPlan, ...] = ()


class HopPlan(WireModel):
    """One allowed version change and what it takes.

    Attributes:
        digest: over this hop alone; equal digests mean equal work (release digest, components, edges, checks).
        targets: BKECluster version fields → this hop's value: openFuyaoVersion, kubernetesVersion, etcdVersion,
            containerdVersion (design §2.10).
        critical_path: component names, first to last, of the longest chain by expected time and pool locks.
        expected_seconds: per scheduling mode (`batches`, `eager`).
        eager_order, eager_in_sequence: the start order of `eager`, chosen once so that a replay never chooses anew
            (`makespan.eager_schedule`).
    """

    from_version: str = Field(alias="from")
    to_version: str = Field(alias="to")
    deprecated: bool = False
    release_name: str = ""
    release_digest: str = ""
    digest: str = ""
    batches: tuple[tuple[str, ...], ...] = ()
    components: tuple[PlannedComponent, ...] = ()
    checks: tuple[PlannedCheck, ...] = ()
    critical_path: tuple[str, ...] = ()
    expected_seconds: dict[str, int] = Field(default_factory=dict)
    eager_order: tuple[str, ...] = ()
    eager_in_sequence: bool = False
    targets: dict[str, str] = Field(default_factory=dict)

    def component(self, name: str) -> PlannedComponent:
        """The component `name` of this hop. Raises KeyError when it is not planned."""
        for component in self.components:
            if component.name == name:
                return component
        raise KeyError(name)

    def batch_of(self, name: str) -> int:
        """Number of the batch that holds `name`, counted from 1."""
        return next(index for index, batch in enumerate(self.batches, start=1) if name in batch)


class SupplyMode(WireEnum):
    """Where a cluster gets images from."""

    ONLINE = "online"
    OFFLINE = "offline"
    """From the registry that its `imageRepo` names, and no request goes anywhere else."""
    UNKNOWN = "unknown"


class ImageList(WireModel):
    """The list of images of one version, and the object that holds it."""

    version: str
    object: str
    images: int = 0


class ImageSupply(WireModel):
    """Where the images of a plan come from.

    Attributes:
        field: object and field that say whether online or offline.
        hosts: registries of the cluster, in the order in which they are asked.
        lists: of the versions on the way that have one.
        rewrites: images that are applied under another name; `rewritten` counts all of them.
    """

    mode: SupplyMode = SupplyMode.UNKNOWN
    field: str = ""
    hosts: tuple[str, ...] = ()
    lists: tuple[ImageList, ...] = ()
    rewrites: tuple[ImageRewrite, ...] = ()
    rewritten: int = 0


class UpgradePlan(WireModel):
    """The whole way from the current to the desired version. The stable JSON of `hopline plan`."""

    cluster: ClusterKey
    from_version: str = Field("", alias="from")
    to_version: str = Field("", alias="to")
    digest: str = ""
    hops: tuple[HopPlan, ...] = ()
    findings: tuple[Finding, ...] = ()
    supply: ImageSupply = ImageSupply()

    @property
    def blocking(self) -> tuple[Finding, ...]:
        """The findings that forbid the start."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.BLOCKS)


class HopOutline(WireModel):
    """What an execution carries of a hop that is not its own: enough to pin it, small enough for every payload."""

    from_version: str = Field(alias="from")
    to_version: str = Field(alias="to")
    release_digest: str = ""
    digest: str = ""


class PlanOutline(WireModel):
    """The pinned plan as it travels from execution to execution (design §2.1)."""

    digest: str
    hops: tuple[HopOutline, ...]

    def edge_path(self, hop_target: str) -> str:
        """The annotation `cvo.openfuyao.cn/upgrade-path` of one hop: `A->B,B->C` (openfuyao-api.md §2.1).

        It names the rest of the way, from this hop on (observed.md §3).
        """
        targets = [hop.to_version for hop in self.hops]
        rest = self.hops[targets.index(hop_target) :]
        return ",".join(f"{hop.from_version}->{hop.to_version}" for hop in rest)


def outline_of(plan: UpgradePlan) -> PlanOutline:
    """What the executions of a run carry of `plan`."""
    hops = tuple(
        HopOutline(
            from_version=hop.from_version,
            to_version=hop.to_version,
            release_digest=hop.release_digest,
            digest=hop.digest,
        )
        for hop in plan.hops
    )
    return PlanOutline(digest=plan.digest, hops=hops)
