"""Looking for another controller, proving that a hop can be written, and a worker without effects; simulated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hopline.domain.cluster import ClusterFacts
from hopline.domain.errors import (
    AlreadyExists,
    ClusterNotReady,
    HoplineError,
    OtherController,
    Rejected,
    Transient,
)
from hopline.domain.other_controllers import PLATFORM_CONTROLLER, ControllerPolicy
from hopline.domain.plan import Severity
from hopline.domain.resources import BKE_CLUSTER, CLUSTER_VERSION, CONFIG_MAP, DEPLOYMENT, ObjectRef
from hopline.operations import one_controller as module
from hopline.operations.checks import ClusterChecks
from hopline.operations.observing import ObservedClusters
from hopline.operations.one_controller import OBSERVING, HopWrites, OneController
from hopline.sim.journal import EffectType
from hopline.sim.script import ALWAYS, Failure, Verb

IMAGE = "registry.test/bke:v1"
OWN = ControllerPolicy(own_images=("registry.test/bke",))
OTHERS = ControllerPolicy()
WRITES = HopWrites("v26.06-rc.3", {"openFuyaoVersion": "v26.06-rc.3", "kubernetesVersion": "v1.34.4-of.1"})
RUN = "cluster-upgrade/east/east"


def deployment(replicas: int = 1, image: str = IMAGE) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": PLATFORM_CONTROLLER.name, "namespace": PLATFORM_CONTROLLER.kube_namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "bke"}},
            "template": {
                "metadata": {"labels": {"app": "bke"}},
                "spec": {"containers": [{"name": "manager", "image": image}]},
            },
        },
    }


def webhooks(kind: str, name: str, hook: str = "vbkecluster.kb.io") -> dict[str, Any]:
    client = {"service": {"namespace": "cluster-system", "name": "bke-webhook-service"}}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": [{"name": hook, "clientConfig": client}],
    }


SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "bke-webhook-service", "namespace": "cluster-system"},
    "spec": {"selector": {"app": "bke"}},
}


@pytest.fixture
def appears(east: Any) -> Callable[..., None]:
    """Puts the existing controller, with its webhooks, into the management cluster."""

    def put(**changes: Any) -> None:
        east.clusters.put(deployment(**changes))
        east.clusters.put(SERVICE)
        east.clusters.put(webhooks("ValidatingWebhookConfiguration", "bke-validating"))
        east.clusters.put(webhooks("MutatingWebhookConfiguration", "bke-mutating"))

    return put


def controller(east: Any, policy: ControllerPolicy = OTHERS, **more: Any) -> OneController:
    return OneController(east.management, policy, **more)


async def test_nobody_is_there(east: Any) -> None:
    assert await controller(east).find() is None
    await controller(east).require_alone()
    assert await controller(east).findings() == ()


async def test_it_is_named_with_its_webhooks_and_the_commands(east: Any, appears: Callable[..., None]) -> None:
    appears()
    with pytest.raises(OtherController) as caught:
        await controller(east).require_alone()
    told = str(caught.value)
    for text in (
        "Deployment cluster-system/bke-controller-manager runs 1 replica of registry.test/bke:v1",
        "MutatingWebhookConfiguration bke-mutating, ValidatingWebhookConfiguration bke-validating",
        "kubectl scale deployment bke-controller-manager --replicas=0 -n cluster-system",
        "kubectl delete mutatingwebhookconfiguration/bke-mutating validatingwebhookconfiguration/bke-validating",
    ):
        assert text in told
    (finding,) = await controller(east).findings()
    assert (finding.severity, finding.object) == (Severity.BLOCKS, "Deployment cluster-system/bke-controller-manager")
    assert finding.remedy == caught.value.remedy


async def test_our_own_image_no_replicas_or_nobody_to_look_for_pass(east: Any, appears: Callable[..., None]) -> None:
    appears()
    assert await controller(east, OWN).find() is None
    assert await controller(east, ControllerPolicy(deployments=())).find() is None
    appears(replicas=0)
    assert await controller(east).find() is None


async def test_alone_holds_for_a_moment_and_beside_never(east: Any, appears: Callable[..., None]) -> None:
    clock = [100.0]
    one = controller(east, clock=lambda: clock[0])
    await one.require_alone()
    appears()
    await one.require_alone()
    assert await one.refusal() is None
    clock[0] += module.FRESH_SECONDS
    assert await one.refusal() is not None
    with pytest.raises(OtherController):
        await one.require_alone()
    appears(replicas=0)
    await one.require_alone()


async def test_what_cannot_be_seen_refuses_a_start_and_delays_an_effect(east: Any) -> None:
    script = east.clusters.script
    script.fail_request(Failure.FORBIDDEN, verb=Verb.GET, kind="Deployment", times=ALWAYS, text="no such right")
    refused = await controller(east).refusal()
    assert refused is not None
    assert "whether another controller is there cannot be seen: no such right" in refused.message
    assert "deploy/rbac.yaml" in refused.remedy
    with pytest.raises(Transient, match="no such right"):
        await controller(east).require_alone()
    script.clear_all()
    script.fail_request(Failure.TRANSIENT, verb=Verb.GET, kind="Deployment")
    with pytest.raises(Transient):
        await controller(east).refusal()


async def test_webhooks_that_cannot_be_read_do_not_hide_it(east: Any, appears: Callable[..., None]) -> None:
    appears()
    east.clusters.script.fail_request(
        Failure.FORBIDDEN, verb=Verb.LIST, kind="MutatingWebhookConfiguration", text="no such right"
    )
    refused = await controller(east).refusal()
    assert refused is not None
    assert "could not be read: no such right" in refused.message
    assert refused.remedy == "kubectl scale deployment bke-controller-manager --replicas=0 -n cluster-system"


# Can the objects be written?


async def unwritable(east: Any) -> HoplineError | None:
    return await controller(east).unwritable(await east.facts(), WRITES)


async def test_dry_runs_prove_it_and_change_nothing(east: Any) -> None:
    before = [await east.management.get(east.ref(kind, "east")) for kind in (BKE_CLUSTER, CLUSTER_VERSION)]
    assert await unwritable(east) is None
    after = [await east.management.get(east.ref(kind, "east")) for kind in (BKE_CLUSTER, CLUSTER_VERSION)]
    assert before == after
    assert east.clusters.journal(EffectType.WRITE) == []


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("BKECluster", {"metadata.annotations[cvo.openfuyao.cn/upgrade-ready]"}),
        ("ClusterVersion", {"spec.desiredVersion", "status.phase"}),
    ],
)
async def test_a_refused_dry_run_names_object_field_and_reason(east: Any, kind: str, fields: set[str]) -> None:
    denial = 'admission webhook "vbkecluster.kb.io" denied the request: spec.customExtra.containerd is required'
    east.clusters.script.fail_request(Failure.REJECTED, verb=Verb.DRY_RUN, kind=kind, times=ALWAYS, text=denial)
    error = await unwritable(east)
    assert isinstance(error, ClusterNotReady)
    assert error.subject == f"{kind} east/east"
    assert error.field in fields
    assert denial in error.message
    assert error.remedy


async def test_the_part_of_a_write_that_is_refused_is_named(east: Any) -> None:
    class RefusesVersions:
        """As the existing webhook of a cluster that is not healthy."""

        async def patch(self, ref: ObjectRef, body: dict[str, Any], **more: Any) -> Any:
            assert more["dry_run"]
            if ref.kind == BKE_CLUSTER and "spec" in body:
                raise Rejected("no newer version while unhealthy", subject=str(ref), remedy="heal it")
            return await east.management.patch(ref, body, **more)

    one = OneController(RefusesVersions(), OTHERS)  # type: ignore[arg-type]
    error = await one.unwritable(await east.facts(), WRITES)
    assert error is not None
    assert (error.subject, error.field, error.remedy) == (
        "BKECluster east/east",
        "spec.clusterConfig.cluster",
        "heal it",
    )


async def test_a_webhook_that_nobody_answers_is_named_with_its_configuration(east: Any) -> None:
    east.clusters.put(webhooks("ValidatingWebhookConfiguration", "bke-validating"))
    silent = 'Internal error occurred: failed calling webhook "vbkecluster.kb.io": no endpoints available for service'
    east.clusters.script.fail_request(
        Failure.TRANSIENT, verb=Verb.DRY_RUN, kind="BKECluster", times=ALWAYS, text=silent
    )
    error = await unwritable(east)
    assert error is not None
    assert "ValidatingWebhookConfiguration bke-validating asks a webhook that does not answer" in error.message
    assert "kubectl delete validatingwebhookconfiguration/bke-validating" in error.remedy


async def test_a_webhook_that_cannot_dry_run_is_not_checked(east: Any) -> None:
    text = 'admission webhook "v.kb.io" does not support dry run'
    east.clusters.script.fail_request(Failure.REJECTED, verb=Verb.DRY_RUN, times=ALWAYS, text=text)
    assert await unwritable(east) is None


async def test_another_fault_is_tried_again(east: Any) -> None:
    east.clusters.script.fail_request(Failure.TRANSIENT, verb=Verb.DRY_RUN)
    with pytest.raises(Transient):
        await unwritable(east)


async def test_newer_versions_are_not_tried_on_a_leftover_health_state(east: Any) -> None:
    """The existing webhook refuses them until the hop has cleared it."""
    await east.patch_cluster({"status": {"clusterHealthState": "UpgradeFailed"}}, subresource="status")
    facts: ClusterFacts = await east.facts()
    written = module._probes(facts, WRITES)[0].body["spec"]
    assert written == {"clusterConfig": {"cluster": {"openFuyaoVersion": "v26.06-rc.3"}}}


async def test_the_checks_around_a_hop_ask_for_both(
    east: Any, appears: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FRESH_SECONDS", 0.0)
    checks = ClusterChecks(east.clusters)
    east.clusters.script.fail_request(Failure.REJECTED, verb=Verb.DRY_RUN, kind="ClusterVersion", text="no")
    _, found = await checks.before(east.key, (), RUN, writes=WRITES)
    assert isinstance(found, ClusterNotReady)
    assert (await checks.before(east.key, (), RUN, writes=WRITES))[1] is None
    appears()
    for _, other in (await checks.before(east.key, (), RUN), await checks.after(east.key, ())):
        assert isinstance(other, OtherController)


# A worker that only observes.


async def test_an_observing_worker_refuses_beside_nobody_and_beside_somebody(
    east: Any, appears: Callable[..., None]
) -> None:
    observing = controller(east, observing=True)
    with pytest.raises(OtherController) as caught:
        await observing.require_alone()
    assert (caught.value.message, caught.value.field) == (OBSERVING, "HOPLINE_OBSERVE")
    appears()
    refused = await observing.refusal()
    assert refused is not None
    assert refused.message.startswith(f"{OBSERVING}; another controller works on")
    assert "--replicas=0" in refused.remedy and "--observe" in refused.remedy


async def test_its_clusters_can_be_read_and_dry_run_and_not_written(east: Any) -> None:
    clusters = ObservedClusters(east.clusters)
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "east"}}
    ref = ObjectRef(kind=CONFIG_MAP, name="x", kube_namespace="east")
    for client in (clusters.management, await clusters.target(east.key)):
        assert await client.identity()
        assert (await client.resolve("apps/v1", "Deployment")) == DEPLOYMENT
        assert (await client.list(CONFIG_MAP)).items is not None
        place = "default" if client is not clusters.management else "east"
        document = {**made, "metadata": {"name": "x", "namespace": place}}
        await client.create(document, kind=CONFIG_MAP, dry_run=True)
        await client.apply(document, kind=CONFIG_MAP, field_manager="bke", dry_run=True)
        for write in (
            client.create(document, kind=CONFIG_MAP),
            client.apply(document, kind=CONFIG_MAP, field_manager="bke"),
            client.patch(ref, {"data": {}}),
            client.delete(ref),
        ):
            with pytest.raises(OtherController) as caught:
                await write
            assert caught.value.field == "HOPLINE_OBSERVE"
            assert "ConfigMap" in caught.value.subject
    await clusters.management.patch(east.ref(BKE_CLUSTER, "east"), {"spec": {"pause": True}}, dry_run=True)
    assert clusters.agents is east.clusters.agents
    assert east.clusters.journal(EffectType.WRITE) == []
    with pytest.raises(AlreadyExists):
        kind = BKE_CLUSTER
        await clusters.management.create(await east.management.get(east.ref(kind, "east")), kind=kind, dry_run=True)
