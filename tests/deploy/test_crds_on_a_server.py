"""A real API server with our CRDs takes every recorded object and sample, and keeps every field of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane.control_plane import ControlPlane, KubectlFailed
from deploy.crd_table import CRD_NAMES, REPOSITORY, TABLE, full_object

OBSERVED = REPOSITORY / "tests" / "fixtures" / "observed"
SAMPLES = Path(__file__).with_name("samples.yaml")
_OURS = ("name", "labels", "annotations")
_HAS_COLUMNS = [name for name in CRD_NAMES if TABLE[name]["columns"]]
Object = dict[str, Any]


@pytest.fixture
def namespaces(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Names of the namespaces that a test makes; they and all in them are gone afterwards."""
    made: list[str] = []
    yield made
    if made:
        control_plane.kubectl("delete", "namespace", "--wait=false", "--ignore-not-found", *made)
    control_plane.kubectl("delete", "upgradepath", "--ignore-not-found", "crd-test-sample", "crd-test-every-field")


def moments(path: Path) -> list[list[Object]]:
    """The objects of a recording, one list for each moment."""
    sections = path.read_text().split("\n# ===== ")[1:]
    return [[document for document in yaml.safe_load_all("# " + section) if document] for section in sections]


def as_new(document: Object, kube_namespace: str) -> Object:
    """The object without what belongs to the server that it was recorded on.

    Owners go too: the garbage collector deletes objects whose owner is not there.
    """
    copy = deepcopy(document)
    copy["metadata"] = {key: copy["metadata"][key] for key in _OURS if key in copy["metadata"]}
    if copy["kind"] != "UpgradePath":
        copy["metadata"]["namespace"] = kube_namespace
    return copy


def json_documents(text: str) -> Iterator[Object]:
    """kubectl writes one document after another."""
    while text := text.lstrip():
        document, end = json.JSONDecoder().raw_decode(text)
        yield document
        text = text[end:]


def store(control_plane: ControlPlane, documents: list[Object]) -> list[Object]:
    """Creates the objects with their status, and returns them as the server keeps them, in the same order."""

    def send(*arguments: str, items: list[Object]) -> list[Object]:
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        return list(json_documents(control_plane.kubectl(*arguments, "-f", "-", "-o", "json", stdin=text)))

    created = send("create", "--validate=strict", items=documents)
    with_status = [document for document in documents if "status" in document]
    reported = iter(send("replace", "--subresource=status", items=with_status) if with_status else [])
    return [next(reported) if "status" in sent else made for sent, made in zip(documents, created, strict=True)]


def differences(sent: Any, kept: Any, path: str = "") -> list[str]:
    """Paths of what was sent and is not kept as it was sent. Fields that the server adds do not count."""
    if isinstance(sent, dict) and isinstance(kept, dict):
        return [line for key in sent for line in differences(sent[key], kept.get(key), f"{path}.{key}")]
    if isinstance(sent, list) and isinstance(kept, list) and len(sent) == len(kept):
        pairs = zip(sent, kept, strict=True)
        return [line for at, pair in enumerate(pairs) for line in differences(*pair, f"{path}[{at}]")]
    return [] if sent == kept else [f"{path}: {sent!r} became {kept!r}"]


def assert_kept(control_plane: ControlPlane, documents: list[Object]) -> None:
    for sent, kept in zip(documents, store(control_plane, documents), strict=True):
        where = f"{sent['kind']} {sent['metadata']['name']}"
        assert [
            line for part in ("spec", "status") for line in differences(sent.get(part), kept.get(part), part)
        ] == [], where


@pytest.mark.parametrize("recording", sorted(path.name for path in OBSERVED.glob("objects-*.yaml")))
def test_every_recorded_object_is_accepted_and_kept_whole(
    control_plane: ControlPlane, namespaces: list[str], recording: str
) -> None:
    sections = moments(OBSERVED / recording)
    assert len(sections) >= 5
    for number, section in enumerate(sections):
        name = f"crd-{recording.removesuffix('.yaml')}-{number}"
        control_plane.kubectl("create", "namespace", name)
        namespaces.append(name)
        assert_kept(control_plane, [as_new(document, name) for document in section])


