"""Objects from YAML files, for the commands without a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from hopline.domain.errors import ClusterNotReady, InvalidCatalogue, InvalidDocument, InvalidInput
from hopline.domain.wire import ClusterKey
from hopline.files.objects import OfflineObjects, read_objects

EXAMPLES = Path(__file__).parents[2] / "deploy" / "examples"
EAST = ClusterKey(kube_namespace="east", name="east")
CATALOGUE = "kind: UpgradePath\nmetadata: {name: up}\nspec: {paths: [{from: v1.0, to: v1.1}]}\n"
CLUSTER = "apiVersion: bke.bocloud.com/v1beta1\nkind: BKECluster\nmetadata: {name: east}\n"
VERSION = "apiVersion: config.openfuyao.com/v1alpha1\nkind: ClusterVersion\nmetadata: {name: east, namespace: east}\nstatus: {currentVersion: v1.0}\n"  # noqa: E501
NODE = "apiVersion: bke.bocloud.com/v1beta1\nkind: BKENode\nmetadata: {name: %s, labels: {cluster.x-k8s.io/cluster-name: %s}}\nspec: {ip: 10.0.0.1}\n"  # noqa: E501


def objects(tmp_path: Path, *documents: str) -> OfflineObjects:
    path = tmp_path / "objects.yaml"
    path.write_text("---\n".join(documents))
    return read_objects([path])


def test_the_samples_are_read_from_several_files() -> None:
    found = read_objects([EXAMPLES / "upgrade-paths.yaml", EXAMPLES / "cluster.yaml"])
    assert len(found.catalogue().edges) == 3
    assert found.clusters() == [EAST]
    facts = found.cluster(EAST)
    assert facts.current_version == "v26.06-rc.2"
    assert facts.health_state == "Healthy"
    assert len(facts.nodes) == 8
    assert sum(node.is_control_plane for node in facts.nodes) == 3


def test_a_folder_stands_for_its_files() -> None:
    assert read_objects([EXAMPLES]).clusters() == [EAST]


def test_nodes_of_other_clusters_and_foreign_kinds_are_left_out(tmp_path: Path) -> None:
    found = objects(tmp_path, CLUSTER, VERSION, NODE % ("n1", "east"), NODE % ("n2", "west"), "kind: Note\n")
    assert [node.name for node in found.cluster(EAST).nodes] == ["n1"]


def test_a_document_without_a_namespace_stands_where_it_is_asked_for(tmp_path: Path) -> None:
    facts = objects(tmp_path, CLUSTER, VERSION).cluster(EAST)
    assert str(facts.key) == "east/east"
    assert facts.current_version == "v1.0"


def test_a_cluster_of_that_name_of_another_group_does_not_count(tmp_path: Path) -> None:
    with pytest.raises(ClusterNotReady):
        objects(tmp_path, CLUSTER.replace("bke.bocloud.com", "example.test")).cluster(EAST)


def test_no_catalogue_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidCatalogue, match="there is no UpgradePath in"):
        objects(tmp_path, CLUSTER).catalogue()


def test_several_catalogues_are_refused_with_their_places(tmp_path: Path) -> None:
    with pytest.raises(InvalidCatalogue) as caught:
        objects(tmp_path, CATALOGUE, CATALOGUE.replace("name: up", "name: up2")).catalogue()
    path = tmp_path / "objects.yaml"
    assert caught.value.value == f"up ({path}:1), up2 ({path}:5)"


def test_a_missing_cluster_is_refused_with_those_that_are_there(tmp_path: Path) -> None:
    with pytest.raises(ClusterNotReady) as caught:
        objects(tmp_path, CLUSTER).cluster(ClusterKey(kube_namespace="west", name="west"))
    assert "BKECluster west/west" in caught.value.message
    assert caught.value.remedy.endswith("default/east")


@pytest.mark.parametrize("twice", [CLUSTER, VERSION])
def test_an_object_that_stands_twice_is_refused(tmp_path: Path, twice: str) -> None:
    with pytest.raises(InvalidDocument, match="stands twice"):
        objects(tmp_path, CLUSTER, twice, twice).cluster(EAST)


def test_a_cluster_without_a_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidDocument) as caught:
        objects(tmp_path, CATALOGUE, CLUSTER.replace("{name: east}", "{}"))
    assert caught.value.subject == f"{tmp_path / 'objects.yaml'}:5"
    assert caught.value.field == "metadata.name"


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_objects([tmp_path / "none.yaml"])
    assert caught.value.subject == str(tmp_path / "none.yaml")
