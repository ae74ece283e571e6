"""Who is another controller, what it is called in a refusal, and what a manifest would start."""

from __future__ import annotations

from typing import Any

import pytest

from hopline.domain.other_controllers import (
    PLATFORM_CONTROLLER,
    ControllerPolicy,
    configurations_of,
    foreign_deployments,
    foreign_image,
    is_own_image,
    own_webhooks,
    refusal_of,
    running_controller,
    without_pods,
)
from hopline.domain.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS

POLICY = ControllerPolicy(own_images=("registry.test/hopline",))
LABELS = {"app": "bke", "tier": "controller"}


def deployment(
    image: str = "registry.test/bke:v1", *, replicas: Any = 2, name: str = "bke-controller-manager", **status: int
) -> dict[str, Any]:
    containers = [{"name": "proxy", "image": "registry.test/proxy"}, {"name": "manager", "image": image}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "cluster-system"},
        "spec": {
            **({} if replicas is None else {"replicas": replicas}),
            "template": {"metadata": {"labels": LABELS}, "spec": {"containers": containers}},
        },
        "status": status,
    }


def service(name: str, selector: dict[str, str], kube_namespace: str = "cluster-system") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": kube_namespace}, "spec": {"selector": selector}}


def configuration(
    name: str, service_name: str, kind: str = VALIDATING_WEBHOOKS.kind, hook: str = "v.kb.io"
) -> dict[str, Any]:
    client = {"service": {"namespace": "cluster-system", "name": service_name, "path": "/validate"}}
    return {"kind": kind, "metadata": {"name": name}, "webhooks": [{"name": hook, "clientConfig": client}]}


@pytest.mark.parametrize(
    ("image", "own"),
    [
        ("registry.test/hopline", True),
        ("registry.test/hopline:v1", True),
        ("registry.test/hopline@sha256:00", True),
        ("registry.test/hopline/worker:v1", True),
        ("registry.test/hopline-other:v1", False),
        ("other.test/registry.test/hopline:v1", False),
        ("", False),
    ],
)
def test_a_prefix_ends_where_a_part_of_the_name_ends(image: str, own: bool) -> None:
    assert is_own_image(image, ["registry.test/hopline"]) is own


def test_a_prefix_that_ends_with_a_separator_is_taken_as_it_stands_and_an_empty_one_is_nothing() -> None:
    assert is_own_image("registry.test/a-worker:v1", ["registry.test/a-"])
    assert not is_own_image("registry.test/a", [""])


def test_the_container_manager_decides_and_without_one_every_container_does() -> None:
    found = deployment("registry.test/hopline:v1")
    assert foreign_image(found, POLICY.own_images) == ""
    containers = found["spec"]["template"]["spec"]["containers"]
    containers[1]["name"] = "main"
    assert foreign_image(found, POLICY.own_images) == "registry.test/proxy"
    containers.clear()
    assert foreign_image(found, POLICY.own_images) == ""
    containers.append({"name": "manager"})
    assert foreign_image(found, POLICY.own_images) == "no image"


def test_replicas_above_0_or_pods_that_are_left_are_another_controller() -> None:
    def seen(**changes: Any) -> tuple[int, int] | None:
        found = running_controller(PLATFORM_CONTROLLER, deployment(**changes), POLICY)
        return (found.replicas, found.pods) if found else None

    assert seen() == (2, 0)
    assert seen(replicas=None) == (1, 0)
    assert seen(replicas=0) is None
    assert seen(replicas=0, terminatingReplicas=1) == (0, 1)
    assert seen(image="registry.test/hopline:v2") is None


def test_its_webhooks_are_those_whose_service_selects_its_pods() -> None:
    services = [
        service("bke-webhook", {"app": "bke"}),
        service("nothing", {}),
        service("other", {"app": "other"}),
        service("elsewhere", LABELS, "default"),
    ]
    configurations = [
        configuration("b", "bke-webhook"),
        configuration("a", "bke-webhook", MUTATING_WEBHOOKS.kind),
        *(configuration(name, name) for name in ("nothing", "other", "elsewhere", "absent")),
        {
            "kind": VALIDATING_WEBHOOKS.kind,
            "metadata": {"name": "by-url"},
            "webhooks": [{"clientConfig": {"url": "x"}}],
        },
        {"kind": VALIDATING_WEBHOOKS.kind, "metadata": {"name": "empty"}},
    ]
    found = own_webhooks(deployment(), services, configurations)
    assert [str(one) for one in found] == ["MutatingWebhookConfiguration a", "ValidatingWebhookConfiguration b"]


def test_a_webhook_is_found_by_its_name() -> None:
    configurations = [configuration("a", "x", hook="one"), configuration("b", "x", hook="two")]
    assert [one.name for one in configurations_of("two", configurations)] == ["b"]


def test_the_refusal_names_deployment_webhooks_and_the_commands() -> None:
    found = running_controller(PLATFORM_CONTROLLER, deployment(), POLICY)
    assert found is not None
    hooks = own_webhooks(
        deployment(),
        [service("s", LABELS)],
        [configuration("v", "s"), configuration("m", "s", MUTATING_WEBHOOKS.kind)],
    )
    error = refusal_of(found.model_copy(update={"webhooks": hooks}))
    assert str(error) == (
        "another controller works on the objects of this upgrade: Deployment cluster-system/bke-controller-manager runs"
        " 2 replicas of registry.test/bke:v1; once it is stopped, nobody answers for its webhooks:"
        " MutatingWebhookConfiguration m, ValidatingWebhookConfiguration v;"
        " Deployment cluster-system/bke-controller-manager spec.replicas is '2';"
        " remedy: kubectl scale deployment bke-controller-manager --replicas=0 -n cluster-system"
        " && kubectl delete mutatingwebhookconfiguration/m validatingwebhookconfiguration/v"
    )


def test_one_that_was_stopped_is_waited_for() -> None:
    found = running_controller(PLATFORM_CONTROLLER, deployment(replicas=0), POLICY)
    assert found is None
    found = running_controller(PLATFORM_CONTROLLER, {**deployment(replicas=0), "status": {"replicas": 1}}, POLICY)
    assert found is not None
    error = refusal_of(found.model_copy(update={"unread": "not allowed"}))
    assert "was stopped, but still has 1 pod" in error.message
    assert "could not be read: not allowed" in error.message
    assert (error.field, error.value) == ("status.replicas", "1")
    assert "kubectl get deployment bke-controller-manager -n cluster-system" in error.remedy


def test_a_manifest_starts_another_controller_when_it_has_its_name_a_foreign_image_and_pods() -> None:
    others = [
        deployment("registry.test/hopline:v1"),
        deployment(replicas=0),
        deployment(name="other"),
        {**deployment(), "kind": "StatefulSet"},
        {"apiVersion": "v1", "kind": "List"},
    ]
    assert foreign_deployments(others, POLICY) == {}
    assert foreign_deployments([*others, deployment()], POLICY) == {
        "cluster-system/bke-controller-manager": "registry.test/bke:v1"
    }
    assert foreign_deployments([deployment()], ControllerPolicy(deployments=())) == {}


def test_without_pods_keeps_everything_else() -> None:
    before = deployment()
    after = without_pods(before)
    assert after["spec"] == {**before["spec"], "replicas": 0}
    assert before["spec"]["replicas"] == 2
    assert foreign_deployments([after], POLICY) == {}
