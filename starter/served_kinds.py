"""Asks a cluster which kinds it serves, for `hopline check manifests --kubeconfig`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path

from hopline.domain.errors import NotFound
from hopline.ports import ClusterClient
from hopline.runtime.settings import Settings
from hopline.wiring import build_clusters


def served_kinds(kubeconfig: Path, wanted: Iterable[tuple[str, str]]) -> Mapping[tuple[str, str], bool | None]:
    """(apiVersion, kind) → whether its objects live in namespaces; None for one that the cluster does not serve.

    Only discovery is read. Raises what the port reports when the cluster cannot be asked.
    """
    return asyncio.run(_ask(kubeconfig, sorted(wanted)))


async def _ask(kubeconfig: Path, wanted: list[tuple[str, str]]) -> Mapping[tuple[str, str], bool | None]:
    changed = {"kubeconfig": str(kubeconfig), "simulation": None}
    settings = Settings.from_environment().model_copy(update=changed)
    clusters = await build_clusters(settings)
    try:
        return {key: await _scope(clusters.management, *key) for key in wanted}
    finally:
        await clusters.aclose()


async def _scope(client: ClusterClient, api_version: str, kind: str) -> bool | None:
    try:
        return (await client.resolve(api_version, kind)).namespaced
    except NotFound:
        return None
