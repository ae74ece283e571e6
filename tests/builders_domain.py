"""Small makers of releases and clusters for pure tests; the sample follows deploy/examples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from zlib import crc32

from hopline.domain.catalogue import Edge, NamedCheck
from hopline.domain.cluster import ClusterFacts, cluster_facts
from hopline.domain.release import (
    BundleSource,
    ComponentRef,
    ComponentVersion,
    Dependency,
    InlineRef,
    ManifestFile,
    Release,
)

MANIFEST = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: default}\n"

HANDLER_NAMES = {
    "pre-upgrade-resources": "EnsurePreUpgradeResources",
    "bkeagent": "EnsureAgentUpgrade",
    "containerd": "EnsureContainerdUpgrade",
    "etcd": "EnsureEtcdUpgrade",
    "kubernetes-master": "EnsureMasterUpgrade",
    "kubernetes-worker": "EnsureWorkerUpgrade",
}

SAMPLE_DEPENDENCIES = {
    "provider": (),
    "bkeagent": ("provider",),
    "containerd": ("bkeagent",),
    "etcd": ("containerd",),
    "kubernetes-master": ("etcd",),
    "kubernetes-worker": ("etcd",),
    "kube-proxy": ("kubernetes-master", "kubernetes-worker"),
    "coredns": ("kubernetes-master", "kubernetes-worker"),
    "calico": ("kubernetes-master", "kubernetes-worker"),
}

SAMPLE_VERSIONS = {
    "v26.06-rc.2": ("v1.0.1", "v2.1.1", "v3.6.7-of.1", "v1.34.3-of.1", "v1.12.1", "v3.30.1"),
    "v26.06-rc.3": ("v1.0.2", "v2.1.2", "v3.6.7-of.1", "v1.34.4-of.1", "v1.12.2", "v3.30.2"),
    "v26.06": ("v1.0.3", "v2.1.3", "v3.6.8-of.1", "v1.34.5-of.1", "v1.12.3", "v3.30.3"),
}


def component(name: str, version: str = "v1", needs: Iterable[str] = (), **spec: Any) -> ComponentVersion:
    """A ComponentVersion: inline with the documented handler when the name has one, else yaml; `spec` overrides."""
    handler = HANDLER_NAMES.get(name)
    given: dict[str, Any] = {
        "name": name,
        "version": version,
        "type": "inline" if handler else "yaml",
        "inline": InlineRef(handler=handler, version="v1.0.0") if handler else None,
        "dependencies": tuple(Dependency(name=need) for need in needs),
        "path": f"components/{name}/{version}/component.yaml",
    }
    return ComponentVersion.model_validate({**given, **spec})


def release(
    version: str,
    *components: ComponentVersion,
    upgrade: Iterable[tuple[str, str]] | None = None,
    install: Iterable[tuple[str, str]] = (),
    manifests: Mapping[str, str] | None = None,
    **fields: Any,
) -> Release:
    """A release that lists all its components for upgrade; `manifests`: `name@version` → text, one each by default."""
    texts = manifests if manifests is not None else {f"{c.name}@{c.version}": MANIFEST for c in components}
    listed = [(c.name, c.version) for c in components] if upgrade is None else upgrade
    given: dict[str, Any] = {
        "version": version,
        "name": f"release-{version}",
        "digest": f"sha256:{version}",
        "source": BundleSource.DISK,
        "origin": f"releases/{version}",
        "document": {},
        "install": tuple(ComponentRef(name=name, version=of) for name, of in install),
        "upgrade": tuple(ComponentRef(name=name, version=of) for name, of in listed),
        "components": components,
        "manifests": {
            key: (ManifestFile(path=f"components/{key.replace('@', '/')}/all.yaml", text=text),)
            for key, text in texts.items()
            if text
        },
    }
    return Release.model_validate({**given, **fields})


def sample_versions(version: str) -> dict[str, str]:
    """Component → version of a sample release."""
    agent, containerd, etcd, kubernetes, coredns, calico = SAMPLE_VERSIONS[version]
    return {
        "provider": version,
        "bkeagent": agent,
        "containerd": containerd,
        "etcd": etcd,
        "kubernetes-master": kubernetes,
        "kubernetes-worker": kubernetes,
        "kube-proxy": kubernetes,
        "coredns": coredns,
        "calico": calico,
    }


def sample_release(version: str, **changed: str) -> Release:
    """The sample release of openfuyao-nodes.md §4.2; `changed` replaces versions (`kubernetes_master=...`)."""
    versions = sample_versions(version) | {name.replace("_", "-"): of for name, of in changed.items()}
    parts = [component(name, versions[name], needs) for name, needs in SAMPLE_DEPENDENCIES.items()]
    return release(version, *parts, install=versions.items())


def edge(start: str, end: str, *, before: Iterable[str] = (), after: Iterable[str] = (), **fields: Any) -> Edge:
    """An edge; a check whose name ends in `?` is optional."""
    return Edge(
        from_version=start,
        to_version=end,
        pre_check=tuple(_check(name) for name in before),
        post_check=tuple(_check(name) for name in after),
        **fields,
    )


def _check(name: str) -> NamedCheck:
    return NamedCheck(name=name.removesuffix("?"), required=not name.endswith("?"))


def sample_edges() -> tuple[Edge, ...]:
    """The two hops of the demo catalogue."""
    checks = {"before": ("cluster-health", "nodes-ready"), "after": ("nodes-ready",)}
    return edge("v26.06-rc.2", "v26.06-rc.3", **checks), edge("v26.06-rc.3", "v26.06", **checks)


def node(name: str, *roles: str, code: int = 575, skip: bool = False) -> dict[str, Any]:
    """A BKENode document."""
    return {
        "metadata": {"name": f"east-{name}"},
        "spec": {
            "ip": f"10.{'.'.join(map(str, crc32(name.encode()).to_bytes(4)[1:]))}",
            "hostname": name,
            "role": list(roles),
        },
        "status": {"state": "Ready", "stateCode": code, "needSkip": skip},
    }


def sample_nodes() -> list[dict[str, Any]]:
    """Three control-plane nodes with etcd, five workers."""
    masters = [node(name, "master", "etcd") for name in ("m1", "m2", "m3")]
    return masters + [node(name, "node") for name in ("w1", "w2", "w3", "w4", "w5")]


def sample_facts(version: str = "v26.06-rc.2", nodes: list[dict[str, Any]] | None = None) -> ClusterFacts:
    """Cluster east, healthy, at a sample version."""
    versions = sample_versions(version)
    fields = {
        "openFuyaoVersion": version,
        "kubernetesVersion": versions["kubernetes-master"],
        "etcdVersion": versions["etcd"],
        "containerdVersion": versions["containerd"],
    }
    addons = [{"name": name, "version": versions[name]} for name in ("bkeagent", "kube-proxy", "coredns", "calico")]
    document = {
        "kind": "BKECluster",
        "metadata": {"namespace": "east", "name": "east"},
        "spec": {"clusterConfig": {"cluster": fields}},
        "status": {**fields, "clusterStatus": "Ready", "clusterHealthState": "Healthy", "addonStatus": addons},
    }
    wish = {"spec": {"desiredVersion": version}, "status": {"currentVersion": version}}
    return cluster_facts(document, wish, sample_nodes() if nodes is None else nodes)
