"""The catalogue from its registry: fetched, judged, written where nobody loses their own work (openfuyao-api.md §4.6).

While the registry names the digest that was fetched last, nothing is pulled and nothing written. A catalogue that does
not parse, breaks its rules, is empty, or whose newest version is older than that of the present one never replaces it.
An UpgradePath that a person has made or edited is left alone until that person says otherwise; that of the existing
controller (it carries the digest and no mark of ours) is followed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from hopline.documents.loading import load_documents
from hopline.domain.catalogue import Catalogue, check_catalogue, read_catalogue
from hopline.domain.catalogue_status import ANNOTATION_DIGEST, ANNOTATION_FETCHED_AT, FETCHED
from hopline.domain.errors import (
    AlreadyExists,
    HoplineError,
    InvalidCatalogue,
    InvalidDocument,
    InvalidRelease,
    InvalidVersion,
    Transient,
)
from hopline.domain.image_references import ImageReference
from hopline.domain.release import RawBundle
from hopline.domain.resources import UPGRADE_PATH, Document, ObjectRef
from hopline.domain.timestamps import timestamp
from hopline.domain.versions import Version, parse_version
from hopline.domain.wire import ClusterKey, WireModel
from hopline.operations.reading import the_one_catalogue
from hopline.operations.release_origins import names_catalogue
from hopline.ports import ClusterClient, ReleaseSource

T = TypeVar("T")

CATALOGUE_FILE = "paths.yaml"
DEFAULT_NAME = "openfuyao-upgrade-paths"
ANNOTATION_FETCHED_SPEC = "hopline.dev/fetched-spec"
"""SHA-256 of the spec as the server kept what was fetched: another one now means that a person has edited it."""
_FIELDS = ("paths", "versions")


class CatalogueSource(ReleaseSource, Protocol):
    """Where the catalogue comes from: asked for no version."""

    async def latest(self, version: str, *, cluster: ClusterKey | None = None) -> ImageReference:
        """What would be fetched now, by digest, at the cost of one small request. Raises as `fetch` does."""
        ...


class SyncAction(StrEnum):
    """What was done."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    NOT_CONFIGURED = "not configured"
    """Nothing says where the catalogue lies, so it is looked after by hand."""
    UNKNOWN = "unknown"
    """An action of a newer worker."""

    @classmethod
    def _missing_(cls, value: object) -> SyncAction:
        return cls.UNKNOWN


class CatalogueSync(WireModel):
    """The stable JSON of `hopline catalogue sync`."""

    action: SyncAction
    name: str
    reference: str
    digest: str
    paths: int = 0
    message: str = ""


async def follow_catalogue(management: ClusterClient, source: CatalogueSource, now: datetime) -> CatalogueSync:
    """The same by a schedule: where nothing says where the catalogue lies, there is nothing to do, and no fault."""
    if not await names_catalogue(management):
        message = "ConfigMap cluster-system/bke-config names no repository: the catalogue is looked after by hand"
        return CatalogueSync(action=SyncAction.NOT_CONFIGURED, name="", reference="", digest="", message=message)
    return await sync_catalogue(management, source, now)


async def sync_catalogue(
    management: ClusterClient, source: CatalogueSource, now: datetime, *, overwrite: bool = False
) -> CatalogueSync:
    """Bring the one UpgradePath to what the registry has.

    Args:
        source: of the catalogue's image; asked for no version.
        overwrite: take a catalogue that a person has made or edited.

    Raises:
        InvalidCatalogue: what was fetched may not replace the present one, or somebody's own work stands there; the
            object then says in its condition `Fetched` what is wrong.
        Transient: no registry gives a usable answer just now; the condition says since when.
    """
    present = (await management.list(UPGRADE_PATH)).items
    found = the_one_catalogue(present) if present else None
    try:
        latest = await _asked(source.latest(""))
        if found is not None and _stands(found, latest.digest):
            await _tell(management, found, now, None)
            return _told(found, SyncAction.UNCHANGED, latest.digest, str(latest))
        raw = await _asked(source.fetch(""))
        wanted = _judged(raw, found, overwrite=overwrite)
    except HoplineError as error:
        if found is not None:
            await _tell(management, found, now, error)
        raise
    spec = {key: wanted["spec"][key] for key in _FIELDS if wanted["spec"].get(key) is not None}
    marks = {ANNOTATION_DIGEST: raw.digest, ANNOTATION_FETCHED_AT: timestamp(now)}
    if found is None:
        name = str((wanted.get("metadata") or {}).get("name") or DEFAULT_NAME)
        kept = await _created(management, name, spec, marks)
        return _told(kept, SyncAction.CREATED, raw.digest, raw.origin)
    metadata = {"resourceVersion": found["metadata"]["resourceVersion"], "annotations": marks}
    body = {"metadata": metadata, "spec": {key: spec.get(key) for key in _FIELDS}}
    marks[ANNOTATION_FETCHED_SPEC] = _digest(_own(await management.patch(_ref(found), body, dry_run=True)))
    kept = await management.patch(_ref(found), body)
    await _tell(management, kept, now, None)
    return _told(kept, SyncAction.UPDATED, raw.digest, raw.origin)


async def _created(management: ClusterClient, name: str, spec: Mapping[str, Any], marks: dict[str, str]) -> Document:
    head = {"apiVersion": UPGRADE_PATH.api_version, "kind": UPGRADE_PATH.kind}
    document = {**head, "metadata": {"name": name, "annotations": marks}, "spec": dict(spec)}
    try:
        # A server keeps no field that its schema does not know: what it would keep is what a later edit differs from.
        # In a write of its own the mark could be lost, and our own catalogue would be taken for somebody else's.
        kept = await management.create(document, kind=UPGRADE_PATH, dry_run=True)
        marks[ANNOTATION_FETCHED_SPEC] = _digest(_own(kept))
        return await management.create(document, kind=UPGRADE_PATH)
    except AlreadyExists as error:
        raise Transient(
            "somebody else has made it meanwhile", subject=f"UpgradePath {name}", remedy="look again"
        ) from error


