"""Objects from YAML files, for the commands that work without a server (`hopline path`, `versions`, `plan -f`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hopline.documents.loading import SourceDocument, load_documents
from hopline.domain.catalogue import Catalogue, read_catalogue
from hopline.domain.cluster import ClusterFacts, cluster_facts
from hopline.domain.errors import ClusterNotReady, InvalidCatalogue, InvalidDocument, InvalidInput, NotFound
from hopline.domain.resources import (
    BKE_CLUSTER,
    BKE_NODE,
    CLUSTER_VERSION,
    LABEL_CLUSTER_NAME,
    UPGRADE_PATH,
    Document,
    Kind,
    ObjectRef,
)
from hopline.domain.wire import ClusterKey
from hopline.files.texts import read_text


@dataclass(frozen=True)
class OfflineObjects:
    """Every document of some files. Kinds that nobody asks for are ignored."""

    documents: tuple[SourceDocument, ...]
    origin: str

    def catalogue(self) -> Catalogue:
        """The one UpgradePath. Raises InvalidCatalogue when there is none, or several (trap B29)."""
        found = list(self._of(UPGRADE_PATH))
        if not found:
            raise InvalidCatalogue(
                f"there is no UpgradePath in {self.origin}, so no version can be reached",
                subject=UPGRADE_PATH.kind,
                field="metadata.name",
                value="none",
                remedy="add a file with a document of kind UpgradePath: -f upgrade-paths.yaml",
            )
        if len(found) > 1:
            raise InvalidCatalogue(
                "there are several UpgradePaths, and which one counts would be a guess",
                subject=UPGRADE_PATH.kind,
                field="metadata.name",
                value=", ".join(f"{_name(source)} ({source.place})" for source in found),
                remedy="keep one of them in the files",
            )
        return read_catalogue(found[0].document)

    def clusters(self) -> list[ClusterKey]:
        """Every BKECluster, by name; a document without a namespace is in `default`."""
        keys = [
            ClusterKey(kube_namespace=_kube_namespace(source) or "default", name=_name(source))
            for source in self._of(BKE_CLUSTER)
        ]
        return sorted(keys, key=str)

    def cluster(self, cluster: ClusterKey) -> ClusterFacts:
        """The BKECluster with its ClusterVersion (if there is one) and its BKENodes.

        A document without a namespace stands in the one that is asked for, as with `kubectl apply -n`. The nodes are
        those with the label `cluster.x-k8s.io/cluster-name`.

        Raises:
            ClusterNotReady: no BKECluster of that name.
            InvalidDocument: two of them, or two ClusterVersions.
        """
        clusters = self._named(BKE_CLUSTER, cluster)
        if not clusters:
            listed = ", ".join(str(key) for key in self.clusters()) or "none"
            raise ClusterNotReady(
                f"there is no BKECluster {cluster} in {self.origin}",
                subject=f"{BKE_CLUSTER.kind} {cluster}",
                field="metadata.name",
                value="missing",
                remedy=f"add its document to the files, or name one of those that are there: {listed}",
            )
        versions = self._named(CLUSTER_VERSION, cluster)
        for found in (clusters, versions):
            if len(found) > 1:
                raise InvalidDocument(
                    f"{found[0].kind} {cluster} stands twice, first in {found[0].place}",
                    subject=found[1].place,
                    field="metadata.name",
                    value=cluster.name,
                    remedy="keep one of the two documents",
                )
        nodes = [
            source.document
            for source in self._of(BKE_NODE)
            if _label(source, LABEL_CLUSTER_NAME) == cluster.name and _is_in(source, cluster)
        ]
        document = clusters[0].document
        placed = {**document, "metadata": {**document["metadata"], "namespace": cluster.kube_namespace}}
        return cluster_facts(placed, versions[0].document if versions else None, nodes)

    async def get(self, ref: ObjectRef) -> Document:
        """One namespaced object by name, as a cluster would give it. Raises NotFound."""
        key = ClusterKey(kube_namespace=ref.kube_namespace, name=ref.name)
        for source in self._named(ref.kind, key):
            return source.document
        raise NotFound(f"there is none in {self.origin}", subject=str(ref), remedy="add it to the files")

    def _of(self, kind: Kind) -> Iterable[SourceDocument]:
        group = kind.api_version.split("/")[0]
        for source in self.documents:
            if source.kind == kind.kind and _group(source) in ("", group):
                yield source

    def _named(self, kind: Kind, cluster: ClusterKey) -> list[SourceDocument]:
        return [source for source in self._of(kind) if _name(source) == cluster.name and _is_in(source, cluster)]


def read_objects(paths: Sequence[Path]) -> OfflineObjects:
    """Every document of the files. A folder stands for the `.yaml` and `.yml` files directly in it. Blocks.

    Raises:
        InvalidInput: a path that is not there or cannot be read.
        InvalidDocument: a file that does not parse; with file and line.
    """
    documents: list[SourceDocument] = []
    for path in _expanded(paths):
        try:
            text = read_text(path)
        except OSError as error:
            raise InvalidInput(
                "a file cannot be read",
                subject=str(path),
                field="file",
                value=error.strerror or str(error),
                remedy="name a readable YAML file",
            ) from None
        for source in load_documents(text, str(path)):
            _check_metadata(source)
            documents.append(source)
    return OfflineObjects(tuple(documents), ", ".join(str(path) for path in paths) or "the given files")


def _expanded(paths: Sequence[Path]) -> Iterable[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(entry for entry in path.iterdir() if entry.suffix in (".yaml", ".yml"))
        else:
            yield path


def _check_metadata(source: SourceDocument) -> None:
    """The kinds that are looked up by name need one; the name of a catalogue is for messages only."""
    if source.kind not in (BKE_CLUSTER.kind, CLUSTER_VERSION.kind, BKE_NODE.kind):
        return
    name = _metadata(source).get("name")
    if isinstance(name, str) and name:
        return
    raise InvalidDocument(
        f"a document of kind {source.kind or '?'} has no name",
        subject=source.place,
        field="metadata.name",
        remedy="give it a name, in quotes if it looks like a number",
    )


def _group(source: SourceDocument) -> str:
    """Empty when there is no apiVersion: the catalogue artifact may leave it out."""
    return str(source.document.get("apiVersion") or "").split("/")[0]


def _metadata(source: SourceDocument) -> dict[str, Any]:
    metadata = source.document.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _name(source: SourceDocument) -> str:
    return str(_metadata(source).get("name") or "?")


def _kube_namespace(source: SourceDocument) -> str:
    return str(_metadata(source).get("namespace") or "")


def _is_in(source: SourceDocument, cluster: ClusterKey) -> bool:
    return _kube_namespace(source) in ("", cluster.kube_namespace)


def _label(source: SourceDocument, name: str) -> str:
    labels = _metadata(source).get("labels")
    return str(labels.get(name, "")) if isinstance(labels, dict) else ""
