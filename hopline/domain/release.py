"""What a release image says: its component list and its component versions (openfuyao-api.md §1.4, §1.5, §5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from pydantic import Field

from hopline.domain.resources import Document
from hopline.domain.wire import WireEnum, WireModel

PRE_UPGRADE_RESOURCES = "pre-upgrade-resources"
"""Every other component depends on it whenever it is listed (openfuyao-api.md §6.1)."""


class BundleSource(WireEnum):
    """Where a bundle came from, as ReleaseImage `status.source` spells it."""

    OCI = "OCI"
    DISK = "Disk"
    UNKNOWN = ""


class RawBundle(WireModel):
    """The YAML files of one release image, unread.

    Attributes:
        digest: pins the bytes: of the manifest (or index) that the registry's tag names, or of the content.
        content_digest: `sha256:<hex>` over path, NUL, bytes, NUL of each file in path order (openfuyao-api.md §5.4);
            empty when `digest` is that.
        origin: where a person finds it: a directory, or an image reference.
        files: path inside the bundle → text.
        cache_fallback: the registry was out of reach, and these are the last bytes seen.
        signed_by: names of the keys whose signatures were verified.
        notices: what a person should know about where it came from.
    """

    version: str
    digest: str
    source: BundleSource
    origin: str
    files: Mapping[str, str]
    content_digest: str = ""
    cache_fallback: bool = False
    signed_by: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


class InlineHandler(StrEnum):
    """The inline handlers that a component may name (openfuyao-api.md §7.7)."""

    PRE_UPGRADE_RESOURCES = "EnsurePreUpgradeResources"
    AGENT = "EnsureAgentUpgrade"
    CONTAINERD = "EnsureContainerdUpgrade"
    ETCD = "EnsureEtcdUpgrade"
    MASTER = "EnsureMasterUpgrade"
    WORKER = "EnsureWorkerUpgrade"


class InlineRef(WireModel):
    """Which handler runs an inline component, and the handler's own version (`v1.0.0` when empty)."""

    handler: str = ""
    version: str = ""


class ComponentRef(WireModel):
    """One entry of `spec.install.components` or `spec.upgrade.components`."""

    name: str = ""
    version: str = ""
    inline: InlineRef | None = None


class Dependency(WireModel):
    """One entry of `ComponentVersion.spec.dependencies`; `phase` is read by nobody."""

    name: str = ""


class FailurePolicy(StrEnum):
    """What a failed component does to the rest of its hop (design §2.5)."""

    FAIL_FAST = "FailFast"
    """Nothing new starts; what runs is finished; the hop is held."""
    CONTINUE = "Continue"
    """What does not depend on it goes on; then the hop is held."""
    ROLLBACK = "Rollback"
    """Accepted; treated as FailFast until rollback exists, and the plan says so."""


class DrainStrategy(WireModel):
    """`spec.upgradeStrategy.drain`, ours: `policy` off, wait, skip or force; `grace_seconds` -1: each pod's own."""

    policy: str = ""
    timeout: str = ""
    grace_seconds: int = -1


class UpgradeStrategy(WireModel):
    """`spec.upgradeStrategy`; durations are Go durations such as `15m`.

    Attributes:
        max_unavailable, failure_budget: a number or a percentage of the pool; ours, as the next ones.
        canary: nodes of the first wave; `soak`: how long they are looked at before the others begin.
        node_retries: tries of a node after its first Command failed; None: not said.
    """

    mode: str = ""
    batch_size: int = 0
    timeout: str = ""
    failure_policy: str = ""
    max_unavailable: int | str = ""
    canary: int = 0
    soak: str = ""
    failure_budget: int | str = ""
    node_retries: int | None = None
    drain: DrainStrategy = DrainStrategy()


class PodReadyCheck(WireModel):
    """At least `min_ready` pods of the selector are Ready; all of them when `min_ready` is 0 or less."""

    kube_namespace: str = Field("", alias="namespace")
    label_selector: str = ""
    min_ready: int = 0


class EndpointReadyCheck(WireModel):
    """The Endpoints of the service have a ready address, with the port when one is given."""

    kube_namespace: str = Field("", alias="namespace")
    service_name: str = ""
    port: int = 0


class CustomCheck(WireModel):
    """A shell command; never run by us (docs/compatibility.md)."""

    command: str = ""


