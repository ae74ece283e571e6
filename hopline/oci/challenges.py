"""What a registry wants to see before it answers: the header WWW-Authenticate, in the spellings found in the wild."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

_TOKEN = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_SCHEME = re.compile(rf"\s*,?\s*({_TOKEN})(?=\s|$|,)")
_PARAMETER = re.compile(rf'\s*,?\s*({_TOKEN})\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]*))')


@dataclass(frozen=True)
class Challenge:
    """One way to sign in. Scheme and parameter names are lower case."""

    scheme: str
    parameters: Mapping[str, str] = field(default_factory=dict)


def parse_challenges(headers: Iterable[str]) -> tuple[Challenge, ...]:
    """Every challenge of every header of that name; what cannot be read ends its header."""
    return tuple(challenge for header in headers for challenge in _challenges(header))


def _challenges(header: str) -> Iterable[Challenge]:
    position = 0
    while match := _SCHEME.match(header, position):
        position = match.end()
        parameters: dict[str, str] = {}
        while found := _PARAMETER.match(header, position):
            name, quoted, bare = found.groups()
            value = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else bare
            parameters.setdefault(name.lower(), value)
            position = found.end()
        yield Challenge(match.group(1).lower(), parameters)
