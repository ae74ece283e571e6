"""Our CRDs against the documented fields of the existing ones: nothing is lost, renamed, or narrower."""

from __future__ import annotations

from typing import Any

import pytest

from deploy.crd_table import CRD_FOLDER, CRD_NAMES, PRESERVE, TABLE, Lost, Typed, load_crd, load_schema, look_up

FULL = [name for name in CRD_NAMES if name.endswith(".config.openfuyao.com")]
WHAT_A_FIELD_IS = ("type", "format", "enum")


def test_there_is_one_file_per_kind_and_no_other() -> None:
    files = {f"{TABLE[name]['group']}_{TABLE[name]['names']['plural']}.yaml" for name in CRD_NAMES}
    assert {path.name for path in CRD_FOLDER.iterdir()} == files


@pytest.mark.parametrize("name", CRD_NAMES)
def test_names_scope_and_versions_are_the_documented_ones(name: str) -> None:
    crd, table = load_crd(name), TABLE[name]
    kind = table["names"]["kind"]
    assert crd["metadata"]["name"] == name
    assert crd["spec"]["group"] == table["group"]
    assert crd["spec"]["scope"] == table["scope"]
    assert crd["spec"]["names"] == {
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": table["names"]["plural"],
        "singular": kind.lower(),
    } | ({"shortNames": table["names"]["shortNames"]} if table["names"]["shortNames"] else {})
    (version,) = crd["spec"]["versions"]
    assert (version["name"], version["served"], version["storage"]) == (table["version"], True, True)
    assert version["subresources"] == {"status": {}}
    assert "conversion" not in crd["spec"]


@pytest.mark.parametrize("name", CRD_NAMES)
def test_printer_columns_are_the_documented_ones_in_their_order(name: str) -> None:
    (version,) = load_crd(name)["spec"]["versions"]
    columns = version.get("additionalPrinterColumns", [])
    assert [[column["name"], column["jsonPath"], column["type"]] for column in columns] == TABLE[name]["columns"]
    wide = [column["name"] for column in columns if column.get("priority")]
    assert wide == (["CONTAINER RUNTIME"] if name.startswith("bkeclusters") else [])


def test_labels_are_those_that_cluster_api_looks_for() -> None:
    for name in CRD_NAMES:
        labels = load_crd(name)["metadata"]["labels"]
        assert labels["cluster.x-k8s.io/v1beta1"] == "v1beta1"
        assert ("cluster.x-k8s.io/provider" in labels) == name.startswith("bkeclusters")
    assert (
        load_crd("bkeclusters.bke.bocloud.com")["metadata"]["labels"]["cluster.x-k8s.io/provider"]
        == "infrastructure-bke"
    )


@pytest.mark.parametrize("name", CRD_NAMES)
def test_every_documented_field_is_kept_and_typed_ones_are_typed_alike(name: str) -> None:
    schema = load_schema(name)
    for path, field in TABLE[name]["fields"].items():
        found = look_up(schema, path)
        assert not isinstance(found, Lost), f"{path} would be dropped"
        if isinstance(found, Typed):
            ours = {key: found.schema[key] for key in WHAT_A_FIELD_IS if key in found.schema}
            assert ours == {key: field[key] for key in WHAT_A_FIELD_IS if key in field}, path


@pytest.mark.parametrize("name", FULL)
def test_the_four_kinds_of_releases_are_typed_in_full_and_hold_nothing_else(name: str) -> None:
    schema = load_schema(name)
    assert all(isinstance(look_up(schema, path), Typed) for path in TABLE[name]["fields"])
    assert paths_of(schema) == set(TABLE[name]["fields"])
    assert PRESERVE not in str(schema)


@pytest.mark.parametrize(
    ("name", "paths"),
    [
        (
            "bkeclusters.bke.bocloud.com",
            [
                *(
                    f"spec.clusterConfig.cluster.{part}Version"
                    for part in ("openFuyao", "kubernetes", "etcd", "containerd")
                ),
                *(f"spec.{switch}" for switch in ("pause", "dryRun", "reset")),
                *(f"status.{part}Version" for part in ("openFuyao", "kubernetes", "etcd", "containerd")),
                "spec.clusterConfig.cluster.imageRepo.port",
                "spec.controlPlaneEndpoint.port",
                "status.clusterStatus",
                "status.clusterHealthState",
                "status.declarativeUpgrade.completed[].completedAt",
                "status.declarativeUpgrade.lastFailure.attempt",
                "status.clusterComponentStatuses{}.phase",
                "status.phaseStatus[].status",
                "status.conditions[].type",
                "status.addonStatus[].version",
            ],
        ),
        (
            "bkenodes.bke.bocloud.com",
            [
                "spec.ip",
                "spec.hostname",
                "spec.role[]",
                *(f"status.{field}" for field in ("state", "stateCode", "message")),
            ],
        ),
        (
            "commands.bkeagent.bocloud.com",
            [
                "spec.commands[].command[]",
                "spec.suspend",
                "spec.nodeSelector.matchLabels{}",
                "status{}.conditions[].stdErr[]",
            ],
        ),
    ],
)
def test_what_an_upgrade_reads_or_writes_is_typed_and_the_rest_is_preserved(name: str, paths: list[str]) -> None:
    schema = load_schema(name)
    for path in paths:
        assert isinstance(look_up(schema, path), Typed), path
    assert schema["properties"]["spec"][PRESERVE]
    assert not isinstance(look_up(schema, "spec.ofALaterVersion"), Lost | Typed)


@pytest.mark.parametrize("name", CRD_NAMES)
def test_every_typed_field_explains_itself(name: str) -> None:
    schema = load_schema(name)
    silent = {
        path
        for path in paths_of(schema)
        if path != "metadata" and not path.endswith(("[]", "{}")) and not explained(schema, path)
    }
    assert silent == set()


@pytest.mark.parametrize("name", CRD_NAMES)
def test_each_value_of_an_enum_is_explained_where_it_says_where_things_stand(name: str) -> None:
    phase = look_up(load_schema(name), "status.phase")
    if isinstance(phase, Typed) and "enum" in phase.schema:
        assert [value for value in phase.schema["enum"] if value not in phase.schema["description"]] == []


def explained(schema: dict[str, Any], path: str) -> bool:
    found = look_up(schema, path)
    return isinstance(found, Typed) and bool(found.schema.get("description"))


def paths_of(schema: dict[str, Any], path: str = "") -> set[str]:
    """Every path that a schema types."""
    found = {path} if path else set()
    for name, child in schema.get("properties", {}).items():
        found |= paths_of(child, f"{path}.{name}" if path else name)
    if "items" in schema:
        found |= paths_of(schema["items"], path + "[]")
    if isinstance(schema.get("additionalProperties"), dict):
        found |= paths_of(schema["additionalProperties"], path + "{}")
    return found
