"""Short waits in the middle of an apply, by watch: until a kind is served, until an object is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hopline.domain.errors import ComponentFailed, NotFound, Transient
from hopline.domain.resources import Document, Kind, ObjectRef
from hopline.domain.rollout import rollout_state
from hopline.ports import ChangeType, ClusterClient

STEP_SECONDS = 30.0
"""A CRD is established within a second; an object may have finalizers. Longer waits are the next attempt's."""

_SERVED_PAUSES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.0)


async def wait_until(
    client: ClusterClient, ref: ObjectRef, reached: Callable[[Document | None], bool], waiting: str
) -> None:
    """Watch one object until `reached` says so (None: it is not there). Raises Transient after half a minute."""
    try:
        async with asyncio.timeout(STEP_SECONDS):
            async for change in client.watch(ref.kind, kube_namespace=ref.kube_namespace, name=ref.name):
                gone = change.type is ChangeType.DELETED or not change.documents
                if reached(None if gone else change.documents[-1]):
                    return
    except TimeoutError:
        raise Transient(
            waiting, subject=str(ref), remedy="it is looked at again until the component's deadline"
        ) from None


async def wait_until_established(client: ClusterClient, ref: ObjectRef) -> None:
    """Until the API server serves the kind that a CustomResourceDefinition defines."""

    def established(document: Document | None) -> bool:
        if document is None:
            return False
        state = rollout_state(document)
        if state.failed:
            raise ComponentFailed(
                f"the API server does not accept the definition: {state.message}",
                subject=str(ref),
                field="spec.names",
                remedy="another definition has the same names: kubectl get crd",
            )
        return state.ready

    await wait_until(client, ref, established, "the definition is not established yet")


async def wait_until_served(client: ClusterClient, kind: Kind) -> None:
    """Until the API server answers for a kind whose definition is established: nothing announces that.

    Raises Transient after about six seconds.
    """
    for pause in _SERVED_PAUSES:
        try:
            await client.resolve(kind.api_version, kind.kind)
        except (NotFound, Transient):
            await asyncio.sleep(pause)
        else:
            return
    await client.resolve(kind.api_version, kind.kind)


async def wait_until_gone(client: ClusterClient, ref: ObjectRef, uid: str) -> None:
    """Until the object with this uid is gone."""

    def gone(document: Document | None) -> bool:
        return document is None or document["metadata"].get("uid") != uid

    await wait_until(client, ref, gone, "the object that is replaced is not gone yet")
