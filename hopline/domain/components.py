"""The catalogue of component names and inline handlers, and what follows from them (openfuyao-api.md §7.7, §8).

What a component does is decided by its handler, not by its name; what its version means is decided by its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hopline.domain.cluster import ClusterFacts, NodeFacts, VersionFields
from hopline.domain.durations import seconds_of
from hopline.domain.plan import ComponentType, Pool
from hopline.domain.release import (
    PRE_UPGRADE_RESOURCES,
    ComponentRef,
    ComponentVersion,
    InlineHandler,
    InlineRef,
    Release,
    UpgradeStrategy,
)
from hopline.domain.step_graph import Gate

AGENT = "bkeagent"
CONTAINERD = "containerd"
ETCD = "etcd"
MASTER = "kubernetes-master"
WORKER = "kubernetes-worker"
KUBERNETES = "kubernetes"
KUBE_PROXY = "kube-proxy"
PROVIDER = "provider"

DEFAULT_VERSION = "v1.0.0"
"""Stands for an empty version wherever `completed` is written or compared (openfuyao-api.md §1.6.1)."""

MANIFEST_TIMEOUT_SECONDS = 900
NODE_TIMEOUT_SECONDS = 2400

ALIASES: Mapping[str, tuple[str, ...]] = {AGENT: ("bkeagent-upgrade",)}
"""Names that older releases use for the same component (openfuyao-nodes.md §0.4)."""

OPEN_FUYAO_FIELD = "openFuyaoVersion"
VERSION_FIELDS: Mapping[str, tuple[str, ...]] = {
    "kubernetesVersion": (MASTER, WORKER, KUBERNETES),
    "etcdVersion": (ETCD,),
    "containerdVersion": (CONTAINERD,),
}
"""BKECluster version field → the components that give its value, the first one that has a version wins (§8)."""


@dataclass(frozen=True)
class HandlerFacts:
    """What an inline handler does.

    Attributes:
        component: the documented name of its component.
        pools: the pools that it works on, control plane first.
        seconds_per_node: a guess until this product has measured it.
    """

    component: str
    type: ComponentType
    pools: tuple[Pool, ...] = ()
    seconds_per_node: int = 0


_BOTH = (Pool.CONTROL_PLANE, Pool.WORKERS)
HANDLERS: Mapping[InlineHandler, HandlerFacts] = {
    InlineHandler.PRE_UPGRADE_RESOURCES: HandlerFacts(PRE_UPGRADE_RESOURCES, ComponentType.RESOURCES),
    InlineHandler.AGENT: HandlerFacts(AGENT, ComponentType.AGENT, _BOTH, 20),
    InlineHandler.CONTAINERD: HandlerFacts(CONTAINERD, ComponentType.NODE, _BOTH, 60),
    InlineHandler.ETCD: HandlerFacts(ETCD, ComponentType.NODE, (Pool.CONTROL_PLANE,), 90),
    InlineHandler.MASTER: HandlerFacts(MASTER, ComponentType.NODE, (Pool.CONTROL_PLANE,), 180),
    InlineHandler.WORKER: HandlerFacts(WORKER, ComponentType.NODE, (Pool.WORKERS,), 120),
}
"""Pools: openfuyao-nodes.md §2. Every handler of the enum has an entry."""

_EXPECTED_SECONDS = {PROVIDER: 120, PRE_UPGRADE_RESOURCES: 5}
_EXPECTED_MANIFEST_SECONDS = 60


def inline_of(ref: ComponentRef, component: ComponentVersion | None) -> InlineRef | None:
    """Which handler runs it: the entry of the release, else that of its ComponentVersion; None for manifests (§6.1)."""
    return ref.inline or (component.inline if component else None)


def handler_of(inline: InlineRef | None) -> InlineHandler | None:
    """The handler, or None when there is none or nobody knows it."""
    if inline is None:
        return None
    try:
        return InlineHandler(inline.handler)
    except ValueError:
        return None


def type_of(ref: ComponentRef, component: ComponentVersion | None) -> ComponentType:
    """Which road it takes; UNKNOWN for what `release_rules` refuses."""
    inline = inline_of(ref, component)
    if inline is not None:
        handler = handler_of(inline)
        return HANDLERS[handler].type if handler else ComponentType.UNKNOWN
    declared = component.type if component else ""
    return ComponentType.MANIFEST if declared in ("", "yaml") else ComponentType.UNKNOWN


def pools_of(handler: InlineHandler | None) -> tuple[Pool, ...]:
    """The pools of a node-level component, control plane first; empty for the others."""
    return HANDLERS[handler].pools if handler else ()


def record_version(ref: ComponentRef, inline: InlineRef | None) -> str:
    """The version under which `declarativeUpgrade.completed` knows it (§6.3)."""
    return (inline.version if inline else ref.version) or DEFAULT_VERSION


def timeout_seconds(kind: ComponentType, strategy: UpgradeStrategy) -> int:
    """The whole component's deadline in seconds, at least 1.

    Raises:
        InvalidInput: `upgradeStrategy.timeout` is not a Go duration (`release_rules` has refused it before).
    """
    if strategy.timeout:
        return max(1, round(seconds_of(strategy.timeout)))
    return NODE_TIMEOUT_SECONDS if kind in (ComponentType.NODE, ComponentType.AGENT) else MANIFEST_TIMEOUT_SECONDS


def pool_nodes(nodes: Iterable[NodeFacts], pool: Pool, handler: InlineHandler | None = None) -> tuple[NodeFacts, ...]:
    """The nodes of a pool, in the order given. The control plane of etcd is its members (openfuyao-nodes.md §0.5)."""
    if pool is Pool.WORKERS:
        return tuple(node for node in nodes if node.is_worker)
    if handler is InlineHandler.ETCD:
        return tuple(node for node in nodes if node.is_etcd)
    if handler is InlineHandler.MASTER:
        return tuple(node for node in nodes if node.is_control_plane)
    return tuple(node for node in nodes if not node.is_worker)


def expected_seconds(name: str, handler: InlineHandler | None, nodes: tuple[NodeFacts, ...]) -> int:
    """A guess for screens and the critical path: nodes one after another, a pool without known nodes counts as one."""
    facts = HANDLERS[handler] if handler else None
    if facts and facts.pools:
        count = sum(max(1, len(pool_nodes(nodes, pool, handler))) for pool in facts.pools)
        return count * facts.seconds_per_node
    return _EXPECTED_SECONDS.get(facts.component if facts else name, _EXPECTED_MANIFEST_SECONDS)


def gates_of(handlers: Mapping[str, str]) -> tuple[Gate, ...]:
    """Workers wait for every API server: component name → handler text in, gates out (openfuyao-nodes.md §4.4)."""
    masters = sorted(name for name, handler in handlers.items() if handler == InlineHandler.MASTER)
    workers = sorted(name for name, handler in handlers.items() if handler == InlineHandler.WORKER)
    return tuple((worker, master) for worker in workers for master in masters)


def release_versions(release: Release) -> dict[str, str]:
    """Component → version of a release: the install list, overridden by the upgrade list; blanks ignored (§8)."""
    refs = (*release.install, *release.upgrade)
    return {ref.name: ref.version for ref in refs if ref.name.strip() and ref.version.strip()}


def target_fields(hop_version: str, versions: Mapping[str, str]) -> dict[str, str]:
    """BKECluster version fields → this hop's values; a field that the release says nothing about is left out."""
    targets = {OPEN_FUYAO_FIELD: hop_version}
    for field, names in VERSION_FIELDS.items():
        value = next((versions[name] for name in names if versions.get(name)), "")
        if value:
            targets[field] = value
    return targets


