"""The sandbox of the worker, with an error where a module is loaded a second time or in the middle of a run."""

from __future__ import annotations

from temporalio.worker.workflow_sandbox import SandboxRestrictions
from temporalio.workflow import SandboxImportNotificationPolicy

RESTRICTIONS = SandboxRestrictions.default.with_import_notification_policy(
    SandboxImportNotificationPolicy.WARN_ON_DYNAMIC_IMPORT
    | SandboxImportNotificationPolicy.RAISE_ON_UNINTENTIONAL_PASSTHROUGH
)
