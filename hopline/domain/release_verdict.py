"""One verdict about a release image: the phase of the ReleaseImage object, and everything that speaks against it."""

from __future__ import annotations

from hopline.domain.compatibility import constraint_findings
from hopline.domain.errors import HoplineError, InvalidRelease, ReleasePhase
from hopline.domain.plan import Finding, Severity
from hopline.domain.release import Release
from hopline.domain.release_rules import examine, finding_of, phase_of, release_subject
from hopline.domain.wire import WireModel


class ReleaseVerdict(WireModel):
    """What was found out; `findings` holds what blocks first, then what a person should know."""

    phase: ReleasePhase
    findings: tuple[Finding, ...] = ()

    @property
    def message(self) -> str:
        """One sentence for the object's status."""
        if self.phase is ReleasePhase.VALID:
            return "release image validated"
        first = self.findings[0] if self.findings else None
        return f"{first.object} {first.field}: {first.message}" if first else self.phase.value


def verdict_on(release: Release, asked_version: str) -> ReleaseVerdict:
    """Of a release that could be read. A fault of its own outweighs components that do not fit."""
    report = examine(release, asked_version)
    conflicts = constraint_findings(release)
    faults = tuple(finding_of(error) for error in report.errors)
    phase = phase_of(report)
    if phase is ReleasePhase.VALID and conflicts:
        phase = ReleasePhase.COMPATIBILITY_FAILED
    return ReleaseVerdict(phase=phase, findings=(*faults, *conflicts, *report.warnings, *notices_of(release)))


def conflict_of(release: Release) -> InvalidRelease | None:
    """That its components do not fit each other, as one error that names the first conflict; None: they fit."""
    conflicts = constraint_findings(release)
    if not conflicts:
        return None
    first, more = conflicts[0], len(conflicts) - 1
    others = f" (and {more} more {'conflict' if more == 1 else 'conflicts'})" if more else ""
    error = InvalidRelease(
        first.message + others,
        subject=first.object,
        field=first.field,
        remedy=first.remedy,
        phase=ReleasePhase.COMPATIBILITY_FAILED,
    )
    error.release_version = release.version
    return error


def notices_of(release: Release) -> tuple[Finding, ...]:
    """What a person should know about where a release came from."""
    subject = release_subject(release)
    return tuple(Finding(severity=Severity.INFO, object=subject, message=notice) for notice in release.notices)


def verdict_of(error: HoplineError) -> ReleaseVerdict:
    """Of a release that was refused before it could be read."""
    phase = error.phase if isinstance(error, InvalidRelease) else ReleasePhase.INVALID
    finding = Finding(
        severity=Severity.BLOCKS,
        object=error.subject,
        field=error.field,
        message=error.message + (f": {error.value}" if error.value and error.value not in error.message else ""),
        remedy=error.remedy,
    )
    return ReleaseVerdict(phase=phase, findings=(finding,))
