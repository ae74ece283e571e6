"""Names that people type and that other processes rely on: task queue, workflow ids, search attributes."""

from __future__ import annotations

from temporalio.common import SearchAttributeKey

from hopline.domain.wire import ClusterKey

TASK_QUEUE = "hopline"
CLUSTER_UPGRADE = "ClusterUpgrade"
NODE_ROLLOUT = "NodeRollout"
CLUSTER_INSPECTION = "ClusterInspection"
RETRY_ANSWER = "RetryAnswer"
CATALOGUE_SYNC = "CatalogueSync"

CLUSTER = SearchAttributeKey.for_keyword("HoplineCluster")
PHASE = SearchAttributeKey.for_keyword("HoplinePhase")
HOP = SearchAttributeKey.for_keyword("HoplineHop")
TARGET_VERSION = SearchAttributeKey.for_keyword("HoplineTargetVersion")
BLOCKED_ON = SearchAttributeKey.for_keyword("HoplineBlockedOn")

SEARCH_ATTRIBUTES = (CLUSTER, PHASE, HOP, TARGET_VERSION, BLOCKED_ON)
"""At most ten keywords: a SQL visibility store has no more (temporal.md §2.1)."""


def upgrade_workflow_id(cluster: ClusterKey) -> str:
    """The one workflow of a cluster, whoever starts it (design §2)."""
    return f"cluster-upgrade/{cluster.kube_namespace}/{cluster.name}"


def rollout_workflow_id(cluster: ClusterKey, hop_target: str, component: str, pool: str) -> str:
    """The child that upgrades one pool for one node-level component."""
    return f"{upgrade_workflow_id(cluster)}/{hop_target}/{component}/{pool}"


def catalogue_schedule_id(task_queue: str) -> str:
    """The schedule that follows the catalogue's registry; its workflows get this id with the time behind it."""
    return f"catalogue-sync/{task_queue}"


def component_activity_id(hop_target: str, component: str, step: str, call: int) -> str:
    """An activity id that a person can type at the temporal CLI."""
    return f"{hop_target}/{component}/{step}/{call}"
