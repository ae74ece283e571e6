"""The error tree. Every message names the object, the field, the value and the remedy.

HoplineError
├── InvalidInput            a request that cannot be understood (exit code 2)
├── Refusal                 nothing was changed, and why (exit code 3)
│   ├── InvalidVersion      a version text that cannot be ordered
│   ├── InvalidCatalogue    an UpgradePath that breaks its own rules
│   ├── NoUpgradePath       the catalogue has no way; `reason` says which kind
│   ├── InvalidRelease      a release image that breaks its own rules
│   ├── InvalidDocument     YAML that does not parse, with file and line
│   ├── ClusterNotReady     the cluster is unhealthy, paused, busy, being deleted or out of reach
│   ├── OtherController     another controller works on the objects of this upgrade
│   └── ContradictingWish   another version is already being carried out
├── HopFailed               a hop ended in failure (exit code 1)
├── Aborted                 a person or a deletion ended the run (exit code 1)
├── ComponentFailed         a component failed for good; the hop is held
└── PortError               what an adapter reports
    ├── Transient           try again soon: unreachable, timeout, 5xx, 429, 401
    ├── TargetAway          the cluster that is upgraded is out of reach: the work waits, whatever its deadline
    ├── Blocked             not a fault; try again later (an eviction that a budget refuses)
    └── Permanent           trying again will not help
        ├── NotFound        the object does not exist
        ├── AlreadyExists   create of a name that is taken
        ├── Conflict        the object changed since it was read, or another manager owns the field
        ├── Forbidden       the API server does not allow it
        └── Rejected        the API server or an admission webhook refuses the content
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, TypedDict, Unpack

MAX_ERROR_TEXT = 1000
"""Characters. Temporal cuts failures in mutable state at 4 KiB; two nested ones must fit (temporal.md §2.1)."""


def bounded(text: str, limit: int = MAX_ERROR_TEXT) -> str:
    """`text`, cut to `limit` characters with a visible mark."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


class Where(TypedDict, total=False):
    """What every error takes beside its message; `HoplineError` says what each word means."""

    subject: str
    field: str
    value: str
    remedy: str


class HoplineError(Exception):
    """Root of the tree.

    Args:
        message: what is wrong, one sentence without a trailing full stop.
        subject: the object, as `Kind name` or `Kind namespace/name`.
        field: the field of that object, as a JSON path.
        value: the offending value, as text.
        remedy: what to do next; a command where there is one.
    """

    def __init__(self, message: str, *, subject: str = "", field: str = "", value: str = "", remedy: str = "") -> None:
        super().__init__(message)
        self.message = bounded(message)
        self.subject = bounded(subject, 300)
        self.field = bounded(field, 300)
        self.value = bounded(value, 300)
        self.remedy = bounded(remedy, 500)

    def __str__(self) -> str:
        """One paragraph that a person can act on."""
        where = " ".join(part for part in (self.subject, self.field) if part)
        shown = f" is {self.value!r}" if self.value and self.field else (f" ({self.value})" if self.value else "")
        parts = [self.message]
        if where:
            parts.append(f"{where}{shown}")
        if self.remedy:
            parts.append(f"remedy: {self.remedy}")
        return "; ".join(parts)


class InvalidInput(HoplineError):
    """A request that cannot be understood."""


class Refusal(HoplineError):
    """A check, a document or the path says no before anything was changed."""


class InvalidVersion(Refusal):
    """A version text that cannot be ordered by number."""


class InvalidCatalogue(Refusal):
    """An UpgradePath that breaks its own rules (openfuyao-api.md §4.1)."""


class PathReason(StrEnum):
    """Why there is, or is not, a path. Part of the stable JSON of `hopline path`."""

    NONE = ""
    ALREADY_THERE = "AlreadyThere"
    ALREADY_NEWEST = "AlreadyNewest"
    """Nothing newer is in the catalogue."""
    UNKNOWN_VERSION = "UnknownVersion"
    BLOCKED = "Blocked"
    NO_PATH = "NoPath"
    DOWNGRADE = "Downgrade"
    INVALID_CATALOGUE = "InvalidCatalogue"
    CATALOGUE_UNREACHABLE = "CatalogueUnreachable"
    """The catalogue cannot be read or fetched just now, so what it would say is not known."""
    TOO_OLD = "TooOld"
    """The current version is older than the oldest one from which this product upgrades."""
    UNKNOWN = "Unknown"
    """A reason of a newer version: who asks may be older than the worker that answers."""

    @classmethod
    def _missing_(cls, value: object) -> PathReason:
        return cls.UNKNOWN


