"""What becomes of each pod of a node, budgets that never allow anything, and answers to evictions told apart."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopline.domain.budgets import budget_of, hindrance
from hopline.domain.drains import (
    PodFate,
    decide_pod,
    devices_missing,
    devices_of,
    devices_offered,
    tolerates_cordon,
)
from hopline.domain.errors import Blocked, Conflict, Forbidden, NotFound, PortError, Rejected, Transient
from hopline.domain.evictions import EvictionAnswer, answer_of, sentence
from hopline.domain.label_selectors import selects
from hopline.domain.node_strategy import DrainPolicy
from hopline.domain.resources import Document

EVICT, GOING, LEAVE, BLOCK = PodFate.EVICT, PodFate.GOING, PodFate.LEAVE, PodFate.BLOCK
WAIT, SKIP, FORCE = DrainPolicy.WAIT, DrainPolicy.SKIP, DrainPolicy.FORCE


def pod(
    owner: str = "ReplicaSet",
    *,
    metadata: dict[str, Any] | None = None,
    spec: dict[str, Any] | None = None,
    phase: str = "Running",
) -> Document:
    owners = [{"kind": owner, "name": "own", "uid": "owner-uid", "controller": True}] if owner else []
    return {
        "kind": "Pod",
        "metadata": {
            "namespace": "shop", "name": "web-1", "uid": "u1", "labels": {"app": "web"}, "ownerReferences": owners,
            **(metadata or {}),
        },
        "spec": spec or {},
        "status": {"phase": phase},
    }  # fmt: skip


CORDON = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}
GPU = {"containers": [{"resources": {"limits": {"example.com/gpu": "2", "cpu": "1", "hugepages-2Mi": "4Mi"}}}]}
TABLE: list[tuple[Document, dict[DrainPolicy, PodFate], str]] = [
    (pod(), {WAIT: EVICT, SKIP: EVICT, FORCE: EVICT}, "makes it again elsewhere"),
    (pod("StatefulSet"), {WAIT: EVICT, SKIP: EVICT, FORCE: EVICT}, "StatefulSet own"),
    (pod("DaemonSet"), {WAIT: LEAVE, SKIP: LEAVE, FORCE: LEAVE}, "would bring it back"),
    (pod("", metadata={"annotations": {"kubernetes.io/config.mirror": "x"}}),
     {WAIT: LEAVE, SKIP: LEAVE, FORCE: LEAVE}, "kubelet"),
    (pod("Job", phase="Succeeded"), {WAIT: LEAVE, SKIP: LEAVE, FORCE: LEAVE}, "ended"),
    (pod("", phase="Failed"), {WAIT: LEAVE, SKIP: LEAVE, FORCE: LEAVE}, "ended"),
    (pod(""), {WAIT: BLOCK, SKIP: LEAVE, FORCE: EVICT}, "no controller"),
    (pod("", metadata={"deletionTimestamp": "now"}), {WAIT: GOING, SKIP: GOING, FORCE: GOING}, "going"),
    (pod(spec={"volumes": [{"emptyDir": {}}]}), {WAIT: EVICT, SKIP: EVICT, FORCE: EVICT}, "emptyDir"),
    (pod(spec={"tolerations": [CORDON]}), {WAIT: LEAVE, SKIP: LEAVE, FORCE: LEAVE}, "tolerates"),
    (pod("", spec={"tolerations": [CORDON]}), {WAIT: LEAVE, SKIP: LEAVE, FORCE: LEAVE}, "tolerates"),
]  # fmt: skip


@pytest.mark.parametrize("row", range(len(TABLE)))
@pytest.mark.parametrize("policy", [WAIT, SKIP, FORCE])
def test_the_fate_of_a_pod(row: int, policy: DrainPolicy) -> None:
    document, fates, words = TABLE[row]
    decision = decide_pod(document, policy, {"owner-uid"})
    assert decision.fate is fates[policy]
    assert words in decision.reason


def test_a_pod_of_a_daemon_set_that_is_gone_is_evicted_unless_nobody_could_look() -> None:
    orphan = pod("DaemonSet", spec={"tolerations": [CORDON]})
    assert decide_pod(orphan, WAIT, set()).fate is EVICT
    assert decide_pod(orphan, WAIT, None).fate is LEAVE


@given(
    st.sampled_from(["", "ReplicaSet", "DaemonSet", "Job", "Widget"]),
    st.sampled_from(["Running", "Pending", "Succeeded", "Unknown"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([WAIT, SKIP, FORCE]),
)
def test_every_pod_has_a_fate_and_a_reason(
    owner: str, phase: str, going: bool, tolerates: bool, policy: DrainPolicy
) -> None:
    metadata = {"deletionTimestamp": "now"} if going else {}
    spec = {"tolerations": [CORDON]} if tolerates else {}
    decision = decide_pod(pod(owner, metadata=metadata, spec=spec, phase=phase), policy, {"owner-uid"})
    assert decision.reason
    assert decision.fate is not BLOCK or (policy is WAIT and not owner)
    assert not (going and decision.fate is EVICT)


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (CORDON, True),
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "node.kubernetes.io/unschedulable"}, True),
        ({"key": "node.kubernetes.io/unschedulable", "value": "x"}, False),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_who_tolerates_a_cordon(toleration: dict[str, str], expected: bool) -> None:
    assert tolerates_cordon(pod(spec={"tolerations": [toleration]})) is expected


def test_devices_are_extended_resources_only() -> None:
    assert devices_of(pod(spec=GPU)) == ("example.com/gpu",)
    node: Document = {"metadata": {"name": "w1"}, "status": {"allocatable": {"cpu": "4", "example.com/gpu": "8"}}}
    assert devices_offered(node) == {"example.com/gpu": "8"}
    assert devices_missing({"example.com/gpu": "8"}, node) == ""
    node["status"]["allocatable"]["example.com/gpu"] = "6"
    assert devices_missing({"example.com/gpu": "8"}, node) == "Node w1 offers 6 of 8 example.com/gpu"
    assert "0 of 1" in devices_missing({"example.com/nic": "1"}, node)


def budget(name: str = "web", *, generation: int = 1, **status: Any) -> Document:
    counted = {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 1,
               "expectedPods": 2}  # fmt: skip
    return {
        "metadata": {"namespace": "shop", "name": name, "generation": generation},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {**counted, **status},
    }


def test_a_budget_without_a_spare_is_hopeless_and_named() -> None:
    found = hindrance(pod(), [budget_of(budget(desiredHealthy=2))])
    assert "PodDisruptionBudget shop/web" in found
    assert "needs 2 healthy pods and there are 2" in found


@pytest.mark.parametrize(
    "document",
    [
        budget(),
        budget(desiredHealthy=2, generation=2),
        budget(desiredHealthy=0, expectedPods=0),
        {**budget(desiredHealthy=2), "spec": {"selector": {"matchLabels": {"app": "other"}}}},
        {**budget(desiredHealthy=2), "spec": {}},
    ],
)
def test_a_budget_that_may_allow_it_later_is_not_hopeless(document: Document) -> None:
    assert hindrance(pod(), [budget_of(document)]) == ""


def test_two_budgets_over_one_pod_and_one_that_cannot_be_counted() -> None:
    assert "shop/web and" in hindrance(pod(), [budget_of(budget()), budget_of(budget("second"))])
    failed = budget(conditions=[{"type": "DisruptionAllowed", "reason": "SyncFailed", "message": "no scale"}])
    assert "no scale" in hindrance(pod(), [budget_of(failed)])


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (NotFound("x"), EvictionAnswer.GONE),
        (Conflict("x"), EvictionAnswer.OTHER_POD),
        (Blocked("x"), EvictionAnswer.BUDGET),
        (Transient("x", value="HTTP 429"), EvictionAnswer.OVERLOADED),
        (Transient("x", value="HTTP 503"), EvictionAnswer.UNREACHABLE),
        (Forbidden("x"), EvictionAnswer.FORBIDDEN),
        (Forbidden("because namespace shop is being terminated"), EvictionAnswer.NAMESPACE_ENDS),
        (Rejected("This pod has more than one PodDisruptionBudget, which …"), EvictionAnswer.TWO_BUDGETS),
        (Rejected('admission webhook "guard" denied the request'), EvictionAnswer.WEBHOOK),
    ],
)
def test_answers_are_told_apart(error: PortError, answer: EvictionAnswer) -> None:
    assert answer_of(error) is answer


def test_no_two_refusals_have_the_same_words() -> None:
    refused = [one for one in EvictionAnswer if one not in (EvictionAnswer.ACCEPTED, EvictionAnswer.UNKNOWN)]
    words = [sentence("pod a/b", one, "") for one in refused]
    assert len(set(words)) >= len(words) - 1
    assert sentence("pod a/b", EvictionAnswer.BUDGET, "no").endswith("(no)")


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "db"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False),
        ({"matchExpressions": [{"key": "x", "operator": "NotIn", "values": ["y"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Near"}]}, False),
    ],
)
def test_selectors(selector: dict[str, Any] | None, expected: bool) -> None:
    assert selects(selector, {"app": "web"}) is expected
