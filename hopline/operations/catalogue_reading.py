"""What a management cluster's catalogue can say just now, and why it cannot say more."""

from __future__ import annotations

from hopline.domain.catalogue import read_catalogue
from hopline.domain.catalogue_status import fetch_trouble
from hopline.domain.errors import Forbidden, PathReason, PortError, Transient
from hopline.domain.resources import UPGRADE_PATH
from hopline.domain.routes import Reachable
from hopline.domain.upgrade_graph import UpgradeGraph
from hopline.operations.reading import the_one_catalogue
from hopline.ports import ClusterClient


async def reachable_versions(management: ClusterClient, current: str) -> Reachable:
    """The versions that can be reached from `current`, or why there are none.

    A catalogue that cannot be read, or whose registry does not answer, is told apart from one that says "none".
    Raises InvalidCatalogue when there is no UpgradePath, or several.
    """
    try:
        listing = await management.list(UPGRADE_PATH)
    except (Transient, Forbidden) as error:
        return _unreachable(current, f"the UpgradePath cannot be read: {error.message}", _remedy_of(error))
    document = the_one_catalogue(listing.items)
    answer = UpgradeGraph(read_catalogue(document)).reachable(current)
    trouble = fetch_trouble(document)
    if trouble is None:
        return answer
    if answer.versions:
        return answer.model_copy(update={"message": trouble.sentence()})
    return _unreachable(
        current,
        f"{trouble.sentence()}; it says: {answer.message}",
        "make the registry reachable: a newer catalogue may know more",
    )


def _unreachable(current: str, message: str, remedy: str) -> Reachable:
    said = f"{message}; remedy: {remedy}"
    return Reachable(from_version=current, reason=PathReason.CATALOGUE_UNREACHABLE, message=said, remedy=remedy)


def _remedy_of(error: PortError) -> str:
    if isinstance(error, Forbidden):
        return "allow the worker to list upgradepaths: kubectl apply -f deploy/rbac.yaml"
    return error.remedy or "make the management cluster's API server reachable, then ask again"
