"""Looking at nodes: what each of them runs, for the plan and for a rollout (design §2.2)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

from hopline.domain.cluster import ClusterFacts, NodeFacts
from hopline.domain.errors import NotFound, PortError
from hopline.domain.node_commands import handler_named, members_of
from hopline.domain.node_versions import (
    KUBERNETES_PODS,
    STATIC_POD_LABELS,
    STATIC_POD_NAMESPACE,
    NodeSighting,
    NodeView,
    image_tag,
    sight_node,
)
from hopline.domain.observation import ComponentSighting, Presence
from hopline.domain.plan import Pool
from hopline.domain.release import InlineHandler
from hopline.domain.resources import NODE, POD, Document, ObjectRef
from hopline.domain.wire import WireModel
from hopline.ports import ClusterClient, Listing

API_SERVER_POD = KUBERNETES_PODS[0]

MAX_NAMED = 10
"""Nodes that one sentence names; the rest is counted."""


class NodeLevelComponent(Protocol):
    """What must be known of a component to look for it; a PlannedComponent is one."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def handler(self) -> str: ...


class PoolSighting(WireModel):
    """Every node of one pool, by name; `left_out` says who is not looked at and why."""

    nodes: tuple[NodeSighting, ...] = ()
    left_out: tuple[str, ...] = ()


class TargetView:
    """The nodes of a target cluster and its static pods by name, as read at one moment."""

    def __init__(self, nodes: Iterable[Document], pods: Iterable[Document]) -> None:
        self.nodes = {str(node["metadata"]["name"]): node for node in nodes}
        self.pods = {str(pod["metadata"]["name"]): pod for pod in pods}

    def of(self, node: NodeFacts) -> NodeView:
        """What is seen of one node."""
        return NodeView(node=self.nodes.get(node.display_name), pods=self._pods_of(node))

    def _pods_of(self, node: NodeFacts) -> dict[str, Document]:
        if node.is_worker:
            return {}
        return {name: pod for name, pod in self.pods.items() if name.endswith(f"-{node.display_name}")}


async def read_target(target: ClusterClient) -> TargetView:
    """Two lists. Raises what the client raises."""
    nodes, pods = await asyncio.gather(
        target.list(NODE), target.list(POD, kube_namespace=STATIC_POD_NAMESPACE, labels=STATIC_POD_LABELS)
    )
    return TargetView(nodes.items, pods.items)


async def look_at_pool(
    target: ClusterClient, facts: ClusterFacts, component: NodeLevelComponent, pool: Pool
) -> PoolSighting:
    """Compare every node of the pool with the component's version. Raises what the client raises."""
    members = members_of(facts, component.handler, pool)
    if not members.nodes or handler_named(component.handler) is InlineHandler.AGENT:
        view = TargetView((), ())
    else:
        view = await read_target(target)
    nodes = (sight_node(component.handler, component.version, node, view.of(node)) for node in members.nodes)
    return PoolSighting(nodes=tuple(nodes), left_out=members.left_out)


async def look_at_node(
    target: ClusterClient, component: NodeLevelComponent, pool: Pool, node: NodeFacts
) -> NodeSighting:
    """One node compared with the component's version: two requests, however many nodes there are."""
    if handler_named(component.handler) is InlineHandler.AGENT:
        return sight_node(component.handler, component.version, node, NodeView())
    pods = [] if pool is Pool.WORKERS else (await _static_pods(target)).items
    try:
        found = [await target.get(ObjectRef(kind=NODE, name=node.display_name))]
    except NotFound:
        found = []
    return sight_node(component.handler, component.version, node, TargetView(found, pods).of(node))


async def api_servers(target: ClusterClient, names: Iterable[str]) -> dict[str, str]:
    """Control-plane node → version that its API server shows; empty text: there is no such pod.

    By name: a list would go over every pod of kube-system, and large clusters have thousands of them there.
    """
    listed = tuple(names)
    found = await asyncio.gather(*(_api_server(target, name) for name in listed))
    return dict(zip(listed, found, strict=True))


async def _api_server(target: ClusterClient, node: str) -> str:
    ref = ObjectRef(kind=POD, name=f"{API_SERVER_POD}-{node}", kube_namespace=STATIC_POD_NAMESPACE)
    try:
        return f"v{image_tag(await target.get(ref), API_SERVER_POD).removeprefix('v')}"
    except NotFound:
        return ""


async def _static_pods(target: ClusterClient) -> Listing:
    return await target.list(POD, kube_namespace=STATIC_POD_NAMESPACE, labels=STATIC_POD_LABELS)


async def sighting(
    target: ClusterClient, facts: ClusterFacts, component: NodeLevelComponent, pools: Iterable[Pool]
) -> ComponentSighting:
    """What the plan may conclude: PRESENT only when every node of every pool shows the version.

    A pool without nodes has nothing to raise and does not stand in the way.
    """
    looked: list[NodeSighting] = []
    left_out: list[str] = []
    empty: list[str] = []
    try:
        for pool in pools:
            seen = await look_at_pool(target, facts, component, pool)
            looked.extend(seen.nodes)
            left_out.extend(seen.left_out)
            if not seen.nodes:
                empty.append(f"no node in pool {pool.value}")
    except PortError as error:
        return ComponentSighting(name=component.name, presence=Presence.COULD_NOT_LOOK, detail=str(error))
    return _concluded(component, looked, [*empty, *(f"left out: {one}" for one in left_out)])


def _concluded(component: NodeLevelComponent, looked: list[NodeSighting], notes: list[str]) -> ComponentSighting:
    behind = [one for one in looked if one.at_target is False]
    unseen = [one for one in looked if one.at_target is None]
    cordoned = [
        one.model_copy(update={"seen": "cordoned by a run that ended without giving it back"})
        for one in looked
        if one.left_cordoned
    ]
    if behind or cordoned:
        presence, shown = Presence.ABSENT, [*behind, *cordoned]
    elif unseen:
        presence, shown = Presence.COULD_NOT_LOOK, unseen
    else:
        presence, shown = Presence.PRESENT, []
    parts = [f"{one.node.display_name}: {one.seen}" for one in shown[:MAX_NAMED]]
    if len(shown) > MAX_NAMED:
        parts.append(f"and {len(shown) - MAX_NAMED} more nodes")
    if presence is Presence.PRESENT and looked:
        parts.append(f"seen on {len(looked)} of {len(looked)} nodes")
    detail = "; ".join([*parts, *notes[:MAX_NAMED]])
    current = component.version if presence is Presence.PRESENT and looked else ""
    return ComponentSighting(name=component.name, presence=presence, current=current, detail=detail)
