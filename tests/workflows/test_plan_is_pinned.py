"""Design §2.1: planned once for the whole way, checked before the first write, carried by digests, never re-routed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hooked_clusters import Gate, HookedClusters, applying
from hopline.domain.resources import ANNOTATION_UPGRADE_READY, RELEASE_IMAGE
from hopline.sim.releases import layered
from small_lab import CATALOGUE_NAME, FINAL, RC2, RC3, SmallLab, SmallLabFactory, edit_json, payload_sizes
from workflows.cluster_upgrade import ClusterUpgrade
from workflows.messages import Question, RetryRequest

pytestmark = pytest.mark.slow

MAX_PAYLOAD = 64 * 1024


async def held_before_hop_two(lab: SmallLab) -> str:
    """The message of a run that is held before it has touched anything for its second hop."""
    status = await lab.held_and_told()
    version, bke = await lab.version(), await lab.bke()
    assert [hop.to_version for hop in status.finished_hops] == [RC3]
    assert status.hop is not None
    assert (status.hop.number, status.hop.from_version, status.hop.to_version) == (2, RC3, FINAL)
    assert status.components == ()
    assert version["status"]["currentVersion"] == RC3
    assert version["status"]["phase"] == "Failed"
    assert bke["status"]["clusterHealthState"] == "Healthy"
    assert bke["spec"]["clusterConfig"]["cluster"]["openFuyaoVersion"] == RC3
    assert ANNOTATION_UPGRADE_READY not in bke["metadata"].get("annotations", {})
    assert not lab.writes(f"{RELEASE_IMAGE.kind} east/release-{FINAL}")
    return status.message


async def test_a_bundle_that_changed_holds_its_hop_and_the_restored_one_goes_on(small: SmallLab) -> None:
    gate = Gate(applying("top"))
    file = small.object_file(FINAL, "base")
    original = file.read_text()
    async with small.worker(clusters=HookedClusters(small.clusters, before=gate)):
        handle = await small.start(FINAL)
        await gate.reached()
        file.write_text(original.replace('"data"', '"immutable": false, "data"'))
        gate.open()
        message = await held_before_hop_two(small)
        assert f"the bundle of {FINAL} has changed since the plan was made" in message
        assert "remedy: put the bundle with digest" in message
        file.write_text(original)
        await small.requests.retry(small.cluster, RetryRequest())
        assert (await handle.result()).hops == 2
    assert [len(small.applied(name)) for name in ("base", "left", "right", "top")] == [2, 2, 2, 2]


async def test_an_edge_blocked_since_holds_its_hop_and_lets_the_running_one_finish(small: SmallLab) -> None:
    gate = Gate(applying("top"))
    async with small.worker(clusters=HookedClusters(small.clusters, before=gate)):
        handle = await small.start(FINAL)
        await gate.reached()
        await small.block(RC2, RC3)
        await small.block(RC3, FINAL)
        gate.open()
        message = await held_before_hop_two(small)
        assert "the catalogue has blocked the next hop since the plan was made" in message
        assert f"UpgradePath {CATALOGUE_NAME} spec.paths[1].blocked" in message
        seen = await small.status()
        await small.requests.retry(small.cluster, RetryRequest())
        assert (await small.held_again(seen)).message == message
        await small.block(RC3, FINAL, blocked=False)
        await small.requests.retry(small.cluster, RetryRequest())
        assert (await handle.result()).hops == 2


def without_bundle(lab: SmallLab) -> None:
    shutil.rmtree(lab.examples / "releases" / FINAL)


def without_component(lab: SmallLab) -> None:
    shutil.rmtree(lab.examples / "releases" / FINAL / "components" / "left")


def with_stranger(lab: SmallLab) -> None:
    file = lab.object_file(FINAL, "left").parent / "component.yaml"
    edit_json(file, lambda document: document["spec"]["dependencies"].append({"name": "stranger"}))


def with_broken_yaml(lab: SmallLab) -> None:
    (lab.object_file(FINAL, "left").parent / "component.yaml").write_text("spec: {name: left\nkind: [")


@pytest.mark.parametrize(
    ("break_it", "named"),
    [
        (without_bundle, f"release {FINAL}"),
        (without_component, "left"),
        (with_stranger, "stranger"),
        (with_broken_yaml, "component.yaml"),
    ],
)
async def test_every_hop_is_checked_before_the_first_one_starts(
    small: SmallLab, break_it: Callable[[SmallLab], None], named: str
) -> None:
    break_it(small)
    before = await small.version(), await small.bke()
    async with small.worker():
        await small.start(FINAL)
        end = await small.end()
    assert end.type == "Refused"
    assert named in end.message
    assert "remedy: " in end.message
    assert (await small.version(), await small.bke()) == before
    assert {effect.subject.split()[0] for effect in small.clusters.journal()} <= {"Event"}


async def test_no_payload_is_above_64_kib_with_sixty_components(make_small: SmallLabFactory) -> None:
    lab = await make_small(layered(60, 12), (RC2, RC3, FINAL))
    async with lab.worker():
        handle = await lab.start(FINAL)
        assert (await handle.result()).hops == 2
        histories = await lab.histories(handle.first_execution_run_id or "")
    assert len(histories) == 2
    sizes = [payload_sizes(history) for history in histories]
    assert max(size for history in sizes for size, _ in history) < MAX_PAYLOAD, [history[:3] for history in sizes]
    assert all(len(lab.applied(f"c{index:02d}")) == 2 for index in range(60))


async def test_the_digest_is_the_same_in_every_run_and_for_any_order_of_files(
    make_small: SmallLabFactory, tmp_path: Path
) -> None:
    def reorder(examples: Path) -> None:
        """Write every file again, the last one first: a folder lists them in another order then."""
        files = sorted(file for file in (examples / "releases").rglob("*") if file.is_file())
        texts = {file: file.read_bytes() for file in files}
        shutil.rmtree(examples / "releases")
        for file in reversed(files):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(texts[file])

    first, second = await make_small(name="first"), await make_small(name="second", prepare=reorder)
    digests = []
    for lab in (first, second):
        async with lab.worker():
            predicted = await lab.requests.inspect(lab.cluster, Question.PLAN, FINAL)
            handle = await lab.start(FINAL)
            await handle.result()
            view = await handle.query(ClusterUpgrade.plan)
            assert predicted.plan is not None
            assert view.outline is not None
            digests += [predicted.plan.digest, view.outline.digest]
    assert len(set(digests)) == 1


async def test_plan_and_run_give_the_same_answer_on_the_same_objects(small: SmallLab) -> None:
    async with small.worker():
        predicted = (await small.requests.inspect(small.cluster, Question.PLAN, FINAL)).plan
        assert predicted is not None
        gate = Gate(applying("base"))
        assert small.clusters.journal() == []
    async with small.worker(clusters=HookedClusters(small.clusters, before=gate)):
        handle = await small.start(FINAL)
        await gate.reached()
        view = await handle.query(ClusterUpgrade.plan)
        gate.open()
        await handle.result()
        last = await handle.query(ClusterUpgrade.plan)
    assert view.outline is not None
    assert [hop.digest for hop in predicted.hops] == [hop.digest for hop in view.outline.hops]
    assert view.hop == predicted.hops[0]
    assert last.hop is not None
    assert last.hop.batches == predicted.hops[1].batches
    assert [(c.name, c.version, c.action) for c in last.hop.components] == [
        (c.name, c.version, c.action) for c in predicted.hops[1].components
    ]