class HealthCheckItem(WireModel):
    """One of the documented health checks (openfuyao-api.md §7.6)."""

    type: str = ""
    pod_ready: PodReadyCheck | None = None
    endpoint_ready: EndpointReadyCheck | None = None
    custom: CustomCheck | None = None


class HealthCheck(WireModel):
    """`spec.yaml.healthCheck`; timeout and interval are Go durations, defaults 5m and 2s."""

    enabled: bool = False
    timeout: str = ""
    interval: str = ""
    checks: tuple[HealthCheckItem, ...] = ()


class ApplyStrategy(StrEnum):
    """How the objects of a manifest component are written (openfuyao-api.md §7.4)."""

    SERVER_SIDE_APPLY = "ServerSideApply"
    REPLACE = "Replace"
    CREATE_ONLY = "CreateOnly"


class YamlSpec(WireModel):
    """`spec.yaml` of a manifest component."""

    kube_namespace: str = Field("", alias="namespace")
    apply_strategy: str = ""
    prune: bool = False
    prune_label_selector: dict[str, str] = Field(default_factory=dict)
    health_check: HealthCheck = HealthCheck()


class InlineResource(WireModel):
    """One entry of `spec.resources`: a ConfigMap, a Secret, or any kind given as `manifest` text."""

    kind: str = ""
    api_version: str = ""
    name: str = ""
    kube_namespace: str = Field("", alias="namespace")
    labels: dict[str, str] = Field(default_factory=dict)
    data: dict[str, str] = Field(default_factory=dict)
    string_data: dict[str, str] = Field(default_factory=dict)
    manifest: str = ""


class Constraint(WireModel):
    """`component` must have a version that `rule` accepts (openfuyao-api.md §5.6)."""

    component: str = ""
    rule: str = ""


class Compatibility(WireModel):
    """`spec.compatibility`."""

    constraints: tuple[Constraint, ...] = ()


class ComponentVersion(WireModel):
    """The `spec` of a ComponentVersion document, and the file it was read from."""

    name: str = ""
    type: str = ""
    version: str = ""
    inline: InlineRef | None = None
    yaml: YamlSpec = YamlSpec()
    sub_components: tuple[ComponentRef, ...] = ()
    compatibility: Compatibility = Compatibility()
    dependencies: tuple[Dependency, ...] = ()
    upgrade_strategy: UpgradeStrategy = UpgradeStrategy()
    resources: tuple[InlineResource, ...] = ()
    path: str = ""


class ManifestFile(WireModel):
    """One manifest file of a component, still a template."""

    path: str
    text: str


class Release(WireModel):
    """A parsed release bundle.

    Attributes:
        digest, content_digest, cache_fallback, signed_by, notices: as in RawBundle.
        name: name for the ReleaseImage object (openfuyao-api.md §5.3 when release.yaml has none).
        document: the ReleaseImage document as written, for making the object.
        install, upgrade: the two component lists, in the author's order.
        components: every ComponentVersion in the bundle.
        manifests: `name@version` → the files of that version only, in path order.
        image_overrides: rules (FROM, TO) by which this installation takes images from other registries.
    """

    version: str
    name: str
    digest: str
    source: BundleSource
    origin: str
    document: Document
    install: tuple[ComponentRef, ...] = ()
    upgrade: tuple[ComponentRef, ...] = ()
    components: tuple[ComponentVersion, ...] = ()
    manifests: dict[str, tuple[ManifestFile, ...]] = Field(default_factory=dict)
    content_digest: str = ""
    cache_fallback: bool = False
    signed_by: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    image_overrides: tuple[tuple[str, str], ...] = ()

    def component(self, name: str, version: str) -> ComponentVersion | None:
        """The ComponentVersion `name@version`, if the bundle has it."""
        return next((c for c in self.components if c.name == name and c.version == version), None)

    def files_of(self, name: str, version: str) -> tuple[ManifestFile, ...]:
        """The manifest files of `name@version`, in path order."""
        return self.manifests.get(f"{name}@{version}", ())


def images_of(images: Iterable[Document], version: str) -> list[Document]:
    """The ReleaseImage objects of a version that are not being deleted, by name."""
    found = [
        image
        for image in images
        if (image.get("spec") or {}).get("version") == version and not image["metadata"].get("deletionTimestamp")
    ]
    return sorted(found, key=lambda image: str(image["metadata"]["name"]))
