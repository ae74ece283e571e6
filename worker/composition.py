"""The composition root: which workflows and activities a worker runs, and with which ports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from temporalio.client import Client
from temporalio.worker import Worker

from activities.catalogue import CatalogueActivities
from activities.checks import CheckActivities
from activities.components import ComponentActivities
from activities.etcd import EtcdActivities
from activities.hop import HopActivities
from activities.inspection import InspectionActivities
from activities.node_drains import NodeDrainActivities
from activities.nodes import NodeActivities
from activities.planning import PlanningActivities
from activities.policy import PolicyActivities, WorkerPolicy
from activities.requests import ManagementFence
from activities.retry import RetryActivities
from activities.status import StatusActivities
from activities.target import TargetActivities
from hopline.domain.etcd import EtcdProbing
from hopline.operations.etcd_care import EtcdCare
from hopline.operations.etcd_snapshots import EtcdSnapshots
from hopline.operations.live_objects import PlainDifferences
from hopline.operations.node_review import NodeReview
from hopline.operations.observing import ObservedClusters
from hopline.operations.one_controller import OneController
from hopline.operations.planning import Planner
from hopline.operations.publication import Publisher
from hopline.operations.records import HopRecorder
from hopline.operations.releases import ReleaseShelf
from hopline.operations.target_reach import TargetReach
from hopline.ports import Clusters
from hopline.runtime.settings import Settings
from hopline.wiring import Ports, store_on
from workflows import activity_options
from workflows.catalogue_sync import ScheduledCatalogueSync
from workflows.cluster_upgrade import ClusterUpgrade
from workflows.inspection import ClusterInspection
from workflows.node_rollout import NodeRollout
from workflows.retry_answer import RetryAnswer

WORKFLOWS: tuple[type, ...] = (ClusterUpgrade, NodeRollout, ClusterInspection, RetryAnswer, ScheduledCatalogueSync)

MAX_CONCURRENT_ACTIVITIES = 200
"""Activities are coroutines that mostly wait; 200 of them hold one event loop for well under 500 ms."""


def activities_for(ports: Ports, settings: Settings, *, search_attributes: bool) -> list[Callable[..., Any]]:
    """Every activity, bound to the ports."""
    clusters = ObservedClusters(ports.clusters) if settings.observe else ports.clusters
    one_controller = OneController(clusters.management, settings.controllers, observing=settings.observe)
    fence = ManagementFence(clusters.management)
    shelf = ReleaseShelf(ports.releases, settings.image_overrides)
    differences = PlainDifferences()
    planner = Planner(clusters, shelf, settings.field_manager, one_controller, settings.oldest_version, differences)
    policy = WorkerPolicy(
        mode=settings.mode.value,
        slots=settings.slots,
        search_attributes=search_attributes,
        drain=settings.drain_rules,
    )
    components = ComponentActivities(clusters, fence, shelf, settings.field_manager, one_controller, differences)
    publisher = Publisher(clusters.management)
    store = store_on(clusters.management)
    recorder = HopRecorder(clusters, shelf, store, components.snapshots, settings.field_manager)
    hop = HopActivities(clusters.management, publisher, fence, shelf, one_controller, recorder)
    reach = TargetReach(clusters)
    care = EtcdCare(clusters, required=settings.etcd_probe is not EtcdProbing.OPTIONAL)
    review = NodeReview(clusters, settings.drain_rules, care)
    planning = PlanningActivities(planner, fence, reach, review, clusters.management)
    snapshots = EtcdSnapshots(clusters, care, store)
    inspection = InspectionActivities(planner, clusters, review)
    retry = RetryActivities(clusters.management, fence, one_controller)
    return [
        PolicyActivities(policy, fence).record_policy,
        planning.plan_upgrade,
        planning.plan_hop,
        CheckActivities(clusters, fence, one_controller).run_checks,
        hop.open_hop,
        hop.close_hop,
        hop.look_for_deletion,
        TargetActivities(reach, fence).wait_for_target,
        retry.revive_nodes,
        retry.answer_retry,
        retry.describe_takeover,
        StatusActivities(publisher, fence, silent=settings.observe).publish_status,
        components.apply_component,
        components.wait_for_component,
        components.create_resources,
        *_on_nodes(clusters, fence, one_controller),
        *EtcdActivities(clusters, fence, care, snapshots, one_controller).all,
        inspection.inspect_cluster,
        inspection.read_plan_page,
        CatalogueActivities(clusters.management, ports.catalogue, fence).sync_catalogue,
    ]


def _on_nodes(clusters: Clusters, fence: ManagementFence, one_controller: OneController) -> list[Callable[..., Any]]:
    nodes = NodeActivities(clusters, fence, one_controller)
    drains = NodeDrainActivities(clusters, fence, one_controller)
    return [
        nodes.look_at_pool,
        nodes.begin_node,
        drains.cordon_node,
        drains.drain_node,
        nodes.watch_node,
        nodes.end_node,
    ]


def build_worker(client: Client, ports: Ports, settings: Settings, *, search_attributes: bool) -> Worker:
    """A worker for one management cluster."""
    return Worker(
        client,
        task_queue=settings.task_queue,
        workflows=list(WORKFLOWS),
        activities=activities_for(ports, settings, search_attributes=search_attributes),
        max_concurrent_activities=MAX_CONCURRENT_ACTIVITIES,
        sticky_queue_schedule_to_start_timeout=activity_options.STICKY_TIMEOUT,
        max_heartbeat_throttle_interval=activity_options.MAX_HEARTBEAT_THROTTLE,
        default_heartbeat_throttle_interval=activity_options.MAX_HEARTBEAT_THROTTLE,
        graceful_shutdown_timeout=activity_options.GRACEFUL_SHUTDOWN,
    )
