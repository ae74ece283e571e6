from pathlib import Path

import pytest

from hopline.domain.errors import InvalidInput
from hopline.domain.resources import NAMESPACE
from hopline.files.releases import DirectoryReleaseSource
from hopline.kube.clusters import KubeClusters
from hopline.oci.releases import RegistryReleaseSource
from hopline.ports import Clusters, ReleaseSource
from hopline.runtime.settings import Settings
from hopline.sim.clusters import SimulatedClusters
from hopline.wiring import build_clusters, build_ports

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: lab
contexts: [{name: lab, context: {cluster: lab, user: me}}]
clusters: [{name: lab, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: me, user: {token: secret}}]
"""


async def test_a_simulation_replaces_every_api_server(tmp_path: Path) -> None:
    environment = {"HOPLINE_SIMULATION": str(tmp_path / "simulation.sqlite"), "HOPLINE_RELEASES": str(tmp_path)}
    ports = await build_ports(Settings.from_environment(environment))
    clusters: Clusters = ports.clusters
    releases: ReleaseSource = ports.releases
    assert isinstance(clusters, SimulatedClusters)
    assert isinstance(releases, DirectoryReleaseSource)
    assert (await clusters.management.list(NAMESPACE)).items
    await ports.aclose()


async def test_without_a_directory_releases_come_from_registries(tmp_path: Path) -> None:
    ports = await build_ports(Settings.from_environment({"HOPLINE_SIMULATION": str(tmp_path / "simulation.sqlite")}))
    assert isinstance(ports.releases, RegistryReleaseSource)
    await ports.aclose()


async def test_otherwise_the_kubeconfig_leads_to_real_ones(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(KUBECONFIG)
    clusters = await build_clusters(Settings.from_environment({"HOPLINE_KUBECONFIG": str(file)}))
    assert isinstance(clusters, KubeClusters)
    await clusters.aclose()


async def test_what_is_missing_is_named_before_anything_is_opened(tmp_path: Path) -> None:
    simulation = tmp_path / "simulation.sqlite"
    with pytest.raises(InvalidInput, match="HOPLINE_RELEASES"):
        missing = {"HOPLINE_SIMULATION": str(simulation), "HOPLINE_RELEASES": str(tmp_path / "none")}
        await build_ports(Settings.from_environment(missing))
    with pytest.raises(InvalidInput, match="HOPLINE_REGISTRY_CA"):
        missing = {"HOPLINE_SIMULATION": str(simulation), "HOPLINE_REGISTRY_CA": str(tmp_path / "none")}
        await build_ports(Settings.from_environment(missing))
    assert not simulation.exists()
    with pytest.raises(InvalidInput, match="HOPLINE_KUBECONFIG"):
        await build_clusters(Settings.from_environment({"HOPLINE_KUBECONFIG": str(tmp_path / "none")}))
