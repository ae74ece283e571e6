"""What every `ClusterClient` promises about server-side apply; see cluster_client.py."""

from __future__ import annotations

import pytest

from contracts.cluster_client import ClusterClientContract
from contracts.documents import cluster_version, config_map, deployment, ref, revision
from hopline.domain.errors import Conflict, NotFound, Rejected
from hopline.domain.resources import CLUSTER_VERSION, COMPONENT_VERSION, CONFIG_MAP, DEPLOYMENT, Document, Kind
from hopline.ports import ClusterClient

WEB = {"name": "web", "image": "registry.example.test/web:1"}
NEW_WEB = {"name": "web", "image": "registry.example.test/web:2"}


SERVICE = Kind(api_version="v1", kind="Service")


def service(kube_namespace: str, *ports: Document) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": kube_namespace},
        "spec": {"selector": {"app": "web"}, "ports": list(ports)},
    }


def component_version(kube_namespace: str, *dependencies: str) -> Document:
    return {
        "apiVersion": COMPONENT_VERSION.api_version,
        "kind": COMPONENT_VERSION.kind,
        "metadata": {"name": "coredns", "namespace": kube_namespace},
        "spec": {
            "name": "coredns",
            "type": "yaml",
            "version": "v1.12.1",
            "dependencies": [{"name": name} for name in dependencies],
        },
    }


def images(document: Document) -> dict[str, str]:
    containers = document["spec"]["template"]["spec"]["containers"]
    return {container["name"]: container["image"] for container in containers}


