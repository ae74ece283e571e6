"""The graph of a catalogue: which way leads from one version to another, and why there is none.

Rules of a path:

- blocked edges are never taken;
- fewest hops; among those the fewest deprecated edges (one without any wins); among those the newest intermediate
  versions, compared from the first hop on;
- the answer depends on the edges alone, never on their order in the file.

An open edge leads to a newer version (`catalogue` rule 4), so a version that was withdrawn (all edges to it blocked)
still has its own open edges as the way out.

Every answer costs at most a few passes over the edges, plus one sort of the versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hopline.domain.catalogue import Catalogue, Edge, check_catalogue
from hopline.domain.errors import InvalidCatalogue, InvalidVersion, PathReason
from hopline.domain.resources import CLUSTER_VERSION
from hopline.domain.routes import Reachable, ReachableVersion, UpgradeRoute, invalid_reachable, invalid_route
from hopline.domain.versions import Version, parse_version
from hopline.domain.wire import ClusterKey

SHOWN_VERSIONS = 10
"""Reachable versions that a remedy lists at most: the newest ones."""

DESIRED, CURRENT = "spec.desiredVersion", "status.currentVersion"

_FAR = 1 << 60

_Cost = tuple[int, int]
"""Hops, then deprecated edges (search) of a way."""


class _Answer(NamedTuple):
    """Why there is no way."""

    reason: PathReason
    message: str
    remedy: str = ""


_UNSET = {
    DESIRED: _Answer(PathReason.UNKNOWN_VERSION, "no desired version is set", "set spec.desiredVersion"),
    CURRENT: _Answer(
        PathReason.UNKNOWN_VERSION,
        "no current version is recorded, so no path can be looked for",
        "wait until the installation has ended, which records it in status.currentVersion",
    ),
}


class UpgradeGraph:
    """Questions to one catalogue. A catalogue that breaks its rules answers every one with InvalidCatalogue.

    Attributes:
        fault: what is wrong with the catalogue, None when it is sound.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.fault: InvalidCatalogue | None = None
        self._known: dict[str, Version] = {}
        self._open: dict[str, list[Edge]] = {}
        self._open_into: dict[str, list[Edge]] = {}
        self._blocked: dict[str, list[tuple[int, Edge]]] = {}
        try:
            self._known = check_catalogue(catalogue)
        except InvalidCatalogue as fault:
            self.fault = fault
            return
        for index, edge in enumerate(catalogue.edges):
            if edge.blocked:
                self._blocked.setdefault(edge.from_version, []).append((index, edge))
            else:
                self._open.setdefault(edge.from_version, []).append(edge)
                self._open_into.setdefault(edge.to_version, []).append(edge)

    def find_path(self, current: str, desired: str, cluster: ClusterKey | None = None) -> UpgradeRoute:
        """The path from `current` to `desired` by the rules of this module, or why there is none. Never raises.

        With `cluster` the remedy is a command, and the subject a ClusterVersion with its name.
        """
        if current == desired:
            return _already_there(current, desired, f"{desired} is the current version already")
        if self.fault:
            return invalid_route(current, desired, self.fault)
        return (
            self._order_speaks(current, desired, cluster)
            or self._unknown_end(current, desired, cluster)
            or self._best(current, desired)
            or self._no_path(current, desired, cluster)
        )

    def require_path(self, current: str, desired: str, cluster: ClusterKey | None = None) -> UpgradeRoute:
        """As `find_path`, for a caller that needs hops, or to know that there is nothing to do.

        Raises:
            InvalidCatalogue: the catalogue breaks its rules.
            NoUpgradePath: there is no path; its `reason` says which kind.
        """
        route = self.find_path(current, desired, cluster)
        if route.reason is PathReason.INVALID_CATALOGUE and self.fault:
            raise self.fault
        if route.reason in (PathReason.NONE, PathReason.ALREADY_THERE):
            return route
        raise route.refusal()

    def reachable(self, current: str) -> Reachable:
        """Every version that a path leads to, oldest first, or why there is none. Never raises."""
        if self.fault:
            return invalid_reachable(current, self.fault)
        advised_against = {entry.version for entry in self.catalogue.versions if entry.deprecated}
        versions = tuple(
            ReachableVersion(version=version, hops=hops, deprecated=deprecated > 0 or version in advised_against)
            for version, (hops, deprecated) in self._costs(current)
        )
        if versions:
            return Reachable(from_version=current, versions=versions)
        reason, message, remedy = self._why_nowhere(current)
        return Reachable(from_version=current, reason=reason, message=message, remedy=remedy)

    def _best(self, current: str, desired: str) -> UpgradeRoute | None:
        """The path of the module's rules; None when there is none.

        Costs are counted back from the goal, so that a walk forward can choose the newest version among equals.
        """
        cost: dict[str, _Cost] = {desired: (0, 0)}
        layer = [desired]
        while layer and current not in cost:
            layer = _next_layer(layer, self._open_into, cost, forward=False)
        if current not in cost:
            return None
        hops: list[Edge] = []
        version = current
        while version != desired:
            candidates = [edge for edge in self._open[version] if _is_cheapest(edge, cost)]
            edge = max(candidates, key=lambda candidate: self._known[candidate.to_version])
            hops.append(edge)
            version = edge.to_version
        return UpgradeRoute(from_version=current, to_version=desired, hops=tuple(hops))

    def _costs(self, current: str) -> list[tuple[str, _Cost]]:
        """Version → cost of its best path from `current`, without `current` itself, oldest version first."""
        cost: dict[str, _Cost] = {current: (0, 0)}
        layer = [current]
        while layer:
            layer = _next_layer(layer, self._open, cost, forward=True)
        del cost[current]
        return sorted(cost.items(), key=lambda item: self._known[item[0]])

    def _order_speaks(self, current: str, desired: str, cluster: ClusterKey | None) -> UpgradeRoute | None:
        """What the order of the two versions alone decides: not a version, the same one, an older one."""
        order: list[Version] = []
        for text, field in ((desired, DESIRED), (current, CURRENT)):
            if not text:
                return _refused(current, desired, _UNSET[field], cluster, field)
            try:
                order.append(parse_version(text))
            except InvalidVersion as error:
                answer = _Answer(PathReason.UNKNOWN_VERSION, error.message, error.remedy)
                return _refused(current, desired, answer, cluster, field)
        if order[0] == order[1]:
            return _already_there(current, desired, f"{desired} is the current version, spelled {current} there")
        if order[0] > order[1]:
            return None
        message = f"{desired} is older than the current version {current}, and a platform is never downgraded"
        remedy = self._offer(current, desired, cluster) or f"stay at {current}"
        return _refused(current, desired, _Answer(PathReason.DOWNGRADE, message, remedy), cluster, DESIRED)

    def _unknown_end(self, current: str, desired: str, cluster: ClusterKey | None) -> UpgradeRoute | None:
        """The refusal for an end of the way that is on no edge; None when both are."""
        if desired not in self._known:
            answer = self._on_no_edge(desired, f"the desired version {desired}", "leads to")
            offer = self._offer(current, desired, cluster)
            return _refused(current, desired, answer._replace(remedy=offer or answer.remedy), cluster, DESIRED)
        if current not in self._known:
            answer = self._on_no_edge(current, f"the current version {current}", "leaves")
            return _refused(current, desired, answer, cluster, CURRENT)
        return None

    def _on_no_edge(self, text: str, called: str, verb: str) -> _Answer:
        """`text` is on no edge: the catalogue is empty, spells or lists it otherwise, or does not know it."""
        subject = self.catalogue.subject
        remedy = f"use a catalogue with an edge that {verb} {text}"
        spelling = self._other_spelling(text)
        if spelling:
            message = f"{subject} does not know {called}; it spells that version {spelling}"
            return _Answer(PathReason.UNKNOWN_VERSION, message, f"write {spelling}")
        if any(entry.version == text for entry in self.catalogue.versions):
            return _Answer(PathReason.NO_PATH, f"{subject} lists {called}, but no edge {verb} it", remedy)
        empty = ": it has no edge at all" if self.catalogue.is_empty else ""
        return _Answer(PathReason.UNKNOWN_VERSION, f"{subject} does not know {called}{empty}", remedy)

    def _other_spelling(self, text: str) -> str:
        version = _ordered(text)
        return next((known for known, other in self._known.items() if other == version), "")

    def _no_path(self, current: str, desired: str, cluster: ClusterKey | None) -> UpgradeRoute:
        """Both versions are known and no open way joins them."""
        subject = self.catalogue.subject
        offer = self._offer(current, desired, cluster)
        barrier = self._barrier(current, desired)
        if barrier is None:
            remedy = offer or self._why_nowhere(current).remedy
            answer = _Answer(PathReason.NO_PATH, f"{subject} has no path {current} -> {desired}", remedy)
            return _refused(current, desired, answer, cluster, DESIRED)
        index, edge = barrier
        remedy = offer or f"wait for a catalogue that opens {edge} or another way"
        return UpgradeRoute(
            from_version=current,
            to_version=desired,
            reason=PathReason.BLOCKED,
            message=f"{subject} blocks {edge}",
            remedy=remedy,
            subject=subject,
            field=f"spec.paths[{index}].blocked",
            value=f"true, notes: {edge.notes}" if edge.notes else "true",
        )

    def _barrier(self, current: str, desired: str) -> tuple[int, Edge] | None:
        """The first blocked edge on the way that needs the fewest of them; None when even all would not help.

        Only edges to newer versions count: a blocked downgrade is not what keeps anyone from an upgrade. Versions in
        ascending order are therefore a topological order.
        """
        needed: dict[str, tuple[int, int]] = {current: (0, 0)}
        first: dict[str, tuple[int, Edge] | None] = {current: None}
        for version in sorted(self._known, key=self._known.__getitem__):
            if version not in needed:
                continue
            walls, hops = needed[version]
            steps: list[tuple[tuple[int, Edge] | None, Edge]] = [(None, edge) for edge in self._open.get(version, ())]
            steps += [(wall, wall[1]) for wall in self._blocked.get(version, ()) if self._leads_up(wall[1])]
            for wall, edge in steps:
                price = (walls + (wall is not None), hops + 1)
                if price < needed.get(edge.to_version, (_FAR, 0)):
                    needed[edge.to_version] = price
                    first[edge.to_version] = first[version] or wall
        return first.get(desired)

    def _why_nowhere(self, current: str) -> _Answer:
        """Why nothing can be reached from `current`."""
        subject = self.catalogue.subject
        if current not in self._known:
            return self._on_no_edge(current, f"the current version {current}", "leaves")
        walls = [wall for wall in self._blocked.get(current, ()) if self._leads_up(wall[1])]
        if walls:
            index, edge = max(walls, key=lambda wall: self._known[wall[1].to_version])
            notes = f", notes: {edge.notes}" if edge.notes else ""
            message = f"{subject} blocks every edge that leaves {current}: spec.paths[{index}] is {edge}{notes}"
            return _Answer(PathReason.BLOCKED, message, f"wait for a catalogue that opens an edge from {current}")
        newest = max(self._known, key=self._known.__getitem__)
        remedy = f"use a catalogue with an edge that leaves {current}"
        if newest == current:
            newest_already = f"{current} is the newest version of {subject}"
            return _Answer(PathReason.ALREADY_NEWEST, newest_already, "nothing needs to be done")
        return _Answer(PathReason.NO_PATH, f"{subject} has no edge that leaves {current}", remedy)

    def _leads_up(self, edge: Edge) -> bool:
        return self._known[edge.from_version] < self._known[edge.to_version]

    def _offer(self, current: str, desired: str, cluster: ClusterKey | None) -> str:
        """The remedy that names what can be reached from `current`; empty when nothing can.

        First the newest version that is not beyond `desired`, as the nearest to what was asked for.
        """
        names = [version for version, _ in self._costs(current)][::-1]
        if not names:
            return ""
        more = f" and {len(names) - SHOWN_VERSIONS} older ones" if len(names) > SHOWN_VERSIONS else ""
        listed = ", ".join(names[:SHOWN_VERSIONS]) + more
        if cluster is None:
            return f"ask for a version that {current} can reach: {listed}"
        wish = _ordered(desired)
        nearest = next((name for name in names if wish is not None and self._known[name] < wish), names[0])
        others = f", or one of: {listed}" if len(names) > 1 else ""
        return f"hopline upgrade {cluster.name} -n {cluster.kube_namespace} --to {nearest}{others}"


