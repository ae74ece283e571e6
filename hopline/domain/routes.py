"""Answers about paths, as values: how to get from one version to another, and what can be reached."""

from __future__ import annotations

from pydantic import Field

from hopline.domain.catalogue import Edge
from hopline.domain.errors import InvalidCatalogue, NoUpgradePath, PathReason, Refusal
from hopline.domain.resources import Document
from hopline.domain.wire import WireModel


class UpgradeRoute(WireModel):
    """The answer to "how do I get from here to there". `reason` is empty when `hops` says how.

    `subject`, `field` and `value` say what stands in the way, as in `HoplineError`.
    """

    from_version: str = Field(alias="from")
    to_version: str = Field(alias="to")
    hops: tuple[Edge, ...] = ()
    reason: PathReason = PathReason.NONE
    message: str = ""
    remedy: str = ""
    subject: str = ""
    field: str = ""
    value: str = ""

    @property
    def versions(self) -> tuple[str, ...]:
        """Every version on the way, both ends included; only `from` when there is no hop."""
        return (self.from_version, *(hop.to_version for hop in self.hops))

    @property
    def deprecated(self) -> bool:
        """The way takes an edge that the catalogue advises against."""
        return any(hop.deprecated for hop in self.hops)

    def refusal(self) -> Refusal:
        """The error that says why there is no path."""
        if self.reason is PathReason.INVALID_CATALOGUE:
            return InvalidCatalogue(self.message)
        return NoUpgradePath(
            self.message,
            reason=self.reason,
            subject=self.subject,
            field=self.field,
            value=self.value,
            remedy=self.remedy,
        )

    def document(self) -> Document:
        """The stable JSON of `hopline path`."""
        return {
            "from": self.from_version,
            "to": self.to_version,
            "hops": [
                {"from": hop.from_version, "to": hop.to_version, "deprecated": hop.deprecated} for hop in self.hops
            ],
            "reason": self.reason.value,
            "message": self.message,
        }


class ReachableVersion(WireModel):
    """One version that can be reached.

    Attributes:
        hops: of the path that `UpgradeGraph.find_path` would take.
        deprecated: the catalogue advises against the version itself, or that path takes a deprecated edge.
    """

    version: str
    hops: int
    deprecated: bool = False


class Reachable(WireModel):
    """Every version that can be reached, oldest first (the order of openfuyao-api.md §4.3).

    `reason` is empty when there are any; otherwise it and `message` say why there are none.
    """

    from_version: str = Field(alias="from")
    versions: tuple[ReachableVersion, ...] = ()
    reason: PathReason = PathReason.NONE
    message: str = ""
    remedy: str = ""

    def document(self) -> Document:
        """The stable JSON of `hopline versions`."""
        return {
            "from": self.from_version,
            "versions": [version.model_dump(mode="json") for version in self.versions],
            "reason": self.reason.value,
            "message": self.message,
        }


def invalid_route(current: str, desired: str, fault: InvalidCatalogue) -> UpgradeRoute:
    """The answer to `find_path` when the catalogue cannot be used."""
    return UpgradeRoute(
        from_version=current,
        to_version=desired,
        reason=PathReason.INVALID_CATALOGUE,
        message=str(fault),
        remedy=fault.remedy,
        subject=fault.subject,
        field=fault.field,
        value=fault.value,
    )


def invalid_reachable(current: str, fault: InvalidCatalogue) -> Reachable:
    """The answer to `reachable` when the catalogue cannot be used."""
    return Reachable(from_version=current, reason=PathReason.INVALID_CATALOGUE, message=str(fault), remedy=fault.remedy)
