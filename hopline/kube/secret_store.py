"""The Store on an API server: a ConfigMap as the index of each record, its parts in Secrets that the index owns.

Secrets, because live objects hold them. The index is owned by what the record is about, so that all goes with it: the
garbage collector of the API server removes the parts of an index that was deleted, and no account needs the right to
list or delete Secrets. The index comes first: what a killed worker leaves behind is owned, listed, and cleared away.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import gzip
import hashlib
import json
import zlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from hopline.domain.errors import AlreadyExists, InvalidInput, NotFound, Rejected, Transient
from hopline.domain.resources import CONFIG_MAP, SECRET, Document, ObjectRef
from hopline.ports import ClusterClient, StoredRecord

PART_BYTES = 512 * 1024
"""Compressed bytes of one Secret: half of what an API server takes, and far below what etcd takes of one object."""

LABEL_OWNER = "hopline.dev/record-of"
_INDEX = "record.json"
_PART = "part"
_PARALLEL = 8


class SecretStore:
    """Records on the cluster behind `client`."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client

    async def put(self, owner: Document, data: bytes, *, about: Mapping[str, str], at: datetime) -> StoredRecord:
        """As the port says."""
        if not owner["metadata"].get("uid"):
            raise InvalidInput("a record needs an owner that exists", field="metadata.uid", remedy="read it first")
        digest, packed = await asyncio.to_thread(_packed, data)
        parts = [packed[at : at + PART_BYTES] for at in range(0, len(packed), PART_BYTES)]
        record = StoredRecord(digest=digest, size=len(data), parts=len(parts), about=dict(about), at=at)
        index = await self._index(owner, record)
        for start in range(0, len(parts), _PARALLEL):
            some = enumerate(parts[start : start + _PARALLEL], start=start)
            await asyncio.gather(*(self._put_part(index, number, part) for number, part in some))
        return StoredRecord.model_validate_json(index["data"][_INDEX])

    async def get(self, owner: Document, digest: str) -> bytes:
        """As the port says."""
        index = await self._client.get(_ref(owner, digest))
        record = StoredRecord.model_validate_json(index["data"][_INDEX])
        packed = [await self._part(index, number) for number in range(record.parts)]
        return await asyncio.to_thread(_unpacked, b"".join(packed), digest)

    async def records(self, owner: Document) -> list[StoredRecord]:
        """As the port says."""
        place = owner["metadata"]["namespace"]
        listing = await self._client.list(CONFIG_MAP, kube_namespace=place, labels=f"{LABEL_OWNER}={_label(owner)}")
        found = [StoredRecord.model_validate_json(item["data"][_INDEX]) for item in listing.items]
        return sorted(found, key=lambda record: (record.at, record.digest))

    async def delete(self, owner: Document, digest: str) -> None:
        """As the port says."""
        try:
            await self._client.delete(_ref(owner, digest))
        except NotFound:
            return

    async def _index(self, owner: Document, record: StoredRecord) -> Document:
        """The index, made now or by an earlier attempt."""
        ref = _ref(owner, record.digest)
        document = _document(ref, owner)
        document["metadata"]["labels"] = {LABEL_OWNER: _label(owner)}
        document["data"] = {_INDEX: record.model_dump_json()}
        try:
            return await self._client.create(document, kind=CONFIG_MAP)
        except AlreadyExists:
            return await self._holder(ref)

    async def _put_part(self, index: Document, number: int, part: bytes) -> None:
        ref = _part_ref(index, number)
        document = _document(ref, index)
        document |= {"type": LABEL_OWNER, "immutable": True, "data": {_PART: base64.b64encode(part).decode()}}
        try:
            await self._client.create(document, kind=SECRET)
        except AlreadyExists:
            found = await self._holder(ref)
            if found["metadata"]["ownerReferences"] != document["metadata"]["ownerReferences"]:
                raise _still_there(ref) from None

    async def _holder(self, ref: ObjectRef) -> Document:
        """Who has a taken name; Transient when it goes away meanwhile."""
        try:
            return await self._client.get(ref)
        except NotFound:
            raise _still_there(ref) from None

    async def _part(self, index: Document, number: int) -> bytes:
        found = await self._client.get(_part_ref(index, number))
        try:
            return base64.b64decode(found["data"][_PART], validate=True)
        except (KeyError, binascii.Error) as error:
            raise _damaged(f"Secret {found['metadata']['name']}") from error


def _packed(data: bytes) -> tuple[str, bytes]:
    return f"sha256:{hashlib.sha256(data).hexdigest()}", gzip.compress(data, mtime=0)


def _unpacked(packed: bytes, digest: str) -> bytes:
    try:
        data = gzip.decompress(packed)
    except (OSError, EOFError, zlib.error) as error:
        raise _damaged(f"record {digest}") from error
    if f"sha256:{hashlib.sha256(data).hexdigest()}" != digest:
        raise _damaged(f"record {digest}")
    return data


def _still_there(ref: ObjectRef) -> Transient:
    return Transient("the same record was deleted a moment ago, and its parts are still there", subject=str(ref))


def _damaged(subject: str) -> Rejected:
    return Rejected(
        "the record is not what was stored under its digest",
        subject=subject,
        remedy="somebody has changed it: restore its ConfigMap and Secrets from a backup of the cluster",
    )


def _label(owner: Document) -> str:
    """A label value holds 63 characters, a name up to 253."""
    metadata = owner["metadata"]
    text = json.dumps([owner["apiVersion"], owner["kind"], metadata["name"], metadata["uid"]])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _ref(owner: Document, digest: str) -> ObjectRef:
    """The same content of two owners is two records."""
    name = hashlib.sha256(f"{_label(owner)} {digest}".encode()).hexdigest()[:32]
    return ObjectRef(kind=CONFIG_MAP, name=f"hopline-record-{name}", kube_namespace=owner["metadata"]["namespace"])


def _part_ref(index: Document, number: int) -> ObjectRef:
    metadata = index["metadata"]
    return ObjectRef(kind=SECRET, name=f"{metadata['name']}-{number}", kube_namespace=metadata["namespace"])


def _document(ref: ObjectRef, owner: Document) -> dict[str, Any]:
    metadata = owner["metadata"]
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    return {
        "apiVersion": ref.kind.api_version,
        "kind": ref.kind.kind,
        "metadata": {"name": ref.name, "namespace": ref.kube_namespace, "ownerReferences": [reference]},
    }
