"""Names of thousands of nodes in one small payload (design §8: none above 64 KiB)."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterable, Sequence
from typing import TypeVar

from hopline.domain.wire import WireModel

PLAIN_BYTES = 4_000
"""Up to here names stand as they are, so that a person can read them in the web UI."""

PACKED_BYTES = 16_000
"""Of packed text; names that follow a pattern take about three bytes each in it."""

M = TypeVar("M", bound=WireModel)


class NameList(WireModel):
    """Names, of which the newest are kept; `count` counts all of them.

    Attributes:
        names: as they are, when they are few.
        packed: zlib and base64 of the names, one a line, when they are many.
    """

    count: int = 0
    names: tuple[str, ...] = ()
    packed: str = ""

    @classmethod
    def of(cls, names: Iterable[str], limit: int = PACKED_BYTES) -> NameList:
        """All of `names`, or as many of the last ones as fit."""
        listed = tuple(names)
        if sum(len(name.encode()) + 3 for name in listed) <= PLAIN_BYTES:
            return cls(count=len(listed), names=listed)
        kept = listed
        while len(packed := _pack(kept)) > limit:
            kept = kept[max(1, len(kept) // 8) :]
        return cls(count=len(listed), packed=packed)

    def kept(self) -> tuple[str, ...]:
        """The names that are kept, in their order."""
        if not self.packed:
            return self.names
        try:
            return tuple(zlib.decompress(base64.b64decode(self.packed)).decode().splitlines())
        except (binascii.Error, zlib.error, UnicodeDecodeError):
            return ()


def _pack(names: Sequence[str]) -> str:
    return base64.b64encode(zlib.compress("\n".join(names).encode(), 9)).decode()


def fitting(models: Iterable[M], limit: int) -> tuple[M, ...]:
    """The first of `models` that together take at most `limit` bytes as JSON."""
    chosen: list[M] = []
    for model in models:
        limit -= len(model.model_dump_json(by_alias=True).encode()) + 1
        if limit < 0:
            break
        chosen.append(model)
    return tuple(chosen)


def some_of(texts: Sequence[str], limit: int) -> tuple[str, ...]:
    """At most `limit` texts; the last one then counts the others."""
    if len(texts) <= limit:
        return tuple(texts)
    return (*texts[: limit - 1], f"and {len(texts) - limit + 1} more")
