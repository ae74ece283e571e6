"""What an UpgradePath says about itself: `status`, and what a fetcher has noted on it (openfuyao-api.md §1.3, §4.4)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import Field

from hopline.domain.catalogue import check_catalogue, read_catalogue
from hopline.domain.errors import InvalidCatalogue
from hopline.domain.resources import Document
from hopline.domain.timestamps import timestamp
from hopline.domain.wire import WireModel

ANNOTATION_DIGEST = "config.openfuyao.com/oci-digest"
ANNOTATION_FETCHED_AT = "hopline.dev/fetched-at"
"""RFC 3339: when the spec was last read from its registry."""
VALIDATED, FETCHED = "Validated", "Fetched"
VALID_RULES, INVALID_RULES = "ValidRules", "InvalidRules"


class CataloguePhase(StrEnum):
    """`status.phase`; `Blocked` is accepted from others and never written."""

    ACTIVE = "Active"
    INVALID = "Invalid"


class FetchTrouble(WireModel):
    """The catalogue's registry does not answer: since when, with which error, and how old the present spec is."""

    since: str = ""
    error: str = ""
    last_good: str = Field("", alias="lastGood")

    def sentence(self) -> str:
        """For people."""
        since = f" since {self.since}" if self.since else ""
        known = f"the last good one is from {self.last_good}" if self.last_good else "none was ever fetched"
        return f"the catalogue cannot be fetched{since} ({self.error or 'no error was noted'}); {known}"


def catalogue_status(document: Document, now: datetime) -> dict[str, Any]:
    """The merge patch for `status`; empty when the object already says it. The time of the look alone is no news."""
    before = _section(document, "status")
    metadata, paths = _section(document, "metadata"), _section(document, "spec").get("paths")
    fault = _fault(document)
    wanted: dict[str, Any] = {
        "phase": (CataloguePhase.INVALID if fault else CataloguePhase.ACTIVE).value,
        "pathCount": len(paths) if isinstance(paths, list) else 0,
        "conditions": _conditions(before.get("conditions") or [], fault, metadata.get("generation"), now),
    }
    digest = str(_section(metadata, "annotations").get(ANNOTATION_DIGEST) or "")
    if digest or before.get("lastDigest"):
        wanted["lastDigest"] = digest or None
    changed = {key: value for key, value in wanted.items() if before.get(key) != value}
    return {**changed, "lastCheckedAt": timestamp(now)} if changed else {}


def fetch_trouble(document: Document) -> FetchTrouble | None:
    """What keeps the catalogue from being fetched anew; None when nothing does, or nobody fetches it."""
    for condition in _section(document, "status").get("conditions") or ():
        if condition.get("type") == FETCHED and condition.get("status") == "False":
            return FetchTrouble(
                since=str(condition.get("lastTransitionTime") or ""),
                error=str(condition.get("message") or ""),
                last_good=str(_section(_section(document, "metadata"), "annotations").get(ANNOTATION_FETCHED_AT) or ""),
            )
    return None


def _fault(document: Document) -> str:
    try:
        check_catalogue(read_catalogue(document))
    except InvalidCatalogue as error:
        return str(error)
    return ""


def _conditions(
    before: list[dict[str, Any]], fault: str, generation: int | None, now: datetime
) -> list[dict[str, Any]]:
    old = next((condition for condition in before if condition.get("type") == VALIDATED), {})
    status = "False" if fault else "True"
    moved = old.get("status") != status or not old.get("lastTransitionTime")
    condition = {
        "type": VALIDATED,
        "status": status,
        "reason": INVALID_RULES if fault else VALID_RULES,
        "message": fault or "every rule of the catalogue holds",
        "lastTransitionTime": timestamp(now) if moved else old["lastTransitionTime"],
    }
    if generation is not None:
        condition["observedGeneration"] = generation
    merged = {str(one.get("type", "")): one for one in before}
    return list({**merged, VALIDATED: condition}.values())


def _section(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = document.get(name)
    return value if isinstance(value, Mapping) else {}
