"""Reading the objects that components are made of, with few requests.

Objects of one kind in one Namespace cost one list instead of a read each, as soon as there are some of them.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from weakref import WeakKeyDictionary

from hopline.domain.errors import Forbidden, NotFound
from hopline.domain.resources import CUSTOM_RESOURCE_DEFINITION, EVENT, POD, SECRET, Document, Kind, ObjectRef
from hopline.operations.component_objects import PlacedObject, side_by_side
from hopline.ports import ClusterClient

LIST_FROM = 4
"""As many objects of one kind and Namespace are listed; fewer are read one by one, so that one ConfigMap among a
thousand others costs no page of them."""

_READ_ONE_BY_ONE = frozenset({CUSTOM_RESOURCE_DEFINITION.kind, SECRET.kind, POD.kind, EVENT.kind})
"""A list brings the others too: hundreds of definitions of 800 kB, Secrets that are nobody's business, pods that come
and go."""

HINTS = 1000
HINT_SECONDS = 60.0
"""How long a difference counts as just seen; a hop of small components begins within seconds of its plan."""

Live = Mapping[ObjectRef, Document | None]
"""The objects as they are; None for those that do not exist."""


async def read_live(
    client: ClusterClient, targets: Sequence[PlacedObject], known: Live | None = None
) -> dict[ObjectRef, Document | None]:
    """The objects as they are. Those in `known` were read a moment ago and are not read again."""
    found: dict[ObjectRef, Document | None] = {}
    groups: dict[tuple[Kind, str], list[ObjectRef]] = {}
    for target in targets:
        ref = target.ref
        if known is not None and ref in known:
            found[ref] = known[ref]
        elif not target.served:
            found[ref] = None
        else:
            groups.setdefault((ref.kind, ref.kube_namespace), []).append(ref)
    listed = [
        refs for (kind, _), refs in groups.items() if len(refs) >= LIST_FROM and kind.kind not in _READ_ONE_BY_ONE
    ]
    single = [ref for refs in groups.values() if refs not in listed for ref in refs]
    for some in await side_by_side(lambda refs: _list(client, refs), listed):
        found.update(some)
    documents = await side_by_side(lambda ref: _get(client, ref), single)
    return found | dict(zip(single, documents, strict=True))


async def _get(client: ClusterClient, ref: ObjectRef) -> Document | None:
    try:
        return await client.get(ref)
    except NotFound:
        return None


async def _list(client: ClusterClient, refs: Sequence[ObjectRef]) -> dict[ObjectRef, Document | None]:
    """Objects of one kind and Namespace. An account may be allowed to read single objects only."""
    try:
        listing = await client.list(refs[0].kind, kube_namespace=refs[0].kube_namespace)
    except (Forbidden, NotFound):
        return dict(zip(refs, await side_by_side(lambda ref: _get(client, ref), refs), strict=True))
    names = _by_name(listing.items)
    return {ref: names.get(ref.name) for ref in refs}


def _by_name(documents: Iterable[Document]) -> dict[str, Document]:
    return {str(document["metadata"]["name"]): document for document in documents}


class PlainDifferences:
    """Single objects that a plan has just seen to differ from their manifest: applying one needs no look of its own.

    A hint and no fact: whoever takes one writes with a request that is refused, or changes nothing, when the object
    has changed since. Each is taken once, so that a repeated attempt looks.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._noted: WeakKeyDictionary[ClusterClient, OrderedDict[ObjectRef, tuple[bytes, float]]] = WeakKeyDictionary()

    def note(self, client: ClusterClient, ref: ObjectRef, document: Document) -> None:
        """The live object differs from `document` in a text that only an apply can bring."""
        noted = self._noted.setdefault(client, OrderedDict())
        noted[ref] = (_digest(document), self._clock())
        while len(noted) > HINTS:
            noted.popitem(last=False)

    def take(self, client: ClusterClient, ref: ObjectRef, document: Document) -> bool:
        """Whether that was seen a moment ago; asked again, the answer is no."""
        digest, noted_at = self._noted.get(client, OrderedDict()).pop(ref, (b"", 0.0))
        return digest == _digest(document) and self._clock() - noted_at < HINT_SECONDS


def _digest(document: Document) -> bytes:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).digest()
