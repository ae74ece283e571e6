"""The variables that a manifest template sees (openfuyao-api.md §7.2), and where a person sets each.

Differences to the existing controller: `version` is the component's own version (B58); the parameters of the addon of
the same name count in an upgrade too; a repository with neither domain nor address defines no address at all instead
of one that starts with a colon (B59); versions are those of the hop's release, whatever the BKECluster says (design
§8).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from hopline.domain.cluster import ClusterFacts
from hopline.domain.errors import InvalidRelease
from hopline.domain.release import ComponentVersion, Release

DEFAULT_POD_SUBNET = "10.250.0.0/16"
DEFAULT_SERVICE_SUBNET = "10.96.0.0/16"
DEFAULT_DNS_DOMAIN = "cluster.local"
DEFAULT_API_PORT = 6443
DNS_ADDRESS_INDEX = 10
"""The DNS service has the tenth address of the service subnet."""

_CLUSTER = "spec.clusterConfig.cluster"
_REPOSITORY_PARTS = {"Domain": "domain", "Port": "port", "Ip": "ip", "Prefix": "prefix"}
_CUSTOM_EXTRA = ("nfsServer", "nfsRootDir", "nfsVersion")
_VERSIONS = {
    "k8sVersion": ("kubernetesVersion", ("kubernetes-master", "kubernetes-worker")),
    "etcdVersion": ("etcdVersion", ("etcd",)),
    "containerdVersion": ("containerdVersion", ("containerd",)),
}
"""variable → its field in the BKECluster, and the components of the release that decide it first."""

PLACES: Mapping[str, str] = {
    "repo": f"{_CLUSTER}.imageRepo of the BKECluster",
    "imageRepo": f"{_CLUSTER}.imageRepo.domain of the BKECluster",
    "httpRepo": f"{_CLUSTER}.httpRepo.domain of the BKECluster",
    **{f"imageRepo{name}": f"{_CLUSTER}.imageRepo.{key} of the BKECluster" for name, key in _REPOSITORY_PARTS.items()},
    **{f"httpRepo{name}": f"{_CLUSTER}.httpRepo.{key} of the BKECluster" for name, key in _REPOSITORY_PARTS.items()},
    **{name: f"{_CLUSTER}.{name} of the BKECluster" for name in ("ntpServer", "agentHealthPort")},
    **{name: f"spec.clusterConfig.customExtra.{name} of the BKECluster" for name in _CUSTOM_EXTRA},
    **{name: f"{_CLUSTER}.{field} of the BKECluster" for name, (field, _) in _VERSIONS.items()},
    "apiServerSrcHost": "spec.controlPlaneEndpoint.host of the BKECluster",
}
"""variable → the field where a person sets it; any other one is a parameter of the addon."""


def variables(facts: ClusterFacts, release: Release, component: ComponentVersion, path: str = "") -> dict[str, object]:
    """Variable → value for one manifest file of a component.

    Args:
        path: the file; a parameter `NAME.key` of the addon is seen only by the file whose name starts with `NAME.`.

    Variables whose field is not set are left out. Raises InvalidRelease when the service subnet is unusable.
    """
    found: dict[str, object] = {
        "replicas": 1,
        "kubeConfigDir": "/etc/kubernetes",
        "ipModVersion": "ipv4",
        "product": "boc",
        "version": component.version,
        "namespace": facts.key.kube_namespace,
        **_repositories(facts),
        **_cluster_settings(facts),
        **_network(facts),
        **_nodes(facts),
        **_roots(facts),
        **_versions(facts, release),
        **_addon_effects(facts),
    }
    found = {name: value for name, value in found.items() if value not in ("", None)}
    if "repo" not in found and not _part(facts, "imageRepo", "prefix"):
        found["repo"] = ""
    return {**found, **_parameters(facts, component.name, path)}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _spec(facts: ClusterFacts) -> Mapping[str, Any]:
    return _mapping(facts.document.get("spec"))


def _config(facts: ClusterFacts) -> Mapping[str, Any]:
    return _mapping(_spec(facts).get("clusterConfig"))


def _cluster(facts: ClusterFacts) -> Mapping[str, Any]:
    return _mapping(_config(facts).get("cluster"))


def _addons(facts: ClusterFacts) -> list[Mapping[str, Any]]:
    return [_mapping(addon) for addon in _config(facts).get("addons") or ()]


def _part(facts: ClusterFacts, repository: str, part: str) -> str:
    value = _mapping(_cluster(facts).get(repository)).get(part)
    return "" if value is None else str(value)


def _address(facts: ClusterFacts, repository: str) -> str:
    """`domain:port`; the address stands in for a missing domain, and a missing port is left out."""
    host = _part(facts, repository, "domain") or _part(facts, repository, "ip")
    port = _part(facts, repository, "port")
    return f"{host}:{port}" if host and port else host


def _repositories(facts: ClusterFacts) -> dict[str, object]:
    images, files = _address(facts, "imageRepo"), _address(facts, "httpRepo")
    prefix = _part(facts, "imageRepo", "prefix").strip("/")
    found: dict[str, object] = {
        "repo": f"{images}/{prefix}/" if images and prefix else "",
        "imageRepo": images,
        "httpRepo": f"http://{files}" if files else "",
    }
    for repository in ("imageRepo", "httpRepo"):
        for name, key in _REPOSITORY_PARTS.items():
            found[f"{repository}{name}"] = _part(facts, repository, key)
    return found


def _cluster_settings(facts: ClusterFacts) -> dict[str, object]:
    cluster, extra = _cluster(facts), _mapping(_config(facts).get("customExtra"))
    return {
        **{name: cluster.get(name) for name in ("ntpServer", "agentHealthPort")},
        **{name: extra.get(name) for name in _CUSTOM_EXTRA},
    }


def _network(facts: ClusterFacts) -> dict[str, object]:
    networking = _mapping(_cluster(facts).get("networking"))
    endpoint = _mapping(_spec(facts).get("controlPlaneEndpoint"))
    services = str(networking.get("serviceSubnet") or DEFAULT_SERVICE_SUBNET)
    return {
        "podSubnet": networking.get("podSubnet") or DEFAULT_POD_SUBNET,
        "serviceSubnet": services,
        "dnsDomain": networking.get("dnsDomain") or DEFAULT_DNS_DOMAIN,
        "dnsIP": _dns_address(facts, services),
        "apiServerSrcHost": endpoint.get("host"),
        "apiServerSrcPort": endpoint.get("port") or DEFAULT_API_PORT,
    }


def _dns_address(facts: ClusterFacts, subnet: str) -> str:
    try:
        return str(ipaddress.ip_network(subnet, strict=False)[DNS_ADDRESS_INDEX])
    except (ValueError, IndexError):
        raise InvalidRelease(
            "the service subnet has no tenth address for DNS",
            subject=facts.subject,
            field=f"{_CLUSTER}.networking.serviceSubnet",
            value=subnet,
            remedy="write it as a network with at least 16 addresses, for example 10.96.0.0/16",
        ) from None


def _nodes(facts: ClusterFacts) -> dict[str, object]:
    etcd = [node.ip for node in facts.nodes if node.is_etcd]
    return {
        "etcdEndpoints": ",".join(f"https://{ip}:2379" for ip in etcd),
        "etcdIps": ",".join(etcd),
        "masterReplicas": str(sum(node.is_control_plane for node in facts.nodes)),
        "workerReplicas": str(sum("node" in node.roles for node in facts.nodes)),
    }


def _roots(facts: ClusterFacts) -> dict[str, object]:
    cluster = _cluster(facts)
    runtime = _mapping(cluster.get("containerRuntime"))
    volumes = _mapping(cluster.get("kubelet")).get("extraVolumes") or ()
    kubelet = [_mapping(v).get("hostPath") for v in volumes if _mapping(v).get("name") == "kubelet-root-dir"]
    docker = _mapping(runtime.get("param")).get("data-root") if runtime.get("cri") == "docker" else None
    return {
        "kubeletDataRoot": kubelet[-1] if kubelet else "/var/lib/kubelet",
        "dockerDataRoot": docker or "/var/lib/docker",
    }


def _versions(facts: ClusterFacts, release: Release) -> dict[str, object]:
    targets = {reference.name: reference.version for reference in release.upgrade}
    cluster = _cluster(facts)
    return {
        name: next((targets[part] for part in parts if targets.get(part)), cluster.get(field))
        for name, (field, parts) in _VERSIONS.items()
    }


def _addon_effects(facts: ClusterFacts) -> dict[str, object]:
    """Two variables that follow from which addons a cluster has."""
    found: dict[str, object] = {"ingressReplicas": 1}
    for addon in _addons(facts):
        name = str(addon.get("name", "")).lower()
        if name in ("calico", "fabric"):
            found["clusterNetworkMode"] = name
        if name == "beyondelb":
            found["ingressReplicas"] = len(str(_mapping(addon.get("param")).get("lbNodes", "")).split(","))
    return found


def _parameters(facts: ClusterFacts, component: str, path: str) -> dict[str, object]:
    stem = path.rpartition("/")[2].partition(".")[0]
    general: dict[str, object] = {}
    own: dict[str, object] = {}
    for addon in _addons(facts):
        if addon.get("name") != component:
            continue
        for key, value in _mapping(addon.get("param")).items():
            file, dot, name = str(key).partition(".")
            if not dot:
                general[file] = value
            elif file == stem:
                own[name] = value
    return {**general, **own}