def recorded_version(name: str, facts: ClusterFacts, current_release: Release | None) -> str:
    """The version that the records claim; empty when they are silent. `completed` is never read (§8, design §2.2).

    The release of the current version comes first, then the version fields of BKECluster (status, else spec), then
    `addonStatus`, then `clusterComponentStatuses`.
    """
    names = (name, *ALIASES.get(name, ()))
    if current_release is not None:
        versions = release_versions(current_release)
        found = next((versions[one] for one in names if one in versions), "")
        if found:
            return found
    field = next((field for field, components in VERSION_FIELDS.items() if name in components), "")
    if field:
        return _field(facts.status, field) or _field(facts.spec, field)
    status = _mapping(facts.document.get("status"))
    return next((found for one in names if (found := _addon_version(status, one))), "")


def _field(versions: VersionFields, field: str) -> str:
    return str(versions.model_dump(by_alias=True).get(field, ""))


def _addon_version(status: Mapping[str, Any], name: str) -> str:
    addons = status.get("addonStatus")
    for addon in addons if isinstance(addons, list) else ():
        if _mapping(addon).get("name") == name and _mapping(addon).get("version"):
            return str(_mapping(addon)["version"])
    entry = _mapping(_mapping(status.get("clusterComponentStatuses")).get(name))
    return str(entry.get("currentVersion") or "")


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