def _ordered(text: str) -> Version | None:
    try:
        return parse_version(text)
    except InvalidVersion:
        return None


def _next_layer(
    layer: list[str], edges: Mapping[str, list[Edge]], cost: dict[str, _Cost], *, forward: bool
) -> list[str]:
    """The versions one hop beyond `layer`; their costs are added to `cost`."""
    found: dict[str, int] = {}
    hops = cost[layer[0]][0] + 1
    for version in layer:
        deprecated = cost[version][1]
        for edge in edges.get(version, ()):
            neighbour = edge.to_version if forward else edge.from_version
            if neighbour not in cost:
                found[neighbour] = min(found.get(neighbour, _FAR), deprecated + edge.deprecated)
    cost.update({version: (hops, deprecated) for version, deprecated in found.items()})
    return list(found)


def _is_cheapest(edge: Edge, cost: Mapping[str, _Cost]) -> bool:
    """Whether the best way to the goal may go over `edge`; `cost` is counted back from the goal."""
    beyond = cost.get(edge.to_version)
    return beyond is not None and cost[edge.from_version] == (beyond[0] + 1, beyond[1] + edge.deprecated)


def _already_there(current: str, desired: str, message: str) -> UpgradeRoute:
    return UpgradeRoute(from_version=current, to_version=desired, reason=PathReason.ALREADY_THERE, message=message)


def _refused(current: str, desired: str, answer: _Answer, cluster: ClusterKey | None, field: str) -> UpgradeRoute:
    """A refusal about one of the two versions of a ClusterVersion."""
    return UpgradeRoute(
        from_version=current,
        to_version=desired,
        reason=answer.reason,
        message=answer.message,
        remedy=answer.remedy,
        subject=f"{CLUSTER_VERSION.kind} {cluster}" if cluster else CLUSTER_VERSION.kind,
        field=field,
        value=(desired if field == DESIRED else current) or '""',
    )
