"""What deploy/rbac.yaml grants, by its text and by the word of a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane.control_plane import ControlPlane, KubectlFailed

RBAC = Path(__file__).resolve().parents[2] / "deploy" / "rbac.yaml"
WORKER = "system:serviceaccount:hopline-system:hopline-worker"
WATCHER = "system:serviceaccount:hopline-system:hopline-watcher"
BROAD = "hopline-target-apply"

WORKER_NEEDS = [
    "patch clusterversions.config.openfuyao.com",
    "patch clusterversions.config.openfuyao.com/status",
    "watch upgradepaths.config.openfuyao.com",
    "create upgradepaths.config.openfuyao.com",
    "patch upgradepaths.config.openfuyao.com",
    "patch upgradepaths.config.openfuyao.com/status",
    "create releaseimages.config.openfuyao.com",
    "patch releaseimages.config.openfuyao.com/status",
    "patch bkeclusters.bke.bocloud.com",
    "patch bkeclusters.bke.bocloud.com/status",
    "update bkeclusters.bke.bocloud.com/finalizers",
    "list bkenodes.bke.bocloud.com",
    "patch bkenodes.bke.bocloud.com/status",
    "create commands.bkeagent.bocloud.com",
    "watch commands.bkeagent.bocloud.com",
    "patch commands.bkeagent.bocloud.com",
    "delete commands.bkeagent.bocloud.com",
    "create events",
    "patch events",
    "get secrets/east-kubeconfig",
    "create secrets",
    "list configmaps",
    "delete configmaps",
    "get namespaces/kube-system",
    "create customresourcedefinitions.apiextensions.k8s.io",
    "get deployments.apps",
    "list services",
    "list validatingwebhookconfigurations.admissionregistration.k8s.io",
    "list mutatingwebhookconfigurations.admissionregistration.k8s.io",
]
WORKER_NEVER = [
    "patch bkenodes.bke.bocloud.com",
    "patch commands.bkeagent.bocloud.com/status",
    "delete releaseimages.config.openfuyao.com",
    "delete clusterversions.config.openfuyao.com",
    "delete upgradepaths.config.openfuyao.com",
    "list secrets",
    "delete secrets",
    "get namespaces/default",
    "patch deployments.apps",
    "delete validatingwebhookconfigurations.admissionregistration.k8s.io",
    "create clusterroles.rbac.authorization.k8s.io",
]
WATCHER_NEEDS = [
    "watch clusterversions.config.openfuyao.com",
    "watch upgradepaths.config.openfuyao.com",
    "watch bkenodes.bke.bocloud.com",
    "create clusterversions.config.openfuyao.com",
    "patch clusterversions.config.openfuyao.com/status",
    "patch upgradepaths.config.openfuyao.com/status",
    "update bkeclusters.bke.bocloud.com/finalizers",
    "patch bkeclusters.bke.bocloud.com/status",
    "patch releaseimages.config.openfuyao.com",
    "watch nodes",
    "list pods",
    "get secrets/east-kubeconfig",
    "get deployments.apps",
    "list services",
    "create events",
]
WATCHER_NEVER = [
    "patch clusterversions.config.openfuyao.com",
    "delete clusterversions.config.openfuyao.com",
    "patch bkeclusters.bke.bocloud.com",
    "patch upgradepaths.config.openfuyao.com",
    "create commands.bkeagent.bocloud.com",
    "list secrets",
    "delete pods",
    "patch deployments.apps",
]
Object = dict[str, Any]


def documents() -> list[Object]:
    return list(yaml.safe_load_all(RBAC.read_text()))


def test_only_the_role_of_the_self_upgrade_is_broad_and_no_role_grants_every_verb() -> None:
    roles = [document for document in documents() if document["kind"] == "ClusterRole"]
    for role in roles:
        for rule in role["rules"]:
            assert "*" not in rule["verbs"], role["metadata"]["name"]
            broad = "*" in rule["resources"] or "*" in rule["apiGroups"] or {"escalate", "bind"} & set(rule["verbs"])
            assert not broad or role["metadata"]["name"] == BROAD


def test_every_binding_names_an_account_and_a_role_of_this_file() -> None:
    found: dict[str, set[str]] = {}
    for document in documents():
        found.setdefault(document["kind"], set()).add(document["metadata"]["name"])
    bindings = [document for document in documents() if document["kind"] == "ClusterRoleBinding"]
    assert {binding["roleRef"]["name"] for binding in bindings} == found["ClusterRole"]
    for binding in bindings:
        (subject,) = binding["subjects"]
        assert (subject["kind"], subject["namespace"]) == ("ServiceAccount", "hopline-system")
        assert subject["name"] in found["ServiceAccount"]


@pytest.fixture(scope="module")
def without_self_upgrade(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The accounts as on a management cluster that only manages others; afterwards the whole file is in force."""
    granted = [
        item for item in documents() if (item["kind"], item["metadata"]["name"]) != ("ClusterRoleBinding", BROAD)
    ]
    control_plane.apply(*granted)
    control_plane.kubectl("delete", "clusterrolebinding", BROAD, "--ignore-not-found")
    yield control_plane
    control_plane.apply(*documents())


def is_allowed(control_plane: ControlPlane, account: str, request: str) -> bool:
    """The answer of `kubectl auth can-i`; behind the slash stands a subresource (`status`, `finalizers`) or a name."""
    verb, _, target = request.partition(" ")
    resource, _, part = target.partition("/")
    what = [resource, f"--subresource={part}"] if part in {"status", "finalizers", "eviction"} else [target]
    scope = [] if resource in {"namespaces"} else ["-n", "east"]
    try:
        return control_plane.kubectl("auth", "can-i", verb, *what, *scope, f"--as={account}").strip() == "yes"
    except KubectlFailed:  # kubectl's exit code for "no" is 1
        return False


@pytest.mark.parametrize(
    ("account", "request_", "allowed"),
    [
        *((WORKER, request, True) for request in WORKER_NEEDS),
        *((WORKER, request, False) for request in WORKER_NEVER),
        *((WATCHER, request, True) for request in WATCHER_NEEDS),
        *((WATCHER, request, False) for request in WATCHER_NEVER),
    ],
)
def test_the_accounts_may_do_what_they_need_and_no_more(
    without_self_upgrade: ControlPlane, account: str, request_: str, allowed: bool
) -> None:
    assert is_allowed(without_self_upgrade, account, request_) is allowed


def test_with_the_self_upgrade_the_worker_may_write_roles_that_grant_more_than_it_holds(
    without_self_upgrade: ControlPlane,
) -> None:
    without_self_upgrade.apply(*documents())
    role = "--dry-run=server", "--verb=update", "--resource=nodes/status", f"--as={WORKER}"
    without_self_upgrade.kubectl("create", "clusterrole", "rbac-test-more-than-the-worker-holds", *role)
    assert is_allowed(without_self_upgrade, WORKER, "patch deployments.apps")


@pytest.mark.parametrize(
    "request_",
    ["patch nodes", "watch pods", "create pods/eviction", "watch poddisruptionbudgets.policy", "list daemonsets.apps"],
)
def test_with_the_self_upgrade_the_worker_may_drain_nodes(without_self_upgrade: ControlPlane, request_: str) -> None:
    without_self_upgrade.apply(*documents())
    assert is_allowed(without_self_upgrade, WORKER, request_)
