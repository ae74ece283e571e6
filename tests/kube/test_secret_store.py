"""Records whose names are taken by objects that go away at the same moment."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from contracts.documents import config_map
from hooked_clusters import Call, HookedClusters
from hopline.domain.errors import AlreadyExists, NotFound, Transient
from hopline.domain.resources import CONFIG_MAP, NAMESPACE
from hopline.kube.secret_store import SecretStore
from hopline.sim import open_simulation

AT = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
async def test_a_name_whose_holder_goes_away_is_for_the_next_attempt(tmp_path: Path, kind: str) -> None:
    clusters = open_simulation(tmp_path / "sim.db")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "home"}}
    await clusters.management.create(namespace, kind=NAMESPACE)
    owner = await clusters.management.create(config_map("home", "owner"), kind=CONFIG_MAP)

    async def taken_and_gone(call: Call) -> None:
        if call.subject.startswith(f"{kind} "):
            raise NotFound("it is gone", subject=call.subject) if call.verb == "get" else AlreadyExists("it is taken")

    store = SecretStore(HookedClusters(clusters, before=taken_and_gone).management)
    with pytest.raises(Transient):
        await store.put(owner, b"text", about={}, at=AT)
    await clusters.aclose()
