"""What Hopline counts about itself, through the SDK's replay-safe meter.

Only exported when the worker's runtime has metrics (`hopline.runtime.telemetry`); names and labels are documented in
docs/architecture.md and used by dashboards, so they stay.
"""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow

COMPONENT_DURATION = "hopline_component_duration"
"""Histogram, seconds. Labels: component, type, outcome (done, skipped, failed)."""

HOPS = "hopline_hops"
"""Counter. Label: outcome, a RunState (Done, Held, Refused, Failed, Aborted)."""


def component_ended(component: str, component_type: str, outcome: str, duration: timedelta) -> None:
    """A component of this hop has ended."""
    histogram = workflow.metric_meter().create_histogram_timedelta(
        COMPONENT_DURATION, "from the start of a component to its end, waits included", "duration"
    )
    histogram.record(duration, {"component": component, "type": component_type, "outcome": outcome})


def hop_ended(outcome: str) -> None:
    """A hop has ended, or is held for a person."""
    workflow.metric_meter().create_counter(HOPS, "hops that ended or were held").add(1, {"outcome": outcome})
