"""When a component may be skipped, and what a person reads."""

from __future__ import annotations

import pytest

from builders_domain import component, release, sample_facts
from hopline.domain.decisions import Wanted, decide, predict
from hopline.domain.observation import ComponentSighting, Presence
from hopline.domain.plan import Action, ComponentType

ETCD = Wanted("etcd", "v3.6.8", ComponentType.NODE)
CALICO = Wanted("calico", "v3.30.2", ComponentType.MANIFEST)


def sighting(presence: Presence, current: str = "", detail: str = "") -> ComponentSighting:
    return ComponentSighting(name="etcd", presence=presence, current=current, detail=detail)


@pytest.mark.parametrize(
    ("seen", "recorded", "action", "reason"),
    [
        (None, "v3.6.8", Action.SKIP, "recorded, not verified"),
        (None, "v3.6.7", Action.RUN, "v3.6.7 -> v3.6.8"),
        (None, "", Action.RUN, "current version unknown"),
        (sighting(Presence.NOT_VERIFIED), "v3.6.8", Action.SKIP, "recorded, not verified"),
        (
            sighting(Presence.PRESENT, "v3.6.8", "seen on 3 of 3 nodes"),
            "v1",
            Action.SKIP,
            "already at v3.6.8: seen on 3 of 3",
        ),
        (sighting(Presence.PRESENT), "", Action.SKIP, "already at v3.6.8: seen in the cluster"),
        (
            sighting(Presence.NOT_INSTALLED, detail="no Deployment"),
            "v3.6.8",
            Action.SKIP,
            "not installed: no Deployment",
        ),
        (sighting(Presence.COULD_NOT_LOOK, detail="timeout"), "v3.6.8", Action.RUN, "could not look: timeout"),
        (sighting(Presence.ABSENT), "v3.6.7", Action.RUN, "v3.6.7 -> v3.6.8"),
        (sighting(Presence.ABSENT, "v3.6.6"), "v3.6.7", Action.RUN, "v3.6.6 -> v3.6.8"),
        (
            sighting(Presence.ABSENT, detail="m2: v3.6.7"),
            "v3.6.8",
            Action.RUN,
            "v3.6.8 is recorded, but not seen everywhere: m2: v3.6.7",
        ),
        (sighting(Presence.ABSENT, detail="m2: v3.6.7"), "", Action.RUN, "current version unknown: m2: v3.6.7"),
    ],
)
def test_decisions(seen: ComponentSighting | None, recorded: str, action: Action, reason: str) -> None:
    decided, said = decide(ETCD, seen, recorded)
    assert decided is action
    assert said.startswith(reason)


@pytest.mark.parametrize("recorded", ["", "v1"])
def test_pre_upgrade_resources_run_in_every_hop(recorded: str) -> None:
    resources = Wanted("pre-upgrade-resources", "v1", ComponentType.RESOURCES)
    assert decide(resources, None, recorded)[0] is Action.RUN
    assert decide(resources, sighting(Presence.ABSENT), recorded)[0] is Action.RUN


def test_prediction_says_since_when() -> None:
    old, new = release("v1", component("etcd", "v3.6.8")), release("v2", component("etcd", "v3.6.8"))
    facts = sample_facts()
    assert predict(ETCD, "v3.6.8", old, new, facts) == (Action.SKIP, "unchanged since v1 (recorded, not verified)")
    assert predict(ETCD, "v3.6.8", None, new, facts) == (Action.SKIP, "recorded, not verified")
    assert predict(ETCD, "v3.6.7", old, new, facts) == (Action.RUN, "v3.6.7 -> v3.6.8")


@pytest.mark.parametrize(
    ("before", "after", "action"),
    [
        ("a: 1\n", "a: 1\n", Action.SKIP),
        ("a: 1\n", "a: 2\n", Action.RUN),
        ("a: {{ .namespace }}\n", "a: east\n", Action.SKIP),
        ("a: {{ .k8sVersion }}\n", "a: {{ .k8sVersion }}\n", Action.RUN),
        ("a: {{ .nowhere }}\n", "a: {{ .nowhere }}\n", Action.RUN),
    ],
)
def test_manifests_of_one_version_are_compared_as_rendered(before: str, after: str, action: Action) -> None:
    releases = [
        release(
            version,
            component("calico", "v3.30.2"),
            component("kubernetes-master", kubernetes),
            manifests={"calico@v3.30.2": text},
        )
        for version, kubernetes, text in (("v1", "v1.34.3", before), ("v2", "v1.34.4", after))
    ]
    decided, reason = predict(CALICO, "v3.30.2", *releases, sample_facts())
    assert decided is action
    if action is Action.RUN:
        assert reason == "same version, but its manifests differ from those of v1"


def test_record_of_a_component_that_the_last_release_lacks_is_only_a_record() -> None:
    old, new = release("v1", component("etcd")), release("v2", component("calico", "v3.30.2"))
    assert predict(CALICO, "v3.30.2", old, new, sample_facts()) == (Action.SKIP, "recorded, not verified")
