"""Cordons with a ledger on the node: only what a run has cordoned is given back (design §2.6, §8).

The patch that cordons a core Node also marks it: `hopline.dev/taken-by: <workflow id>` and what stood there before.
Mark present = ours, also after a run that ended without giving back; no mark = a person's, which stays.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hopline.domain.errors import Blocked, NotFound
from hopline.domain.resources import ANNOTATION_TAKEN_BEFORE, ANNOTATION_TAKEN_BY, NODE, Document, ObjectRef
from hopline.domain.wire import WireModel
from hopline.ports import ClusterClient

_BEFORE = json.dumps({"unschedulable": False})


class GivenBack(WireModel):
    """What the end of a cordon saw.

    Attributes:
        gave_back: our mark was there, and is gone now.
        note: what a person has done to the cordon meanwhile, as a sentence; empty: nothing.
    """

    gave_back: bool = False
    note: str = ""


def is_cordoned(node: Document) -> bool:
    """Whether the scheduler leaves it alone."""
    return bool((node.get("spec") or {}).get("unschedulable"))


def cordon_owner(node: Document) -> str:
    """Workflow id of the run that has cordoned it; empty: no run has."""
    return str((node["metadata"].get("annotations") or {}).get(ANNOTATION_TAKEN_BY) or "")


def who_set(node: Document, *path: str) -> str:
    """`kubectl at 2026-06-01T10:00:00Z`: who wrote a field of a Node last, and when; empty when nobody knows."""
    entry = _writer(node, *path)
    return f"{entry.get('manager', '?')} at {entry.get('time', '?')}" if entry else ""


async def cordon(target: ClusterClient, name: str, workflow_id: str) -> Document:
    """Cordon a node and mark it as ours, in one patch; a node that is ours already stays as it is.

    Raises Blocked when somebody else has cordoned it: who, when, and the command that takes it back. Raises Conflict
    when the Node changes at the same time, and NotFound when there is none.
    """
    ref = ObjectRef(kind=NODE, name=name)
    node = await target.get(ref)
    owner = cordon_owner(node)
    if owner and owner != workflow_id:
        raise _held(node, f"the run {owner} has it in hand", f"wait for that run, or: kubectl annotate node {name} ")
    if is_cordoned(node) and not owner:
        who = who_set(node, "f:spec", "f:unschedulable") or "somebody"
        raise _held(node, f"{who} has cordoned it", "")
    if owner and is_cordoned(node):
        return node
    body = {
        "metadata": {
            "resourceVersion": node["metadata"]["resourceVersion"],
            "annotations": {ANNOTATION_TAKEN_BY: workflow_id, ANNOTATION_TAKEN_BEFORE: _BEFORE},
        },
        "spec": {"unschedulable": True},
    }
    return await target.patch(ref, body)


async def uncordon(target: ClusterClient, name: str, workflow_id: str) -> GivenBack:
    """Take our cordon and mark away; nothing when the mark is not ours, or the node is gone.

    What a person has done to the cordon meanwhile stays, and is told.
    """
    ref = ObjectRef(kind=NODE, name=name)
    try:
        node = await target.get(ref)
        if cordon_owner(node) != workflow_id:
            return GivenBack()
        note = changed_by_hand(node)
        keeps = bool(note) and is_cordoned(node)
        body: Document = {
            "metadata": {
                "resourceVersion": node["metadata"]["resourceVersion"],
                "annotations": {ANNOTATION_TAKEN_BY: None, ANNOTATION_TAKEN_BEFORE: None},
            }
        }
        if is_cordoned(node) and not keeps:
            body["spec"] = {"unschedulable": None}
        await target.patch(ref, body)
    except NotFound:
        return GivenBack()
    return GivenBack(gave_back=True, note=f"{note}; it stays cordoned" if keeps else note)


def changed_by_hand(node: Document) -> str:
    """What somebody else has done to our cordon, as a sentence; empty: it is as we left it.

    Ours is the writer of the mark: a cordon by another writer is that one's.
    """
    name = node["metadata"]["name"]
    if not is_cordoned(node):
        return f"somebody has uncordoned {name} in the meantime"
    mine = _writer(node, "f:metadata", "f:annotations", f"f:{ANNOTATION_TAKEN_BY}")
    present = _writer(node, "f:spec", "f:unschedulable")
    if mine and present and present.get("manager") != mine.get("manager"):
        who = who_set(node, "f:spec", "f:unschedulable")
        return f"{who} has cordoned {name} in the meantime"
    return ""


def _writer(node: Document, *path: str) -> Mapping[str, Any]:
    for entry in node["metadata"].get("managedFields") or ():
        fields: Any = entry.get("fieldsV1")
        for step in path:
            fields = fields.get(step) if isinstance(fields, Mapping) else None
        if fields is not None:
            return dict(entry)
    return {}


def _held(node: Document, why: str, remedy: str) -> Blocked:
    name = node["metadata"]["name"]
    command = f"{remedy}{ANNOTATION_TAKEN_BY}-" if remedy else f"kubectl uncordon {name}"
    return Blocked(
        f"node {name} is cordoned and not by this run: {why}",
        subject=f"Node {name}",
        field="spec.unschedulable",
        value="true",
        remedy=command,
    )
