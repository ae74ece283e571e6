"""The start input of `ClusterUpgrade`, read strictly, because a person wrote it (design "Temporal settings that bind").

It arrives as raw JSON: a model in the signature would make a bad input retry the workflow task for ever.
"""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from hopline.domain.errors import InvalidInput
from hopline.domain.plan import SchedulingMode
from workflows.identifiers import upgrade_workflow_id
from workflows.messages import UpgradeInput

EXAMPLE = '{"cluster": {"namespace": "…", "name": "…"}, "desiredVersion": "v26.06"}'
MODES = ("", SchedulingMode.BATCHES.value, SchedulingMode.EAGER.value)
_KNOWN = {"cluster", "desiredVersion", "desired_version", "onFailure", "on_failure", "mode", "carried"}


def read_upgrade_input(raw: Any, workflow_id: str) -> UpgradeInput | InvalidInput:
    """The request, or what is wrong with it; never raises, because `__init__` of a workflow must not."""
    if not isinstance(raw, dict):
        return _invalid("the input is not a JSON object", "input", str(raw))
    unknown = sorted(set(raw) - _KNOWN)
    if unknown:
        return _invalid("the input has a field that Hopline does not know", unknown[0], str(raw[unknown[0]]))
    try:
        request = UpgradeInput.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        return _invalid(f"the input is not usable: {first['msg']}", field, str(first.get("input", "")))
    for field, value in (
        ("cluster.namespace", request.cluster.kube_namespace),
        ("cluster.name", request.cluster.name),
        ("desiredVersion", request.desired_version),
    ):
        if not value.strip():
            return _invalid("a required text is empty", field, value)
    if request.mode not in MODES:
        return _invalid(f"the mode is none of {' and '.join(MODES[1:])}", "mode", request.mode)
    expected = upgrade_workflow_id(request.cluster)
    if workflow_id != expected:
        return InvalidInput(
            "an upgrade has one workflow id per cluster, so that two of them never run at once",
            subject="ClusterUpgrade",
            field="workflow id",
            value=workflow_id,
            remedy=f"start it again with --workflow-id {expected}",
        )
    return request


def _invalid(message: str, field: str, value: str) -> InvalidInput:
    return InvalidInput(message, subject="ClusterUpgrade input", field=field, value=value, remedy=f"write {EXAMPLE}")
