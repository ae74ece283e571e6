"""What a pod shows, the documented health checks on it, and whether a component is installed."""

from __future__ import annotations

from typing import Any

import pytest

from hopline.domain.health import endpoint_missing, pods_missing
from hopline.domain.installation import anchors
from hopline.domain.pods import creation_trouble, first_trouble, is_ready
from hopline.domain.release import EndpointReadyCheck, PodReadyCheck
from hopline.domain.resources import Document

CHECK = PodReadyCheck(kube_namespace="kube-system", label_selector="k8s-app=kube-dns")


def pod(name: str = "p", *, ready: bool = True, created: str = "2026-08-01T00:00:00Z", **fields: Any) -> Document:
    status = {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}], **fields}
    return {"kind": "Pod", "metadata": {"name": name, "creationTimestamp": created}, "status": status}


def waiting(reason: str, message: str = "", **container: Any) -> list[dict[str, Any]]:
    state = {"waiting": {"reason": reason, "message": message}}
    return [{"name": "web", "image": "registry/web:2", "state": state, **container}]


def leaving(document: Document) -> Document:
    return {**document, "metadata": {**document["metadata"], "deletionTimestamp": "2026-08-01T00:00:00Z"}}


def test_a_pod_on_its_way_out_is_not_ready() -> None:
    assert is_ready(pod())
    assert not is_ready(pod(ready=False))
    assert not is_ready(leaving(pod()))


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"containerStatuses": waiting("ImagePullBackOff")}, "ImagePullBackOff: container web, image registry/web:2"),
        ({"containerStatuses": waiting("ErrImagePull", "long text")}, "ImagePullBackOff: container web"),
        ({"containerStatuses": waiting("CreateContainerConfigError", 'secret "x" not found')}, 'secret "x" not found'),
        (
            {"containerStatuses": waiting("CrashLoopBackOff", lastState={"terminated": {"exitCode": 3}})},
            "CrashLoopBackOff: container web, exit code 3",
        ),
        ({"initContainerStatuses": waiting("CrashLoopBackOff")}, "CrashLoopBackOff: container web"),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "full"}]},
            "Unschedulable: full",
        ),
    ],
)
def test_why_a_pod_cannot_start(fields: dict[str, Any], told: str) -> None:
    assert told in first_trouble([pod(ready=False, **fields)])


def test_a_pod_that_is_still_starting_is_no_trouble() -> None:
    assert first_trouble([pod(ready=False, containerStatuses=waiting("ContainerCreating"))]) == ""


def test_the_newest_pod_in_trouble_is_told_and_leaving_ones_are_not() -> None:
    old = pod("old", ready=False, created="2026-08-01T00:00:00Z", containerStatuses=waiting("CrashLoopBackOff"))
    new = pod("new", ready=False, created="2026-08-02T00:00:00Z", containerStatuses=waiting("ImagePullBackOff"))
    assert "pod new" in first_trouble([old, new])
    assert first_trouble([leaving(old)]) == ""


@pytest.mark.parametrize(
    ("minimum", "pods", "missing"),
    [
        (0, [], "no pod"),
        (0, [pod("a"), pod("b", ready=False)], "1 of 2"),
        (0, [pod("a"), pod("b")], ""),
        (1, [pod("a"), pod("b", ready=False)], ""),
        (2, [pod("a")], "1 of 2"),
        (-1, [pod("a")], ""),
    ],
)
def test_pod_ready(minimum: int, pods: list[Document], missing: str) -> None:
    found = pods_missing(CHECK.model_copy(update={"min_ready": minimum}), pods)
    assert missing in found
    assert bool(missing) == bool(found)


@pytest.mark.parametrize(
    ("port", "subsets", "missing"),
    [
        (0, [{"addresses": [{"ip": "192.0.2.1"}]}], ""),
        (53, [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 53}]}], ""),
        (53, [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}], "no ready address with port 53"),
        (53, [{"addresses": [{"ip": "192.0.2.1"}]}, {"ports": [{"port": 53}]}], "no ready address with port 53"),
        (0, [{"notReadyAddresses": [{"ip": "192.0.2.1"}]}], "no ready address"),
        (0, [], "no ready address"),
    ],
)
def test_endpoint_ready(port: int, subsets: list[dict[str, Any]], missing: str) -> None:
    check = EndpointReadyCheck(kube_namespace="kube-system", service_name="kube-dns", port=port)
    found = endpoint_missing(check, {"subsets": subsets})
    assert missing in found
    assert bool(missing) == bool(found)
    assert endpoint_missing(check, None) == "Endpoints kube-system/kube-dns does not exist"


def test_three_components_have_fixed_anchors_and_others_their_own_workloads() -> None:
    workload: Document = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w", "namespace": "n"}}
    unplaced: Document = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s"}}
    job: Document = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}}
    assert [str(ref) for ref in anchors("coredns", [workload])] == ["Deployment kube-system/coredns"]
    assert [str(ref) for ref in anchors("other", [workload, unplaced, job])] == [
        "Deployment n/w",
        "StatefulSet default/s",
    ]
    assert anchors("other", [job]) == ()


def refused(message: str, at: str = "2026-08-01T00:00:05Z") -> Document:
    return {"kind": "Event", "metadata": {"name": at}, "message": message, "lastTimestamp": at}


def test_pods_that_cannot_even_be_made_are_told_by_the_newest_event() -> None:
    events = [refused("old", "2026-08-01T00:00:01Z"), refused('Error creating: pods "web-x7k2p" is forbidden: quota')]
    assert creation_trouble(events, []) == 'pods cannot be made: Error creating: pods "web-…" is forbidden: quota'
    assert creation_trouble([], []) == ""


def test_a_pod_that_was_made_since_ends_that_trouble() -> None:
    assert creation_trouble([refused("quota")], [pod(created="2026-08-01T00:00:06Z")]) == ""
    assert creation_trouble([refused("quota")], [pod(created="2026-08-01T00:00:04Z")]) != ""
