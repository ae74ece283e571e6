"""`hopline check manifests` as a person and as a pipeline see it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from starter.__main__ import run
from starter.exit_codes import ExitCode

GOOD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: b}\ndata: {v: '{{ .v }}'}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one good template, and its values beside it."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "good.yaml").write_text(GOOD)
    (tmp_path / "values.yaml").write_text("v: x\n")
    return tmp_path


def test_nothing_to_say(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["check", "manifests", str(folder / "in"), "--values", str(folder / "values.yaml")])
    assert code == ExitCode.DONE
    assert capsys.readouterr().out == "✓ 1 file with 1 object: nothing to say\n"


def test_findings_for_a_person(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "in" / "more.yaml").write_text("apiVersion: v1\nkind: Secret\nmetadata:\n  name: a\n")
    assert run(["check", "manifests", str(folder / "in")]) == ExitCode.REFUSED
    shown = capsys.readouterr().out
    assert shown.startswith("✗ good.yaml:4\n    template cannot be rendered: .v has no value and would be printed\n")
    assert "· more.yaml:3  Secret a  metadata.namespace\n" in shown
    assert shown.endswith("✗ 2 files with 1 object: 1 problem, 1 note\n")


def test_findings_for_a_pipeline(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "manifests", str(folder / "in"), "-o", "json"]) == ExitCode.REFUSED
    document = json.loads(capsys.readouterr().out)
    assert (document["files"], document["objects"]) == (1, 0)
    (finding,) = document["findings"]
    assert set(finding) == {"severity", "file", "line", "object", "field", "message", "remedy"}
    assert (finding["severity"], finding["file"], finding["line"]) == ("blocks", "good.yaml", 4)


def test_warnings_alone_end_well(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: a, namespace: b}\n"
    (folder / "in" / "good.yaml").write_text(text)
    assert run(["check", "manifests", str(folder / "in")]) == ExitCode.DONE
    assert run(["check", "manifests", str(folder / "in"), "--kubernetes", "v1.34.0"]) == ExitCode.REFUSED
    assert "and the cluster gets v1.34.0" in " ".join(capsys.readouterr().out.split())


def test_rendered_files_are_written(folder: Path) -> None:
    arguments = ["--values", str(folder / "values.yaml"), "--render-to", str(folder / "out")]
    assert run(["check", "manifests", str(folder / "in"), *arguments]) == ExitCode.DONE
    assert (folder / "out" / "good.yaml").read_text() == GOOD.replace("{{ .v }}", "x")
    assert json.loads((folder / "out" / "good.yaml.json").read_text())[0]["data"] == {"v": "x"}


def test_bad_requests_are_usage_errors(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "manifests", str(folder / "nowhere")]) == ExitCode.USAGE
    (folder / "values.yaml").write_text("v: 1\n---\nv: 2\n")
    arguments = ["check", "manifests", str(folder / "in"), "--values", str(folder / "values.yaml"), "-o", "json"]
    assert run(arguments) == ExitCode.USAGE
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == "InvalidInput"
