"""What every `Store` promises, as tests."""

from __future__ import annotations

import asyncio
import base64
import random
import uuid
from datetime import UTC, datetime, timedelta

import pytest

from contracts.documents import PATIENCE_SECONDS, config_map
from hopline.domain.errors import HoplineError, NotFound, Rejected
from hopline.domain.resources import CONFIG_MAP, NAMESPACE, SECRET, Document, ObjectRef
from hopline.ports import ClusterClient, Store

AT = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
BLOB = random.Random(7).randbytes(1_700_000)
"""Larger than any one object of an API server, and does not get smaller."""


class StoreContract:
    """Subclasses give `store`, and `client`: the API server on which the owners live."""

    @pytest.fixture
    async def home(self, client: ClusterClient) -> str:
        name = f"store-{uuid.uuid4().hex[:8]}"
        await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, kind=NAMESPACE)
        return name

    @pytest.fixture
    async def owner(self, client: ClusterClient, home: str) -> Document:
        return await client.create(config_map(home, "owner"), kind=CONFIG_MAP)

    @pytest.mark.parametrize("data", [b"", b"text", BLOB], ids=["empty", "small", "large"])
    async def test_what_was_put_is_there(self, store: Store, owner: Document, data: bytes) -> None:
        put = await store.put(owner, data, about={"hop": "v1"}, at=AT)
        assert await store.get(owner, put.digest) == data
        assert (put.size, put.about, put.at) == (len(data), {"hop": "v1"}, AT)
        assert await store.records(owner) == [put]

    async def test_the_same_bytes_are_kept_once(self, store: Store, owner: Document) -> None:
        first = await store.put(owner, b"text", about={"attempt": "1"}, at=AT)
        again = await store.put(owner, b"text", about={"attempt": "2"}, at=AT + timedelta(hours=1))
        assert again == first
        assert await store.records(owner) == [first]

    async def test_two_at_once_agree(self, store: Store, owner: Document) -> None:
        puts = [store.put(owner, BLOB, about={"by": str(number)}, at=AT) for number in range(2)]
        one, other = await asyncio.gather(*puts)
        assert one == other
        assert await store.get(owner, one.digest) == BLOB

    async def test_records_are_told_in_their_order(self, store: Store, owner: Document) -> None:
        for day in (2, 0, 1):
            await store.put(owner, b"%d" % day, about={"day": str(day)}, at=AT + timedelta(days=day, microseconds=day))
        assert [record.about["day"] for record in await store.records(owner)] == ["0", "1", "2"]

    async def test_owners_do_not_see_each_other(
        self, store: Store, client: ClusterClient, home: str, owner: Document
    ) -> None:
        other = await client.create(config_map(home, "other"), kind=CONFIG_MAP)
        mine = await store.put(owner, b"text", about={}, at=AT)
        assert await store.records(other) == []
        with pytest.raises(NotFound):
            await store.get(other, mine.digest)
        await store.put(other, b"text", about={}, at=AT)
        await store.delete(other, mine.digest)
        assert await store.get(owner, mine.digest) == b"text"

    async def test_what_is_deleted_is_gone(self, store: Store, owner: Document) -> None:
        put = await store.put(owner, b"text", about={}, at=AT)
        await store.delete(owner, put.digest)
        await store.delete(owner, put.digest)
        assert await store.records(owner) == []
        with pytest.raises(NotFound):
            await store.get(owner, put.digest)

    async def test_an_owner_must_exist(self, store: Store, home: str) -> None:
        with pytest.raises(HoplineError, match="an owner that exists"):
            await store.put(config_map(home, "nowhere"), b"text", about={}, at=AT)


class SecretStoreContract(StoreContract):
    """What a Store of Secrets promises beside it: nothing is left behind, and nothing wrong is read."""

    async def secrets(self, client: ClusterClient, home: str) -> list[Document]:
        return (await client.list(SECRET, kube_namespace=home)).items

    async def until_none(self, client: ClusterClient, home: str) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                if not await self.secrets(client, home):
                    return
                await asyncio.sleep(0.05)

    async def test_parts_of_a_deleted_record_go(
        self, store: Store, client: ClusterClient, home: str, owner: Document
    ) -> None:
        put = await store.put(owner, BLOB, about={}, at=AT)
        assert len(await self.secrets(client, home)) == put.parts == 4
        await store.delete(owner, put.digest)
        await self.until_none(client, home)

    async def test_records_go_with_their_owner(
        self, store: Store, client: ClusterClient, home: str, owner: Document
    ) -> None:
        await store.put(owner, b"text", about={}, at=AT)
        await client.delete(ObjectRef(kind=CONFIG_MAP, name="owner", kube_namespace=home))
        await self.until_none(client, home)

    async def test_a_record_that_is_not_whole_is_none_until_it_is_put_again(
        self, store: Store, client: ClusterClient, home: str, owner: Document
    ) -> None:
        put = await store.put(owner, BLOB, about={}, at=AT)
        lost = (await self.secrets(client, home))[2]["metadata"]["name"]
        await client.delete(ObjectRef(kind=SECRET, name=lost, kube_namespace=home))
        with pytest.raises(NotFound, match=lost):
            await store.get(owner, put.digest)
        assert await store.records(owner) == [put]
        await store.put(owner, BLOB, about={}, at=AT)
        assert await store.get(owner, put.digest) == BLOB

    async def test_other_bytes_are_refused(
        self, store: Store, client: ClusterClient, home: str, owner: Document
    ) -> None:
        put = await store.put(owner, b"text", about={}, at=AT)
        (secret,) = await self.secrets(client, home)
        name = secret["metadata"]["name"]
        await client.delete(ObjectRef(kind=SECRET, name=name, kube_namespace=home))
        other = {key: secret[key] for key in ("apiVersion", "kind", "type")}
        other["metadata"] = {"name": name, "namespace": home}
        other["data"] = {"part": base64.b64encode(b"something else").decode()}
        await client.create(other, kind=SECRET)
        with pytest.raises(Rejected, match="not what was stored"):
            await store.get(owner, put.digest)

    async def test_a_part_cannot_be_changed_by_mistake(
        self, store: Store, client: ClusterClient, home: str, owner: Document
    ) -> None:
        await store.put(owner, b"text", about={}, at=AT)
        (secret,) = await self.secrets(client, home)
        assert secret["immutable"] is True
