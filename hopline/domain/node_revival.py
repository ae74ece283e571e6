"""Another chance for nodes that were given up: what the retry annotation means for BKENodes (openfuyao-nodes.md §0.5).

A node with the Failed bit, or `needSkip`, is left out of every upgrade. `bke.bocloud.com/retry` takes that back for the
nodes that its value names by address, `ip1,ip2`, or for all of the cluster when it is empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hopline.domain.cluster import FAILED_BIT, NodeFacts, node_facts
from hopline.domain.errors import InvalidInput
from hopline.domain.resources import ANNOTATION_RETRY, Document
from hopline.domain.wire import ClusterKey, WireModel

MAX_NAMED = 10
"""Nodes that one sentence names; the rest is counted."""


class RevivedNodes(WireModel):
    """Nodes whose marks of a failure were taken away, as `hostname (address)`."""

    nodes: tuple[str, ...] = ()

    def sentence(self) -> str:
        """For an event; empty when no node had such a mark."""
        if not self.nodes:
            return ""
        return f"marks of an earlier failure are taken away from {listed(self.nodes)}: they are upgraded again"


def addresses_of(value: str) -> tuple[str, ...]:
    """The nodes that a value of the annotation names, without repetition; none means all."""
    return tuple(dict.fromkeys(part for part in re.split(r"[,\s]+", value.strip()) if part))


def chosen_nodes(cluster: ClusterKey, nodes: Sequence[Document], addresses: Iterable[str]) -> tuple[Document, ...]:
    """The BKENodes of these addresses or hostnames, by name; all when none is named.

    Raises InvalidInput when one is unknown, so that nothing is done by halves: a node that was misspelt would be left
    out of the hop that goes on.
    """
    facts = {document["metadata"]["name"]: node_facts(document) for document in nodes}
    asked = tuple(addresses)
    known = {key for node in facts.values() for key in (node.ip, node.hostname) if key}
    unknown = [address for address in asked if address not in known]
    if unknown:
        raise _unknown(cluster, facts.values(), asked, unknown)
    found = [
        document
        for document in nodes
        if not asked
        or {facts[document["metadata"]["name"]].ip, facts[document["metadata"]["name"]].hostname} & {*asked}
    ]
    return tuple(sorted(found, key=lambda document: str(document["metadata"]["name"])))


def revived_status(document: Document) -> dict[str, Any]:
    """What of a BKENode's status has to change so that it takes part again; empty when it does already."""
    found = document.get("status")
    status: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
    code = node_facts(document).state_code
    wanted: dict[str, Any] = {}
    if code & FAILED_BIT:
        wanted["stateCode"] = code & ~FAILED_BIT
    if status.get("needSkip"):
        wanted["needSkip"] = False
    if status.get("retryCount"):
        wanted["retryCount"] = 0
    return wanted


def spoken(node: NodeFacts) -> str:
    """`hostname (address)`."""
    return f"{node.hostname} ({node.ip})" if node.hostname else node.ip


def listed(names: Sequence[str]) -> str:
    """The first few, and how many more."""
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more


def _unknown(
    cluster: ClusterKey, nodes: Iterable[NodeFacts], asked: Sequence[str], unknown: Sequence[str]
) -> InvalidInput:
    """The remedy keeps what was asked for rightly, so that nothing of the request is lost."""
    kept = ",".join(address for address in asked if address not in unknown)
    there = listed(sorted(spoken(node) for node in nodes)) or "none"
    return InvalidInput(
        f"no node of {cluster} has the address {listed(unknown)}, so nothing was done; its nodes are {there}",
        subject=f"BKECluster {cluster}",
        field=f"metadata.annotations[{ANNOTATION_RETRY}]",
        value=",".join(asked),
        remedy=f"kubectl annotate --overwrite bkecluster {cluster.name} -n {cluster.kube_namespace} "
        f"{ANNOTATION_RETRY}={kept}{' with the right address added' if kept else ' for all nodes, or =ADDRESS'}",
    )