class ApplyContract(ClusterClientContract):
    """Server-side apply; inherit beside ClusterClientContract's own tests."""

    async def test_apply_makes_the_object(self, client: ClusterClient, home: str) -> None:
        made = await client.apply(config_map(home, "one", {"a": "1"}), kind=CONFIG_MAP, field_manager="bke")
        assert made["data"] == {"a": "1"}
        assert made["metadata"]["managedFields"][0]["manager"] == "bke"
        assert await client.get(ref(CONFIG_MAP, home, "one")) == made

    async def test_apply_again_keeps_the_revision(self, client: ClusterClient, home: str) -> None:
        document = deployment(home, WEB, replicas=2)
        made = await client.apply(document, kind=DEPLOYMENT, field_manager="bke")
        again = await client.apply(document, kind=DEPLOYMENT, field_manager="bke", force=True)
        now = await client.get(ref(DEPLOYMENT, home, "web"))
        assert again["spec"] == made["spec"]
        assert again["metadata"]["generation"] == now["metadata"]["generation"] == 1
        config = config_map(home, "one", {"a": "1"})
        first = await client.apply(config, kind=CONFIG_MAP, field_manager="bke")
        assert revision(await client.apply(config, kind=CONFIG_MAP, field_manager="bke")) == revision(first)

    async def test_apply_changes_and_removes(self, client: ClusterClient, home: str) -> None:
        await client.apply(config_map(home, "one", {"a": "1", "b": "2"}), kind=CONFIG_MAP, field_manager="bke")
        changed = await client.apply(config_map(home, "one", {"a": "3"}), kind=CONFIG_MAP, field_manager="bke")
        assert changed["data"] == {"a": "3"}

    async def test_apply_in_a_namespace_that_does_not_exist(self, client: ClusterClient) -> None:
        with pytest.raises(NotFound):
            await client.apply(config_map("no-such-namespace", "one"), kind=CONFIG_MAP, field_manager="bke")

    async def test_apply_refuses_managed_fields(self, client: ClusterClient, home: str) -> None:
        made = await client.apply(config_map(home, "one", {"a": "1"}), kind=CONFIG_MAP, field_manager="bke")
        with pytest.raises(Rejected):
            await client.apply(made, kind=CONFIG_MAP, field_manager="bke")

    async def test_apply_with_a_stale_revision(self, client: ClusterClient, home: str) -> None:
        made = await client.apply(config_map(home, "one", {"a": "1"}), kind=CONFIG_MAP, field_manager="bke")
        await client.patch(ref(CONFIG_MAP, home, "one"), {"metadata": {"labels": {"x": "y"}}})
        stale = config_map(home, "one", {"a": "2"})
        stale["metadata"]["resourceVersion"] = revision(made)
        with pytest.raises(Conflict):
            await client.apply(stale, kind=CONFIG_MAP, field_manager="bke")

    async def test_apply_conflict_names_manager_and_field(self, client: ClusterClient, home: str) -> None:
        await client.apply(config_map(home, "one", {"a": "1"}), kind=CONFIG_MAP, field_manager="installer")
        with pytest.raises(Conflict) as caught:
            await client.apply(config_map(home, "one", {"a": "2"}), kind=CONFIG_MAP, field_manager="bke")
        assert "installer" in str(caught.value)
        assert ".data.a" in str(caught.value)
        assert (await client.get(ref(CONFIG_MAP, home, "one")))["data"] == {"a": "1"}

    async def test_apply_conflict_with_a_patch(self, client: ClusterClient, home: str) -> None:
        await client.apply(deployment(home, WEB, replicas=1), kind=DEPLOYMENT, field_manager="installer")
        await client.patch(ref(DEPLOYMENT, home, "web"), {"spec": {"replicas": 3}})
        with pytest.raises(Conflict) as caught:
            await client.apply(deployment(home, WEB, replicas=2), kind=DEPLOYMENT, field_manager="installer")
        assert ".spec.replicas" in str(caught.value)

    async def test_apply_dry_run_conflicts_as_well(self, client: ClusterClient, home: str) -> None:
        await client.apply(config_map(home, "one", {"a": "1"}), kind=CONFIG_MAP, field_manager="installer")
        with pytest.raises(Conflict):
            document = config_map(home, "one", {"a": "2"})
            await client.apply(document, kind=CONFIG_MAP, field_manager="bke", dry_run=True)

    async def test_apply_of_the_same_value_is_shared(self, client: ClusterClient, home: str) -> None:
        await client.apply(config_map(home, "one", {"a": "1"}), kind=CONFIG_MAP, field_manager="installer")
        shared = await client.apply(config_map(home, "one", {"a": "1"}), kind=CONFIG_MAP, field_manager="bke")
        assert {entry["manager"] for entry in shared["metadata"]["managedFields"]} == {"installer", "bke"}
        left = await client.apply(config_map(home, "one"), kind=CONFIG_MAP, field_manager="bke")
        assert left["data"] == {"a": "1"}

    async def test_apply_with_force_takes_the_field_alone(self, client: ClusterClient, home: str) -> None:
        both = config_map(home, "one", {"a": "1", "b": "1"})
        await client.apply(both, kind=CONFIG_MAP, field_manager="installer")
        wanted = config_map(home, "one", {"a": "2"})
        taken = await client.apply(wanted, kind=CONFIG_MAP, field_manager="bke", force=True)
        assert taken["data"] == {"a": "2", "b": "1"}
        with pytest.raises(Conflict) as caught:
            await client.apply(both, kind=CONFIG_MAP, field_manager="installer")
        assert "bke" in str(caught.value)
        assert ".data.b" not in str(caught.value)

    async def test_apply_leaves_fields_of_others_alone(self, client: ClusterClient, home: str) -> None:
        await client.apply(deployment(home, WEB), kind=DEPLOYMENT, field_manager="bke")
        await client.patch(ref(DEPLOYMENT, home, "web"), {"spec": {"replicas": 5}})
        after = await client.apply(deployment(home, NEW_WEB), kind=DEPLOYMENT, field_manager="bke")
        assert after["spec"]["replicas"] == 5
        assert images(after) == {"web": "registry.example.test/web:2"}
        assert after["metadata"]["generation"] == 3

    async def test_apply_merges_containers_by_name(self, client: ClusterClient, home: str) -> None:
        sidecar = {"name": "proxy", "image": "registry.example.test/proxy:1"}
        await client.apply(deployment(home, WEB), kind=DEPLOYMENT, field_manager="bke")
        await client.apply(deployment(home, sidecar), kind=DEPLOYMENT, field_manager="mesh")
        after = await client.apply(deployment(home, NEW_WEB), kind=DEPLOYMENT, field_manager="bke")
        assert images(after) == {"web": NEW_WEB["image"], "proxy": sidecar["image"]}
        alone = await client.apply(deployment(home), kind=DEPLOYMENT, field_manager="mesh")
        assert images(alone) == {"web": NEW_WEB["image"]}

    async def test_apply_dry_run_of_a_new_object(self, client: ClusterClient, home: str) -> None:
        document = config_map(home, "one", {"a": "1"})
        answer = await client.apply(document, kind=CONFIG_MAP, field_manager="bke", dry_run=True)
        assert answer["data"] == {"a": "1"}
        with pytest.raises(NotFound):
            await client.get(ref(CONFIG_MAP, home, "one"))

    async def test_apply_dry_run_of_a_change(self, client: ClusterClient, home: str) -> None:
        made = await client.apply(deployment(home, WEB), kind=DEPLOYMENT, field_manager="bke")
        answer = await client.apply(deployment(home, NEW_WEB), kind=DEPLOYMENT, field_manager="bke", dry_run=True)
        assert images(answer) == {"web": NEW_WEB["image"]}
        now = await client.get(ref(DEPLOYMENT, home, "web"))
        assert now["spec"] == made["spec"]
        assert now["metadata"]["generation"] == 1

    async def test_apply_dry_run_without_a_change(self, client: ClusterClient, home: str) -> None:
        document = config_map(home, "one", {"a": "1"})
        made = await client.apply(document, kind=CONFIG_MAP, field_manager="bke")
        answer = await client.apply(document, kind=CONFIG_MAP, field_manager="bke", dry_run=True)
        assert answer["data"] == made["data"]
        assert revision(answer) == revision(made)

    async def test_apply_never_changes_the_status(self, client: ClusterClient, home: str) -> None:
        target = ref(CLUSTER_VERSION, home, "east")
        await client.apply(cluster_version(home, phase="Failed"), kind=CLUSTER_VERSION, field_manager="bke")
        assert not (await client.get(target)).get("status")
        await client.patch(target, {"status": {"phase": "Ready"}}, subresource="status")
        wanted = cluster_version(home, phase="Failed")
        wanted["spec"]["desiredVersion"] = "v26.06"
        after = await client.apply(wanted, kind=CLUSTER_VERSION, field_manager="bke", force=True)
        assert after["status"] == {"phase": "Ready"}
        assert after["spec"]["desiredVersion"] == "v26.06"

    async def test_apply_of_an_immutable_field(self, client: ClusterClient, home: str) -> None:
        await client.apply(deployment(home, WEB), kind=DEPLOYMENT, field_manager="bke")
        other = deployment(home, WEB)
        other["spec"]["selector"]["matchLabels"] = {"app": "other"}
        other["spec"]["template"]["metadata"]["labels"] = {"app": "other"}
        with pytest.raises(Rejected):
            await client.apply(other, kind=DEPLOYMENT, field_manager="bke", force=True)

    async def test_apply_tells_ports_apart_by_number_and_protocol(self, client: ClusterClient, home: str) -> None:
        udp = {"name": "dns", "port": 53, "protocol": "UDP"}
        tcp = {"name": "dns-tcp", "port": 53, "protocol": "TCP"}
        made = await client.apply(service(home, udp, tcp), kind=SERVICE, field_manager="bke")
        assert [port["name"] for port in made["spec"]["ports"]] == ["dns", "dns-tcp"]
        again = await client.apply(service(home, udp, tcp), kind=SERVICE, field_manager="bke")
        assert revision(again) == revision(made)
        one = await client.apply(service(home, tcp), kind=SERVICE, field_manager="bke")
        assert [port["name"] for port in one["spec"]["ports"]] == ["dns-tcp"]

    async def test_apply_merges_environment_and_volumes_by_name(self, client: ClusterClient, home: str) -> None:
        ours = {**WEB, "env": [{"name": "MODE", "value": "a"}]}
        theirs = {"name": "web", "env": [{"name": "LEVEL", "value": "debug"}], "image": WEB["image"]}
        document = deployment(home, ours)
        document["spec"]["template"]["spec"]["volumes"] = [{"name": "scratch", "emptyDir": {}}]
        await client.apply(document, kind=DEPLOYMENT, field_manager="bke")
        await client.apply(deployment(home, theirs), kind=DEPLOYMENT, field_manager="operator")
        document["spec"]["template"]["spec"]["containers"] = [{**WEB, "env": [{"name": "MODE", "value": "b"}]}]
        after = await client.apply(document, kind=DEPLOYMENT, field_manager="bke")
        (container,) = after["spec"]["template"]["spec"]["containers"]
        assert {entry["name"]: entry["value"] for entry in container["env"]} == {"MODE": "b", "LEVEL": "debug"}
        assert [volume["name"] for volume in after["spec"]["template"]["spec"]["volumes"]] == ["scratch"]
        same = await client.apply(document, kind=DEPLOYMENT, field_manager="bke")
        assert same["metadata"]["generation"] == after["metadata"]["generation"] == 3

    async def test_apply_removes_own_labels_and_leaves_others(self, client: ClusterClient, home: str) -> None:
        first = config_map(home, "one", labels={"ours": "1", "old": "1"})
        await client.apply(first, kind=CONFIG_MAP, field_manager="bke")
        await client.patch(ref(CONFIG_MAP, home, "one"), {"metadata": {"labels": {"theirs": "1"}}})
        second = config_map(home, "one", labels={"ours": "2"})
        after = await client.apply(second, kind=CONFIG_MAP, field_manager="bke")
        assert after["metadata"]["labels"] == {"ours": "2", "theirs": "1"}

    async def test_apply_gives_replicas_back_to_the_default(self, client: ClusterClient, home: str) -> None:
        await client.apply(deployment(home, WEB, replicas=3), kind=DEPLOYMENT, field_manager="bke")
        after = await client.apply(deployment(home, WEB), kind=DEPLOYMENT, field_manager="bke")
        assert after["spec"]["replicas"] == 1

    async def test_apply_treats_lists_of_our_kinds_as_one_value(self, client: ClusterClient, home: str) -> None:
        await client.apply(component_version(home, "a", "b"), kind=COMPONENT_VERSION, field_manager="bke")
        with pytest.raises(Conflict) as caught:
            await client.apply(component_version(home, "b"), kind=COMPONENT_VERSION, field_manager="other")
        assert ".spec.dependencies" in str(caught.value)
        after = await client.apply(component_version(home, "c"), kind=COMPONENT_VERSION, field_manager="bke")
        assert after["spec"]["dependencies"] == [{"name": "c"}]

    async def test_apply_with_force_is_remembered(self, client: ClusterClient, home: str) -> None:
        await client.apply(config_map(home, "one", {"a": "1"}), kind=CONFIG_MAP, field_manager="installer")
        document = config_map(home, "one", {"a": "2"})
        taken = await client.apply(document, kind=CONFIG_MAP, field_manager="bke", force=True)
        again = await client.apply(document, kind=CONFIG_MAP, field_manager="bke")
        assert revision(again) == revision(taken)
        gone = await client.apply(config_map(home, "one"), kind=CONFIG_MAP, field_manager="bke")
        assert not gone.get("data")

    async def test_apply_adds_finalizers_and_removes_its_own(self, client: ClusterClient, home: str) -> None:
        for manager in ("one", "two"):
            document = config_map(home, "held")
            document["metadata"]["finalizers"] = [f"example.test/{manager}"]
            held = await client.apply(document, kind=CONFIG_MAP, field_manager=manager)
        assert sorted(held["metadata"]["finalizers"]) == ["example.test/one", "example.test/two"]
        left = await client.apply(config_map(home, "held"), kind=CONFIG_MAP, field_manager="one")
        assert left["metadata"]["finalizers"] == ["example.test/two"]
        await client.apply(config_map(home, "held"), kind=CONFIG_MAP, field_manager="two")

    async def test_apply_dry_run_with_force_changes_nothing(self, client: ClusterClient, home: str) -> None:
        made = await client.apply(config_map(home, "one", {"a": "1"}), kind=CONFIG_MAP, field_manager="installer")
        document = config_map(home, "one", {"a": "2"})
        answer = await client.apply(document, kind=CONFIG_MAP, field_manager="bke", force=True, dry_run=True)
        assert answer["data"] == {"a": "2"}
        assert await client.get(ref(CONFIG_MAP, home, "one")) == made

    async def test_a_patch_takes_fields_without_asking(self, client: ClusterClient, home: str) -> None:
        await client.apply(deployment(home, WEB, replicas=1), kind=DEPLOYMENT, field_manager="bke")
        patched = await client.patch(ref(DEPLOYMENT, home, "web"), {"spec": {"replicas": 4}})
        assert patched["spec"]["replicas"] == 4
        owners = [
            entry["manager"]
            for entry in patched["metadata"]["managedFields"]
            if "f:replicas" in entry.get("fieldsV1", {}).get("f:spec", {})
        ]
        assert len(owners) == 1
