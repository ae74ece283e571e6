"""Which API versions are gone in which Kubernetes."""

from __future__ import annotations

import pytest

from hopline.domain.builtin_kinds import BUILTIN_SCOPES, group_of
from hopline.domain.removed_apis import NEWEST_RELEASED, REMOVALS, removal_of


@pytest.mark.parametrize(
    ("api_version", "kind", "kubernetes", "gone"),
    [
        ("extensions/v1beta1", "Ingress", "v1.21.14", False),
        ("extensions/v1beta1", "Ingress", "v1.22.0", True),
        ("policy/v1beta1", "PodSecurityPolicy", "v1.25.0-of.1", True),
        ("policy/v1", "PodDisruptionBudget", "v1.36.0", False),
        ("autoscaling/v2beta2", "HorizontalPodAutoscaler", "v1.25.9", False),
        ("autoscaling/v2beta2", "HorizontalPodAutoscaler", "v1.26.0", True),
        ("flowcontrol.apiserver.k8s.io/v1beta3", "FlowSchema", "v1.32.0", True),
        ("resource.k8s.io/v1beta1", "ResourceClaim", "v1.36.1", False),
        ("resource.k8s.io/v1beta1", "ResourceClaim", "v1.38.0", True),
        ("example.org/v1beta1", "Ingress", "v1.36.0", False),
        ("batch/v1beta1", "CronJob", "", True),
        ("resource.k8s.io/v1beta1", "ResourceClaim", "", False),
        ("batch/v1beta1", "CronJob", "nonsense", True),
    ],
)
def test_a_removal_counts_from_its_version_on(api_version: str, kind: str, kubernetes: str, gone: bool) -> None:
    assert (removal_of(api_version, kind, kubernetes) is not None) == gone


def test_the_table_is_read_whole() -> None:
    assert len(REMOVALS) == 79
    removal = REMOVALS["apps/v1beta2", "ReplicaSet"]
    assert (removal.since, removal.since_text, removal.instead) == ((1, 16), "1.16", "apps/v1")
    assert REMOVALS["policy/v1beta1", "PodSecurityPolicy"].instead == ""


def test_what_takes_a_place_is_not_gone_itself() -> None:
    for (_, kind), removal in REMOVALS.items():
        following = REMOVALS.get((removal.instead, kind))
        assert following is None or following.since > max(removal.since, NEWEST_RELEASED)


def test_every_removed_kind_has_a_known_scope() -> None:
    kinds = {(group_of(api_version), kind) for api_version, kind in REMOVALS}
    without = kinds - set(BUILTIN_SCOPES)
    assert without == {("extensions", "PodSecurityPolicy"), ("policy", "Eviction")}
