"""Versions of a custom kind in which objects may still be stored: a definition must not lose them.

The API server refuses a CustomResourceDefinition without a version that its `status.storedVersions` names.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hopline.domain.manifest_findings import Complaint, mapping
from hopline.domain.plan import Severity
from hopline.domain.resources import CUSTOM_RESOURCE_DEFINITION, Document


def is_definition(document: Document) -> bool:
    """Whether it defines a custom kind."""
    kind = CUSTOM_RESOURCE_DEFINITION
    return (document.get("apiVersion"), document.get("kind")) == (kind.api_version, kind.kind)


def versions_of(document: Document) -> tuple[str, ...]:
    """The versions that a definition serves or stores, in its order."""
    listed: Any = mapping(document.get("spec")).get("versions")
    found = [mapping(version).get("name") for version in listed] if isinstance(listed, list) else []
    return tuple(str(name) for name in found if name)


def may_lose_versions(document: Document, before: Iterable[Document]) -> bool:
    """Whether a look at the cluster is due: the definition has lost a version, or nobody knows what it had."""
    name = mapping(document.get("metadata")).get("name")
    for old in before:
        if is_definition(old) and mapping(old.get("metadata")).get("name") == name:
            return not set(versions_of(old)) <= set(versions_of(document))
    return True


def stored_complaint(document: Document, live: Document) -> Complaint | None:
    """What is wrong with applying a definition over the live one; None when no stored version is lost."""
    stored = mapping(live.get("status")).get("storedVersions")
    names = [str(name) for name in stored] if isinstance(stored, list) else []
    lost = [name for name in names if name not in versions_of(document)]
    if not lost:
        return None
    one = ", ".join(lost)
    message = f"has no version {one} any more, and the cluster may still store objects in it (status.storedVersions)"
    remedy = (
        f"write every object of the kind once so that it is stored anew (kubectl get … -o yaml | kubectl replace -f -),"
        f" take {one} out of status.storedVersions, then plan again"
    )
    return Complaint(Severity.BLOCKS, ("spec", "versions"), message, remedy)
