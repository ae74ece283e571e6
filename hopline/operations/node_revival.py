"""Taking the marks of an earlier failure away from BKENodes, for whoever has the word on them just then."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from hopline.domain.cluster import node_facts
from hopline.domain.node_revival import RevivedNodes, chosen_nodes, revived_status, spoken
from hopline.domain.resources import BKE_NODE, LABEL_CLUSTER_NAME, ObjectRef
from hopline.domain.wire import ClusterKey
from hopline.ports import ClusterClient


async def revive_nodes(
    management: ClusterClient,
    cluster: ClusterKey,
    addresses: Iterable[str],
    *,
    before_writing: Callable[[], Awaitable[None]] | None = None,
) -> RevivedNodes:
    """Clear the Failed bit, `needSkip` and `retryCount` of the named nodes, of all when none is named.

    Raises InvalidInput when a name is unknown, before anything is written; Conflict when a BKENode has changed since
    it was read: the next attempt writes what is left.
    """
    labels = f"{LABEL_CLUSTER_NAME}={cluster.name}"
    listing = await management.list(BKE_NODE, kube_namespace=cluster.kube_namespace, labels=labels)
    marked = [
        (document, status)
        for document in chosen_nodes(cluster, listing.items, addresses)
        if (status := revived_status(document))
    ]
    if marked and before_writing is not None:
        await before_writing()
    for document, status in marked:
        metadata = document["metadata"]
        ref = ObjectRef(kind=BKE_NODE, name=metadata["name"], kube_namespace=cluster.kube_namespace)
        body = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": status}
        await management.patch(ref, body, subresource="status")
    return RevivedNodes(nodes=tuple(spoken(node_facts(document)) for document, _ in marked))
