"""The rule language of `spec.compatibility.constraints[].rule` (openfuyao-api.md §5.6).

Written like Masterminds semver: bounds joined by spaces or commas (all must hold), groups joined by `||` (one must).
Versions are those of `versions`, in their order; B43 of openfuyao-api.md §11.3 is answered like this:

| bound | accepts |
|---|---|
| `>=B` `>B` `<=B` | by order; an rc of B is before B: `>=v26.06` rejects `v26.06-rc.2`, `<=v26.06` accepts it |
| `<B` | by order, but an rc of B counts as B: `<v1.36.0` rejects `v1.36.0-rc.1`, `<v1.36.0-rc.2` accepts it |
| `=B`, `B` | equal; parts that B leaves out are free: `v1.34` accepts `v1.34.9` |
| `!=B` | what `=B` rejects |
| `>B` `<=B` with parts left out | beyond, or up to, everything that B covers: `<=v1.34` accepts `v1.34.9` |
| `~B` | not before B, same major and minor (same major when B is only a major) |
| `^B` | not before B, same leftmost part that is not 0 |
| `1.34.x` `1.x` `*` | every version with these parts, alphas, betas and rcs included |
| `A - B` | `>=A <=B` |

A bound without `-of.N` does not look at it; one with it compares it: `>=v1.34.3-of.2` rejects `v1.34.3-of.1`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hopline.domain.errors import InvalidInput
from hopline.domain.versions import Stage, Version

_PART = r"[0-9]{1,9}|[xX*]"
_VERSION = (
    rf"v?(?P<major>{_PART})(?:\.(?P<minor>{_PART}))?(?:\.(?P<patch>{_PART}))?"
    r"(?:-(?P<stage>alpha|beta|rc)(?:\.?(?P<number>[0-9]{1,9}))?)?(?:-of\.(?P<revision>[0-9]{1,9}))?"
)
_BOUND = re.compile(rf"[\s,]*(?P<operator>!=|>=|=>|<=|=<|==|~>|[=<>~^])?\s*{_VERSION}(?=[\s,]|$)")
_HYPHEN = re.compile(r"(\S+)\s+-\s+(\S+)")
_SPELLINGS = {"": "=", "==": "=", "=>": ">=", "=<": "<=", "~>": "~"}
_STAGES = {"alpha": Stage.ALPHA, "beta": Stage.BETA, "rc": Stage.RC}

REMEDY = "write bounds like >=v1.34.0 <v1.36.0, ~v1.34.3, ^v2.1.0 or v1.34.x, groups joined by ||"


@dataclass(frozen=True)
class Bound:
    """One comparison.

    Attributes:
        parts: the numbers given, up to three; what is left out or a wildcard ends the list.
        stage, number: None and -1 when the bound names no stage.
        revision: None when the bound does not name `-of.N`.
    """

    operator: str
    parts: tuple[int, ...]
    wildcard: bool = False
    stage: Stage | None = None
    number: int = -1
    revision: int | None = None

    def accepts(self, version: Version) -> bool:
        """Is `version` inside this bound?"""
        match self.operator:
            case ">=":
                return self._side(version) >= 0
            case ">":
                return self._beyond(version) > 0
            case "<=":
                return self._beyond(version) <= 0
            case "<":
                own_stage = self.stage is None and not version.is_release and version.base == self._filled
                return self._side(version) < 0 and not own_stage
            case "!=":
                return not self._equals(version)
            case "~":
                return self._side(version) >= 0 and self._shares(version, min(len(self.parts), 2))
            case "^":
                return self._side(version) >= 0 and self._shares(version, self._significant)
            case _:
                return self._equals(version)

    @property
    def _filled(self) -> tuple[int, ...]:
        return (*self.parts, 0, 0, 0)[:3]

    @property
    def _is_exact(self) -> bool:
        return len(self.parts) == 3 or (bool(self.parts) and (self.stage is not None or self.revision is not None))

    @property
    def _significant(self) -> int:
        """How many leading parts a caret keeps."""
        leading = next((index + 1 for index, part in enumerate(self.parts) if part), len(self.parts))
        return max(leading, 1) if self.parts else 0

    def _side(self, version: Version) -> int:
        """-1, 0 or 1: before, equal to or after the bound, with missing parts as 0."""
        stage = Stage.RELEASE if self.stage is None else self.stage
        mine = (*self._filled, stage, self.number, self.revision or 0)
        revision = 0 if self.revision is None else version.revision
        other = (*version.base, version.stage, version.stage_number, revision)
        return (other > mine) - (other < mine)

    def _beyond(self, version: Version) -> int:
        """The same, with everything that a partial bound covers as equal."""
        if self._is_exact:
            return self._side(version)
        covered = version.base[: len(self.parts)]
        return (covered > self.parts) - (covered < self.parts)

    def _equals(self, version: Version) -> bool:
        if self._is_exact:
            return self._side(version) == 0
        return self._shares(version, len(self.parts)) and (self.wildcard or self._side(version) >= 0)

    def _shares(self, version: Version, count: int) -> bool:
        return version.base[:count] == self.parts[:count]


@dataclass(frozen=True)
class Rule:
    """A parsed rule: one of the groups must hold, with all of its bounds."""

    text: str
    groups: tuple[tuple[Bound, ...], ...]

    def accepts(self, version: Version) -> bool:
        """Does `version` satisfy the rule?"""
        return any(all(bound.accepts(version) for bound in group) for group in self.groups)


def parse_rule(text: str) -> Rule:
    """Read a rule.

    Raises:
        InvalidInput: it is empty or not in the language; the caller adds object and field.
    """
    return Rule(text=text, groups=tuple(_parse_group(text, group) for group in text.split("||")))


def _parse_group(text: str, group: str) -> tuple[Bound, ...]:
    spelled = _HYPHEN.sub(r">=\1 <=\2", group).strip(" \t\r\n,")
    bounds: list[Bound] = []
    position = 0
    while position < len(spelled):
        match = _BOUND.match(spelled, position)
        if match is None:
            raise _invalid(text)
        bounds.append(_bound(text, match))
        position = match.end()
    if not bounds:
        raise _invalid(text)
    return tuple(bounds)


def _bound(text: str, match: re.Match[str]) -> Bound:
    operator = match["operator"] or ""
    given = [part for part in (match["major"], match["minor"], match["patch"]) if part is not None]
    numbers = [part for part in given if part not in ("x", "X", "*")]
    wildcard = len(numbers) < len(given)
    if given[: len(numbers)] != numbers or (wildcard and (match["stage"] or match["revision"])):
        raise _invalid(text)
    return Bound(
        operator=_SPELLINGS.get(operator, operator),
        parts=tuple(int(part) for part in numbers),
        wildcard=wildcard,
        stage=_STAGES[match["stage"]] if match["stage"] else None,
        number=int(match["number"]) if match["number"] else -1,
        revision=int(match["revision"]) if match["revision"] else None,
    )


def _invalid(text: str) -> InvalidInput:
    what = f"{text!r} is not a version rule" if text.strip() else "the version rule is empty"
    return InvalidInput(what, value=text or '""', remedy=REMEDY)
