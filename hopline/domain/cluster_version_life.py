"""The life of a ClusterVersion apart from its upgrades: pure decisions (openfuyao-api.md §3.1, §3.4, §3.8).

Every installed BKECluster has one, with the same name; whoever made it owns its fields from then on:

- it is made when it is missing, with desired = current = installed version;
- a current version that nobody has recorded is filled in; nothing that stands there is written over;
- a wish that was taken back (desired = current) is `Ready` again, whatever the last run has left there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from hopline.domain.cluster_checks import last_writer
from hopline.domain.errors import InvalidVersion
from hopline.domain.projection import DESIRED_VERSION_ACCEPTED, ClusterVersionPhase, merged_conditions
from hopline.domain.resources import ANNOTATION_LAST_UPDATE, BKE_CLUSTER, CLUSTER_VERSION, Document
from hopline.domain.versions import parse_version

READY = "Ready"
INSTALL_COMPLETE, AT_DESIRED_VERSION = "InstallComplete", "AtDesiredVersion"
_VERSION_FIELD = ("spec", "clusterConfig", "cluster", "openFuyaoVersion")


class Care(StrEnum):
    """What a ClusterVersion needs, while no run is open."""

    NOTHING = "nothing"
    MAKE = "ClusterVersionCreated"
    COMPLETE = "ClusterVersionInstallComplete"
    SETTLE = "DesiredVersionWithdrawn"
    """Its wish was taken back: it is `Ready` again."""


def installed_version(cluster: Document) -> str:
    """The version that a BKECluster is recorded to have; empty while it is being installed.

    A ready cluster without a recorded version has the one of its spec (openfuyao-api.md §3.2 step 6).
    """
    status = _section(cluster, "status")
    recorded = str(status.get("openFuyaoVersion") or "")
    if recorded or status.get("clusterStatus") != READY:
        return recorded
    return _at(cluster, _VERSION_FIELD)


def care_for(version: Document | None, cluster: Document | None) -> Care:
    """What to do about a pair of which at least one is there."""
    if cluster is None or _is_deleted(cluster) or (version is not None and _is_deleted(version)):
        return Care.NOTHING
    installed = installed_version(cluster)
    if not installed:
        return Care.NOTHING
    if version is None:
        return Care.MAKE
    status = _section(version, "status")
    current = str(status.get("currentVersion") or "")
    if not current:
        return Care.COMPLETE
    if _desired(version) == current and (status.get("phase") != READY or is_contradicted(version)):
        return Care.SETTLE
    return Care.NOTHING


def is_wish_of_its_own(version: Document) -> bool:
    """Whether it asks for another version than the one that is recorded."""
    current = str(_section(version, "status").get("currentVersion") or "")
    return _desired(version) not in ("", current)


def new_cluster_version(cluster: Document) -> Document:
    """The ClusterVersion of an installed BKECluster; its status follows in a write of its own."""
    metadata = cluster["metadata"]
    owner = {
        "apiVersion": BKE_CLUSTER.api_version,
        "kind": BKE_CLUSTER.kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": CLUSTER_VERSION.api_version,
        "kind": CLUSTER_VERSION.kind,
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "ownerReferences": [owner]},
        "spec": {"desiredVersion": installed_version(cluster)},
    }


def completed_status(version: Document, cluster: Document, now: datetime) -> dict[str, Any]:
    """The status of one whose current version nobody has recorded. A wish that it has stays one."""
    installed = installed_version(cluster)
    status: dict[str, Any] = {"currentVersion": installed}
    if _desired(version) in ("", installed):
        status |= _ready(version, INSTALL_COMPLETE, f"{installed} is installed", now)
    return status


def settled_status(version: Document, cluster: Document, now: datetime) -> dict[str, Any]:
    """The status of one whose wish was taken back."""
    message = f"at {_section(version, 'status')['currentVersion']}, and no other version is asked for"
    if unfinished := _unfinished_hop(cluster):
        message += f"; the hop to {unfinished} was begun and has not ended, what it has changed stays"
    return _ready(version, AT_DESIRED_VERSION, message, now)


def old_trigger(version: Document | None, cluster: Document) -> str:
    """What to say about a version that a person has written into the BKECluster's spec; empty when nobody has.

    Our own declarations, and those of the existing controller, stand in `last-update-configuration` as well.
    """
    asked, installed = _at(cluster, _VERSION_FIELD), installed_version(cluster)
    if not asked or not installed or asked == installed or asked == _declared(cluster):
        return ""
    metadata = cluster["metadata"]
    where = f"{metadata['name']} -n {metadata['namespace']}"
    who = last_writer(cluster, tuple(f"f:{step}" for step in _VERSION_FIELD))
    back = f'{{"spec":{{"clusterConfig":{{"cluster":{{"openFuyaoVersion":"{installed}"}}}}}}}}'
    undo = f"kubectl patch bkecluster {where} --type merge -p '{back}'"
    if _is_older(asked, installed):
        remedy = f"the cluster has {installed}, and a platform is never downgraded: {undo}"
    elif version is not None and _desired(version) == asked:
        remedy = f"{asked} is asked for by the ClusterVersion already: kubectl get clusterversion {where}"
    else:
        wish = f'{{"spec":{{"desiredVersion":"{asked}"}}}}'
        remedy = f"to upgrade: kubectl patch clusterversion {where} --type merge -p '{wish}'; to undo: {undo}"
    return f"{'.'.join(_VERSION_FIELD)} was set to {asked}{who}: that starts no upgrade; {remedy}"


def _ready(version: Document, reason: str, message: str, now: datetime) -> dict[str, Any]:
    before = _section(version, "status").get("conditions") or []
    answers = [("Ready", True, reason, message), ("Progressing", False, reason, message)]
    answers.append(("Failing", False, "AsExpected", ""))
    if any(condition.get("type") == DESIRED_VERSION_ACCEPTED for condition in before):
        answers.append((DESIRED_VERSION_ACCEPTED, True, "Accepted", ""))
    return {"phase": ClusterVersionPhase.READY.value, "conditions": merged_conditions(before, answers, now)}


def _unfinished_hop(cluster: Document) -> str:
    progress = _section(_section(cluster, "status"), "declarativeUpgrade")
    return "" if progress.get("finishedAt") else str(progress.get("targetVersion") or "")


def is_contradicted(version: Document) -> bool:
    """Whether it shows that its wish waits for the end of another one's run, or was refused after that."""
    conditions = _section(version, "status").get("conditions") or ()
    return any(one.get("type") == DESIRED_VERSION_ACCEPTED and one.get("status") == "False" for one in conditions)


def _declared(cluster: Document) -> str:
    """The version in the configuration that a controller has last written or seen."""
    annotations = _section(_section(cluster, "metadata"), "annotations")
    try:
        last = json.loads(annotations.get(ANNOTATION_LAST_UPDATE) or "{}")
    except ValueError:
        return ""
    return _at(last, _VERSION_FIELD) if isinstance(last, Mapping) else ""


def _is_older(asked: str, installed: str) -> bool:
    try:
        return parse_version(asked) < parse_version(installed)
    except InvalidVersion:
        return False


def _desired(version: Document) -> str:
    return str(_section(version, "spec").get("desiredVersion") or "").strip()


def _is_deleted(document: Document) -> bool:
    return "deletionTimestamp" in _section(document, "metadata")


def _at(document: Mapping[str, Any], path: tuple[str, ...]) -> str:
    *steps, last = path
    for step in steps:
        document = _section(document, step)
    return str(document.get(last) or "")


def _section(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = document.get(name)
    return value if isinstance(value, Mapping) else {}
