"""The one table of phases and conditions says what the projection writes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from docs.pages import ROOT, rows
from hopline.domain import status
from hopline.domain.projection import bke_cluster_status, cluster_version_status
from hopline.domain.status import HopProgress, RunState, UpgradeStatus
from hopline.domain.wire import ClusterKey

NOW = datetime(2026, 8, 1, 2, 0, tzinfo=UTC)
AFTER_WORK = "every component of the hop is done, the real cluster is looked at"
TABLE = [row for row in rows(ROOT / "docs" / "status.md") if "ClusterVersion `phase`" in row and row["run"] != "none"]


def run_in(row: dict[str, str]) -> UpgradeStatus:
    """A run as the row describes it."""
    state = RunState(row["run"])
    hop = HopProgress(number=1, total=1, from_version="v1", to_version="v2")
    wrote = state not in (RunState.PLANNING, RunState.REFUSED) and (
        state is not RunState.CHECKING or row["when"] == AFTER_WORK
    )
    made = UpgradeStatus(
        cluster=ClusterKey(kube_namespace="east", name="east"), to_version="v2", hop=hop, wrote=wrote, opened=wrote
    )
    if state is RunState.DONE:
        return status.done(status.hop_finished(made, NOW), NOW)
    return made.model_copy(update={"state": state})


def test_every_state_of_a_run_has_a_row() -> None:
    assert {row["run"] for row in TABLE} == {state.value for state in RunState if state is not RunState.UNKNOWN}
    assert [row["when"] for row in TABLE].count(AFTER_WORK) == 1


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row['run']}: {row['when'][:30]}")
def test_a_row_is_what_is_written(row: dict[str, str]) -> None:
    found: dict[str, Any] = {"spec": {"desiredVersion": "v2"}, "status": {}}
    run = run_in(row)
    version, bke = cluster_version_status(run, found, NOW), bke_cluster_status(run, {"status": {}}, NOW)
    conditions = {one["type"]: one["status"] for one in version["conditions"]}
    shown = {
        "ClusterVersion `phase`": f"`{version['phase']}`",
        "`clusterStatus`": f"`{bke['clusterStatus']}`" if "clusterStatus" in bke else "as found",
        "`clusterHealthState`": f"`{bke['clusterHealthState']}`" if "clusterHealthState" in bke else "as found",
        **conditions,
    }
    assert {key: row[key] for key in shown} == shown
