"""Parsed releases, kept by digest for the worker's life: executions carry digests, never bundles (design §2.1)."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from hopline.documents.bundles import parse_bundle
from hopline.domain.image_overrides import NO_OVERRIDES, ImageOverrides
from hopline.domain.release import Release
from hopline.domain.wire import ClusterKey
from hopline.ports import ReleaseSource

CAPACITY = 16
"""Releases in memory; a path has rarely more than five hops, and a release of 60 components takes about 1 MB."""


class ReleaseShelf:
    """Fetches and parses a release once, however many activities ask for it."""

    def __init__(self, source: ReleaseSource, overrides: ImageOverrides = NO_OVERRIDES) -> None:
        self._source = source
        self._overrides = overrides
        self._parsed: OrderedDict[tuple[str, str], Release] = OrderedDict()

    async def release(
        self, version: str, digest: str = "", *, cluster: ClusterKey | None = None, anew: bool = False
    ) -> Release:
        """The release of a version; with `digest`, exactly those bytes.

        Without a digest, or with `anew`, the source is asked again, because what a version means may have changed.
        Raises InvalidRelease, InvalidDocument, or Transient when the source is out of reach.
        """
        known = self._parsed.get((version, digest)) if digest and not anew else None
        if known is not None:
            self._parsed.move_to_end((version, digest))
            return known
        raw = await self._source.fetch(version, digest=digest, cluster=cluster, anew=anew)
        found = self._parsed.get((version, raw.digest))
        if found is None:
            parsed = await asyncio.to_thread(parse_bundle, raw)
            found = parsed.model_copy(update={"image_overrides": self._overrides.rules})
        else:
            # The same bytes, but how they were had may differ from the last time.
            how = ("source", "origin", "cache_fallback", "signed_by", "notices")
            found = found.model_copy(update={name: getattr(raw, name) for name in how})
        self._parsed[(version, raw.digest)] = found
        while len(self._parsed) > CAPACITY:
            self._parsed.popitem(last=False)
        return found
