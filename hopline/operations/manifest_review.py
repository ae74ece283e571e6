"""What the manifests of a planned way would run into, found before the first write (design §8).

Rendered and read as the cluster would get them, then judged by the rules that need no cluster. Whatever only a cluster
can tell (unknown kinds, foreign owners, admission) is the dry run's matter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from hopline.documents.loading import SourceDocument
from hopline.domain.builtin_kinds import known_scopes
from hopline.domain.cluster import ClusterFacts
from hopline.domain.components import release_versions, type_of
from hopline.domain.errors import HoplineError, InvalidDocument, InvalidRelease, NotFound
from hopline.domain.immutable_fields import immutable_changes
from hopline.domain.manifest_findings import Complaint, Component
from hopline.domain.manifest_rules import guarding_webhooks, object_complaints
from hopline.domain.plan import Action, ComponentType, Finding, HopPlan, Severity
from hopline.domain.plan_findings import MAX_NAMED
from hopline.domain.pruning import dropped_complaint
from hopline.domain.release import ApplyStrategy, ComponentVersion, Release
from hopline.domain.release_rules import release_subject
from hopline.domain.resources import CUSTOM_RESOURCE_DEFINITION, Document, ObjectRef, describe
from hopline.domain.stored_versions import is_definition, may_lose_versions, stored_complaint
from hopline.operations.component_objects import ComponentObjects, read_objects, side_by_side
from hopline.operations.pruning import Succession, component_of, dropped_here
from hopline.ports import ClusterClient

Seen = Callable[[Release, ComponentObjects], None]
"""Is shown the objects of every component that has work."""
Target = Callable[[], Awaitable[ClusterClient]]
"""Opens the cluster that is upgraded, when there is something to ask it."""


def _unseen(release: Release, objects: ComponentObjects) -> None:
    """Nobody looks."""


@dataclass(frozen=True)
class _Suspect:
    """A definition that has lost versions; `is_first`: in the next hop, before which nothing else can change that."""

    objects: ComponentObjects
    source: SourceDocument
    is_first: bool


@dataclass
class _Review:
    """What files tell, and what only a cluster can tell."""

    facts: ClusterFacts
    seen: Seen
    findings: list[Finding] = field(default_factory=list)
    suspects: list[_Suspect] = field(default_factory=list)


async def review_manifests(
    facts: ClusterFacts,
    hops: Sequence[HopPlan],
    releases: Sequence[Release],
    installed: Release | None = None,
    target: Target | None = None,
    seen: Seen = _unseen,
) -> tuple[Finding, ...]:
    """Findings about the objects of every manifest component that has work, in the order of hops. Never raises.

    Args:
        installed: the release before the first hop, where its bundle is at hand.
        target: asked for what the files cannot tell; without it that is left out.
    """
    review = await asyncio.to_thread(_review_all, _Review(facts, seen), hops, releases, installed)
    looked = await _look_at_suspects(review.suspects, target) if target is not None else []
    return (*review.findings, *looked)


def review_in_this_thread(
    facts: ClusterFacts,
    hops: Sequence[HopPlan],
    releases: Sequence[Release],
    installed: Release | None = None,
    seen: Seen = _unseen,
) -> tuple[Finding, ...]:
    """As `review_manifests` on files alone, with a word on what that leaves open; blocks for as long as it reads."""
    review = _review_all(_Review(facts, seen), hops, releases, installed)
    return (*review.findings, *_unchecked(facts, hops, review.suspects))


def _review_all(
    review: _Review, hops: Sequence[HopPlan], releases: Sequence[Release], installed: Release | None
) -> _Review:
    for hop, release, older in zip(hops, releases, (installed, *releases), strict=False):
        working = {planned.name for planned in hop.components if planned.action is not Action.SKIP}
        kubernetes = hop.targets.get("kubernetesVersion", "")
        for ref in release.upgrade:
            component = release.component(ref.name, ref.version)
            if component is None or ref.name not in working or type_of(ref, component) is not ComponentType.MANIFEST:
                continue
            _review_component(review, release, component, older, kubernetes, is_first=hop is hops[0])
        review.findings += _left_components(release, older)
    return review


def _left_components(release: Release, older: Release | None) -> Iterator[Finding]:
    """Components that the release no longer knows: nobody looks after their objects any more."""
    before = release_versions(older) if older is not None else {}
    for name in sorted(before.keys() - release_versions(release).keys()):
        if older is not None and component_of(older, name) is not None:
            yield Finding(
                severity=Severity.WARNS,
                object=release_subject(release),
                field=f"spec.upgrade.components {name}",
                message=f"{name} is not in this release any more: its objects stay as {before[name]} has brought them",
                remedy="delete them by hand when nobody needs them",
            )


def _objects_before(older: Release | None, name: str, facts: ClusterFacts) -> tuple[Document, ...] | None:
    """The component's objects in the release before, with their places; None when nobody can say."""
    component = component_of(older, name) if older is not None else None
    if older is None or component is None:
        return None
    try:
        return read_objects(older, component, facts).placed_documents
    except (InvalidRelease, InvalidDocument):
        return None


