"""Which events carry the mark of the platform's log stream (openfuyao-api.md §2.1, observed.md §3)."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from hopline.domain.resources import ANNOTATION_EVENT, EVENT
from hopline.operations.events import EventRecord, Regarding, tell
from hopline.sim.clusters import open_simulation
from hopline.sim.scenarios import create_scenario

EXAMPLES = Path(__file__).parents[2] / "deploy" / "examples"


@pytest.mark.parametrize(
    ("about", "annotations"), [(Regarding.BKE_CLUSTER, {ANNOTATION_EVENT: ""}), (Regarding.CLUSTER_VERSION, None)]
)
async def test_events_of_a_cluster_carry_it(
    tmp_path: Path, about: Regarding, annotations: dict[str, str] | None
) -> None:
    key = create_scenario(tmp_path / "sim.db", examples=EXAMPLES)
    clusters = open_simulation(tmp_path / "sim.db")
    metadata = {"name": key.name, "namespace": key.kube_namespace}
    regarding = {"apiVersion": "v1", "kind": about.value, "metadata": metadata}
    record = EventRecord(number=1, regarding=about, reason="R", message="m", at=datetime(2026, 8, 1, tzinfo=UTC))
    await tell(clusters.management, record, regarding, "run")
    (event,) = (await clusters.management.list(EVENT, kube_namespace=key.kube_namespace)).items
    assert event["metadata"].get("annotations") == annotations
    await clusters.aclose()