def test_samples_of_every_kind_are_accepted_and_kept_whole(control_plane: ControlPlane, namespaces: list[str]) -> None:
    documents = list(yaml.safe_load_all(SAMPLES.read_text()))
    assert {document["kind"] for document in documents} == {TABLE[name]["names"]["kind"] for name in CRD_NAMES}
    control_plane.kubectl("create", "namespace", "crd-samples")
    namespaces.append("crd-samples")
    assert_kept(control_plane, [as_new(document, "crd-samples") for document in documents])


def test_an_object_with_every_documented_field_is_accepted_and_kept_whole(
    control_plane: ControlPlane, namespaces: list[str]
) -> None:
    control_plane.kubectl("create", "namespace", "crd-every-field")
    namespaces.append("crd-every-field")
    assert_kept(control_plane, [as_new(full_object(name), "crd-every-field") for name in CRD_NAMES])


def test_unknown_fields_of_clusters_nodes_and_commands_are_kept(
    control_plane: ControlPlane, namespaces: list[str]
) -> None:
    control_plane.kubectl("create", "namespace", "crd-unknown")
    namespaces.append("crd-unknown")
    objects = [
        as_new(full_object(name), "crd-unknown") for name in CRD_NAMES if not name.endswith(".config.openfuyao.com")
    ]
    for document in objects:
        document["spec"]["ofALaterVersion"] = {"deep": [1]}
    assert [document["kind"] for document in objects] == ["BKECluster", "BKENode", "Command"]
    assert_kept(control_plane, objects)


@pytest.mark.parametrize(
    ("kind", "fragment", "field"),
    [
        ("ClusterVersion", {"spec": {"desiredVersion": 26}}, "spec.desiredVersion"),
        ("ComponentVersion", {"spec": {"name": "x", "version": "v1"}}, "spec.type"),
        ("BKENode", {"spec": {"hostname": "m1"}}, "spec.ip"),
        ("BKECluster", {"spec": {"clusterConfig": {"cluster": {}}}}, "spec.clusterConfig.cluster.ntpServer"),
        ("Command", {"spec": {"commands": [{"id": "x", "type": "BuiltIn"}]}}, "spec.commands[0].command"),
    ],
)
def test_what_the_existing_crds_refuse_is_refused_with_the_name_of_the_field(
    control_plane: ControlPlane, kind: str, fragment: Object, field: str
) -> None:
    (table,) = (table for table in TABLE.values() if table["names"]["kind"] == kind)
    document = {
        "apiVersion": f"{table['group']}/{table['version']}",
        "kind": kind,
        "metadata": {"name": "crd-refused", "namespace": "default"},
        **fragment,
    }
    with pytest.raises(KubectlFailed) as refused:
        control_plane.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(document))
    assert field in str(refused.value)


@pytest.mark.parametrize("name", _HAS_COLUMNS)
def test_kubectl_get_by_the_short_name_prints_the_documented_columns(
    control_plane: ControlPlane, namespaces: list[str], name: str
) -> None:
    kube_namespace = f"crd-columns-{name.partition('.')[0]}"
    control_plane.kubectl("create", "namespace", kube_namespace)
    namespaces.append(kube_namespace)
    store(control_plane, [as_new(full_object(name), kube_namespace)])
    (short_name,) = TABLE[name]["names"]["shortNames"]
    columns = [column.upper() for column, _, _ in TABLE[name]["columns"]]

    def headings(*arguments: str) -> list[str]:
        table = control_plane.kubectl("get", short_name, "-n", kube_namespace, *arguments).splitlines()
        return [heading.strip() for heading in table[0].split("  ") if heading.strip()]

    assert headings("-o", "wide") == ["NAME", *columns]
    assert headings() == ["NAME", *(column for column in columns if column != "CONTAINER RUNTIME")]


def test_kubectl_explain_says_what_each_phase_of_a_cluster_version_means(control_plane: ControlPlane) -> None:
    text = control_plane.kubectl("explain", "clusterversion.status.phase")
    for phase in ("Ready", "PreChecking", "Upgrading", "PreCheckFailed", "Failed"):
        assert f"- {phase}: " in text
