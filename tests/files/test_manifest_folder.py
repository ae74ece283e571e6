"""A folder of manifests is judged as a component would be: every kind of bad input, with file and line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hopline.documents.reading import MAX_TEXT
from hopline.domain.errors import InvalidDocument, InvalidInput
from hopline.domain.manifest_findings import ManifestFinding, ManifestReport
from hopline.domain.plan import Severity
from hopline.files.manifest_folder import check_folder, read_values

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "manifests"
CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: b}\n"


def judged(folder: Path, text: str, name: str = "a.yaml", **values: object) -> ManifestReport:
    """The report on a folder with one file."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode())
    return check_folder(folder, values)


def the_finding(folder: Path, text: str, **values: object) -> ManifestFinding:
    """The only finding."""
    (finding,) = judged(folder, text, **values).findings
    assert finding.file == "a.yaml"
    assert finding.remedy
    return finding


@pytest.mark.parametrize("name", sorted(path.name for path in FIXTURES.iterdir() if path.is_dir()))
def test_what_platform_teams_ship_has_no_false_finding(name: str) -> None:
    report = check_folder(FIXTURES / name, read_values(FIXTURES / "values.yaml"))
    assert report.findings == ()
    assert report.objects > 1


def test_the_quirks_are_still_in_the_fixtures() -> None:
    assert b"\r\n" in (FIXTURES / "metrics-server" / "bindings.yaml").read_bytes()
    deploy = (FIXTURES / "ingress-nginx" / "deploy.yaml").read_bytes()
    assert deploy.startswith(b"\xef\xbb\xbf")
    assert not deploy.endswith(b"\n")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (CONFIG + "data:\n  a: {{ if .x }}\n", 5, "{{if}} is not closed"),
        (CONFIG + "data:\n  a: {{ sprig .x }}\n", 5, "function 'sprig' not defined"),
        (CONFIG + 'data:\n  a: {{ eq .n "3" }}\n', 5, "incompatible types for comparison: int and string"),
        (CONFIG + "data:\n  a: {{ .x }}\n", 5, ".x has no value and would be printed"),
        (CONFIG + "data:\n  a: {{ .Values.x }}\n", 5, "text of Helm"),
        (CONFIG + 'data: {{ include "chart.data" . | nindent 2 }}\n', 4, "text of Helm"),
        (CONFIG + "data:\n{% if x %}\n  a: b\n{% endif %}\n", 5, "text of Jinja"),
        (CONFIG + "data:\n  a: {{ x | to_yaml }}\n", 5, "text of Jinja"),
        (CONFIG + "data:\n  a: on {{ $labels.instance }}\n", 5, "text of Prometheus"),
        (CONFIG + 'data:\n  a: |\n    {"legendFormat": "{{pod}}"}\n', 6, "text of Grafana"),
        (CONFIG + "data:\n a: b\n  c: d\n", 6, "the YAML does not parse"),
        (CONFIG + "data:\n  a: 1\n  b: 2\n  a: 3\n", 7, "the key a stands twice, first in line 5"),
        (CONFIG + "---\n- a\n", 5, "a document is a list"),
        ("a: 1\n--- {b: 1}\n", 2, "stands on the line of the separator"),
        (CONFIG + "...\nb: 1\n", 5, "behind the end of a document"),
    ],
)
def test_a_file_that_cannot_be_read_names_its_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    finding = the_finding(tmp_path, text, n=3)
    assert (finding.severity, finding.line) == (Severity.BLOCKS, line)
    assert words in finding.message


@pytest.mark.parametrize(
    ("text", "line", "field", "words"),
    [
        ("kind: ConfigMap\nmetadata: {name: a}\n", 1, "apiVersion", "has no apiVersion"),
        ("apiVersion: v1\nmetadata: {name: a}\n", 1, "kind", "has no kind"),
        ("apiVersion: v1\nkind: Pod\nmetadata:\n  namespace: x\n", 3, "metadata.name", "Pod has no name"),
        ("apiVersion: v1\nkind: Pod\nmetadata:\n  name: 12\n", 4, "metadata.name", "no text but 12"),
        ("apiVersion: v1\nkind: Pod\nmetadata:\n  generateName: a-\n", 4, "metadata.generateName", "a new object"),
        ("apiVersion: v1\nkind: Pod\nmetadata: [a]\n", 3, "metadata", "not a mapping"),
        (CONFIG + "data:\n  a: true\n", 5, "data.a", "read as true"),
        ("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n", 1, "apiVersion", "kustomize"),
        (CONFIG + "---\n" + CONFIG, 7, "metadata.name", "ConfigMap b/a stands twice, first in a.yaml:1"),
    ],
)
def test_an_object_that_nobody_can_apply(tmp_path: Path, text: str, line: int, field: str, words: str) -> None:
    finding = the_finding(tmp_path, text)
    assert (finding.severity, finding.line, finding.field) == (Severity.BLOCKS, line, field)
    assert words in finding.message


