"""How simulated objects end: finalizers, dependents of a deleted owner, contents of a deleted Namespace."""

from __future__ import annotations

from hopline.domain.resources import NAMESPACE, Document
from hopline.sim.storage import Storage, timestamp


def delete(storage: Storage, document: Document) -> bool:
    """Delete with background propagation. False when nothing changed: the object is already on its way out."""
    metadata = document["metadata"]
    holds_contents = _is_namespace(document) and bool(storage.inside(metadata["name"]))
    if not metadata.get("finalizers") and not holds_contents:
        _gone(storage, document)
        return True
    if "deletionTimestamp" in metadata:
        return False
    metadata["deletionTimestamp"] = timestamp(storage.now)
    metadata["deletionGracePeriodSeconds"] = 0
    if "generation" in metadata:
        metadata["generation"] += 1
    if _is_namespace(document):
        document["status"] = {"phase": "Terminating"}
    storage.update(document)
    if holds_contents:
        for inner in storage.inside(metadata["name"]):
            delete(storage, inner)
    return True


def finish_if_released(storage: Storage, document: Document) -> bool:
    """Remove an object that is being deleted and has no finalizer any more; say whether it is gone."""
    metadata = document["metadata"]
    if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
        return False
    if _is_namespace(document) and storage.inside(metadata["name"]):
        return False
    _gone(storage, document)
    return True


def _gone(storage: Storage, document: Document) -> None:
    metadata = document["metadata"]
    storage.remove(document)
    for dependent in storage.dependents(metadata["uid"]):
        owners = dependent["metadata"].get("ownerReferences") or []
        if not any(storage.find_uid(str(owner.get("uid", ""))) for owner in owners):
            delete(storage, dependent)
    kube_namespace = metadata.get("namespace", "")
    home = storage.find(NAMESPACE, kube_namespace) if kube_namespace else None
    if home is not None and "deletionTimestamp" in home["metadata"]:
        finish_if_released(storage, home)


def _is_namespace(document: Document) -> bool:
    return (document["apiVersion"], document["kind"]) == ("v1", "Namespace")
