"""What goes from a folder of fetched images, and what never does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from artifacts import Artifact, digest_of, indexed, titled
from hopline.oci.store import BlobStore
from hopline.oci.store_pruning import GRACE_SECONDS, Bounds, kept_blobs, needed_by, prune

NOW = 10_000_000.0
DAY = 86_400.0
WITHOUT = Bounds(0, 0)


def keep(root: Path, image: Artifact, unused: float) -> str:
    """An image whose every byte was last used so many seconds ago; returns its digest."""
    store = BlobStore(root)
    for content in (image.body, *image.blobs.values(), *image.manifests.values()):
        store.put(digest_of(content), content)
        os.utime(root / "blobs" / "sha256" / digest_of(content).removeprefix("sha256:"), (NOW, NOW - unused))
    store.remember(f"registry.test/release:{unused}", image.digest)
    store.keep_signatures(image.digest, ())
    return image.digest


def image(name: str) -> Artifact:
    return titled({"release.yaml": name * 100, "components/a.yaml": name})


def holds(root: Path, image: Artifact) -> bool:
    names = {blob.name for blob in kept_blobs(root)}
    wanted = {image.digest, *image.manifests, *(digest for digest, content in image.blobs.items() if content != b"{}")}
    found = [digest.removeprefix("sha256:") in names for digest in wanted]
    assert all(found) or not any(found)
    return all(found)


def test_the_longest_unused_goes_until_it_is_small_enough(tmp_path: Path) -> None:
    for days, name in ((9, "old"), (5, "older"), (1, "new")):
        keep(tmp_path, image(name), days * DAY)
    size = sum(blob.size for blob in kept_blobs(tmp_path))
    assert prune(tmp_path, (), Bounds(size, 0), NOW) == (0, 0)
    count, gone = prune(tmp_path, (), Bounds(size - 1, 0), NOW)
    assert count
    assert sum(blob.size for blob in kept_blobs(tmp_path)) == size - gone <= size - 1
    assert holds(tmp_path, image("new"))
    prune(tmp_path, (), Bounds(1, 0), NOW)
    assert kept_blobs(tmp_path) == []
    assert list(tmp_path.glob("tags/*")) == list(tmp_path.glob("signatures/*")) == []


def test_what_is_unused_for_long_goes_whatever_the_size(tmp_path: Path) -> None:
    keep(tmp_path, image("old"), 91 * DAY)
    keep(tmp_path, image("new"), 89 * DAY)
    prune(tmp_path, (), Bounds(0, 90 * DAY), NOW)
    assert not holds(tmp_path, image("old"))
    assert holds(tmp_path, image("new"))
    assert len(list(tmp_path.glob("tags/*"))) == len(list(tmp_path.glob("signatures/*"))) == 1
    assert prune(tmp_path, (), WITHOUT, NOW) == (0, 0)


@pytest.mark.parametrize(
    "wanted", [image("pinned"), indexed({"linux/amd64": image("pinned"), "linux/arm64": image("b")})]
)
def test_what_is_pinned_stays_whole(tmp_path: Path, wanted: Artifact) -> None:
    digest = keep(tmp_path, wanted, 500 * DAY)
    keep(tmp_path, image("other"), 100 * DAY)
    prune(tmp_path, [digest], Bounds(1, DAY), NOW)
    assert holds(tmp_path, wanted)
    assert not holds(tmp_path, image("other"))


def test_what_may_be_in_work_stays(tmp_path: Path) -> None:
    keep(tmp_path, image("young"), GRACE_SECONDS - 1)
    assert prune(tmp_path, (), Bounds(1, 1), NOW) == (0, 0)


def test_a_use_makes_it_young(tmp_path: Path) -> None:
    digest = keep(tmp_path, image("used"), 5 * DAY)
    store = BlobStore(tmp_path)
    assert store.get(digest)
    (used,) = [blob for blob in kept_blobs(tmp_path) if blob.name == digest.removeprefix("sha256:")]
    assert used.used > NOW


def test_other_files_and_damage_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "blobs" / "sha256").mkdir(parents=True)
    for path in ("mine.txt", "blobs/sha256/.partial-x", "blobs/sha256/note"):
        (tmp_path / path).write_text("mine")
    damaged = f"sha256:{'0' * 64}"
    (tmp_path / "blobs" / "sha256" / ("0" * 64)).write_text('{"layers": [1, {"digest": 5}], "manifests": "x"}')
    assert needed_by(tmp_path, [damaged, "nonsense"]) == {"0" * 64}
    prune(tmp_path, (), Bounds(1, 1), NOW * 1000)
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == [".partial-x", "mine.txt", "note"]
    assert prune(tmp_path / "nowhere", (), Bounds(1, 1), NOW) == (0, 0)
