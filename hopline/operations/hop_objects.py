"""The writes that open and close a hop: the ReleaseImage, the three annotations, the declared versions.

Every function looks first and writes only what is missing, so that a repeated attempt changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from hopline.domain.cluster import ClusterFacts
from hopline.domain.cluster_checks import HEALTHY, LEFTOVERS
from hopline.domain.errors import (
    AlreadyExists,
    ClusterNotReady,
    Forbidden,
    InvalidRelease,
    NotFound,
    Rejected,
    Transient,
)
from hopline.domain.left_failed import is_abandoned_hop
from hopline.domain.plan import PlanOutline
from hopline.domain.release import Release, images_of
from hopline.domain.resources import (
    ANNOTATION_BKECLUSTER_NAME,
    ANNOTATION_CLUSTER_VERSION,
    ANNOTATION_LAST_UPDATE,
    ANNOTATION_RETRY,
    ANNOTATION_TAKEN_BEFORE,
    ANNOTATION_TAKEN_BY,
    ANNOTATION_UPGRADE_PATH,
    ANNOTATION_UPGRADE_READY,
    BKE_CLUSTER,
    RELEASE_IMAGE,
    Document,
    ObjectRef,
)
from hopline.domain.wire import ClusterKey
from hopline.ports import ClusterClient

HOP_ANNOTATIONS = (ANNOTATION_UPGRADE_READY, ANNOTATION_CLUSTER_VERSION, ANNOTATION_UPGRADE_PATH)
"""What a hop takes on the BKECluster and gives back (openfuyao-api.md §2.1)."""


SPEC = "spec."
"""Before a version field in the mark `hopline.dev/taken-before`; other keys of it are annotations."""


def taken_before(annotations: Mapping[str, str]) -> dict[str, str | None]:
    """What stood there before our mark, as the mark says; empty when it is absent or was changed by hand."""
    try:
        found = json.loads(annotations.get(ANNOTATION_TAKEN_BEFORE) or "{}")
    except ValueError:
        return {}
    return {str(key): value for key, value in found.items()} if isinstance(found, dict) else {}


def cluster_ref(cluster: ClusterKey) -> ObjectRef:
    """The BKECluster of a cluster."""
    return ObjectRef(kind=BKE_CLUSTER, name=cluster.name, kube_namespace=cluster.kube_namespace)


async def ensure_release_image(client: ClusterClient, facts: ClusterFacts, release: Release, now: str) -> None:
    """Make the ReleaseImage object of a checked release, and its status `Valid` (openfuyao-api.md §5.3, §5.4).

    One that somebody has made for this version is used, whatever its name: it says what the image must prove.
    Raises InvalidRelease when an object of that name stands for another version (trap B38).
    """
    where = facts.key.kube_namespace
    made = images_of((await client.list(RELEASE_IMAGE, kube_namespace=where)).items, release.version)
    name = str(made[0]["metadata"]["name"]) if made else release.name
    ref = ObjectRef(kind=RELEASE_IMAGE, name=name, kube_namespace=where)
    try:
        found = made[0] if made else await client.create(_release_image(facts, release), kind=RELEASE_IMAGE)
    except AlreadyExists:
        found = await _holder(client, ref)
    version = str((found.get("spec") or {}).get("version", ""))
    if version != release.version:
        raise InvalidRelease(
            f"a ReleaseImage named {release.name} stands for another version",
            subject=str(ref),
            field="spec.version",
            value=version,
            remedy=f"kubectl delete releaseimage {ref.name} -n {ref.kube_namespace}, or rename it",
        )
    status = _release_status(release)
    before = found.get("status") or {}
    if any(before.get(key) != value for key, value in status.items()):
        await client.patch(ref, {"status": {**status, "validatedAt": now}}, subresource="status")


async def _holder(client: ClusterClient, ref: ObjectRef) -> Document:
    """Who has a name that was just taken. Raises Transient when it has gone meanwhile: the next attempt makes ours."""
    try:
        return await client.get(ref)
    except NotFound as error:
        raise Transient("it was taken away while it was looked at", subject=str(ref), remedy="try again") from error


def _release_image(facts: ClusterFacts, release: Release) -> Document:
    metadata = dict(release.document.get("metadata") or {})
    kept = {key: metadata[key] for key in ("labels", "annotations") if metadata.get(key)}
    annotations = {**kept.get("annotations", {}), ANNOTATION_BKECLUSTER_NAME: facts.key.name}
    return {
        "apiVersion": RELEASE_IMAGE.api_version,
        "kind": RELEASE_IMAGE.kind,
        "metadata": {
            **kept,
            "name": release.name,
            "namespace": facts.key.kube_namespace,
            "annotations": annotations,
            "ownerReferences": [facts.owner_reference],
        },
        "spec": release.document.get("spec") or {},
    }


def _release_status(release: Release) -> dict[str, Any]:
    components = sorted(
        ({"name": c.name, "version": c.version, "type": c.type} for c in release.components),
        key=lambda component: (component["name"], component["version"]),
    )
    return {
        "phase": "Valid",
        "componentCount": len(components),
        "components": components,
        "digest": release.content_digest or release.digest,
        "source": release.source.value,
        # As the existing controller writes it: only when it is so.
        "cacheFallback": release.cache_fallback or None,
        "message": "; ".join(("release image validated", *release.notices)),
        "compatibilityReport": "release image validated",
    }


def annotations_of_hop(cluster: ClusterKey, outline: PlanOutline, hop_target: str, workflow_id: str) -> dict[str, str]:
    """The three documented annotations with our mark beside them, in one patch (design §2.6)."""
    return {
        ANNOTATION_UPGRADE_READY: hop_target,
        ANNOTATION_CLUSTER_VERSION: cluster.name,
        ANNOTATION_UPGRADE_PATH: outline.edge_path(hop_target),
        ANNOTATION_TAKEN_BY: workflow_id,
    }


async def announce_hop(
    client: ClusterClient, found: Document, wanted: dict[str, str], before: dict[str, str | None]
) -> Document:
    """Write the hop's annotations and what stood there before, on the BKECluster as it was just read.

    Raises ClusterNotReady when somebody else holds them, Conflict when it has changed since.
    """
    ref = _ref(found)
    annotations = found["metadata"].get("annotations") or {}
    owner = annotations.get(ANNOTATION_TAKEN_BY, "")
    foreign = annotations.get(ANNOTATION_UPGRADE_READY)
    if foreign and not owner and not is_abandoned_hop(found):
        raise ClusterNotReady(
            "another controller has already started a hop of this cluster",
            subject=str(ref),
            field=f"metadata.annotations[{ANNOTATION_UPGRADE_READY}]",
            value=foreign,
            remedy=f"stop that controller, then: kubectl annotate bkecluster {ref.name} -n {ref.kube_namespace} "
            f"{ANNOTATION_UPGRADE_READY}-",
        )
    marked: dict[str, str | None] = {**wanted, ANNOTATION_TAKEN_BEFORE: json.dumps(before, sort_keys=True)}
    # A run that has ended is started again by this annotation; once the hop is open it has done its work.
    marked[ANNOTATION_RETRY] = None
    if all(annotations.get(key) == value for key, value in marked.items()):
        return found
    body = {"metadata": {"annotations": marked, "resourceVersion": found["metadata"]["resourceVersion"]}}
    return await client.patch(ref, body)


async def open_targets(client: ClusterClient, found: Document, targets: dict[str, str]) -> Document:
    """`declare_targets` for a cluster that the checks have just found well, whatever a run before has left.

    A run that ended badly leaves `UpgradeFailed` or `Upgrading`; the existing webhook then refuses newer versions.
    """
    state = (found.get("status") or {}).get("clusterHealthState")
    if state in LEFTOVERS and _undeclared(found, targets):
        body = {
            "metadata": {"resourceVersion": found["metadata"]["resourceVersion"]},
            "status": {"clusterHealthState": HEALTHY},
        }
        found = await client.patch(_ref(found), body, subresource="status")
    return await declare_targets(client, found, targets)


def _undeclared(found: Document, targets: Mapping[str, str]) -> dict[str, str]:
    cluster = ((found.get("spec") or {}).get("clusterConfig") or {}).get("cluster") or {}
    return {key: value for key, value in targets.items() if value and cluster.get(key) != value}


def _ref(found: Document) -> ObjectRef:
    metadata = found["metadata"]
    return ObjectRef(kind=BKE_CLUSTER, name=metadata["name"], kube_namespace=metadata["namespace"])


async def declare_targets(client: ClusterClient, found: Document, targets: dict[str, str]) -> Document:
    """Write this hop's versions into BKECluster `spec`, with `last-update-configuration`, in one patch.

    The node agents read versions from there (design §2.10). Values that stand there already are not written again.
    """
    changed = _undeclared(found, targets)
    if not changed:
        return found
    metadata = found["metadata"]
    spec = json.loads(json.dumps(found.get("spec") or {}))
    spec.setdefault("clusterConfig", {}).setdefault("cluster", {}).update(changed)
    last = {"metadata": {"name": metadata["name"], "namespace": metadata["namespace"]}, "spec": spec}
    body = {
        "metadata": {
            "resourceVersion": metadata["resourceVersion"],
            "annotations": {ANNOTATION_LAST_UPDATE: json.dumps(last, separators=(",", ":"), sort_keys=True)},
        },
        "spec": {"clusterConfig": {"cluster": changed}},
    }
    return await client.patch(_ref(found), body)


class Withdrawn(NamedTuple):
    """Whether annotations had to be given back, and why declared versions could not be restored."""

    gave_back: bool = False
    refused: str = ""


async def withdraw_hop(
    client: ClusterClient,
    cluster: ClusterKey,
    workflow_id: str,
    before: Mapping[str, str | None] | None,
    restore: dict[str, str],
) -> Withdrawn:
    """Give back the annotations that carry our mark, and restore spec versions of components that were never started.

    Without `before` the mark says what stood there. NotFound means that nothing is left to give back to.
    """
    ref = cluster_ref(cluster)
    found = await client.get(ref)
    annotations = found["metadata"].get("annotations") or {}
    is_ours = annotations.get(ANNOTATION_TAKEN_BY) == workflow_id
    if is_ours:
        before = taken_before(annotations) if before is None else before
        changed = {key: before.get(key) for key in HOP_ANNOTATIONS if annotations.get(key) != before.get(key)}
        changed |= dict.fromkeys(key for key in (ANNOTATION_TAKEN_BY, ANNOTATION_TAKEN_BEFORE) if key in annotations)
        body = {"metadata": {"annotations": changed, "resourceVersion": found["metadata"]["resourceVersion"]}}
        found = await client.patch(ref, body)
    try:
        await declare_targets(client, found, restore)
    except (Rejected, Forbidden) as error:
        return Withdrawn(is_ours, str(error))
    return Withdrawn(is_ours)
