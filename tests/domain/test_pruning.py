"""What a new version no longer has, and what of it may be deleted."""

from __future__ import annotations

from typing import Any

import pytest

from hopline.domain.plan import Severity
from hopline.domain.pruning import (
    PRUNABLE,
    PruneRule,
    dropped,
    dropped_complaint,
    prune_rule,
    reason_to_keep,
    reason_to_keep_live,
)
from hopline.domain.release import YamlSpec
from hopline.domain.resources import Document

RULE = PruneRule(True, (("app", "web"),), "web")


def made(kind: str = "ConfigMap", api: str = "v1", name: str = "x", place: str = "web", **more: Any) -> Document:
    metadata: dict[str, Any] = {"name": name, "namespace": place, "labels": {"app": "web", "tier": "a"}}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **more}


def live(*appliers: str, **metadata: Any) -> Document:
    document = made()
    managed = [{"manager": manager, "operation": "Apply", "fieldsV1": {}} for manager in appliers]
    managed.append({"manager": "kubectl-edit", "operation": "Update", "fieldsV1": {}})
    managed.append({"manager": "status-writer", "operation": "Apply", "subresource": "status", "fieldsV1": {}})
    document["metadata"] |= {"managedFields": managed, **metadata}
    return document


def test_dropped_is_what_the_new_version_lacks_in_the_order_of_a_removal() -> None:
    workload = made("Deployment", "apps/v1")
    role = made("ClusterRole", "rbac.authorization.k8s.io/v1")
    before = [made(), made(name="stays"), role, workload]
    assert dropped(before, [made(name="stays")]) == [workload, role, made()]


def test_another_version_of_the_api_or_a_useless_namespace_is_the_same_object() -> None:
    before = [made("Ingress", "networking.k8s.io/v1beta1"), made("ClusterRole", "rbac.authorization.k8s.io/v1")]
    after = [
        made("Ingress", "networking.k8s.io/v1"),
        made("ClusterRole", "rbac.authorization.k8s.io/v1", place="other"),
    ]
    assert dropped(before, after) == []
    assert dropped([made()], [made(place="other"), made("Secret")]) == [made()]


@pytest.mark.parametrize(
    ("document", "rule", "reason"),
    [
        (made(), RULE, ""),
        (made("ClusterRole", "rbac.authorization.k8s.io/v1", place=""), RULE, ""),
        (made(place="other"), PruneRule(True, (("app", "web"),)), ""),
        (made(), PruneRule(False, RULE.labels), "does not ask for pruning"),
        (made(), PruneRule(True), "names no labels"),
        (made(place="other"), RULE, "only namespace web is pruned"),
        (made(), PruneRule(True, (("app", "api"),)), "lacks the label app=api"),
        (made(), PruneRule(True, (("app", "web"), ("tier", "b"))), "lacks the label tier=b"),
        (made("Namespace", place=""), RULE, "a Namespace is never pruned"),
        (made("PersistentVolumeClaim"), RULE, "a PersistentVolumeClaim is never pruned"),
        (made("CustomResourceDefinition", "apiextensions.k8s.io/v1", place=""), RULE, "is never pruned"),
        (made("Service", "serving.knative.dev/v1"), RULE, "a Service is never pruned"),
        (
            made("StatefulSet", "apps/v1", spec={"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}),
            RULE,
            "its volume claims would go with it",
        ),
    ],
)
def test_what_a_manifest_tells(document: Document, rule: PruneRule, reason: str) -> None:
    found = reason_to_keep(document, rule)
    assert (reason in found) if reason else not found


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (live("bke"), ""),
        (live(), "bke has not applied it"),
        (live("bke", "argocd"), "argocd applies it too"),
        (live("bke", deletionTimestamp="2026-11-30T12:00:00Z"), "it is being deleted"),
        (live("bke", ownerReferences=[{"kind": "Widget", "name": "one"}]), "it belongs to Widget one"),
        (live("bke", labels={}), "it lacks the label app=web"),
    ],
)
def test_what_a_live_object_tells(found: Document, reason: str) -> None:
    assert reason_to_keep_live(found, RULE, "bke") == reason


def test_the_rule_is_that_of_the_component() -> None:
    spec = YamlSpec.model_validate({"namespace": "web", "prune": True, "pruneLabelSelector": {"app": "web"}})
    assert prune_rule(spec) == RULE


def test_nothing_that_holds_data_can_ever_be_pruned() -> None:
    kinds = {kind for _, kind in PRUNABLE}
    assert not kinds & {"Namespace", "CustomResourceDefinition", "PersistentVolumeClaim", "PersistentVolume"}


def test_a_plan_tells_what_goes_and_what_stays() -> None:
    goes, stays = dropped_complaint(made(), RULE), dropped_complaint(made(), PruneRule())
    assert (goes.severity, stays.severity) == (Severity.INFO, Severity.WARNS)
    assert "is deleted after" in goes.message
    assert stays.message.endswith("and stays: the component does not ask for pruning")
