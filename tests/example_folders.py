"""Folders of examples for `install_cluster`: the cluster of deploy/examples under other names, and small releases.

The files are JSON, which is YAML too.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hopline.documents.loading import load_documents
from hopline.domain.resources import LABEL_CLUSTER_NAME
from hopline.domain.wire import ClusterKey
from hopline.sim.releases import COMPONENT_NAMESPACE, SmallComponent, write_examples

EXAMPLES = Path(__file__).resolve().parent.parent / "deploy" / "examples"
NOT_YET = frozenset({"bkeagent"})
"""The node agent itself is put on nodes by SSH, which the simulated nodes of a real API server do not have."""

FIRST, BROKEN, LAST = "first", "broken", "last"
PLACE, MISSING = COMPONENT_NAMESPACE, "hopline-missing"
HELD, WELL = ("v30.01", "v30.02"), ("v31.01", "v31.02", "v31.03")
SMALL = (HELD, WELL)
"""Families of releases of three components in a row. In the newest of HELD, `broken` goes into a Kubernetes namespace
that does not exist."""

_COMPONENTS = [SmallComponent(FIRST), SmallComponent(BROKEN, (FIRST,)), SmallComponent(LAST, (BROKEN,), rolls_out=True)]
_CODES = {True: 575, False: 527}


def write_cluster(folder: Path, key: ClusterKey, nodes: tuple[int, int], family: Sequence[str], releases: Path) -> Path:
    """The example cluster as `key`, with so many control-plane and worker nodes, at the first version of a family."""
    cluster, version, *_ = _documents(EXAMPLES / "cluster.yaml")
    for document in (cluster, version):
        document["metadata"] |= {"name": key.name, "namespace": key.kube_namespace}
    if family:
        cluster["spec"]["clusterConfig"]["cluster"]["openFuyaoVersion"] = family[0]
        cluster["status"]["openFuyaoVersion"] = family[0]
        version["spec"]["desiredVersion"] = version["status"]["currentVersion"] = family[0]
    _write(folder / "cluster.yaml", [cluster, version, *_nodes(key, *nodes)])
    _write(folder / "upgrade-paths.yaml", [catalogue()])
    current = str(version["status"]["currentVersion"])
    (folder / "releases").mkdir()
    (folder / "releases" / current).symlink_to(releases / current, target_is_directory=True)
    return folder


def catalogue() -> dict[str, Any]:
    """The catalogue of the examples with the hops of the small families."""
    (document,) = _documents(EXAMPLES / "upgrade-paths.yaml")
    for family in SMALL:
        document["spec"]["paths"] += [{"from": old, "to": new} for old, new in itertools.pairwise(family)]
    return document


def write_small_releases(releases: Path, family: tuple[str, ...]) -> None:
    """The releases of a family of `SMALL`."""
    folder = write_examples(releases.parent / f"family-{family[0]}", family, _COMPONENTS)
    for version in family:
        (folder / "releases" / version).rename(releases / version)
    if family is HELD:
        broken = releases / family[-1] / "components" / BROKEN / family[-1] / "object.yaml"
        broken.write_text(broken.read_text().replace(PLACE, MISSING))


def _nodes(key: ClusterKey, control_plane: int, workers: int) -> list[dict[str, Any]]:
    names = [*(f"m{n + 1}" for n in range(control_plane)), *(f"w{n + 1}" for n in range(workers))]
    return [_node(key, name, f"198.51.100.{n + 1}", is_master=n < control_plane) for n, name in enumerate(names)]


def _node(key: ClusterKey, name: str, ip: str, *, is_master: bool) -> dict[str, Any]:
    return {
        "apiVersion": "bke.bocloud.com/v1beta1",
        "kind": "BKENode",
        "metadata": {
            "name": f"{key.name}-{ip.replace('.', '-')}",
            "namespace": key.kube_namespace,
            "labels": {LABEL_CLUSTER_NAME: key.name},
        },
        "spec": {
            "ip": ip,
            "hostname": f"{key.name}-{name}",
            "role": ["master", "etcd"] if is_master else ["node"],
            "port": "22",
            "username": "root",
        },
        "status": {"state": "Ready", "stateCode": _CODES[is_master]},
    }


def _documents(file: Path) -> list[dict[str, Any]]:
    return [dict(source.document) for source in load_documents(file.read_text(), str(file))]


def _write(file: Path, documents: Sequence[dict[str, Any]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n---\n".join(json.dumps(document, indent=1) for document in documents) + "\n")
