"""Builds the ports of a process from its settings. The only place that knows every adapter."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass

from hopline.domain.release_origin import RegistryDefaults
from hopline.operations.catalogue_sync import CatalogueSource
from hopline.operations.release_origins import CatalogueOrigins, ClusterReleaseOrigins
from hopline.ports import ClusterClient, Clusters, NodeAgentInstaller, ReleaseSource, Store
from hopline.runtime.settings import Settings


@dataclass(frozen=True)
class Ports:
    """What activities and the watcher need from the outside."""

    clusters: Clusters
    releases: ReleaseSource
    catalogue: CatalogueSource | None = None
    """None: releases come from a directory, and nobody follows a registry."""

    async def aclose(self) -> None:
        """Give back every connection."""
        await self.clusters.aclose()


async def build_ports(settings: Settings) -> Ports:
    """The ports that the settings ask for: the simulator when HOPLINE_SIMULATION is set, else real API servers.

    Raises:
        InvalidInput: a setting names something that is not there.
        Transient: the management cluster cannot be reached just now.
    """
    if settings.releases is not None:
        from hopline.files.releases import DirectoryReleaseSource

        directory = DirectoryReleaseSource(settings.releases_directory)
        return Ports(clusters=await build_clusters(settings), releases=directory)
    defaults = settings.registry.read()
    clusters = await build_clusters(settings)
    return Ports(
        clusters=clusters,
        releases=registry_releases(clusters.management, settings, defaults),
        catalogue=registry_catalogue(clusters.management, settings, defaults),
    )


def registry_releases(management: ClusterClient, settings: Settings, defaults: RegistryDefaults) -> ReleaseSource:
    """Releases from the registries that the clusters name."""
    from hopline.oci.releases import RegistryReleaseSource

    return RegistryReleaseSource(ClusterReleaseOrigins(management, defaults), settings.registry.cache)


def registry_catalogue(management: ClusterClient, settings: Settings, defaults: RegistryDefaults) -> CatalogueSource:
    """The image of the catalogue, as a source that is asked for no version."""
    from hopline.oci.releases import RegistryReleaseSource

    return RegistryReleaseSource(CatalogueOrigins(management, defaults), settings.registry.cache)


def prune_releases(settings: Settings, pinned: Collection[str], *, dry: bool = False) -> int:
    """How many blobs have gone from the folder of fetched releases, or would go. Blocks."""
    from hopline.oci import store_pruning

    kept, now = settings.registry, time.time()
    bounds = store_pruning.Bounds(kept.cache_bytes, kept.cache_seconds)
    if dry:
        return len(store_pruning.too_much(store_pruning.kept_blobs(kept.cache), (), bounds, now))
    return store_pruning.prune(kept.cache, pinned, bounds, now)[0]


async def build_clusters(settings: Settings) -> Clusters:
    """The API servers alone, for a process that reads no release bundle. Raises as `build_ports` does."""
    # Imported on demand: a simulation must not pay for the Kubernetes client, nor the other way round.
    if settings.simulation is not None:
        from hopline.sim.clusters import open_simulation

        return open_simulation(settings.simulation)
    from hopline.kube.client import connect
    from hopline.kube.clusters import KubeClusters
    from hopline.kube.credentials import default_source

    management = await connect(default_source(settings.kubeconfig_file), field_manager=settings.field_manager)
    return KubeClusters(
        management,
        management_cluster=settings.management_cluster,
        field_manager=settings.field_manager,
        agents=pushed_agents(management, settings),
    )


def pushed_agents(management: ClusterClient, settings: Settings) -> NodeAgentInstaller | None:
    """Node agents over SSH; None when no Secret with credentials is named."""
    if settings.agent_ssh_secret is None:
        return None
    from hopline.files.agent_binaries import RepositoryAgentBinaries
    from hopline.operations.agent_push import PushedAgents
    from hopline.ssh.access import SecretName
    from hopline.ssh.nodes import SshNodes

    shells = SshNodes(management, SecretName(settings.agent_ssh_secret), settings.agent_ssh_host_keys)
    cache = settings.release_cache.expanduser() / "agents"
    return PushedAgents(management, shells, RepositoryAgentBinaries(cache, settings.agent_source or ""))


def store_on(management: ClusterClient) -> Store:
    """The Store that all workers of a management cluster share: on that cluster itself, simulated or real."""
    from hopline.kube.secret_store import SecretStore

    return SecretStore(management)