class NoUpgradePath(Refusal):
    """The catalogue has no way from the current to the desired version."""

    def __init__(self, message: str, *, reason: PathReason, **where: Unpack[Where]) -> None:
        super().__init__(message, **where)
        self.reason = reason


class ReleasePhase(StrEnum):
    """What was found out about a release image, as ReleaseImage `status.phase` spells it (openfuyao-api.md §5.7)."""

    VALID = "Valid"
    INVALID = "Invalid"
    """Wrong digest or signature, not readable, or against the rules of releases."""
    MANIFEST_MISSING = "ManifestMissing"
    """A registry that answers does not have it."""
    COMPATIBILITY_FAILED = "CompatibilityFailed"
    """Its components do not fit each other, or one of them is not in the bundle."""


class InvalidRelease(Refusal):
    """A release image or one of its component versions breaks its own rules.

    Attributes:
        phase: what the ReleaseImage object says then; never `Valid`.
        release_version: which release was asked for, once somebody knows.
    """

    def __init__(self, message: str, *, phase: ReleasePhase = ReleasePhase.INVALID, **where: Unpack[Where]) -> None:
        super().__init__(message, **where)
        self.phase = phase
        self.release_version = ""


class InvalidDocument(Refusal):
    """YAML that does not parse or does not have the expected shape; `subject` is `file:line`.

    Attributes:
        release_version: of which release, where it is one and somebody knows.
    """

    release_version: str = ""


class ClusterNotReady(Refusal):
    """The cluster is unhealthy, paused, busy, being deleted, or its API server is out of reach."""


class OtherController(Refusal):
    """Another controller works on the objects of this upgrade, or this worker may only look."""


class ContradictingWish(Refusal):
    """Another version is already being carried out for this cluster."""


class HopFailed(HoplineError):
    """A hop ended in failure."""


class Aborted(HoplineError):
    """A person, or the deletion of the cluster, ended the run."""


class ComponentFailed(HoplineError):
    """A component failed for good; trying again without a change will not help."""


class PortError(HoplineError):
    """What an adapter reports about the outside world."""

    retryable: ClassVar[bool] = False


class Transient(PortError):
    """Unreachable, timeout, 5xx, 429 or expired credentials: try again soon.

    Attributes:
        retry_after: seconds that the server asked to wait; 0 when it did not say.
    """

    retryable: ClassVar[bool] = True

    def __init__(self, message: str, *, retry_after: float = 0.0, **where: Unpack[Where]) -> None:
        super().__init__(message, **where)
        self.retry_after = retry_after


class TargetAway(PortError):
    """The cluster that is upgraded is out of reach, by its kubeconfig Secret or its API server.

    An attempt does not repeat it: the workflow waits until the way is there again, and says for what.
    """


class Blocked(PortError):
    """Not a fault: something asks for patience, for example a disruption budget."""

    retryable: ClassVar[bool] = True


class Permanent(PortError):
    """Trying again will not help."""


class NotFound(Permanent):
    """The object does not exist."""


class AlreadyExists(Permanent):
    """A create of a name that is taken."""


class Conflict(Permanent):
    """The object changed since it was read, or another field manager owns the field.

    Attributes:
        owners: (field manager, field) of each field that a server-side apply could not have; empty when the object
            has changed.
    """

    def __init__(self, message: str, *, owners: tuple[tuple[str, str], ...] = (), **where: Unpack[Where]) -> None:
        super().__init__(message, **where)
        self.owners = owners


class Forbidden(Permanent):
    """The API server does not allow it to this account."""


class Rejected(Permanent):
    """The API server or an admission webhook refuses the content."""
