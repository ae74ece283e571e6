"""The input of the recorded manifest upgrade (observed.md §2) as a folder for `install_cluster`.

Cluster, nodes and versions are those that were recorded; the manifests bring the recorded objects, each with next to
nothing in it. The files are JSON, which is YAML too.
"""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hopline.documents.loading import load_documents
from hopline.domain.resources import (
    ANNOTATION_LAST_UPDATE,
    COMPONENT_VERSION,
    LABEL_CLUSTER_NAME,
    RELEASE_IMAGE,
    UPGRADE_PATH,
    Document,
)
from hopline.domain.wire import ClusterKey
from hopline.sim.scenarios import CATALOGUE_FILE, CLUSTER_FILE, RELEASES

OBSERVED = Path(__file__).resolve().parent / "fixtures" / "observed"
TWO_HOPS = OBSERVED / "twohop"
OBJECTS = OBSERVED / "objects-twohop.yaml"
BEFORE = "before the patch"
CONTROLLER_IMAGE = "127.0.0.1:28500/kubernetes/cluster-api-provider-bke"
"""What `provider` of the recorded releases runs: a stand-in without a process, so it is declared as our own."""

CLUSTER = ClusterKey(kube_namespace="demo", name="demo")
_TABLE = json.loads((TWO_HOPS / "components.json").read_text())
VERSIONS: tuple[str, ...] = tuple(_TABLE["releases"])
"""Where the cluster stands, then the target of each hop."""

_MADE_BY_THE_SERVER = frozenset({"creationTimestamp", "generation", "resourceVersion", "uid"})
_OF_OTHERS = frozenset({"finalizers", "ownerReferences"})
"""Of the controller and of Cluster API, neither of which is there: nobody would take the finalizer away again."""


def recorded_objects(moment: str, file: Path = OBJECTS) -> list[Document]:
    """The objects of the section whose head begins with `moment`."""
    sections = file.read_text().split("\n# ===== ")[1:]
    (text,) = [section for section in sections if section.startswith(moment)]
    return [source.document for source in load_documents(text.partition("\n")[2], f"{file.name}: {moment}")]


def write_observed_input(folder: Path) -> Path:
    """Writes cluster, catalogue and the three releases."""
    _write(folder / CATALOGUE_FILE, [_catalogue()])
    kinds = ("BKECluster", "ClusterVersion", "BKENode")
    recorded = [document for document in recorded_objects(BEFORE) if document["kind"] in kinds]
    recorded.sort(key=lambda document: kinds.index(document["kind"]))
    _write(folder / CLUSTER_FILE, [_as_input(document) for document in recorded])
    for index, version in enumerate(VERSIONS):
        _write_release(folder / RELEASES / version, index)
    return folder


def _as_input(document: Document) -> Document:
    metadata = {
        key: value for key, value in document["metadata"].items() if key not in _MADE_BY_THE_SERVER | _OF_OTHERS
    }
    annotations = dict(metadata.pop("annotations", {}))
    annotations.pop(ANNOTATION_LAST_UPDATE, None)
    if document["kind"] == "BKENode":
        metadata["labels"] = {LABEL_CLUSTER_NAME: CLUSTER.name}
    return {**document, "metadata": {**metadata, **({"annotations": annotations} if annotations else {})}}


def _catalogue() -> Document:
    paths = [{"from": old, "to": new} for old, new in itertools.pairwise(VERSIONS)]
    return {
        "apiVersion": UPGRADE_PATH.api_version,
        "kind": UPGRADE_PATH.kind,
        "metadata": {"name": "openfuyao-upgrade-paths"},
        "spec": {"paths": paths, "versions": [{"version": version} for version in VERSIONS]},
    }


def _write_release(folder: Path, index: int) -> None:
    components = [(one["name"], _version(one, index), one["dependencies"]) for one in _TABLE["components"]]
    listed = {"components": [{"name": name, "version": version} for name, version, _ in components]}
    release = VERSIONS[index]
    spec = {"version": release, "allowCacheFallback": True, "install": listed, "upgrade": listed}
    _write(folder / "release.yaml", [_document(RELEASE_IMAGE.kind, f"release-{release}", spec)])
    for name, version, dependencies in components:
        home = folder / "components" / name / version
        needs = [{"name": dependency} for dependency in dependencies]
        spec = {"name": name, "type": "yaml", "version": version, "dependencies": needs}
        _write(home / "component.yaml", [_document(COMPONENT_VERSION.kind, f"{name}-{version}", spec)])
        shutil.copy(TWO_HOPS / "manifests" / f"{name}.yaml", home / "objects.yaml")


def _version(component: dict[str, Any], index: int) -> str:
    return str(component.get("versions", VERSIONS)[index])


def _document(kind: str, name: str, spec: dict[str, Any]) -> Document:
    return {"apiVersion": RELEASE_IMAGE.api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _write(file: Path, documents: Iterable[Document]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n---\n".join(json.dumps(document, indent=1) for document in documents) + "\n")
