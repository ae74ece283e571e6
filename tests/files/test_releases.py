"""Bundles from a directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from hopline.documents.bundles import content_digest, parse_bundle
from hopline.domain.errors import InvalidDocument, InvalidRelease
from hopline.domain.release import BundleSource
from hopline.files.releases import DirectoryReleaseSource
from hopline.ports import ReleaseSource

EXAMPLES = Path(__file__).parents[2] / "deploy" / "examples" / "releases"


def put(root: Path, path: str, text: str) -> None:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(text.encode())


def release(version: str) -> str:
    return f"kind: ReleaseImage\nspec: {{version: {version}}}\n"


async def test_the_sample_bundle_is_fetched_and_parses() -> None:
    source: ReleaseSource = DirectoryReleaseSource(EXAMPLES)
    raw = await source.fetch("v26.06")
    assert raw.source is BundleSource.DISK
    assert raw.origin == str(EXAMPLES / "v26.06")
    assert raw.digest == content_digest(raw.files)
    assert parse_bundle(raw).version == "v26.06"
    assert (await source.fetch("v26.06", digest=raw.digest)).digest == raw.digest


def test_versions_are_listed_by_age() -> None:
    assert DirectoryReleaseSource(EXAMPLES).versions() == ["v26.06-rc.2", "v26.06-rc.3", "v26.06"]


async def test_only_yaml_files_count_with_their_exact_bytes(tmp_path: Path) -> None:
    put(tmp_path, "v1.0/release.yaml", release("v1.0").replace("\n", "\r\n"))
    put(tmp_path, "v1.0/components/a/v1.0/x.yml", "x")
    put(tmp_path, "v1.0/README.md", "no")
    put(tmp_path, "v1.0/.git/config.yaml", "no")
    put(tmp_path, "v1.0/.hidden.yaml", "no")
    raw = await DirectoryReleaseSource(tmp_path).fetch("v1.0")
    assert sorted(raw.files) == ["components/a/v1.0/x.yml", "release.yaml"]
    assert raw.files["release.yaml"].endswith("\r\n")


async def test_a_folder_of_another_name_is_found_by_its_release(tmp_path: Path) -> None:
    put(tmp_path, "summer/release.yaml", release("v26.06"))
    put(tmp_path, "broken/release.yaml", "a: [")
    raw = await DirectoryReleaseSource(tmp_path).fetch("v26.06")
    assert raw.origin == str(tmp_path / "summer")
    assert DirectoryReleaseSource(tmp_path).versions() == ["v26.06", "broken"]


async def test_the_folder_named_like_the_version_wins(tmp_path: Path) -> None:
    put(tmp_path, "copy/release.yaml", release("v26.06"))
    put(tmp_path, "v26.06/release.yaml", release("v26.06"))
    assert (await DirectoryReleaseSource(tmp_path).fetch("v26.06")).origin == str(tmp_path / "v26.06")


async def test_two_folders_of_one_version_are_refused(tmp_path: Path) -> None:
    put(tmp_path, "a/release.yaml", release("v26.06"))
    put(tmp_path, "b/release.yaml", release("v26.06"))
    with pytest.raises(InvalidRelease) as caught:
        await DirectoryReleaseSource(tmp_path).fetch("v26.06")
    assert caught.value.value == f"{tmp_path / 'a'}, {tmp_path / 'b'}"


@pytest.mark.parametrize("version", ["v99.9", "../releases/v26.06", "", ".", ".."])
async def test_a_missing_release_is_refused_with_what_is_there(version: str) -> None:
    with pytest.raises(InvalidRelease) as caught:
        await DirectoryReleaseSource(EXAMPLES).fetch(version)
    assert caught.value.value.startswith(str(EXAMPLES))
    assert "v26.06-rc.2, v26.06-rc.3, v26.06" in caught.value.remedy


async def test_a_missing_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRelease, match="does not exist"):
        await DirectoryReleaseSource(tmp_path / "none").fetch("v26.06")


async def test_changed_bytes_are_refused(tmp_path: Path) -> None:
    put(tmp_path, "v1.0/release.yaml", release("v1.0"))
    source = DirectoryReleaseSource(tmp_path)
    before = (await source.fetch("v1.0")).digest
    put(tmp_path, "v1.0/more.yaml", "x")
    with pytest.raises(InvalidRelease) as caught:
        await source.fetch("v1.0", digest=before)
    assert caught.value.field == "digest"
    assert before in caught.value.remedy


async def test_a_link_that_leaves_the_directory_is_refused(tmp_path: Path) -> None:
    put(tmp_path, "secret.yaml", "x")
    put(tmp_path, "root/v1.0/release.yaml", release("v1.0"))
    (tmp_path / "root" / "v1.0" / "a.yaml").symlink_to(tmp_path / "secret.yaml")
    with pytest.raises(InvalidRelease, match="link that leaves"):
        await DirectoryReleaseSource(tmp_path / "root").fetch("v1.0")


async def test_a_file_that_is_not_text_is_refused_with_its_line(tmp_path: Path) -> None:
    put(tmp_path, "v1.0/release.yaml", release("v1.0"))
    (tmp_path / "v1.0" / "a.yaml").write_bytes(b"a: 1\nb: \xff\n")
    with pytest.raises(InvalidDocument) as caught:
        await DirectoryReleaseSource(tmp_path).fetch("v1.0")
    assert caught.value.subject == f"{tmp_path / 'v1.0' / 'a.yaml'}:2"
