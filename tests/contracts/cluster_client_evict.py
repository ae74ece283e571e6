"""What every `ClusterClient` promises of evictions and field selectors, as tests.

Nodes are not needed: pods are bound by their spec.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from contracts.cluster_client import ClusterClientContract
from contracts.documents import PATIENCE_SECONDS, ref
from hopline.domain.errors import Blocked, Conflict, Forbidden, NotFound, Rejected
from hopline.domain.resources import POD, POD_DISRUPTION_BUDGET, Document
from hopline.ports import ClusterClient
from looking import PATIENCE


def pod(home: str, name: str, node: str) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": home, "labels": {"app": "web"}},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "web", "image": "web:1"}],
            "terminationGracePeriodSeconds": 0,
        },
    }


def budget(home: str, name: str, **spec: Any) -> Document:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": home},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    }


async def running(client: ClusterClient, home: str, name: str, node: str = "contract-node") -> Document:
    """A pod that its kubelet, played here, says is ready; a new namespace has no service account for some moments."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                await client.create(pod(home, name, node), kind=POD)
                break
            except Forbidden:
                await asyncio.sleep(0.05)
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return await client.patch(ref(POD, home, name), {"status": status}, subresource="status")


async def counted(client: ClusterClient, home: str, name: str, expected: int) -> Document:
    """The budget once its controller has counted its pods."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            found = await client.get(ref(POD_DISRUPTION_BUDGET, home, name))
            status = found.get("status") or {}
            if status.get("expectedPods") == expected:
                return found
            await asyncio.sleep(0.05)


class EvictContract(ClusterClientContract):
    """Inherit beside the other contracts."""

    @pytest.fixture
    async def watched(self, client: ClusterClient, home: str) -> AsyncIterator[str]:
        """A kube namespace with three pods on two nodes."""
        for name, node in (("a", "contract-one"), ("b", "contract-two"), ("c", "contract-one")):
            await running(client, home, name, node)
        yield home

    async def test_pods_of_one_node_are_listed(self, client: ClusterClient, watched: str) -> None:
        listing = await client.list(POD, kube_namespace=watched, fields="spec.nodeName=contract-one")
        assert [item["metadata"]["name"] for item in listing.items] == ["a", "c"]

    async def test_pods_of_one_node_are_watched(self, client: ClusterClient, watched: str) -> None:
        changes = client.watch(POD, kube_namespace=watched, fields="spec.nodeName=contract-one")
        async with asyncio.timeout(PATIENCE), aclosing(changes):  # type: ignore[type-var]
            first = await anext(changes)
            assert sorted(one["metadata"]["name"] for one in first.documents) == ["a", "c"]

    async def test_an_evicted_pod_goes(self, client: ClusterClient, home: str) -> None:
        made = await running(client, home, "one")
        await client.evict(ref(POD, home, "one"), uid=made["metadata"]["uid"], grace_seconds=0)
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    found = await client.get(ref(POD, home, "one"))
                except NotFound:
                    break
                assert "deletionTimestamp" in found["metadata"]
                await asyncio.sleep(0.05)

    async def test_eviction_of_nothing(self, client: ClusterClient, home: str) -> None:
        with pytest.raises(NotFound):
            await client.evict(ref(POD, home, "absent"))

    async def test_eviction_of_another_pod_of_that_name(self, client: ClusterClient, home: str) -> None:
        await running(client, home, "one")
        with pytest.raises(Conflict):
            await client.evict(ref(POD, home, "one"), uid="00000000-0000-0000-0000-000000000000")
        assert "deletionTimestamp" not in (await client.get(ref(POD, home, "one")))["metadata"]

    async def test_a_budget_blocks_an_eviction(self, client: ClusterClient, home: str) -> None:
        await client.create(budget(home, "tight", minAvailable=1), kind=POD_DISRUPTION_BUDGET)
        await running(client, home, "one")
        await counted(client, home, "tight", 1)
        with pytest.raises(Blocked) as caught:
            await client.evict(ref(POD, home, "one"))
        assert "tight" in str(caught.value)

    async def test_two_budgets_over_one_pod_are_refused_for_good(self, client: ClusterClient, home: str) -> None:
        await running(client, home, "one")
        for name in ("first", "second"):
            await client.create(budget(home, name, minAvailable=0), kind=POD_DISRUPTION_BUDGET)
        with pytest.raises(Rejected) as caught:
            await client.evict(ref(POD, home, "one"))
        assert "more than one PodDisruptionBudget" in str(caught.value)
