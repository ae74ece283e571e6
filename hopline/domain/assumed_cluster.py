"""A cluster for rendering where nobody has given one: every variable of a template has a value, and no more is meant.

The registry is the documented one of a bootstrap node, with the path under which the bundle has its releases; versions
and parameters of addons are those of the VersionConfig.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hopline.domain.cluster import ClusterFacts, cluster_facts

ASSUMED_DOMAIN, ASSUMED_PORT = "deploy.bocloud.k8s", "40443"
_ADDRESS = "192.0.2."


def assumed_cluster(
    prefix: str, version_config: Mapping[str, Any], version: str, *, cluster: str = "assumed"
) -> ClusterFacts:
    """A healthy cluster of three control-plane nodes and one worker.

    Args:
        prefix: path of the releases at the registry.
        version_config: a VersionConfig as a document; its versions and addons count.
    """
    registry = {"domain": ASSUMED_DOMAIN, "ip": f"{_ADDRESS}1", "port": ASSUMED_PORT, "prefix": prefix}
    versions = {
        key: str(version_config.get(key) or "") for key in ("kubernetesVersion", "etcdVersion", "containerdVersion")
    }
    settings = {
        **versions,
        "openFuyaoVersion": version,
        "imageRepo": registry,
        "httpRepo": {**registry, "port": "40080", "prefix": "files"},
        "ntpServer": f"{_ADDRESS}1:123",
        "agentHealthPort": "58080",
    }
    extra = {"nfsServer": f"{_ADDRESS}1", "nfsRootDir": "/", "nfsVersion": "4.1"}
    document = {
        "kind": "BKECluster",
        "metadata": {"namespace": cluster, "name": cluster},
        "spec": {
            "clusterConfig": {"cluster": settings, "addons": _addons(version_config), "customExtra": extra},
            "controlPlaneEndpoint": {"host": f"{_ADDRESS}9", "port": 6443},
        },
    }
    nodes = [_node(number, ["master/node", "etcd"]) for number in (11, 12, 13)]
    return cluster_facts(document, None, [*nodes, _node(21, ["node"])])


def _addons(version_config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    addons = version_config.get("addons")
    return [one for one in addons if isinstance(one, Mapping)] if isinstance(addons, Sequence) else []


def _node(number: int, roles: list[str]) -> dict[str, Any]:
    name = f"n{number}"
    return {"metadata": {"name": name}, "spec": {"ip": f"{_ADDRESS}{number}", "hostname": name, "role": roles}}