def test_a_twin_in_another_file_and_without_its_namespace_is_the_same_object(tmp_path: Path) -> None:
    (tmp_path / "component.yaml").write_text("kind: ComponentVersion\nspec: {yaml: {namespace: b}}\n")
    (tmp_path / "z.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    report = judged(tmp_path, CONFIG)
    assert [finding.file for finding in report.findings] == ["z.yaml", "z.yaml"]
    assert any("stands twice, first in a.yaml:1" in finding.message for finding in report.findings)


def test_a_namespace_on_a_cluster_wide_object_is_a_warning(tmp_path: Path) -> None:
    text = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: a\n  namespace: b\n"
    finding = the_finding(tmp_path, text)
    assert (finding.severity, finding.line, finding.field) == (Severity.WARNS, 5, "metadata.namespace")
    assert finding.object == "ClusterRole b/a"


def test_the_scope_of_a_custom_kind_is_that_of_its_definition(tmp_path: Path) -> None:
    definition = (
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: pools.g}\n"
        "spec: {group: g, scope: Cluster, names: {kind: Pool}}\n---\n"
    )
    pool = "apiVersion: g/v1\nkind: Pool\nmetadata: {name: a, namespace: b}\n"
    assert the_finding(tmp_path, definition + pool).severity is Severity.WARNS
    assert judged(tmp_path, pool).findings == ()


@pytest.mark.parametrize(
    ("component", "severity", "words"),
    [
        (None, Severity.INFO, "goes to that of the component"),
        ("kind: ComponentVersion\nspec: {yaml: {namespace: mine}}\n", Severity.INFO, "goes to mine"),
        ("kind: ComponentVersion\nspec: {name: x}\n", Severity.BLOCKS, "neither does the component"),
    ],
)
def test_an_object_without_a_namespace(tmp_path: Path, component: str | None, severity: Severity, words: str) -> None:
    if component:
        (tmp_path / "component.yaml").write_text(component)
    finding = the_finding(tmp_path, "apiVersion: v1\nkind: Secret\nmetadata:\n  name: a\n")
    assert (finding.severity, finding.line) == (severity, 3)
    assert words in finding.message


def test_lines_are_those_of_the_template(tmp_path: Path) -> None:
    text = (
        "{{- /* a note\n   of two lines */ -}}\n" + CONFIG + "data:\n{{- range .keys }}\n  {{ . }}: true\n{{- end }}\n"
    )
    report = judged(tmp_path, text, keys=["a", "b"])
    assert [(finding.line, finding.field) for finding in report.findings] == [(8, "data.a"), (8, "data.b")]


def test_files_under_noexecute_are_read_as_they_stand(tmp_path: Path) -> None:
    report = judged(tmp_path, CONFIG + "data: {a: '{{ $labels.x }}'}\n", name="noexecute/a.yaml")
    assert (report.files, report.objects, report.findings) == (1, 1, ())


@pytest.mark.parametrize(("kubernetes", "severity"), [("", Severity.WARNS), ("v1.34.3-of.1", Severity.BLOCKS)])
def test_a_version_that_kubernetes_no_longer_serves(tmp_path: Path, kubernetes: str, severity: Severity) -> None:
    text = "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: a, namespace: b}\n"
    finding = the_finding(tmp_path, text, k8sVersion=kubernetes)
    assert (finding.severity, finding.line, finding.field) == (severity, 1, "apiVersion")
    assert "no longer since 1.25" in finding.message
    assert finding.remedy == "write apiVersion: policy/v1"
    (tmp_path / "a.yaml").write_text(text)
    assert check_folder(tmp_path, {}, kubernetes="v1.24.9").findings == ()


def test_a_file_that_is_too_large_is_refused_with_its_size(tmp_path: Path) -> None:
    with (tmp_path / "a.yaml").open("wb") as file:
        file.truncate(20 * 1024 * 1024)
    (finding,) = check_folder(tmp_path, {}).findings
    assert finding.message == f"the file has 20.0 MiB, more than {MAX_TEXT // 1024 // 1024} MiB"
    assert finding.line == 1


def test_a_template_cannot_grow_beyond_the_limit(tmp_path: Path) -> None:
    text = '{{ range 3000 }}{{ printf "%9000d" 1 }}\n{{ end }}'
    assert "MiB" in the_finding(tmp_path, text).message


def test_anchors_cannot_make_a_small_file_huge(tmp_path: Path) -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    finding = the_finding(tmp_path, "\n".join(lines) + "\n")
    assert "more than 1000000 values" in finding.message
    assert finding.line == 6


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"a: 1\nb: \xff\n")
    (finding,) = check_folder(tmp_path, {}).findings
    assert (finding.line, finding.message) == (2, "the file is not UTF-8 text")