def _review_component(
    review: _Review,
    release: Release,
    component: ComponentVersion,
    older: Release | None,
    kubernetes: str,
    *,
    is_first: bool,
) -> None:
    try:
        objects = read_objects(release, component, review.facts)
    except (InvalidRelease, InvalidDocument) as error:
        review.findings.append(_unreadable(release, component, error))
        return
    review.seen(release, objects)
    known = Component(objects.kube_namespace, described=True, kubernetes=kubernetes)
    scopes = known_scopes(objects.documents)
    for source in objects.sources:
        for complaint in object_complaints(source.document, known, scopes):
            if complaint.severity is not Severity.INFO:
                review.findings.append(_finding(objects, source, complaint))
    old = _objects_before(older, component.name, review.facts)
    replaced = objects.strategy is ApplyStrategy.REPLACE
    changes = () if replaced else immutable_changes(old or (), objects.placed_documents)
    for at, complaint in (*guarding_webhooks(objects.documents), *changes):
        review.findings.append(_finding(objects, objects.sources[at], complaint))
    if older is not None and old:
        succession = Succession(older, release, component, review.facts)
        for document in dropped_here(old, objects.placed_documents, succession):
            review.findings.append(_dropped(objects, document, succession))
    review.suspects += [
        _Suspect(objects, source, is_first)
        for source in objects.sources
        if is_definition(source.document) and may_lose_versions(source.document, old or ())
    ]


def _unreadable(release: Release, component: ComponentVersion, error: InvalidRelease | InvalidDocument) -> Finding:
    subject = f"component {component.name} {component.version} of release {release.version}"
    return Finding(
        severity=Severity.BLOCKS,
        object=f"{subject}, {error.subject}",
        field=error.field,
        message=error.message,
        remedy=error.remedy,
    )


def _dropped(objects: ComponentObjects, document: Document, succession: Succession) -> Finding:
    complaint = dropped_complaint(document, succession.rule)
    return Finding(
        severity=complaint.severity,
        object=f"{objects.subject}: {describe(document)}",
        field=complaint.field,
        message=complaint.message,
        remedy=complaint.remedy,
    )


async def _look_at_suspects(suspects: Sequence[_Suspect], target: Target) -> list[Finding]:
    if not suspects:
        return []
    try:
        client = await target()
        found = await side_by_side(lambda suspect: _look(client, suspect), suspects)
    except HoplineError as error:
        subject = suspects[0].objects.subject
        message = f"nobody could see whether objects are stored in versions that definitions have lost: {error.message}"
        return [Finding(severity=Severity.WARNS, object=subject, message=message, remedy="plan again")]
    return [finding for finding in found if finding is not None]


async def _look(client: ClusterClient, suspect: _Suspect) -> Finding | None:
    document = suspect.source.document
    ref = ObjectRef(kind=CUSTOM_RESOURCE_DEFINITION, name=str(document["metadata"]["name"]))
    try:
        complaint = stored_complaint(document, await client.get(ref))
    except NotFound:
        return None
    if complaint is None:
        return None
    if not suspect.is_first:
        complaint = replace(complaint, severity=Severity.WARNS)
    return _finding(suspect.objects, suspect.source, complaint)


def _unchecked(facts: ClusterFacts, hops: Sequence[HopPlan], suspects: Sequence[_Suspect]) -> Iterator[Finding]:
    """What only the cluster can tell, when nobody has asked it."""
    working = [part for hop in hops for part in hop.components if part.action is not Action.SKIP]
    if not any(part.type is ComponentType.MANIFEST for part in working):
        return
    open_questions = ["which kinds the cluster serves", "who owns fields of its objects", "what its webhooks refuse"]
    names = sorted({str(suspect.source.document["metadata"]["name"]) for suspect in suspects})
    if names:
        shown = ", ".join(names[:MAX_NAMED]) + (f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else "")
        open_questions.append(f"in which versions it stores the objects of {shown}")
    yield Finding(
        severity=Severity.INFO,
        object=facts.subject,
        message=f"not checked, because no cluster was asked: {'; '.join(open_questions)}",
        remedy="plan on the cluster itself: hopline plan without files",
    )


def _finding(objects: ComponentObjects, source: SourceDocument, complaint: Complaint) -> Finding:
    return Finding(
        severity=complaint.severity,
        object=f"{objects.subject}, {source.place}: {describe(source.document)}",
        field=complaint.field,
        message=complaint.message,
        remedy=complaint.remedy,
    )
