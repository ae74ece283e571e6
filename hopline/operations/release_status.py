"""The status of a ReleaseImage object whose image was refused; `hop_objects` writes that of a usable one."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from hopline.domain.errors import InvalidDocument, InvalidRelease, ReleasePhase
from hopline.domain.release import images_of
from hopline.domain.resources import RELEASE_IMAGE, ObjectRef
from hopline.domain.timestamps import timestamp
from hopline.domain.wire import ClusterKey
from hopline.ports import ClusterClient

_OF_A_BUNDLE = ("components", "componentCount", "digest", "source", "cacheFallback")


async def tell_refused_release(
    management: ClusterClient, cluster: ClusterKey, error: InvalidRelease | InvalidDocument, now: datetime
) -> None:
    """Say on the objects of that version why it was refused, once per reason. There may be none: none is made."""
    if not error.release_version:
        return
    where = cluster.kube_namespace
    listing = await management.list(RELEASE_IMAGE, kube_namespace=where)
    for image in images_of(listing.items, error.release_version):
        status = _status(error)
        before = image.get("status") or {}
        if any(before.get(key) != value for key, value in status.items()):
            ref = ObjectRef(kind=RELEASE_IMAGE, name=str(image["metadata"]["name"]), kube_namespace=where)
            body = {
                "metadata": {"resourceVersion": image["metadata"]["resourceVersion"]},
                "status": {**status, "validatedAt": timestamp(now)},
            }
            await management.patch(ref, body, subresource="status")


def _status(error: InvalidRelease | InvalidDocument) -> dict[str, Any]:
    """What was known of an earlier bundle goes: it says nothing about this one."""
    message = str(error)
    phase = error.phase if isinstance(error, InvalidRelease) else ReleasePhase.INVALID
    is_conflict = phase is ReleasePhase.COMPATIBILITY_FAILED
    told = {"phase": phase.value, "message": message, "compatibilityReport": message if is_conflict else None}
    return {**dict.fromkeys(_OF_A_BUNDLE), **told}
