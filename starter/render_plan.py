"""The plan as a person sees it before the start (screens.md §1)."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from hopline.domain.plan import (
    Action,
    CheckResult,
    CheckStage,
    Finding,
    HopPlan,
    ImageSupply,
    PlannedCheck,
    PlannedComponent,
    Pool,
    Severity,
    SupplyMode,
    UpgradePlan,
)
from starter.durations import about
from starter.layout import columns, listed, sentence, side_by_side

SHORT_DIGEST = 8
MAX_REWRITES_SHOWN = 8


def short_digest(digest: str) -> str:
    """Enough of a digest for a person to compare."""
    return digest.removeprefix("sha256:")[:SHORT_DIGEST]


def plan_lines(plan: UpgradePlan, mode: str = "batches") -> list[Text]:
    """Headline, one block per hop, findings, and whether it could start."""
    hops = len(plan.hops)
    expected = sum(_expected(hop, mode) for hop in plan.hops)
    way = f"{plan.from_version} -> {plan.to_version}"
    if not hops and not plan.blocking:
        head = f"{plan.cluster}  {way}   nothing to do"
    else:
        count = f"{hops} hop{'s' if hops != 1 else ''}"
        digest = f"   plan {short_digest(plan.digest)}" if plan.digest else ""
        head = f"{plan.cluster}  {way}   {count}, {about(expected)} expected{digest}   nothing changed yet"
    lines = [*sentence(head, 0, style="bold"), *supply_lines(plan.supply)]
    for number, hop in enumerate(plan.hops, start=1):
        lines += [Text(""), *hop_lines(hop, number, hops, mode)]
    return lines + finding_lines(plan.findings)


def supply_lines(supply: ImageSupply) -> list[Text]:
    """Online or offline and why, the lists of images, and what is taken from elsewhere; nothing when nobody looked."""
    if supply.mode not in (SupplyMode.ONLINE, SupplyMode.OFFLINE):
        return []
    lines = sentence(f"by {supply.field}: {', '.join(supply.hosts)}", 10, first=f"  {supply.mode.value}")
    for found in supply.lists:
        lines += sentence(f"{found.version}: {found.images} images, by {found.object}", 10, first="  list")
    shown = [f"{rewrite.named} -> {rewrite.applied}" for rewrite in supply.rewrites[:MAX_REWRITES_SHOWN]]
    if len(shown) < supply.rewritten:
        shown.append(f"and {supply.rewritten - len(shown)} more")
    for number, text in enumerate(shown):
        lines += sentence(text, 10, first="  images" if number == 0 else "")
    return lines


def hop_lines(hop: HopPlan, number: int, total: int, mode: str = "batches") -> list[Text]:
    """Title, the batches side by side, one row per component, checks and the critical path."""
    run = sum(component.action is Action.RUN for component in hop.components)
    advice = ", deprecated" if hop.deprecated else ""
    title = f"Hop {number} of {total}   {hop.from_version} -> {hop.to_version}{advice}"
    amount = f"{about(_expected(hop, mode))} expected, {run} of {len(hop.components)} components run"
    lines = [*sentence(f"{title}   {amount}", 0, style="bold"), *picture_lines(hop), Text("")]
    lines += [Text(line) for line in columns(list(_rows(hop)))]
    lines += _check_lines(hop.checks)
    if hop.critical_path:
        lines += sentence(f"longest chain: {' > '.join(hop.critical_path)}", 2)
    return lines


def picture_lines(hop: HopPlan) -> list[Text]:
    """The batches beside each other, from left to right in time; skipped components in brackets."""
    stacks = [
        [f"{number}", *(_drawn(hop.component(name)) for name in batch)] for number, batch in enumerate(hop.batches, 1)
    ]
    return [Text(line) for line in side_by_side(stacks)] if stacks else []


def finding_lines(findings: Iterable[Finding]) -> list[Text]:
    """What a person should know, what blocks first, and the sum."""
    order = {Severity.BLOCKS: 0, Severity.WARNS: 1}
    ordered = sorted(findings, key=lambda finding: order.get(finding.severity, 2))
    if not ordered:
        return []
    lines = [Text(""), Text("Findings", style="bold")]
    for finding in ordered:
        where = " ".join(part for part in (finding.object, finding.field) if part)
        style = "red" if finding.severity is Severity.BLOCKS else ""
        text = f"{where}: {finding.message}" if where else finding.message
        lines += sentence(text, 10, first=f"  {finding.severity.value}", style=style)
        if finding.remedy:
            lines += sentence(f"remedy: {finding.remedy}", 10)
    blocks = sum(finding.severity is Severity.BLOCKS for finding in ordered)
    count = f"{len(ordered)} finding{'s' if len(ordered) != 1 else ''}"
    verdict = f"Not startable: {blocks} block{'s' if blocks == 1 else ''}." if blocks else "None of them blocks."
    return [*lines, Text(""), Text(f"{count}. {verdict}")]


def _expected(hop: HopPlan, mode: str) -> int:
    return hop.expected_seconds.get(mode, 0)


def _drawn(component: PlannedComponent) -> str:
    return f"({component.name})" if component.action is Action.SKIP else component.name


def _rows(hop: HopPlan) -> Iterable[tuple[str, ...]]:
    for number, batch in enumerate(hop.batches, start=1):
        for place, name in enumerate(batch):
            yield (str(number) if place == 0 else "", *_row(hop.component(name)))


def _row(component: PlannedComponent) -> tuple[str, ...]:
    if component.action is Action.SKIP:
        return (component.name, component.reason or f"up to date ({component.version})")
    change = f"{component.current or '?'} -> {component.version}"
    pools = " then ".join(_POOL_NAMES.get(pool, pool.value) for pool in component.pools)
    return (component.name, change, about(component.expected_seconds), pools)


_POOL_NAMES = {Pool.CONTROL_PLANE: "control plane", Pool.WORKERS: "workers"}


def _check_lines(checks: Iterable[PlannedCheck]) -> list[Text]:
    every = list(checks)
    lines: list[Text] = []
    for stage in CheckStage:
        shown = [_check(check) for check in every if check.stage is stage]
        if shown:
            lines += sentence(listed(shown), 10, first=f"  {stage.value}")
    return lines


def _check(check: PlannedCheck) -> str:
    optional = "" if check.required else " (optional)"
    return check.name + optional + ("" if check.result is CheckResult.NOT_RUN else f" {check.result.value}")
