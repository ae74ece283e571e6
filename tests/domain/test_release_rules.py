"""Every way in which a release can be unusable, and the words that a person reads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from builders_domain import MANIFEST, component, release, sample_release
from hopline.domain.errors import InvalidRelease
from hopline.domain.plan import Severity
from hopline.domain.release import ComponentRef, InlineRef, Release
from hopline.domain.release_rules import examine, release_findings, release_graph, require_valid


def refusal(built: Release, asked: str = "v2") -> str:
    """The whole text of the only error."""
    errors = examine(built, asked).errors
    assert len(errors) == 1, [str(error) for error in errors]
    with pytest.raises(InvalidRelease) as raised:
        require_valid(built, asked)
    assert str(raised.value) == str(errors[0])
    return str(raised.value)


@pytest.mark.parametrize("version", ["v26.06-rc.2", "v26.06-rc.3", "v26.06"])
def test_sample_releases_are_clean(version: str) -> None:
    assert release_findings(sample_release(version), version) == ()


def test_version_is_not_the_one_asked_for() -> None:
    assert refusal(release("v2.1", component("a")), "v2") == (
        "the release says that it is v2.1, but v2 was asked for; ReleaseImage release-v2.1 spec.version is 'v2.1'; "
        "remedy: set spec.version to v2, or publish it under its own version; it was read from releases/v2.1"
    )


def test_listed_component_is_missing() -> None:
    lacking = release("v2", component("a"), component("calico", "v3"), upgrade=[("a", "v1"), ("calico", "v4")])
    assert refusal(lacking) == (
        "release v2 names a component that its bundle lacks: looked for components/calico/v4/component.yaml in"
        " releases/v2; it has v3; ReleaseImage release-v2 spec.upgrade.components[1] is 'calico v4'; "
        "remedy: rebuild the release image, or ask its publisher"
    )
    assert "spec.install.components[0] is 'ntp v1'" in refusal(release("v2", component("a"), install=[("ntp", "v1")]))


def test_unlisted_component() -> None:
    text = refusal(release("v2", component("a"), component("b"), upgrade=[("a", "v1")]))
    assert "holds a component that no list names: components/b/v1/component.yaml" in text
    assert "remedy: list b in spec.upgrade.components or spec.install.components, or remove it" in text


def test_install_only_and_parts_of_a_composite_are_listed() -> None:
    composite = component("suite", type="helm", sub_components=(ComponentRef(name="part", version="v1"),))
    built = release(
        "v2", component("a"), composite, component("part"), upgrade=[("a", "v1")], install=[("suite", "v1")]
    )
    assert release_findings(built, "v2") == ()


def test_second_version_of_a_listed_component_is_only_mentioned() -> None:
    built = release("v2", component("a"), component("a", "v0"), upgrade=[("a", "v1")])
    (finding,) = release_findings(built, "v2")
    assert (finding.severity, finding.message) == (
        Severity.INFO,
        "the bundle also holds a v0, which no list names; none of its files is used",
    )


def test_dependency_outside_the_release() -> None:
    assert refusal(release("v2", component("a", needs=["b"]))) == (
        "a depends on b, which spec.upgrade.components of release v2 does not name; "
        "ComponentVersion a@v1 (components/a/v1/component.yaml) spec.dependencies[0].name is 'b'; "
        "remedy: add b to spec.upgrade.components, or remove the dependency"
    )


def test_dependency_cycle() -> None:
    built = release("v2", component("a", needs=["b"]), component("b", needs=["c"]), component("c", needs=["a"]))
    assert "form a cycle: a -> b -> c -> a; ReleaseImage release-v2" in refusal(built)


def test_workers_before_masters() -> None:
    worker = component("kubernetes-worker")
    built = release("v2", component("kubernetes-master", needs=["kubernetes-worker"]), worker)
    assert "no kubelet is newer than an API server" in refusal(built)


def test_duplicate_components() -> None:
    built = release("v2", component("a"), component("a", "v2"), upgrade=[("a", "v1"), ("a", "v2")])
    assert refusal(built) == (
        "component a stands twice in the upgrade list, first as spec.upgrade.components[0] with v1; "
        "ReleaseImage release-v2 spec.upgrade.components[1].name is 'a'; remedy: keep one of v1 and v2"
    )


@pytest.mark.parametrize(("name", "version", "field"), [(" ", "v1", "name"), ("a", "", "version")])
def test_blank_name_or_version(name: str, version: str, field: str) -> None:
    built = release("v2", component("a"), upgrade=[("a", "v1"), (name, version)])
    assert f"a component of release v2 has no {field}; ReleaseImage release-v2" in refusal(built)
    assert f"spec.upgrade.components[1].{field}" in refusal(built)


def test_empty_upgrade_list() -> None:
    text = refusal(release("v2", component("a"), upgrade=[], install=[("a", "v1")]))
    assert "release v2 names no component to upgrade" in text
    assert "remedy: list the components in spec.upgrade.components" in text


def test_unknown_inline_handler_in_component_or_release() -> None:
    text = refusal(release("v2", component("etcd", inline=InlineRef(handler="EnsureEtcd"))))
    assert "etcd names an inline handler that does not exist: EnsureEtcd; ComponentVersion etcd@v1" in text
    assert "remedy: use one of EnsurePreUpgradeResources, EnsureAgentUpgrade" in text
    entry = ComponentRef(name="etcd", version="v1", inline=InlineRef(handler=""))
    text = refusal(release("v2", component("etcd")).model_copy(update={"upgrade": (entry,)}))
    assert "spec.upgrade.components[0].inline.handler" in text


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"type": "helm"}, "type 'helm' of a is not implemented; .*remedy: deliver it as type yaml"),
        ({"type": "binary"}, "type 'binary' of a is not implemented"),
        ({"type": "kustomize"}, "type 'kustomize' of a is unknown"),
        ({"type": "inline"}, "a is of type inline, but names no handler"),
        ({"inline": InlineRef(handler="EnsureEtcdUpgrade")}, "a is of type yaml and has the inline handler"),
        ({"upgrade_strategy": {"timeout": "15"}}, r"a: '15' is not a duration; .*upgradeStrategy.timeout is '15'"),
        ({"upgrade_strategy": {"timeout": "0s"}}, "a gives itself no time"),
        ({"upgrade_strategy": {"failurePolicy": "Ignore"}}, "unknown failure policy.*one of FailFast, Continue"),
        ({"yaml": {"applyStrategy": "Merge"}}, "unknown apply strategy.*one of ServerSideApply, Replace, CreateOnly"),
        ({"yaml": {"prune": True}}, "wants to prune without saying what belongs to it"),
        ({"yaml": {"healthCheck": {"enabled": True, "interval": "2"}}}, "healthCheck.interval is '2'"),
        ({"yaml": {"healthCheck": {"enabled": True, "checks": [{"type": "Ping"}]}}}, r"checks\[0\].type is 'Ping'"),
        (
            {"yaml": {"healthCheck": {"enabled": True, "checks": [{"type": "PodReady"}]}}},
            "a PodReady check of a is incomplete.*podReady with namespace and labelSelector",
        ),
        (
            {"yaml": {"healthCheck": {"enabled": True, "checks": [{"type": "EndpointReady"}]}}},
            "an? EndpointReady check of a is incomplete",
        ),
        (
            {"yaml": {"healthCheck": {"enabled": True, "checks": [{"type": "Custom"}]}}},
            "a Custom check of a is incomplete",
        ),
        ({"sub_components": [{"name": "a", "version": "v1"}]}, "a v1 is a part of itself"),
        ({"sub_components": [{"name": "b", "version": "v1"}]}, "a consists of b v1, which the bundle lacks"),
    ],
)
def test_component_that_cannot_be_carried_out(spec: Mapping[str, Any], words: str) -> None:
    text = refusal(release("v2", component("a", **spec)))
    assert re.search(words, text), text


def test_disabled_health_check_is_not_judged() -> None:
    built = release("v2", component("a", yaml={"healthCheck": {"interval": "2", "checks": [{"type": "Ping"}]}}))
    assert release_findings(built, "v2") == ()


def test_manifest_component_without_manifest() -> None:
    text = refusal(release("v2", component("a"), manifests={"a@v0": MANIFEST}))
    assert "a has no manifest: components/a/v1/ of releases/v2 holds no file to apply" in text


@pytest.mark.parametrize(
    ("resource", "words"),
    [
        ({"kind": "ConfigMap", "apiVersion": "v1"}, r"spec.resources\[0\].name"),
        ({"kind": "ClusterRole", "apiVersion": "v1", "name": "x"}, "resource ClusterRole x of .* has no manifest"),
    ],
)
def test_incomplete_pre_upgrade_resource(resource: Mapping[str, str], words: str) -> None:
    built = release("v2", component("pre-upgrade-resources", resources=[resource]))
    assert re.search(words, refusal(built))


def test_warnings_do_not_stop_a_release() -> None:
    checks = {"enabled": True, "checks": [{"type": "Custom", "custom": {"command": "true"}}]}
    spec = {"prune": True, "pruneLabelSelector": {"app": "a"}, "healthCheck": checks}
    built = release(
        "v2",
        component("a", yaml=spec, upgrade_strategy={"failurePolicy": "Rollback"}),
        component("etcd"),
        component("my-etcd", type="inline", inline=InlineRef(handler="EnsureEtcdUpgrade")),
    )
    warnings = require_valid(built, "v2")
    assert [finding.message for finding in warnings] == [
        "a asks for Rollback, which does not exist yet: a failure holds the hop as FailFast does",
        "the shell command of a Custom check of a is never run",
        "my-etcd uses the handler of etcd; its version is looked for under that name",
        "EnsureEtcdUpgrade runs for more than one component of release v2",
    ]
    assert {finding.severity for finding in warnings} == {Severity.WARNS}


def test_old_agent_name_is_known() -> None:
    agent = component("bkeagent-upgrade", type="inline", inline=InlineRef(handler="EnsureAgentUpgrade"))
    assert release_findings(release("v2", agent), "v2") == ()


def test_all_faults_are_listed_and_the_first_is_raised_with_their_number() -> None:
    built = release("v3", component("a", needs=["b"]), component("c", type="helm"))
    findings = release_findings(built, "v2")
    assert [finding.severity for finding in findings] == [Severity.BLOCKS] * 3
    assert [finding.field for finding in findings] == ["spec.version", "spec.type", "spec.dependencies[0].name"]
    with pytest.raises(InvalidRelease, match=r"v2 was asked for \(and 2 more faults\)"):
        require_valid(built, "v2")


def test_graph_of_a_release_has_gates() -> None:
    graph = release_graph(sample_release("v26.06"))
    assert len(graph.batches()) == 6
    assert graph.waits_for("kubernetes-worker") == ("etcd", "kubernetes-master")
