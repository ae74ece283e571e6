"""Reading what a plan needs from the management cluster, with a refusal where something is missing."""

from __future__ import annotations

import asyncio

from hopline.domain.catalogue import Catalogue, read_catalogue
from hopline.domain.cluster import ClusterFacts, cluster_facts
from hopline.domain.errors import ClusterNotReady, InvalidCatalogue, NotFound
from hopline.domain.resources import (
    BKE_CLUSTER,
    BKE_NODE,
    CLUSTER_VERSION,
    LABEL_CLUSTER_NAME,
    UPGRADE_PATH,
    Document,
    ObjectRef,
)
from hopline.domain.wire import ClusterKey
from hopline.ports import ClusterClient


async def read_cluster(client: ClusterClient, cluster: ClusterKey) -> ClusterFacts:
    """The BKECluster with its ClusterVersion and BKENodes.

    Raises ClusterNotReady when there is no such BKECluster or ClusterVersion.
    """
    labels = f"{LABEL_CLUSTER_NAME}={cluster.name}"
    try:
        (bke, version), nodes = await asyncio.gather(
            _objects(client, cluster), client.list(BKE_NODE, kube_namespace=cluster.kube_namespace, labels=labels)
        )
    except NotFound as error:
        raise _unknown(cluster, error) from error
    return cluster_facts(bke, version, nodes.items)


async def read_node(client: ClusterClient, cluster: ClusterKey, name: str, *, members: bool) -> ClusterFacts:
    """The BKECluster with one of its BKENodes, however many there are; with `members` all of them.

    No node when there is none of that name in the cluster. Raises ClusterNotReady when there is no such BKECluster.
    """
    where = {"name": cluster.name, "kube_namespace": cluster.kube_namespace}
    labels = f"{LABEL_CLUSTER_NAME}={cluster.name}"
    try:
        bke = await client.get(ObjectRef(kind=BKE_CLUSTER, **where))
    except NotFound as error:
        raise _unknown(cluster, error) from error
    if members:
        found = (await client.list(BKE_NODE, kube_namespace=cluster.kube_namespace, labels=labels)).items
    else:
        try:
            found = [await client.get(ObjectRef(kind=BKE_NODE, name=name, kube_namespace=cluster.kube_namespace))]
        except NotFound:
            found = []
    own = [one for one in found if (one["metadata"].get("labels") or {}).get(LABEL_CLUSTER_NAME) == cluster.name]
    return cluster_facts(bke, None, own)


async def read_objects(client: ClusterClient, cluster: ClusterKey) -> tuple[Document, Document]:
    """The BKECluster and the ClusterVersion themselves. Raises as `read_cluster`."""
    try:
        return await _objects(client, cluster)
    except NotFound as error:
        raise _unknown(cluster, error) from error


async def _objects(client: ClusterClient, cluster: ClusterKey) -> tuple[Document, Document]:
    where = {"name": cluster.name, "kube_namespace": cluster.kube_namespace}
    bke, version = await asyncio.gather(
        client.get(ObjectRef(kind=BKE_CLUSTER, **where)), client.get(ObjectRef(kind=CLUSTER_VERSION, **where))
    )
    return bke, version


def _unknown(cluster: ClusterKey, error: NotFound) -> ClusterNotReady:
    return ClusterNotReady(
        "the cluster is not known in this management cluster",
        subject=f"BKECluster {cluster}",
        field="metadata.name",
        value=error.subject or str(cluster),
        remedy="kubectl get bkecluster,clusterversion -A shows the clusters that can be upgraded",
    )


async def read_catalogue_of(client: ClusterClient) -> Catalogue:
    """The one UpgradePath of the management cluster. Raises InvalidCatalogue when there is none, or several."""
    listing = await client.list(UPGRADE_PATH)
    return read_catalogue(the_one_catalogue(listing.items))


def the_one_catalogue(documents: list[Document]) -> Document:
    """Exactly one UpgradePath must be there: to choose one silently would be a guess (trap B29)."""
    if not documents:
        raise InvalidCatalogue(
            "there is no UpgradePath, so no version can be reached",
            subject="UpgradePath",
            field="metadata.name",
            value="none",
            remedy="create one: kubectl apply -f upgrade-paths.yaml, or let the registry's catalogue be fetched",
        )
    if len(documents) > 1:
        names = ", ".join(sorted(str(document["metadata"]["name"]) for document in documents))
        raise InvalidCatalogue(
            "there are several UpgradePaths, and which one counts would be a guess",
            subject="UpgradePath",
            field="metadata.name",
            value=names,
            remedy="keep one and delete the others: kubectl delete upgradepath NAME",
        )
    return documents[0]
