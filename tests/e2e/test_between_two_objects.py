"""kill -9 of the worker between two objects of one component, on the real API server: it goes on exactly there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from example_folders import BROKEN, FIRST, PLACE, WELL
from real_lab import TARGET, RealCluster, RealSite

pytestmark = [pytest.mark.slow, pytest.mark.controlplane]
NEW = WELL[1]
SECOND = "second"
HOLD = "example.test/hold"


def service(version: str, *finalizers: str) -> dict[str, Any]:
    metadata = {"name": SECOND, "namespace": PLACE, "annotations": {"version": version}}
    spec = {"selector": {"app": SECOND}, "ports": [{"port": 80}]}
    held = {"finalizers": list(finalizers)} if finalizers else {}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {**metadata, **held}, "spec": spec}


@pytest.fixture
def cluster(site: RealSite) -> Iterator[RealCluster]:
    """The middle component of the next release replaces a ConfigMap, and then a Service that a finalizer holds."""
    home = site.releases / NEW / "components" / BROKEN / NEW
    declared = json.loads((home / "component.yaml").read_text())
    declared["spec"]["yaml"]["applyStrategy"] = "Replace"
    (home / "component.yaml").write_text(json.dumps(declared))
    (home / "service.yaml").write_text(json.dumps(service(NEW)))
    made = site.add_cluster("halfway", (1, 0), family=WELL)
    site.control_plane.apply(service("old", HOLD))
    yield made
    site.remove_cluster(made)


def test_a_worker_killed_between_two_objects_is_gone_on_with_exactly_there(
    site: RealSite, cluster: RealCluster
) -> None:
    where = ("-n", PLACE)
    site.patch_desired_version(cluster, NEW)
    site.until(
        lambda: "deletionTimestamp" in site.control_plane.get("service", SECOND, *where)["metadata"],
        "at the second object of the component",
    )
    site.kill("worker")
    replaced = site.control_plane.get("configmap", BROKEN, *where)
    assert replaced["data"] == {"version": NEW}
    site.control_plane.kubectl(
        "patch", "service", SECOND, *where, "--type=merge", "-p", '{"metadata":{"finalizers":null}}'
    )
    site.start_worker()
    site.until_ready(cluster, NEW)
    assert site.control_plane.get("configmap", BROKEN, *where)["metadata"] == replaced["metadata"]
    assert site.control_plane.get("service", SECOND, *where)["metadata"]["annotations"] == {"version": NEW}
    replacing = 2
    assert site.applies(cluster, TARGET, ("configmaps", "services")) == {
        ("configmaps", FIRST): 1,
        ("configmaps", BROKEN): replacing,
        ("services", SECOND): replacing,
    }
