"""Every line of bad input, met on files: exit code 3, and object, field, value and remedy in the message."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from starter.__main__ import run

EXAMPLES = Path(__file__).resolve().parents[2] / "deploy" / "examples"
Edit = Callable[[Path], None]


def swap(file: str, old: str, new: str, count: int = 1) -> Edit:
    """Replace `count` places of a text in one file of the examples, so that the case cannot silently do nothing."""

    def edit(folder: Path) -> None:
        text = (folder / file).read_text()
        assert old in text, f"{file} has no {old!r}"
        (folder / file).write_text(text.replace(old, new, count))

    return edit


def add(file: str, text: str) -> Edit:
    """Append a document or lines."""

    def edit(folder: Path) -> None:
        with (folder / file).open("a") as out:
            out.write(text)

    return edit


def remove(path: str) -> Edit:
    """Take a file or folder away."""

    def edit(folder: Path) -> None:
        target = folder / path
        shutil.rmtree(target) if target.is_dir() else target.unlink()

    return edit


CATALOGUE = "upgrade-paths.yaml"
RELEASE = "releases/v26.06/release.yaml"
COREDNS = "releases/v26.06/components/coredns/v1.12.3/component.yaml"
PROVIDER = "releases/v26.06/components/provider/v26.06/component.yaml"
EDGE = "    - from: v26.06-rc.3\n      to: v26.06\n      preCheck:"
VERSIONS = "  versions:\n    - version: v26.06\n"
SECOND = (
    "---\napiVersion: config.openfuyao.com/v1alpha1\nkind: UpgradePath\nmetadata: {name: other}\nspec: {paths: []}\n"
)

CASES: dict[str, tuple[Edit, str, tuple[str, ...]]] = {
    "catalogue with a cycle": (
        swap(CATALOGUE, VERSIONS, f"    - {{from: v26.06, to: v26.06-rc.2}}\n{VERSIONS}"),
        "v26.06",
        ("UpgradePath openfuyao-upgrade-paths", "cycle", "v26.06 -> v26.06-rc.2", "remedy"),
    ),
    "catalogue with a self-loop": (
        swap(CATALOGUE, VERSIONS, f"    - {{from: v26.06, to: v26.06}}\n{VERSIONS}"),
        "v26.06",
        ("UpgradePath openfuyao-upgrade-paths", "spec.paths[3]", "v26.06", "remedy"),
    ),
    "catalogue with a duplicate edge": (
        swap(CATALOGUE, VERSIONS, f"    - {{from: v26.06-rc.3, to: v26.06}}\n{VERSIONS}"),
        "v26.06",
        ("UpgradePath openfuyao-upgrade-paths", "spec.paths[3]", "v26.06-rc.3 -> v26.06", "remedy"),
    ),
    "catalogue with an empty version": (
        swap(CATALOGUE, VERSIONS, f'    - {{from: v26.06, to: ""}}\n{VERSIONS}'),
        "v26.06",
        ("UpgradePath openfuyao-upgrade-paths", "spec.paths[3].to", "remedy"),
    ),
    "no UpgradePath": (remove(CATALOGUE), "v26.06", ("no UpgradePath", "remedy")),
    "several UpgradePaths": (add(CATALOGUE, SECOND), "v26.06", ("several UpgradePaths", "other", "remedy")),
    "desired version unknown": (
        swap(CATALOGUE, "notes: go", "notes: go"),
        "v27.12",
        ("UpgradePath openfuyao-upgrade-paths", "v27.12", "remedy", "v26.06"),
    ),
    "desired version blocked": (
        swap(CATALOGUE, EDGE, EDGE.replace("preCheck", "blocked: true\n      preCheck")),
        "v26.06",
        ("blocks", "spec.paths[2].blocked", "remedy", "hopline upgrade east -n east --to v26.06-rc.3"),
    ),
    "desired version older than the current one": (
        swap(CATALOGUE, "notes: go", "notes: go"),
        "v26.03",
        ("v26.03", "older", "remedy"),
    ),
    "release whose version is not the one asked for": (
        swap(RELEASE, "  version: v26.06\n", "  version: v26.07\n"),
        "v26.06",
        ("release.yaml", "v26.07", "v26.06", "remedy"),
    ),
    "release without the asked version": (
        remove("releases/v26.06"),
        "v26.06",
        ("v26.06", "v26.06-rc.3", "remedy"),
    ),
    "release with a component that its bundle lacks": (
        remove("releases/v26.06/components/calico"),
        "v26.06",
        ("ReleaseImage release-v26.06", "spec.install.components[8]", "calico v3.30.3", "component.yaml", "remedy"),
    ),
    "release with a component that no list names": (
        add(RELEASE, ""),
        "v26.06",
        ("ReleaseImage release-v26.06", "stray", "remedy"),
    ),
    "dependency outside the release": (
        swap(COREDNS, "    - name: kubernetes-worker\n", "    - name: nowhere\n"),
        "v26.06",
        ("coredns", "dependencies", "nowhere", "remedy"),
    ),
    "dependency cycle": (
        swap(PROVIDER, "  version: v26.06\n", "  version: v26.06\n  dependencies:\n    - name: calico\n"),
        "v26.06",
        ("cycle", "provider", "calico", "remedy"),
    ),
    "duplicate component": (
        add(RELEASE, "      - name: calico\n        version: v3.30.3\n"),
        "v26.06",
        ("ReleaseImage release-v26.06", "spec.upgrade.components[9]", "calico", "remedy"),
    ),
    "unknown inline handler": (
        swap(RELEASE, "handler: EnsureEtcdUpgrade", "handler: EnsureMagic"),
        "v26.06",
        ("ReleaseImage release-v26.06", "spec.upgrade.components[3]", "EnsureMagic", "remedy"),
    ),
    "catalogue that does not parse": (add(CATALOGUE, "  bad: [\n"), "v26.06", ("upgrade-paths.yaml:", "remedy")),
    "component that does not parse": (
        add(COREDNS, "  bad: {\n"),
        "v26.06",
        ("components/coredns/v1.12.3/component.yaml:", "remedy"),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_plan_on_files_refuses_and_says_why(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit, desired, told = CASES[case]
    folder = tmp_path / "examples"
    shutil.copytree(EXAMPLES, folder)
    if "no list names" in case:
        stray = folder / "releases/v26.06/components/stray/v1.0.0"
        stray.mkdir(parents=True)
        text = (folder / COREDNS).read_text().replace("coredns", "stray").replace("v1.12.3", "v1.0.0")
        (stray / "component.yaml").write_text(text)
    edit(folder)
    objects = [str(file) for file in sorted(folder.glob("*.yaml"))]
    arguments = [part for file in objects for part in ("-f", file)]
    code = run(["plan", "east", "-n", "east", "--to", desired, *arguments, "--releases", str(folder / "releases")])
    shown = capsys.readouterr()
    assert code == 3, shown.err
    assert shown.out == ""
    message = " ".join(shown.err.split())
    for part in told:
        assert part in message, shown.err


def test_the_current_version_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    where = ["-f", str(EXAMPLES), "--releases", str(EXAMPLES / "releases")]
    assert run(["plan", "east", "-n", "east", "--to", "v26.06-rc.2", *where]) == 0
    assert "v26.06-rc.2" in capsys.readouterr().out
