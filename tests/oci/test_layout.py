"""An OCI layout: written, read back, and damaged by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from artifacts import MANIFEST_TYPE, titled
from hopline.domain.errors import InvalidDocument, Permanent
from hopline.oci.layout import OciLayout

IMAGE = titled()


@pytest.fixture
def layout(tmp_path: Path) -> OciLayout:
    made = OciLayout(tmp_path / "oci-layout")
    made.create()
    for digest, content in {**IMAGE.blobs, IMAGE.digest: IMAGE.body}.items():
        made.put(digest, content)
    made.write_index([("kubernetes/release-image:v26.06", IMAGE.digest, len(IMAGE.body), MANIFEST_TYPE)])
    return made


def test_written_and_read_back(layout: OciLayout) -> None:
    (named,) = layout.names()
    assert (named.name, named.descriptor.digest) == ("kubernetes/release-image:v26.06", IMAGE.digest)
    assert layout.is_there
    manifest = layout.manifest(IMAGE.digest)
    assert manifest.body == IMAGE.body
    for layer in manifest.layers:
        assert layout.has(layer.digest, layer.size)
        layout.check(layer.digest, layer.size)


def test_only_entries_with_a_name_are_named(layout: OciLayout) -> None:
    index = layout.root / "index.json"
    document = json.loads(index.read_text())
    document["manifests"].append({"mediaType": MANIFEST_TYPE, "digest": IMAGE.digest, "size": 1})
    index.write_text(json.dumps(document))
    assert len(layout.names()) == 1


def cut(place: Path) -> None:
    place.write_bytes(place.read_bytes()[:-1])


def change(place: Path) -> None:
    content = bytearray(place.read_bytes())
    content[0] ^= 1
    place.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "words"),
    [(cut, "not what its name says"), (change, "not what its name says"), (Path.unlink, "lacks a blob")],
)
def test_a_damaged_blob(layout: OciLayout, damage: Callable[[Path], None], words: str) -> None:
    layer = max(layout.manifest(IMAGE.digest).layers, key=lambda one: one.size)
    damage(layout.blob(layer.digest))
    with pytest.raises(InvalidDocument, match=words) as caught:
        layout.check(layer.digest, layer.size)
    assert caught.value.subject == str(layout.blob(layer.digest))
    damage(layout.blob(IMAGE.digest))
    with pytest.raises(InvalidDocument, match=words):
        layout.manifest(IMAGE.digest)


@pytest.mark.parametrize("text", ["", "[]", "<html>", '{"manifests": [{"digest": "x", "size": 1}]}'])
def test_an_index_that_is_none(layout: OciLayout, text: str) -> None:
    (layout.root / "index.json").write_text(text)
    with pytest.raises(Exception, match=r"no OCI layout|manifest of the image cannot be used"):
        layout.names()


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    assert not OciLayout(tmp_path).is_there
    with pytest.raises(InvalidDocument, match="no OCI layout"):
        OciLayout(tmp_path).names()


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(Permanent, match="cannot be written") as caught:
        OciLayout(tmp_path / "file" / "layout").create()
    assert "goes on where it stopped" in caught.value.remedy


def test_bytes_of_another_digest_are_never_put(layout: OciLayout) -> None:
    with pytest.raises(ValueError, match="are not"):
        layout.put(IMAGE.digest, b"else")
