"""Pruning on the simulated API server: only what the version before had and we alone applied."""

from __future__ import annotations

from typing import Any

import pytest

from builders_domain import component, release, sample_facts
from hopline.domain.errors import ComponentFailed, NotFound
from hopline.domain.resources import CONFIG_MAP, SECRET, Document, Kind
from hopline.operations.pruning import Succession, find_orphans, prune
from hopline.sim.script import Failure, Verb
from manifest_lab import Lab, simulated_lab  # noqa: F401

ROLE = Kind(api_version="rbac.authorization.k8s.io/v1", kind="ClusterRole", namespaced=False)
YAML = {"namespace": "web", "prune": True, "pruneLabelSelector": {"app": "web"}}


def text(kind: Kind, name: str, **labels: str) -> str:
    head = f"---\napiVersion: {kind.api_version}\nkind: {kind.kind}\n"
    return f"{head}metadata: {{name: {name}, labels: {labels or {'app': 'web'}}}}\n"


KEPT = text(CONFIG_MAP, "kept")
OLD = KEPT + text(CONFIG_MAP, "old") + text(SECRET, "token") + text(ROLE, "web-reader")


def succession(before: str, after: str, *, others: str = "", **yaml: Any) -> Succession:
    new = component("web", "v2", yaml={**YAML, **yaml})
    helper = component("api", "v1", yaml={"namespace": "web"})
    earlier = release("v26.06-rc.2", component("web", "v1", yaml=YAML), manifests={"web@v1": before})
    later = release("v26.06", new, helper, manifests={"web@v2": after, "api@v1": others})
    return Succession(earlier, later, new, sample_facts())


async def installed(lab: Lab, manifest: str = OLD, manager: str = "bke") -> None:
    for source in lab.objects(manifest).sources:
        document: Document = source.document
        place = {} if document["kind"] == "ClusterRole" else {"namespace": "web"}
        await lab.apply_as(manager, {**document, "metadata": {**place, **document["metadata"]}})


async def names(lab: Lab) -> set[str]:
    found = set()
    for kind in (CONFIG_MAP, SECRET, ROLE):
        listing = await lab.client.list(kind, kube_namespace="web" if kind.namespaced else "")
        found |= {item["metadata"]["name"] for item in listing.items}
    return found


async def test_deletes_what_the_new_version_no_longer_has(lab: Lab) -> None:
    await installed(lab)
    orphans = await prune(lab.client, succession(OLD, KEPT), "bke")
    assert {str(orphan) for orphan in orphans} == {
        "ConfigMap web/old deleted",
        "Secret web/token deleted",
        "ClusterRole web-reader deleted",
    }
    assert await names(lab) == {"kept"}
    assert await prune(lab.client, succession(OLD, KEPT), "bke") == []


async def test_names_what_it_leaves_alone(lab: Lab) -> None:
    await installed(lab, KEPT + text(SECRET, "token"))
    await installed(lab, text(CONFIG_MAP, "old"), manager="kubectl")
    orphans = await prune(lab.client, succession(OLD, KEPT, pruneLabelSelector={"app": "web"}), "bke")
    told = {str(orphan) for orphan in orphans}
    assert told == {"ConfigMap web/old left alone: bke has not applied it", "Secret web/token deleted"}
    assert await names(lab) == {"kept", "old"}


@pytest.mark.parametrize("yaml", [{"prune": False}, {"pruneLabelSelector": {}}, {"namespace": "other"}])
async def test_deletes_nothing_that_the_component_does_not_ask_for(lab: Lab, yaml: dict[str, Any]) -> None:
    await installed(lab, KEPT + text(CONFIG_MAP, "old"))
    before = lab.client.requests.copy()
    orphans = await prune(lab.client, succession(KEPT + text(CONFIG_MAP, "old"), KEPT, **yaml), "bke")
    assert all(orphan.kept for orphan in orphans)
    assert "ConfigMap web/old" in {str(orphan.ref) for orphan in orphans}
    assert Verb.DELETE.value not in lab.spent(before)
    assert await names(lab) == {"kept", "old"}


async def test_what_never_was_in_the_version_before_is_not_ours(lab: Lab) -> None:
    await installed(lab, OLD + text(CONFIG_MAP, "somebodys"))
    await prune(lab.client, succession(OLD, KEPT), "bke")
    assert await names(lab) == {"kept", "somebodys"}


async def test_what_moved_into_another_component_stays(lab: Lab) -> None:
    await installed(lab)
    await prune(lab.client, succession(OLD, KEPT, others=text(SECRET, "token") + text(ROLE, "web-reader")), "bke")
    assert await names(lab) == {"kept", "token", "web-reader"}


@pytest.mark.parametrize("broken", ["{{ .nothing }}", "a: [\n"])
async def test_nothing_is_deleted_where_a_release_cannot_be_read(lab: Lab, broken: str) -> None:
    await installed(lab)
    assert await prune(lab.client, succession(OLD + "---\n" + broken, KEPT), "bke") == []
    assert await prune(lab.client, succession(OLD, KEPT, others=broken), "bke") == []
    assert await names(lab) == {"kept", "old", "token", "web-reader"}


async def test_a_component_that_is_new_has_nothing_to_prune(lab: Lab) -> None:
    await installed(lab)
    fresh = succession(OLD, KEPT)
    fresh = Succession(release("v1", manifests={}), fresh.after, fresh.component, fresh.facts)
    assert await find_orphans(lab.client, fresh, "bke") == []


async def test_looking_deletes_nothing(lab: Lab) -> None:
    await installed(lab)
    assert len(await find_orphans(lab.client, succession(OLD, KEPT), "bke")) == 3
    assert await names(lab) == {"kept", "old", "token", "web-reader"}


async def test_a_refused_deletion_fails_the_component_and_goes_on_when_tried_again(lab: Lab) -> None:
    await installed(lab)
    lab.script.fail_request(Failure.REJECTED, verb=Verb.DELETE, kind="Secret", text="guarded")
    with pytest.raises(ComponentFailed, match="is applied, but Secret web/token cannot be pruned: guarded"):
        await prune(lab.client, succession(OLD, KEPT), "bke")
    await prune(lab.client, succession(OLD, KEPT), "bke")
    assert await names(lab) == {"kept"}


async def test_an_object_that_was_made_anew_is_not_deleted(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    await installed(lab, KEPT + text(CONFIG_MAP, "old"))
    real = lab.client.delete

    async def made_anew(ref: Any, *, uid: str = "") -> None:
        await real(ref)
        await lab.apply_as("somebody", {"apiVersion": "v1", "kind": "ConfigMap",
                                        "metadata": {"name": "old", "namespace": "web"}})  # fmt: skip
        await real(ref, uid=uid)

    monkeypatch.setattr(lab.client, "delete", made_anew)
    await prune(lab.client, succession(OLD, KEPT), "bke")
    monkeypatch.undo()
    assert await lab.get(CONFIG_MAP, "old")
    with pytest.raises(NotFound):
        await lab.get(SECRET, "token")