def test_what_stands_before_a_mistake_is_judged_too(tmp_path: Path) -> None:
    report = judged(tmp_path, "kind: Pod\n---\na: [\n")
    assert [finding.line for finding in report.findings] == [1, 1, 4]
    assert report.objects == 1


def test_rendered_files_and_their_documents_are_written(tmp_path: Path) -> None:
    folder, target = tmp_path / "in", tmp_path / "out"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "bad.yaml").write_text("a: [\n")
    (folder / "sub" / "missing.yaml").write_text("a: {{ .x }}\n")
    (folder / "a.yaml").write_text(CONFIG + "data: {v: {{ .v }}, mode: 0644, big: 3.0}\r\n---\n# nothing\n")
    check_folder(folder, {"v": "y"}, render_to=target)
    written = sorted(path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file())
    assert written == ["a.yaml", "a.yaml.json", "sub/bad.yaml"]
    assert (target / "a.yaml").read_bytes().endswith(b"data: {v: y, mode: 0644, big: 3.0}\r\n---\n# nothing\n")
    (document,) = json.loads((target / "a.yaml.json").read_text())
    assert document["data"] == {"v": True, "mode": 420, "big": 3}
    assert '"big": 3\n' in (target / "a.yaml.json").read_text()


def test_rendering_never_overwrites_the_templates(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(CONFIG)
    with pytest.raises(InvalidInput, match="overwrite its own template"):
        check_folder(tmp_path, {}, render_to=tmp_path)
    assert (tmp_path / "a.yaml").read_text() == CONFIG


def test_hidden_files_and_the_description_are_no_manifests(tmp_path: Path) -> None:
    for name in (".hidden.yaml", ".git/a.yaml", "release.yaml", "component.yaml", "notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("kind: ComponentVersion\n")
    assert judged(tmp_path, CONFIG, name="z.yml").files == 1


def test_a_manifest_with_the_name_of_a_description_is_not_lost_in_silence(tmp_path: Path) -> None:
    (finding,) = judged(tmp_path, CONFIG, "deploy/release.yaml").findings
    assert (finding.severity, finding.file, finding.line) == (Severity.WARNS, "deploy/release.yaml", 1)
    assert finding.object == "ConfigMap b/a"
    assert "its objects are not applied" in finding.message
    described = "apiVersion: config.openfuyao.com/v1alpha1\nkind: ReleaseImage\nmetadata: {name: a}\n"
    assert judged(tmp_path / "other", described, "release.yaml").findings == ()


@pytest.mark.parametrize(("text", "values"), [("", {}), ("a: 1\n", {"a": 1}), ('{"a": "x"}', {"a": "x"})])
def test_values_come_from_yaml_or_json(tmp_path: Path, text: str, values: dict[str, object]) -> None:
    (tmp_path / "values").write_text(text)
    assert read_values(tmp_path / "values") == values


def test_values_that_are_no_mapping_are_refused(tmp_path: Path) -> None:
    (tmp_path / "values").write_text("- a\n")
    with pytest.raises(InvalidDocument, match="a document is a list"):
        read_values(tmp_path / "values")
    (tmp_path / "values").write_text("a: 1\n---\nb: 1\n")
    with pytest.raises(InvalidInput, match="holds 2 documents"):
        read_values(tmp_path / "values")


def test_a_cluster_is_asked_for_every_kind_once_and_own_definitions_count(tmp_path: Path) -> None:
    definition = (
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: pools.g}\n"
        "spec: {group: g, names: {kind: Pool}, versions: [{name: v1}]}\n---\n"
    )
    rest = "".join(
        f"apiVersion: {api}\nkind: {kind}\nmetadata: {{name: a, namespace: b}}\n---\n"
        for api, kind in (("g/v1", "Pool"), ("h/v1", "Wide"), ("i/v1", "Unknown"), ("m/v1", "ServiceMonitor"))
    )
    (tmp_path / "a.yaml").write_text(definition + rest + "kind: Nameless\n")
    asked: list[set[tuple[str, str]]] = []

    def ask(wanted: set[tuple[str, str]]) -> dict[tuple[str, str], bool | None]:
        asked.append(wanted)
        known = {("apiextensions.k8s.io/v1", "CustomResourceDefinition"): False, ("h/v1", "Wide"): False}
        return {key: known.get(key) for key in wanted}

    report = check_folder(tmp_path, {}, ask=ask)
    assert len(asked) == 1
    assert len(asked[0]) == 5
    found = {(finding.object, finding.field, finding.severity) for finding in report.findings}
    assert ("Unknown b/a", "kind", Severity.BLOCKS) in found
    assert ("ServiceMonitor b/a", "kind", Severity.INFO) in found
    assert ("Wide b/a", "metadata.namespace", Severity.WARNS) in found
    assert not any(finding.object == "Pool b/a" for finding in report.findings)
    (unknown,) = [finding for finding in report.findings if finding.object == "Unknown b/a"]
    assert unknown.line == 15
