"""Answering a retry that meets no open run: nodes that were given up, the annotation, and an event that says so."""

from __future__ import annotations

from datetime import UTC, datetime

from hopline.domain.cluster import ClusterFacts
from hopline.domain.errors import InvalidInput
from hopline.domain.node_commands import is_of_node_upgrade
from hopline.domain.node_revival import RevivedNodes
from hopline.domain.resources import ANNOTATION_RETRY, BKE_CLUSTER, COMMAND, LABEL_CLUSTER_NAME, Document, ObjectRef
from hopline.domain.wire import ClusterKey
from hopline.operations.events import EventRecord, Regarding, tell
from hopline.operations.node_revival import revive_nodes
from hopline.operations.one_controller import OneController
from hopline.ports import ClusterClient

NODES_REVIVED, RETRY_ANSWERED, RETRY_REFUSED = "NodesRevived", "RetryAnswered", "RetryRefused"


class RetryAnswers:
    """Answers for all clusters of one management cluster. Nothing is written beside another controller: that one
    answers its annotation itself."""

    def __init__(self, management: ClusterClient, one_controller: OneController) -> None:
        self._management = management
        self._one_controller = one_controller

    async def answer(
        self,
        cluster: ClusterKey,
        nodes: tuple[str, ...],
        *,
        annotation: str | None,
        keep: bool,
        told: str,
        request_id: str,
    ) -> RevivedNodes:
        """Revive the nodes, tell what came of it, and unless `keep` remove the annotation if it is still this one.

        Raises InvalidInput when a node is unknown (told by an event, when an annotation named it), OtherController,
        Conflict when somebody writes at the same time: asking again does what is left.
        """
        found = await self._management.get(
            ObjectRef(kind=BKE_CLUSTER, name=cluster.name, kube_namespace=cluster.kube_namespace)
        )
        here = (found["metadata"].get("annotations") or {}).get(ANNOTATION_RETRY)
        if annotation is not None and here != annotation:
            return RevivedNodes()
        await self._one_controller.require_alone(again=True)
        try:
            revived = await revive_nodes(self._management, cluster, nodes)
        except InvalidInput as error:
            if annotation is not None:
                await self._tell(found, RETRY_REFUSED, str(error), request_id, warning=True)
                await self._remove(found)
            raise
        if revived.nodes:
            await self._tell(found, NODES_REVIVED, revived.sentence(), request_id)
        if told:
            await self._tell(found, RETRY_ANSWERED, told, request_id)
        if annotation is not None and not keep:
            await self._remove(found)
        return revived

    async def _remove(self, found: Document) -> None:
        metadata = found["metadata"]
        ref = ObjectRef(kind=BKE_CLUSTER, name=metadata["name"], kube_namespace=metadata["namespace"])
        body = {
            "metadata": {"resourceVersion": metadata["resourceVersion"], "annotations": {ANNOTATION_RETRY: None}},
        }
        await self._management.patch(ref, body)

    async def _tell(
        self, found: Document, reason: str, message: str, request_id: str, *, warning: bool = False
    ) -> None:
        record = EventRecord(
            number=0,
            regarding=Regarding.BKE_CLUSTER,
            reason=reason,
            message=message,
            warning=warning,
            at=datetime.now(UTC),
        )
        await tell(self._management, record, found, f"{request_id}/{reason}")


async def left_commands(management: ClusterClient, facts: ClusterFacts) -> tuple[str, ...]:
    """Names of the Commands of node upgrades that are there while no run is open, by whoever made them.

    A node's next Command adopts the one that still does the same, waits for another one, and removes what has ended.
    """
    labels = f"{LABEL_CLUSTER_NAME}={facts.key.name}"
    listing = await management.list(COMMAND, kube_namespace=facts.key.kube_namespace, labels=labels)
    left = (one for one in listing.items if any(is_of_node_upgrade(one, node) for node in facts.nodes))
    return tuple(str(one["metadata"]["name"]) for one in left)
