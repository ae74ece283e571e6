"""Version order. Every spelling is ordered by number or refused; none is ever compared as text.

The one table of what is accepted and how it sorts, oldest first inside a row:

| spelling | how it sorts |
|---|---|
| `v26.03`, `v26.06`, `v26.06.1`, `v26.12` | by number; a missing third part is 0, so `v26.06` equals `v26.06.0` |
| `v26.6`, `v26.06` | equal: leading zeros do not count (graph nodes stay strings, see `catalogue`) |
| `26.06`, `v26.06` | equal: the leading `v` is optional |
| `v26.06-alpha.3`, `v26.06-beta.1`, `v26.06-rc.2`, `v26.06` | alpha, beta, rc, release of the same base |
| `v26.06-rc`, `v26.06-rc.1`, `v26.06-rc.9`, `v26.06-rc.10` | by number; none is before 0; `rc1` equals `rc.1` |
| `v26.06`, `v26.06.1-rc.1` | the base decides first |
| `v1.34.3`, `v1.34.3-of.1`, `v1.34.3-of.10`, `v1.34.4` | base first, then N; no suffix is `of.0` |
| `v26.06-rc.2-of.1` | base, stage, then N |
| `latest`, `v26`, `26.6.1.2`, `v26.06+build`, `v26.06-preview`, `V26.06`, an empty text, surrounding blanks | refused |
| more than nine digits in one number | refused |

(openfuyao-api.md §4.2: the existing controller falls back to text order for two-part versions with `-rc`.)
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import IntEnum

from hopline.domain.errors import InvalidVersion, bounded

MAJOR_STEP = 1_000
"""Minors that one change of major counts for: no rule about neighbouring minors may ever allow it."""

REMEDY = "write it as vMAJOR.MINOR[.PATCH][-alpha.N|-beta.N|-rc.N][-of.N], for example v26.06-rc.2 or v1.34.3-of.1"

_PATTERN = re.compile(
    r"v?(?P<major>[0-9]{1,9})\.(?P<minor>[0-9]{1,9})(?:\.(?P<patch>[0-9]{1,9}))?"
    r"(?:-(?P<stage>alpha|beta|rc)(?:\.?(?P<number>[0-9]{1,9}))?)?"
    r"(?:-of\.(?P<revision>[0-9]{1,9}))?"
)


class Stage(IntEnum):
    """How finished a version is."""

    ALPHA = 0
    BETA = 1
    RC = 2
    RELEASE = 3


_STAGES = {"alpha": Stage.ALPHA, "beta": Stage.BETA, "rc": Stage.RC, None: Stage.RELEASE}


@dataclass(frozen=True, order=True)
class Version:
    """A version as numbers. Equality, order and hash ignore the spelling, which `str()` gives back unchanged.

    Attributes:
        stage_number: N of `rc.N`; -1 when the text has none, and for releases.
        revision: N of `-of.N`; 0 without the suffix.
    """

    major: int
    minor: int
    patch: int = 0
    stage: Stage = Stage.RELEASE
    stage_number: int = -1
    revision: int = 0
    text: str = field(default="", compare=False)

    def __str__(self) -> str:
        return self.text or self.canonical

    @property
    def canonical(self) -> str:
        """The one spelling that equal versions share: `v26.6.0-rc.2-of.1`."""
        stage = "" if self.stage is Stage.RELEASE else f"-{self.stage.name.lower()}"
        number = f".{self.stage_number}" if self.stage_number >= 0 else ""
        revision = f"-of.{self.revision}" if self.revision else ""
        return f"v{self.major}.{self.minor}.{self.patch}{stage}{number}{revision}"

    @property
    def base(self) -> tuple[int, int, int]:
        """Major, minor, patch: all that the BKECluster webhook compares (openfuyao-api.md §8)."""
        return (self.major, self.minor, self.patch)

    @property
    def is_release(self) -> bool:
        """Neither alpha nor beta nor rc."""
        return self.stage is Stage.RELEASE


def parse_version(text: str, subject: str = "", field: str = "") -> Version:
    """Read a version by the table of this module.

    Args:
        subject: the object that holds the text, for the message.
        field: its field, for the message.

    Raises:
        InvalidVersion: the text is not in the table, or is refused there.
    """
    match = _PATTERN.fullmatch(text)
    if match is None:
        shown = "is empty" if not text else "cannot be ordered by number"
        raise InvalidVersion(
            f"version {bounded(text, 60)!r} {shown}", subject=subject, field=field, value=text, remedy=REMEDY
        )
    number, patch, revision = match["number"], match["patch"], match["revision"]
    return Version(
        major=int(match["major"]),
        minor=int(match["minor"]),
        patch=int(patch) if patch else 0,
        stage=_STAGES[match["stage"]],
        stage_number=int(number) if number else -1,
        revision=int(revision) if revision else 0,
        text=text,
    )


def minor_distance(older: Version, newer: Version) -> int:
    """Minors from `older` to `newer`; negative when `newer` is behind. Patch, stage and revision do not count.

    Kubernetes allows at most one at a time. A change of major counts as `MAJOR_STEP`, so no neighbour rule passes it.
    """
    return (newer.major - older.major) * MAJOR_STEP + newer.minor - older.minor
