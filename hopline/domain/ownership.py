"""Who may keep which field when a server-side apply meets another field manager (design §2, "Ownership").

Fields of installers are taken once and reported. Fields of anybody else are kept and reported, except image, command
and arguments: an upgrade that does not bring its own image is none, so those block.
"""

from __future__ import annotations

import copy
import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hopline.domain.resources import Document

INSTALLERS: tuple[str, ...] = ("kubectl*", "kubeadm", "helm", "before-first-apply", "bke*", "manager")
"""Field managers (shell patterns) of tools that put a component there; their fields are taken over."""

_ESSENTIAL = re.compile(r"\.(image|command|args)(\[.*)?$")
_SELECTOR = re.compile(r'\[(?:=(?P<value>[^\]]+)|(?P<index>[0-9]+)|(?P<keys>(?:"(?:[^"\\]|\\.)*"|[^\]"])*))\]')
_KEY = re.compile(r'([A-Za-z0-9]+)=("(?:[^"\\]|\\.)*"|[^,\]]+)')


@dataclass(frozen=True)
class Settlement:
    """What to do about the fields that an apply could not have; each is `manager: field`.

    Attributes:
        taken: from installers, by force.
        kept: left with their owner, by leaving them out of what is applied.
        blocked: nobody but a person can decide.
    """

    taken: tuple[tuple[str, str], ...] = ()
    kept: tuple[tuple[str, str], ...] = ()
    blocked: tuple[tuple[str, str], ...] = ()


def settle(owners: Sequence[tuple[str, str]], installers: Sequence[str] = INSTALLERS) -> Settlement:
    """Decide about every (field manager, field) of a conflict."""
    taken, kept, blocked = [], [], []
    for manager, field in sorted(set(owners)):
        if any(fnmatch.fnmatchcase(manager, pattern) for pattern in installers):
            taken.append((manager, field))
        elif _ESSENTIAL.search(field):
            blocked.append((manager, field))
        else:
            kept.append((manager, field))
    return Settlement(tuple(taken), tuple(kept), tuple(blocked))


def without_field(document: Document, field: str) -> Document | None:
    """A copy of the document without one field, and without what became empty by it; None when it has no such field.

    `field` is a path as the API server prints it: `.spec.template.spec.containers[name="web"].resources.limits.memory`.
    Keys of a map may hold dots, so the path is read along the document.
    """
    changed = copy.deepcopy(document)
    return changed if _remove(changed, field) else None


def _remove(value: Any, path: str) -> bool:
    if isinstance(value, dict) and path.startswith("."):
        for key in sorted(value, key=len, reverse=True):
            rest = path[1:].removeprefix(key)
            if not path.startswith(f".{key}") or rest[:1] not in ("", ".", "["):
                continue
            if not rest:
                del value[key]
                return True
            if _remove(value[key], rest):
                if value[key] in ({}, []):
                    del value[key]
                return True
    if isinstance(value, list) and (match := _SELECTOR.match(path)):
        at = _position(value, match)
        if at is not None and not path[match.end() :]:
            del value[at]
            return True
        return at is not None and _remove(value[at], path[match.end() :])
    return False


def _position(items: list[Any], match: re.Match[str]) -> int | None:
    if match["index"] is not None:
        return int(match["index"]) if int(match["index"]) < len(items) else None
    if match["value"] is not None:
        found = [at for at, item in enumerate(items) if _same(item, match["value"])]
    else:
        keys = _KEY.findall(match["keys"])
        found = [
            at
            for at, item in enumerate(items)
            if isinstance(item, dict) and keys and all(_same(item.get(key), text, key) for key, text in keys)
        ]
    return found[0] if len(found) == 1 else None


def _same(item: Any, text: str, key: str = "") -> bool:
    """Whether an item's value is the one that a path spells; the API server fills in the protocol of a port."""
    if item is None and key == "protocol":
        item = "TCP"
    plain = text[1:-1].replace('\\"', '"').replace("\\\\", "\\") if text.startswith('"') else text
    return str(item) == plain
