"""`hopline path`, `versions` and `plan -f`: files in, one screen or one JSON document out, and the exit code."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from starter.__main__ import run

EXAMPLES = Path(__file__).resolve().parents[2] / "deploy" / "examples"
CATALOGUE = str(EXAMPLES / "upgrade-paths.yaml")
PLAN = ["-n", "east", "-f", str(EXAMPLES), "--releases", str(EXAMPLES / "releases")]


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    """Exit code and the one document on standard output."""
    code = run([*arguments, "-o", "json"])
    return code, json.loads(capsys.readouterr().out)


def catalogue(tmp_path: Path, *edges: str, name: str = "paths") -> str:
    paths = "\n".join(f"    - {edge}" for edge in edges)
    head = f"apiVersion: config.openfuyao.com/v1alpha1\nkind: UpgradePath\nmetadata: {{name: {name}}}\n"
    file = tmp_path / f"{name}.yaml"
    file.write_text(f"{head}spec:\n  paths:\n{paths}\n")
    return str(file)


def test_path_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert document(capsys, "path", "v26.06-rc.2", "v26.06", "-f", CATALOGUE) == (
        0,
        {
            "from": "v26.06-rc.2",
            "to": "v26.06",
            "hops": [
                {"from": "v26.06-rc.2", "to": "v26.06-rc.3", "deprecated": False},
                {"from": "v26.06-rc.3", "to": "v26.06", "deprecated": False},
            ],
            "reason": "",
            "message": "",
        },
    )


@pytest.mark.parametrize(
    ("current", "desired", "code", "reason"),
    [
        ("v26.06", "v26.06", 0, "AlreadyThere"),
        ("v26.06-rc.2", "v27.01", 3, "UnknownVersion"),
        ("v26.06", "v26.06-rc.2", 3, "Downgrade"),
    ],
)
def test_no_path_has_a_reason_and_a_code(
    capsys: pytest.CaptureFixture[str], current: str, desired: str, code: int, reason: str
) -> None:
    found, answer = document(capsys, "path", current, desired, "-f", CATALOGUE)
    assert (found, answer["hops"], answer["reason"]) == (code, [], reason)
    assert answer["message"]


def test_a_blocked_edge_is_named_with_its_index(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = catalogue(tmp_path, "{from: v1.0, to: v1.1, blocked: true, notes: broken}")
    code, answer = document(capsys, "path", "v1.0", "v1.1", "-f", file)
    assert (code, answer["reason"]) == (3, "Blocked")
    assert run(["path", "v1.0", "v1.1", "-f", file]) == 3
    assert "spec.paths[0].blocked is true, notes: broken" in capsys.readouterr().err


def test_no_path_between_two_known_versions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = catalogue(tmp_path, "{from: v1.0, to: v1.1}", "{from: v1.2, to: v1.3}")
    code, answer = document(capsys, "path", "v1.0", "v1.3", "-f", file)
    assert (code, answer["reason"]) == (3, "NoPath")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{from: v1.0, to: v1.0}", "from a version to itself"),
        ("{from: v1.0, to: ''}", "empty version"),
        ("{from: 1.0, to: v1.1}", "is read as a number"),
        ("{from: v1.0, to: v1.1}\n    - {from: v1.0, to: v1.1}", "stands twice"),
        ("{from: v1.0, to: v1.1}\n    - {from: v1.1, to: v1.0}", "cycle: v1.0 -> v1.1 -> v1.0"),
        ("{from: v1.0, to: [", "paths.yaml:"),
    ],
)
def test_a_bad_catalogue_is_refused_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, told: str
) -> None:
    file = catalogue(tmp_path, text)
    code, answer = document(capsys, "path", "v1.0", "v1.1", "-f", file)
    assert (code, answer["hops"], answer["reason"]) == (3, [], "InvalidCatalogue")
    assert told in answer["message"]
    code, answer = document(capsys, "versions", "v1.0", "-f", file)
    assert (code, answer["versions"], answer["reason"]) == (3, [], "InvalidCatalogue")


def test_none_or_several_catalogues_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    catalogue(tmp_path, "{from: v1.0, to: v1.1}", name="one")
    catalogue(tmp_path, "{from: v1.0, to: v1.1}", name="two")
    code, answer = document(capsys, "path", "v1.0", "v1.1", "-f", str(tmp_path))
    assert (code, answer["reason"]) == (3, "InvalidCatalogue")
    assert "several UpgradePaths" in answer["message"]
    code, answer = document(capsys, "path", "v1.0", "v1.1", "-f", str(EXAMPLES / "cluster.yaml"))
    assert "no UpgradePath" in answer["message"]


def test_versions_in_json_and_text(capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = document(capsys, "versions", "v26.06-rc.2", "-f", CATALOGUE)
    assert code == 0
    assert answer == {
        "from": "v26.06-rc.2",
        "versions": [
            {"version": "v26.06-rc.3", "hops": 1, "deprecated": False},
            {"version": "v26.06", "hops": 2, "deprecated": False},
        ],
        "reason": "",
        "message": "",
    }
    assert run(["versions", "v26.06", "-f", CATALOGUE]) == 0
    assert "v26.06 is the newest version" in capsys.readouterr().out


def test_plan_on_files_has_the_stable_form(capsys: pytest.CaptureFixture[str]) -> None:
    code, plan = document(capsys, "plan", "east", "--to", "v26.06", *PLAN)
    assert code == 0
    assert {"cluster", "digest", "hops", "findings"} <= set(plan)
    assert plan["cluster"] == {"namespace": "east", "name": "east"}
    first = plan["hops"][0]
    assert (first["from"], first["to"]) == ("v26.06-rc.2", "v26.06-rc.3")
    assert first["batches"] == [
        ["provider"],
        ["bkeagent"],
        ["containerd"],
        ["etcd"],
        ["kubernetes-master", "kubernetes-worker"],
        ["calico", "coredns", "kube-proxy"],
    ]
    assert {"checks", "criticalPath"} <= set(first)
    by_name = {component["name"]: component for component in first["components"]}
    assert {"name", "version", "current", "type", "action", "reason", "dependencies"} <= set(by_name["etcd"])
    assert (by_name["etcd"]["action"], by_name["provider"]["action"]) == ("skip", "run")
    assert "recorded, not verified" in by_name["etcd"]["reason"]


def test_the_same_files_give_the_same_digest_in_any_order(capsys: pytest.CaptureFixture[str]) -> None:
    releases = ["--releases", str(EXAMPLES / "releases"), "-n", "east"]
    files = ["-f", str(EXAMPLES / "cluster.yaml"), "-f", CATALOGUE]
    _, one = document(capsys, "plan", "east", "--to", "v26.06", *files, *releases)
    _, other = document(capsys, "plan", "east", "--to", "v26.06", *files[2:], *files[:2], *releases)
    assert one == other


def test_a_plan_that_is_refused_is_one_document_too(capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = document(capsys, "plan", "west", "--to", "v26.06", *PLAN)
    assert code == 3
    assert answer["error"]["kind"] == "ClusterNotReady"
    assert answer["error"]["subject"] == "BKECluster east/west"


def test_nothing_to_plan_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = document(capsys, "plan", "east", "--to", "v26.06-rc.2", *PLAN)
    assert (code, answer["hops"]) == (0, [])


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["path", "v1"],
        ["path", "v1", "v2"],
        ["path", "v1", "v2", "-f", "/nowhere/at/all.yaml"],
        ["path", "v1", "v2", "-f", CATALOGUE, "-o", "xml"],
        ["versions", "v1"],
        ["versions", "v1", "-f", CATALOGUE, "-n", "east"],
        ["plan", "east", "-n", "east", "--to", "v1", "-f", CATALOGUE],
        ["upgrade", "east", "--to", "v1"],
        ["upgrade", "east", "-n", "east", "--to", "v1", "--timeout", "5m"],
        ["upgrade", "east", "-n", "east", "--to", "v1", "--wait", "--timeout", "soon"],
        ["fly"],
    ],
)
def test_usage_errors_end_with_2_and_leave_standard_output_empty(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert run(arguments) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert "Usage:" in streams.err


def test_help_names_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["upgrade", "--help"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    for meaning in ("0 done", "1 failed or aborted", "2 usage", "3 refused", "4 held", "5 timed out"):
        assert meaning in told


def test_a_plan_on_files_knows_the_oldest_version_to_start_from(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOPLINE_OLDEST_VERSION", "v26.06-rc.3")
    code, answer = document(capsys, "plan", "east", "--to", "v26.06", *PLAN)
    assert code == 3
    assert answer["error"]["reason"] == "TooOld"
    assert "v26.06-rc.2 is older than v26.06-rc.3" in answer["error"]["message"]
    monkeypatch.setenv("HOPLINE_OLDEST_VERSION", "v26.06-rc.2")
    assert document(capsys, "plan", "east", "--to", "v26.06", *PLAN)[0] == 0


@pytest.mark.parametrize(
    ("settings", "code", "severities"),
    [
        ({}, 3, ["blocks", "blocks"]),
        ({"HOPLINE_FOREIGN_PROVIDER": "skip"}, 0, ["warns", "warns"]),
        ({"HOPLINE_OWN_IMAGES": "registry.example.test:40443/kubernetes"}, 0, []),
        ({"HOPLINE_MANAGEMENT_CLUSTER": "west/west"}, 0, []),
    ],
)
def test_a_plan_on_files_names_a_provider_that_would_start_another_controller(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, str],
    code: int,
    severities: list[str],
) -> None:
    """In the cluster that HOPLINE_MANAGEMENT_CLUSTER names; in others it works on objects of its own."""
    for variable, value in ({"HOPLINE_MANAGEMENT_CLUSTER": "east/east"} | settings).items():
        monkeypatch.setenv(variable, value)
    found, answer = document(capsys, "plan", "east", "--to", "v26.06", *PLAN)
    named = [finding["severity"] for finding in answer["findings"] if "another controller" in finding["message"]]
    assert (found, named) == (code, severities)


def test_a_plan_on_files_says_where_images_come_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, plan = document(capsys, "plan", "east", "--to", "v26.06", *PLAN)
    assert (code, plan["supply"]["mode"], plan["supply"]["lists"]) == (0, "offline", [])
    assert plan["supply"]["hosts"] == ["registry.example.test:40443", "192.0.2.5:40443"]
    lists = tmp_path / "lists.yaml"
    lists.write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bke-config, namespace: cluster-system}\n"
        "data: {patch.v26.06: cm.v26.06}\n---\n"
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cm.v26.06, namespace: openfuyao-patch}\n"
        "data: {v26.06: 'openFuyaoVersion: v26.06'}\n"
    )
    monkeypatch.setenv("HOPLINE_REGISTRY_OVERRIDES", "registry.example.test:40443/kubernetes=other.example/k")
    _, plan = document(capsys, "plan", "east", "--to", "v26.06", *PLAN, "-f", str(lists))
    found = [{"version": "v26.06", "object": "ConfigMap openfuyao-patch/cm.v26.06", "images": 0}]
    assert plan["supply"]["lists"] == found
    rewrites = {one["named"]: one["applied"] for one in plan["supply"]["rewrites"]}
    assert rewrites["registry.example.test:40443/kubernetes/coredns:v1.12.3"] == "other.example/k/coredns:v1.12.3"
    assert any("does not have" in one["message"] for one in plan["findings"])


def test_a_command_on_files_loads_neither_the_sdk_nor_the_kubernetes_client() -> None:
    program = (
        "import sys\n"
        "from starter.__main__ import run\n"
        f"assert run(['path', 'v26.06-rc.2', 'v26.06', '-f', {CATALOGUE!r}]) == 0\n"
        f"assert run(['plan', 'east', '--to', 'v26.06', *{PLAN!r}]) == 0\n"
        "print([name for name in ('temporalio', 'kubernetes', 'opentelemetry', 'worker') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