def _stands(found: Document, latest: str) -> bool:
    """Whether the catalogue is what was fetched under this digest, untouched."""
    annotations = found["metadata"].get("annotations") or {}
    is_latest = annotations.get(ANNOTATION_DIGEST) == latest
    return is_latest and annotations.get(ANNOTATION_FETCHED_SPEC) == _digest(_own(found))


def _told(kept: Document, action: SyncAction, digest: str, reference: str) -> CatalogueSync:
    name, paths = str(kept["metadata"]["name"]), len(_own(kept).get("paths") or ())
    return CatalogueSync(action=action, name=name, reference=reference, digest=digest, paths=paths)


async def _asked(answer: Awaitable[T]) -> T:
    try:
        return await answer
    except InvalidRelease as error:
        raise InvalidCatalogue(
            f"the catalogue cannot be fetched: {error.message}",
            subject=error.subject,
            field=error.field,
            value=error.value,
            remedy=error.remedy,
        ) from error


def _judged(raw: RawBundle, found: Document | None, *, overwrite: bool) -> Document:
    """The UpgradePath document of an image, if it may replace the present one."""
    place = f"{raw.origin}!{CATALOGUE_FILE}"
    if CATALOGUE_FILE not in raw.files:
        raise _refusal(place, "file", ", ".join(raw.files), f"the image of the catalogue holds no {CATALOGUE_FILE}")
    try:
        documents = load_documents(raw.files[CATALOGUE_FILE], place)
    except InvalidDocument as error:
        raise _refusal(error.subject, error.field, error.value, error.message) from error
    if len(documents) != 1 or documents[0].kind != UPGRADE_PATH.kind:
        kinds = ", ".join(one.kind or "no kind" for one in documents) or "nothing"
        raise _refusal(place, "kind", kinds, f"the file is not one document of kind {UPGRADE_PATH.kind}")
    document = documents[0].document
    catalogue = read_catalogue(document)
    check_catalogue(catalogue)
    if catalogue.is_empty:
        raise _refusal(place, "spec.paths", "[]", "a catalogue without any edge never replaces another one")
    if found is not None:
        _require_no_step_back(place, catalogue, read_catalogue(found))
        if not overwrite and _is_somebodys_work(found, document["spec"]):
            raise InvalidCatalogue(
                "a person has made or edited the catalogue, and what the registry has would overwrite it",
                subject=f"UpgradePath {found['metadata']['name']}",
                field="spec",
                value="not what was fetched last",
                remedy="keep it as it is, or take the registry's: hopline catalogue sync --overwrite",
            )
    return document


def _require_no_step_back(place: str, fetched: Catalogue, present: Catalogue) -> None:
    newest, known = _newest(fetched), _newest(present)
    if newest is not None and known is not None and newest < known:
        raise _refusal(
            place,
            "spec.paths",
            f"newest {newest}, known {known}",
            "the fetched catalogue is older than the present one",
        )


def _newest(catalogue: Catalogue) -> Version | None:
    versions = []
    for edge in catalogue.edges:
        try:
            versions.append(parse_version(edge.to_version))
        except InvalidVersion:
            continue
    return max(versions, default=None)


def _is_somebodys_work(found: Document, fetched: Mapping[str, Any]) -> bool:
    own = _own(found)
    if own == {key: fetched[key] for key in _FIELDS if fetched.get(key) is not None}:
        return False
    annotations = found["metadata"].get("annotations") or {}
    if ANNOTATION_FETCHED_SPEC in annotations:
        return bool(annotations[ANNOTATION_FETCHED_SPEC] != _digest(own))
    return ANNOTATION_DIGEST not in annotations


def _own(found: Document) -> dict[str, Any]:
    spec = found.get("spec") or {}
    return {key: spec[key] for key in _FIELDS if spec.get(key) is not None}


def _digest(spec: Mapping[str, Any]) -> str:
    return f"sha256:{hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()}"


async def _tell(management: ClusterClient, found: Document, now: datetime, error: HoplineError | None) -> None:
    """The condition `Fetched`: written when it changes, so that a registry that is away costs one write."""
    before = list((found.get("status") or {}).get("conditions") or [])
    old = next((one for one in before if one.get("type") == FETCHED), None)
    status = "True" if error is None else "False"
    message = "the registry answers" if error is None else str(error)
    if old is None and error is None:
        return
    if old is not None and (old.get("status"), old.get("message")) == (status, message):
        return
    moved = old is None or old.get("status") != status
    condition = {
        "type": FETCHED,
        "status": status,
        "reason": "Fetched" if error is None else type(error).__name__,
        "message": message,
        "lastTransitionTime": timestamp(now) if moved or old is None else old.get("lastTransitionTime"),
    }
    conditions = [one for one in before if one.get("type") != FETCHED] + [condition]
    version = found["metadata"]["resourceVersion"]
    body = {"metadata": {"resourceVersion": version}, "status": {"conditions": conditions}}
    await management.patch(_ref(found), body, subresource="status")


def _ref(found: Document) -> ObjectRef:
    return ObjectRef(kind=UPGRADE_PATH, name=str(found["metadata"]["name"]))


def _refusal(subject: str, field: str, value: str, message: str) -> InvalidCatalogue:
    remedy = "have the catalogue's image corrected; the present catalogue stays"
    return InvalidCatalogue(message, subject=subject, field=field, value=value, remedy=remedy)
