"""Blobs on disk: whole or not there, whoever writes, kills or damages."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

from artifacts import digest_of
from hopline.oci.signatures import FoundSignature
from hopline.oci.store import BlobStore

CONTENT = b"some bytes" * 1000
DIGEST = digest_of(CONTENT)


def blob(root: Path) -> Path:
    return root / "blobs" / "sha256" / DIGEST.removeprefix("sha256:")


def test_what_is_put_can_be_had(tmp_path: Path) -> None:
    store = BlobStore(tmp_path / "not" / "yet")
    assert store.get(DIGEST) is None
    assert store.put(DIGEST, CONTENT)
    assert store.get(DIGEST) == CONTENT
    assert not [path for path in (tmp_path / "not" / "yet").rglob("*") if path.name.startswith(".")]


@pytest.mark.parametrize("damage", [b"", CONTENT[:-1], CONTENT + b"x", b"y" + CONTENT[1:]])
def test_what_was_changed_by_hand_is_removed(tmp_path: Path, damage: bytes) -> None:
    store = BlobStore(tmp_path)
    store.put(DIGEST, CONTENT)
    blob(tmp_path).write_bytes(damage)
    assert store.get(DIGEST) is None
    assert not blob(tmp_path).exists()


def test_a_folder_that_cannot_be_written_fails_nothing(tmp_path: Path) -> None:
    (tmp_path / "blobs").write_text("a file in the way")
    (tmp_path / "tags").write_text("a file in the way")
    store = BlobStore(tmp_path)
    assert not store.put(DIGEST, CONTENT)
    assert not store.remember("registry.test/a:b", DIGEST)
    assert store.get(DIGEST) is None


def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert not BlobStore(tmp_path).put(DIGEST, CONTENT)
    assert list(blob(tmp_path).parent.iterdir()) == []


def test_a_write_that_the_system_cuts_short(tmp_path: Path) -> None:
    script = f"""
import resource, signal, sys
from pathlib import Path
from hopline.oci.store import BlobStore
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
sys.exit(BlobStore(Path({str(tmp_path)!r})).put({DIGEST!r}, b"some bytes" * 1000))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert list(blob(tmp_path).parent.iterdir()) == []


def _write(root: str, count: int) -> None:
    store = BlobStore(Path(root))
    for _ in range(count):
        assert store.put(DIGEST, CONTENT)
        assert store.get(DIGEST) == CONTENT


def test_several_workers_on_one_folder(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_write, args=(str(tmp_path), 30)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert [path.name for path in blob(tmp_path).parent.iterdir()] == [blob(tmp_path).name]


def test_what_killed_processes_have_left_is_swept(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    store.put(DIGEST, CONTENT)
    old, young = (blob(tmp_path).with_name(f".partial-{name}") for name in ("old", "young"))
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    os.utime(blob(tmp_path), (0, 0))
    store.sweep()
    assert sorted(path.name for path in blob(tmp_path).parent.iterdir()) == [young.name, blob(tmp_path).name]
    BlobStore(tmp_path / "nowhere").sweep()


def test_what_a_tag_meant(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    assert store.recall("registry.test/a:b") == ""
    store.remember("registry.test/a:b", DIGEST)
    assert store.recall("registry.test/a:b") == DIGEST
    assert store.recall("registry.test/a:c") == ""
    (file,) = (tmp_path / "tags").iterdir()
    for damage in ("", "[]", '{"reference": "registry.test/a:b", "digest": "../../etc/passwd"}'):
        file.write_text(damage)
        assert store.recall("registry.test/a:b") == ""


def test_signatures_that_were_kept(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    assert store.kept_signatures(DIGEST) is None
    found = (FoundSignature("a/b", b"\xff\x00", "c2ln"),)
    store.keep_signatures(DIGEST, found)
    assert store.kept_signatures(DIGEST) == found
    next((tmp_path / "signatures").iterdir()).write_text("[{}]")
    assert store.kept_signatures(DIGEST) is None
