"""Every workflow is loaded by the sandbox without reading a module twice: a module that is not passed through costs
time and memory in every run, and may hold state that a replay does not have (temporal.md §2.3)."""

from __future__ import annotations

import pytest
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner
from temporalio.workflow import _Definition

from sandbox_rules import RESTRICTIONS
from worker.composition import WORKFLOWS


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda workflow: workflow.__name__)
async def test_a_workflow_loads_with_every_import_passed_through(workflow: type) -> None:
    runner = SandboxedWorkflowRunner(restrictions=RESTRICTIONS)
    runner.prepare_workflow(_Definition.must_from_class(workflow))
