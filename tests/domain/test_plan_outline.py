"""What the executions of a run carry of a plan."""

from __future__ import annotations

from hopline.domain.plan import HopOutline, PlanOutline

OUTLINE = PlanOutline(
    digest="d",
    hops=(
        HopOutline.model_validate({"from": "v1.0", "to": "v1.1"}),
        HopOutline.model_validate({"from": "v1.1", "to": "v1.2"}),
        HopOutline.model_validate({"from": "v1.2", "to": "v1.3"}),
    ),
)


def test_the_first_hop_announces_the_whole_path() -> None:
    assert OUTLINE.edge_path("v1.1") == "v1.0->v1.1,v1.1->v1.2,v1.2->v1.3"


def test_a_later_hop_announces_what_is_still_to_do() -> None:
    """The recorded annotation of the second hop no longer names the first one (observed.md §3)."""
    assert OUTLINE.edge_path("v1.2") == "v1.1->v1.2,v1.2->v1.3"
    assert OUTLINE.edge_path("v1.3") == "v1.2->v1.3"
