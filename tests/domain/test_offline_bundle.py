"""bundle.json: written and read back, and what is refused in one from elsewhere."""

from __future__ import annotations

import json

import pytest

from hopline.domain.errors import InvalidDocument
from hopline.domain.offline_bundle import (
    Attachment,
    BundledBlob,
    BundledFile,
    BundledImage,
    ImageRole,
    OfflineBundle,
    Section,
    is_inside,
    read_bundle,
)

DIGEST = f"sha256:{'a' * 64}"
BUNDLE = OfflineBundle(
    name="offline-v26.06",
    versions=("v26.06",),
    images=(
        BundledImage(
            source="cr.example.org/a:v1",
            repository="kubernetes/a",
            tag="v1",
            digest=DIGEST,
            role=ImageRole.RELEASE,
            attached=(Attachment(digest=DIGEST, subject=DIGEST, tag="sha256-a.sig"),),
        ),
    ),
    files=(
        BundledFile(section=Section.RPMS, path="volumes/rpms/a/b.rpm", name="a/b.rpm", digest=DIGEST, size=3),
        BundledFile(section=Section.FILES, path="volumes/bke", name="bke", digest=DIGEST, size=4),
    ),
    blobs=(BundledBlob(digest=DIGEST, size=5),),
)


def test_written_and_read_back() -> None:
    text = BUNDLE.model_dump_json(indent=1)
    assert read_bundle(text, "x") == BUNDLE
    assert json.loads(text)["images"][0]["role"] == "release"
    assert BUNDLE.size == 12
    assert BUNDLE.images[0].name == "kubernetes/a:v1"


def test_where_files_are_installed() -> None:
    assert [file.installed for file in BUNDLE.files] == ["rpms/a/b.rpm", "bke"]


def with_change(**change: object) -> str:
    return json.dumps({**json.loads(BUNDLE.model_dump_json()), **change})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "no manifest"),
        ("[]", "no manifest"),
        (with_change(format=2), "format that this version does not know"),
        (with_change(name="../x"), "leads out"),
        (with_change(blobs=[{"digest": "sha256:1", "size": 1}]), "no digest"),
        (with_change(images=[{"source": "", "repository": "a", "tag": "b", "digest": "c"}]), "no digest"),
        (
            with_change(files=[{"section": "files", "path": "/etc/x", "name": "x", "digest": DIGEST, "size": 1}]),
            "leads out",
        ),
        (
            with_change(files=[{"section": "files", "path": "x", "name": "../x", "digest": DIGEST, "size": 1}]),
            "leads out",
        ),
    ],
)
def test_what_is_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidDocument, match=words) as caught:
        read_bundle(text, "x")
    assert caught.value.subject == "x"


@pytest.mark.parametrize("path", ["", ".", "/a", "a/../b", "..", "a\\b"])
def test_a_path_that_leads_out(path: str) -> None:
    assert not is_inside(path)


def test_a_path_inside() -> None:
    assert is_inside("volumes/rpms/a.rpm")
