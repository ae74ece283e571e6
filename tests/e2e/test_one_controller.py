"""The existing controller beside Hopline, on a real API server: refused, stopped as printed, held in mid-run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from example_folders import FIRST, HELD, LAST, MISSING, WELL
from hopline.sim.releases import SmallComponent, write_examples
from real_lab import TARGET, WORKER, RealCluster, RealSite

pytestmark = [pytest.mark.slow, pytest.mark.controlplane]

PLACE, NAME, WEBHOOK = "cluster-system", "bke-controller-manager", "bke-validating-webhook-configuration"
DEPLOYMENT = f"Deployment {PLACE}/{NAME}"
STOP = f"kubectl scale deployment {NAME} --replicas=0 -n {PLACE}"
DELETE = f"kubectl delete validatingwebhookconfiguration/{WEBHOOK}"
LABELS = {"control-plane": "bke"}

CONTROLLER: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": NAME, "namespace": PLACE},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": LABELS},
        "template": {
            "metadata": {"labels": LABELS},
            "spec": {"containers": [{"name": "manager", "image": "registry.test/cluster-api-provider-bke:v1"}]},
        },
    },
}
SERVICE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "bke-webhook-service", "namespace": PLACE},
    # Without an address of its own: whoever calls it gets no answer at once, as when no pod is behind it.
    "spec": {"clusterIP": "None", "selector": LABELS, "ports": [{"port": 443, "targetPort": 9443}]},
}
CONFIGURATION: dict[str, Any] = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": WEBHOOK},
    "webhooks": [
        {
            "name": "vbkecluster.kb.io",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "timeoutSeconds": 2,
            "clientConfig": {"service": {"namespace": PLACE, "name": "bke-webhook-service", "path": "/validate"}},
            "rules": [
                {
                    "apiGroups": ["bke.bocloud.com"],
                    "apiVersions": ["v1beta1"],
                    "operations": ["UPDATE"],
                    "resources": ["bkeclusters"],
                }
            ],
        }
    ],
}


@pytest.fixture
def cluster(site: RealSite, request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    """A workload cluster; whatever the test has put beside it goes with it."""
    name = next(one for one in ("mid", "observing", "refused") if one in request.node.name)
    made = site.add_cluster(f"one-{name}", (1, 0), family=HELD if name == "mid" else WELL)
    site.run(site.kubectl_program, "create", "namespace", PLACE)
    yield made
    for kind, name in (("validatingwebhookconfiguration", WEBHOOK), ("namespace", MISSING)):
        site.control_plane.kubectl("delete", kind, name, "--ignore-not-found")
    site.control_plane.kubectl(
        "delete", f"deployment/{NAME}", "service/bke-webhook-service", "-n", PLACE, "--ignore-not-found"
    )
    site.remove_cluster(made)


def typed(site: RealSite, command: str) -> None:
    """A command that a message has printed, pasted."""
    program, *arguments = shlex.split(command)
    assert program == "kubectl"
    done = site.run(site.kubectl_program, *arguments)
    assert done.returncode == 0, done.stderr


def test_it_is_refused_by_name_and_the_printed_commands_make_way(site: RealSite, cluster: RealCluster) -> None:
    site.control_plane.apply(CONTROLLER, SERVICE, CONFIGURATION)
    site.patch_desired_version(cluster, WELL[1])
    site.until(lambda: site.version(cluster)["status"].get("phase") == "PreCheckFailed", "refused")
    told = json.dumps(site.version(cluster)["status"]["conditions"])
    assert DEPLOYMENT in told and f"ValidatingWebhookConfiguration {WEBHOOK}" in told
    assert f"{STOP} && {DELETE}" in told
    annotations = site.bke(cluster)["metadata"].get("annotations") or {}
    assert not [key for key in annotations if key.startswith(("cvo.openfuyao.cn", "hopline.dev"))]
    plan = site.hopline("plan", *cluster.where, "--to", WELL[1], "-o", "json")
    assert plan.returncode == 3
    found = [one["object"] for one in json.loads(plan.stdout)["findings"] if one["severity"] == "blocks"]
    assert found == [DEPLOYMENT]

    typed(site, STOP)
    refused = site.hopline("upgrade", *cluster.where, "--to", WELL[1], "--wait", "-o", "json")
    assert refused.returncode == 3, refused.stderr
    error = json.loads(refused.stdout)["error"]
    assert f"ValidatingWebhookConfiguration {WEBHOOK} asks a webhook that does not answer" in error["message"]
    assert "vbkecluster.kb.io" in error["message"] and error["remedy"].endswith(DELETE)
    assert not site.applies(cluster, TARGET)

    typed(site, DELETE)
    done = site.hopline("upgrade", *cluster.where, "--to", WELL[1], "--wait")
    assert done.returncode == 0, done.stderr
    site.until_ready(cluster, WELL[1])


def test_one_that_comes_in_mid_run_holds_the_hop_until_it_is_stopped(site: RealSite, cluster: RealCluster) -> None:
    assert site.hopline("upgrade", *cluster.where, "--to", HELD[1], "--wait").returncode == 4
    site.control_plane.apply(CONTROLLER)
    site.control_plane.kubectl("create", "namespace", MISSING)
    assert site.hopline("retry", *cluster.where).returncode == 0
    site.until(lambda: failure(site, cluster).get("attempt") == 2, "held again")
    assert DEPLOYMENT in failure(site, cluster)["error"] and STOP in failure(site, cluster)["error"]
    waited = site.hopline("upgrade", *cluster.where, "--to", HELD[1], "--wait")
    assert waited.returncode == 4
    assert STOP in waited.stdout + waited.stderr
    assert not [event for event in site.requests(cluster, TARGET) if event.name == LAST and event.is_write]

    typed(site, STOP)
    assert site.hopline("retry", *cluster.where).returncode == 0
    assert site.hopline("upgrade", *cluster.where, "--to", HELD[1], "--wait").returncode == 0
    site.until_ready(cluster, HELD[1])
    assert site.applies(cluster, TARGET)[("configmaps", FIRST)] == 1, "what was done is not done again"


def test_an_observing_worker_plans_beside_it_and_writes_nothing(site: RealSite, cluster: RealCluster) -> None:
    site.control_plane.apply(CONTROLLER)
    site.kill("worker")
    site.start_worker(HOPLINE_OBSERVE="true")
    try:
        plan = site.hopline("plan", *cluster.where, "--to", WELL[2], "-o", "json")
        assert plan.returncode == 3
        assert [hop["to"] for hop in json.loads(plan.stdout)["hops"]] == list(WELL[1:])
        for look in (("status", *cluster.where), ("versions", *cluster.where)):
            assert site.hopline(*look).returncode == 0
        refused = site.hopline("upgrade", *cluster.where, "--to", WELL[2], "--wait")
        assert refused.returncode == 3
        assert "only observes" in refused.stderr and STOP in " ".join(refused.stderr.split())
    finally:
        site.kill("worker")
        site.start_worker()
    written = [event for user in (WORKER, TARGET) for event in site.requests(cluster, user) if event.is_write]
    assert not [event for event in written if not event.is_dry_run]


PROVIDER = ("v33.01", "v33.02")


@pytest.fixture
def own(site: RealSite, tmp_path: Path) -> Iterator[RealCluster]:
    """The management cluster itself, whose releases bring the existing controller, which was stopped by hand."""
    folder = write_examples(tmp_path, PROVIDER, [SmallComponent("provider", rolls_out=True), SmallComponent(FIRST)])
    for version in PROVIDER:
        manifest = folder / "releases" / version / "components" / "provider" / version / "object.yaml"
        document = json.loads(manifest.read_text())
        document["metadata"] |= {"name": NAME, "namespace": PLACE}
        manifest.write_text(json.dumps(document))
        (folder / "releases" / version).rename(site.releases / version)
    made = site.add_cluster("guide", (1, 0), family=PROVIDER)
    edge = {"op": "add", "path": "/spec/paths/-", "value": {"from": PROVIDER[0], "to": PROVIDER[1]}}
    name = site.control_plane.get("upgradepath")["items"][0]["metadata"]["name"]
    site.control_plane.kubectl("patch", "upgradepath", name, "--type=json", "-p", json.dumps([edge]))
    typed(site, STOP)
    yield made
    site.control_plane.kubectl("delete", f"deployment/{NAME}", "-n", PLACE, "--ignore-not-found")
    site.remove_cluster(made)


def test_a_foreign_provider_blocks_and_is_applied_without_pods_on_request(site: RealSite, own: RealCluster) -> None:
    blocked = site.hopline("upgrade", *own.where, "--to", PROVIDER[1], "--wait")
    assert blocked.returncode == 3
    assert f"another controller: registry.example.test/provider:{PROVIDER[1]}" in " ".join(blocked.stderr.split())
    assert "HOPLINE_FOREIGN_PROVIDER" in blocked.stderr
    assert not site.applies(own, WORKER)
    site.kill("worker")
    site.start_worker(HOPLINE_FOREIGN_PROVIDER="scale-to-zero")
    try:
        done = site.hopline("upgrade", *own.where, "--to", PROVIDER[1], "--wait")
        assert done.returncode == 0, done.stderr
        site.until_ready(own, PROVIDER[1])
        found = site.control_plane.get("deployment", NAME, "-n", PLACE)
        assert found["spec"]["replicas"] == 0
        assert found["spec"]["template"]["spec"]["containers"][0]["image"].endswith(f"provider:{PROVIDER[1]}")
        assert site.hopline("upgrade", *own.where, "--to", PROVIDER[1], "--wait").returncode == 0, "nothing to do"
    finally:
        site.kill("worker")
        site.start_worker()


def failure(site: RealSite, cluster: RealCluster) -> dict[str, Any]:
    found: dict[str, Any] = site.bke(cluster)["status"]["declarativeUpgrade"].get("lastFailure") or {}
    return found
