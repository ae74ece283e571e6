"""What the plan says about etcd before anything is touched: whether anybody can look at it, and what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hopline.domain.cluster import ClusterFacts
from hopline.domain.errors import ClusterNotReady, Transient
from hopline.domain.etcd import health_problems
from hopline.domain.plan import Finding, PlannedComponent, Severity
from hopline.domain.release import InlineHandler
from hopline.operations.etcd_care import EtcdCare

MAX_NAMED = 5


class EtcdReview(NamedTuple):
    """`leader` is empty when there is no change of etcd, or nobody could look."""

    findings: tuple[Finding, ...] = ()
    leader: str = ""


async def review_etcd(care: EtcdCare, facts: ClusterFacts, at_work: Sequence[PlannedComponent]) -> EtcdReview:
    """Looks only when a component of the hop changes etcd."""
    changing = next((one for one in at_work if one.handler == InlineHandler.ETCD), None)
    if changing is None:
        return EtcdReview()
    subject = f"component {changing.name} {changing.version}"
    try:
        seen = await care.look(facts)
    except (ClusterNotReady, Transient) as error:
        blind = care.blindness(error)
        return EtcdReview(
            (
                Finding(
                    severity=Severity.BLOCKS if blind else Severity.WARNS,
                    object=error.subject or subject,
                    field=error.field,
                    message=f"{changing.name} is to be changed, and nobody can look at it: {error.message}",
                    remedy=blind.remedy if blind else "look yourself: etcdctl endpoint status --cluster",
                ),
            )
        )
    problems = health_problems(seen, facts)
    if not problems:
        return EtcdReview(leader=seen.leader)
    more = f"; and {len(problems) - MAX_NAMED} more" if len(problems) > MAX_NAMED else ""
    return EtcdReview(
        (
            Finding(
                severity=Severity.BLOCKS,
                object=subject,
                field="etcd",
                message=f"{changing.name} is to be changed, and is not well: {'; '.join(problems[:MAX_NAMED])}{more}",
                remedy="mend what it names (etcdctl endpoint health --cluster; etcdctl alarm list), then start again",
            ),
        ),
        seen.leader,
    )
