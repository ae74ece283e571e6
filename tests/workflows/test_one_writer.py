"""Design §2.3: one writer per object, one publication in flight, lists merged by key, conflicts that lose nothing."""

from __future__ import annotations

import asyncio

import pytest

from hooked_clusters import Call, Gate, HookedClusters, applying
from hopline.domain.resources import BKE_CLUSTER, CLUSTER_VERSION
from hopline.sim.journal import EffectType
from hopline.sim.script import Failure, Verb
from small_lab import FINAL, GRAPH, RC3, SmallLab

pytestmark = pytest.mark.slow

FOREIGN = {
    "type": "SecretsRotated",
    "status": "True",
    "reason": "Rotated",
    "message": "by another controller",
    "lastTransitionTime": "2026-07-30T08:12:00Z",
}


async def test_conflicts_and_a_concurrent_writer_lose_no_fact(small: SmallLab) -> None:
    """Somebody touches both objects before every publication, so that each first attempt is stale."""
    touched = 0

    async def touch(call: Call) -> None:
        nonlocal touched
        if call.subresource != "status" or call.subject.split()[0] not in ("BKECluster", "ClusterVersion"):
            return
        touched += 1
        kind = BKE_CLUSTER if call.subject.startswith("BKECluster") else CLUSTER_VERSION
        if touched % 2:
            await small.annotate(kind, {"example.test/touched": str(touched)})

    version = await small.version()
    conditions = [*version["status"]["conditions"], FOREIGN]
    await small.patch(CLUSTER_VERSION, {"status": {"conditions": conditions}}, "status")
    async with small.worker(clusters=HookedClusters(small.clusters, before=touch)):
        await (await small.start(FINAL)).result()
    version, bke = await small.version(), await small.bke()
    assert touched > 10
    assert {entry["name"] for entry in bke["status"]["declarativeUpgrade"]["completed"]} == set(GRAPH)
    assert [entry["to"] for entry in version["status"]["upgradeHistory"]] == [RC3, FINAL]
    assert [one["type"] for one in version["status"]["conditions"]].count("Ready") == 1
    assert FOREIGN in version["status"]["conditions"]
    assert {name: one["phase"] for name, one in bke["status"]["clusterComponentStatuses"].items()} == dict.fromkeys(
        GRAPH, "Installed"
    )
    assert [len(small.applied(name)) for name in GRAPH] == [2, 2, 2, 2]


async def test_injected_conflicts_are_read_again(small: SmallLab) -> None:
    script = small.clusters.script
    faults = [
        script.fail_request(Failure.CONFLICT, verb=Verb.PATCH_STATUS, kind="BKECluster", times=3),
        script.fail_request(Failure.CONFLICT, verb=Verb.PATCH_STATUS, kind="ClusterVersion", times=3),
        script.fail_request(Failure.CONFLICT, verb=Verb.PATCH, kind="BKECluster", times=2),
    ]
    async with small.worker():
        await (await small.start(RC3)).result()
    assert [script.hits(fault) for fault in faults] == [3, 3, 2]
    assert not await small.events("UpgradeHeld")
    assert {entry["name"] for entry in (await small.bke())["status"]["declarativeUpgrade"]["completed"]} == set(GRAPH)


async def test_another_entry_of_a_list_that_is_kept_whole_survives(small: SmallLab) -> None:
    gate = Gate(applying("top"))
    stranger = {"name": "stranger", "version": "v1", "completedAt": "2026-07-30T08:12:00Z"}
    async with small.worker(clusters=HookedClusters(small.clusters, before=gate)):
        handle = await small.start(RC3)
        await gate.reached()
        await small.until_record(lambda bke: len(bke["status"]["declarativeUpgrade"].get("completed", [])) == 3)
        completed = (await small.bke())["status"]["declarativeUpgrade"]["completed"]
        body = {"status": {"declarativeUpgrade": {"completed": [*completed, stranger]}}}
        await small.patch(BKE_CLUSTER, body, "status")
        gate.open()
        await handle.result()
    completed = (await small.bke())["status"]["declarativeUpgrade"]["completed"]
    assert stranger in completed
    assert {entry["name"] for entry in completed} == {*GRAPH, "stranger"}


async def test_at_most_one_publication_is_in_flight_and_the_last_word_is_the_last_write(small: SmallLab) -> None:
    """A publication takes longer than a component here, so that a second one would overlap it."""
    inside, most = 0, 0

    async def before(call: Call) -> None:
        nonlocal inside, most
        if call.verb == "patch" and call.subresource == "status" and not call.subject.startswith("ReleaseImage"):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.05)

    def after(call: Call) -> None:
        nonlocal inside
        if call.verb == "patch" and call.subresource == "status" and not call.subject.startswith("ReleaseImage"):
            inside -= 1

    async with small.worker(clusters=HookedClusters(small.clusters, before=before, after=after)):
        await (await small.start(FINAL)).result()
    assert most == 1
    writes = [(one.subject.split()[0], one.verb) for one in small.writes() if not one.subject.startswith("Event")]
    assert writes[-4:] == [
        ("BKECluster", "patch status"),
        ("BKECluster", "patch"),
        ("ClusterVersion", "patch status"),
        ("ClusterVersion", "patch"),
    ]


async def test_nothing_of_a_hop_changes_before_its_cluster_says_so(small: SmallLab) -> None:
    """`Upgrading` and the target of the hop come before its first object (observed.md §3 item 3), however slowly."""
    seen: list[tuple[str, str]] = []

    async def before(call: Call) -> None:
        if call.verb == "patch" and call.subresource == "status" and call.subject.startswith("BKECluster"):
            await asyncio.sleep(0.05)
        elif applying(next(iter(GRAPH)))(call):
            status = (await small.bke())["status"]
            seen.append((status["clusterStatus"], status.get("declarativeUpgrade", {}).get("targetVersion", "")))

    async with small.worker(clusters=HookedClusters(small.clusters, before=before)):
        await (await small.start(FINAL)).result()
    assert seen == [("Upgrading", RC3), ("Upgrading", FINAL)]


async def test_a_hop_ends_in_the_documented_order(small: SmallLab) -> None:
    """Versions and health, then the annotations, then the ClusterVersion (observed.md §3 item 5), in each hop."""
    async with small.worker():
        await (await small.start(FINAL)).result()
    order: list[str] = []
    for effect in small.clusters.journal(EffectType.WRITE):
        fields = " ".join(effect.fields)
        if "finishedAt" in fields and "openFuyaoVersion" in fields:
            order.append("versions and health")
        elif effect.subject.startswith("BKECluster") and "taken-by" in fields:
            order.append("annotations")
        elif effect.subject.startswith("ClusterVersion") and ".status.currentVersion" in fields:
            order.append("ClusterVersion")
    hop = ["annotations", "versions and health", "annotations", "ClusterVersion"]
    assert order == hop + hop
