"""What a pod shows: whether it is ready, and why it cannot start."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from hopline.domain.resources import Document

_CANNOT_START = frozenset(
    {
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "RunContainerError",
    }
)
_RANDOM_SUFFIX = re.compile(r'(?P<name>\bpods? "[a-z0-9.-]*-)[a-z0-9]{5}(?=")')
"""Each refused pod has another name; a person should see one sentence."""

_SAME_TROUBLE = {"ErrImagePull": "ImagePullBackOff"}
"""A pod goes back and forth between the two; a person should see one."""


def is_ready(pod: Document) -> bool:
    """Condition Ready is True, and the pod is not on its way out."""
    if "deletionTimestamp" in (pod.get("metadata") or {}):
        return False
    return any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in _mapping(pod.get("status")).get("conditions") or ()
    )


def first_trouble(pods: Iterable[Document]) -> str:
    """Why the newest pod that cannot start cannot, in one sentence; empty when each one can."""
    newest_first = sorted(pods, key=lambda pod: str(pod["metadata"].get("name", "")))
    newest_first.sort(key=lambda pod: str(pod["metadata"].get("creationTimestamp", "")), reverse=True)
    for pod in newest_first:
        trouble = "" if "deletionTimestamp" in pod["metadata"] else _trouble(pod)
        if trouble:
            return f"pod {pod['metadata'].get('name', '?')} cannot start: {trouble}"
    return ""


def creation_trouble(events: Iterable[Document], pods: Iterable[Document]) -> str:
    """Why pods cannot even be made (admission, quota), by events `FailedCreate`; empty when a pod was made since."""
    newest = max((event for event in events if _at(event)), key=_at, default=None)
    made = max((str(pod["metadata"].get("creationTimestamp", "")) for pod in pods), default="")
    if newest is None or _at(newest) < made:
        return ""
    message = _RANDOM_SUFFIX.sub(r"\g<name>…", " ".join(str(newest.get("message", "")).split()))
    return f"pods cannot be made: {message}"


def _at(event: Document) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or "")


def _trouble(pod: Document) -> str:
    status = _mapping(pod.get("status"))
    for group in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(group) or ():
            waiting = _mapping(_mapping(container.get("state")).get("waiting"))
            if waiting.get("reason") in _CANNOT_START:
                return _told(container, waiting)
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return ": ".join(str(condition[key]) for key in ("reason", "message") if condition.get(key))
    return ""


def _told(container: Mapping[str, Any], waiting: Mapping[str, Any]) -> str:
    """Reason and what stays the same from look to look; back-off times do not."""
    reason = str(waiting["reason"])
    name = f"container {container.get('name', '?')}"
    if reason == "CrashLoopBackOff":
        ended = _mapping(_mapping(container.get("lastState")).get("terminated"))
        code = f", exit code {ended['exitCode']}" if "exitCode" in ended else ""
        return f"{reason}: {name}{code}"
    if "Image" in reason:
        return f"{_SAME_TROUBLE.get(reason, reason)}: {name}, image {container.get('image', '?')}"
    message = f": {waiting['message']}" if waiting.get("message") else ""
    return f"{reason}: {name}{message}"


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
