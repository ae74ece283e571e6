"""What Kubernetes and etcd allow between versions."""

from __future__ import annotations

import pytest

from hopline.domain.plan import Severity
from hopline.domain.version_skew import HopVersions, skew_findings

BASE = {
    "kubernetes-master": "v1.34.3-of.1",
    "kubernetes-worker": "v1.34.3-of.1",
    "etcd": "v3.6.7-of.1",
    "containerd": "v2.1.1",
    "kube-proxy": "v1.34.3-of.1",
}


def hop(before: dict[str, str] | None = None, proxy_waits: bool = True, **after: str) -> HopVersions:
    start = BASE | (before or {})
    changed = {name.replace("_", "-"): version for name, version in after.items()}
    return HopVersions(subject="ReleaseImage r", before=start, after=start | changed, proxy_waits=proxy_waits)


def kubernetes(version: str) -> dict[str, str]:
    return {"kubernetes_master": version, "kubernetes_worker": version, "kube_proxy": version}


@pytest.mark.parametrize("version", ["v1.34.3-of.1", "v1.34.3-of.2", "v1.34.9", "v1.35.0-of.1"])
def test_allowed_steps(version: str) -> None:
    assert skew_findings([hop(**kubernetes(version), etcd="v3.6.8", containerd="v3.0.0")]) == ()


@pytest.mark.parametrize(
    ("name", "version", "words"),
    [
        ("kubernetes_master", "v1.36.0", "kubernetes-master v1.34.3-of.1 -> v1.36.0 leaves out a minor version"),
        ("etcd", "v4.0.0", "etcd v3.6.7-of.1 -> v4.0.0 changes the major version: no hop does that"),
        ("etcd", "v3.8.0", "etcd v3.6.7-of.1 -> v3.8.0 leaves out a minor version: etcd goes one at a time"),
        ("etcd", "v3.6.6", "etcd v3.6.7-of.1 -> v3.6.6 goes back: etcd is never downgraded"),
        ("containerd", "v2.1.0", "containerd v2.1.1 -> v2.1.0 goes back"),
        ("kubernetes_worker", "v1.34.3", "kubernetes-worker v1.34.3-of.1 -> v1.34.3 goes back"),
        ("kubernetes_worker", "v1.34.4", "kubernetes-worker v1.34.4 would be newer than the API servers"),
        ("kube_proxy", "v1.35.0", "kube-proxy v1.35.0 would be newer than the API servers"),
        ("containerd", "latest", "version latest of containerd cannot be ordered"),
    ],
)
def test_forbidden_steps(name: str, version: str, words: str) -> None:
    findings = skew_findings([hop(**{name: version})])
    assert [finding.severity for finding in findings] == [Severity.BLOCKS]
    assert words in findings[0].message
    assert findings[0].object == "ReleaseImage r"
    assert findings[0].field == f"spec.upgrade.components {name.replace('_', '-')}"
    assert findings[0].remedy


def test_remedy_names_the_minor_that_is_missing() -> None:
    (finding,) = skew_findings([hop(kubernetes_master="v1.36.0")])
    assert finding.remedy == "add a release with kubernetes-master v1.35.x to the path"


@pytest.mark.parametrize(("old", "shown"), [("", "is not known"), ("latest", "is latest, which cannot be ordered")])
def test_unknown_current_version_is_could_not_look(old: str, shown: str) -> None:
    (finding,) = skew_findings([hop({"etcd": old}, etcd="v3.6.8")])
    assert finding.severity is Severity.WARNS
    assert finding.message == f"could not check the step of etcd to v3.6.8: its current version {shown}"


def test_kubelets_that_stay_behind_are_found_over_the_path() -> None:
    steps = [f"v1.{minor}.0" for minor in (34, 35, 36, 37)]
    hops = []
    before = dict(BASE)
    for step in steps[1:]:
        after = before | {"kubernetes-master": step}
        hops.append(HopVersions(subject=f"ReleaseImage {step}", before=before, after=after))
        before = after
    findings = skew_findings(hops)
    assert [(finding.object, finding.severity) for finding in findings] == [("ReleaseImage v1.37.0", Severity.BLOCKS)]
    assert "would be more than 2 minor versions behind the API servers (v1.37.0) during the hop" in findings[0].message


def test_lag_that_lasts_only_during_the_hop_counts_too() -> None:
    start = {"kubernetes-master": "v1.36.0", "kubernetes-worker": "v1.34.0", "kube-proxy": "v1.34.0"}
    (finding,) = skew_findings([hop(start, **kubernetes("v1.37.0"))][:1])[-1:]
    assert "(v1.34.0) would be more than 2 minor versions behind" in finding.message


def test_single_kubernetes_component_counts_as_the_api_servers() -> None:
    start = {"kubernetes-master": "", "kubernetes-worker": "", "kubernetes": "v1.34.3"}
    assert skew_findings([hop(start, kubernetes="v1.35.0")]) == ()
    (finding,) = skew_findings([hop(start, kubernetes="v1.36.0")])
    assert "leaves out a minor version" in finding.message


def test_proxy_that_does_not_wait_for_the_control_plane() -> None:
    (finding,) = skew_findings([hop(proxy_waits=False, **kubernetes("v1.34.5"))])
    assert (finding.severity, finding.remedy) == (Severity.WARNS, "let kube-proxy depend on kubernetes-master")
    assert skew_findings([hop(proxy_waits=False)]) == ()


def test_webhook_floor() -> None:
    start = dict.fromkeys(("kubernetes-master", "kubernetes-worker", "kube-proxy"), "v1.25.6")
    findings = skew_findings([hop(start, kubernetes_master="v1.26.0")])
    assert [finding.message for finding in findings] == [
        "kubernetes-master v1.25.6 -> v1.26.0: the BKECluster webhook refuses Kubernetes versions before v1.27.0"
    ]
