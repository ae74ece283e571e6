"""Layers as files: both packagings, layers on top of each other, and everything that must not come through."""

from __future__ import annotations

import pytest

from artifacts import FILES, TITLE, digest_of, tar
from hopline.domain.errors import InvalidDocument, InvalidRelease
from hopline.oci.manifests import Descriptor
from hopline.oci.unpacking import Limits, unpack


def layer(content: bytes, title: str = "", **annotations: str) -> tuple[Descriptor, bytes]:
    found = {TITLE: title, **annotations} if title else annotations
    return Descriptor(digest_of(content), len(content), annotations=found), content


def unpacked(*layers: bytes, limits: Limits | None = None) -> dict[str, str]:
    return unpack("registry.test/release-image:v26.06", [layer(one) for one in layers], limits or Limits())


def refusal(*layers: tuple[Descriptor, bytes], limits: Limits | None = None) -> InvalidRelease:
    with pytest.raises(InvalidRelease) as caught:
        unpack("registry.test/release-image:v26.06", layers, limits or Limits())
    assert caught.value.subject == "registry.test/release-image:v26.06"
    assert caught.value.remedy
    return caught.value


ALL = {path: text.encode() for path, text in FILES.items()}


def test_files_as_titled_layers() -> None:
    found = unpack("x", [layer(text.encode(), path) for path, text in FILES.items()], Limits())
    assert found == dict(FILES)


@pytest.mark.parametrize("prefix", ["", "./", "/", "././"])
@pytest.mark.parametrize("compressed", [True, False])
def test_files_in_an_archive(prefix: str, compressed: bool) -> None:
    content = tar({f"{prefix}{path}": text for path, text in ALL.items()}, compressed=compressed)
    assert unpacked(content) == dict(FILES)


def test_a_folder_that_oras_has_packed() -> None:
    content = tar({path: text for path, text in ALL.items() if path.startswith("components/")})
    folder = layer(content, "components", **{"io.deis.oras.content.unpack": "true"})
    found = unpack("x", [folder, layer(ALL["release.yaml"], "release.yaml")], Limits())
    assert found == dict(FILES)


def test_other_files_and_hidden_ones_are_left_out() -> None:
    more = {"README.md": b"#", "bin/sh": b"\x7fELF", ".git/config.yaml": b"a: 1", "components/.hidden.yaml": b"a: 1"}
    assert unpacked(tar({**ALL, **more})) == dict(FILES)


def test_the_highest_layer_counts() -> None:
    below, above = tar({"release.yaml": b"a: 1", "kept.yaml": b"b: 1"}), tar({"./release.yaml": b"a: 2"})
    assert unpacked(below, above) == {"release.yaml": "a: 2", "kept.yaml": "b: 1"}


def test_a_titled_file_wins_over_archives() -> None:
    found = unpack("x", [layer(b"a: 1", "release.yaml"), layer(tar({"release.yaml": b"a: 2"}))], Limits())
    assert found == {"release.yaml": "a: 1"}


BELOW = {"release.yaml": b"r", "components/a/x.yaml": b"1", "components/a/y.yaml": b"2", "components/b/x.yaml": b"3"}


@pytest.mark.parametrize(
    ("above", "left"),
    [
        ({"components/a/.wh.x.yaml": b""}, {"components/a/y.yaml", "components/b/x.yaml"}),
        ({"components/.wh.a": b""}, {"components/b/x.yaml"}),
        ({".wh.components": b""}, set()),
        ({"components/a/.wh..wh..opq": b""}, {"components/b/x.yaml"}),
        (
            {"components/a/z.yaml": b"4", "components/a/.wh..wh..opq": b""},
            {"components/a/z.yaml", "components/b/x.yaml"},
        ),
        ({"./components/a/.wh.x.yaml": b""}, {"components/a/y.yaml", "components/b/x.yaml"}),
        ({"components/a": b"now a file"}, None),
        ({"components/a/x.yaml/": b""}, {"components/a/y.yaml", "components/b/x.yaml"}),
        ({"components/.wh.aa": b""}, {"components/a/x.yaml", "components/a/y.yaml", "components/b/x.yaml"}),
    ],
)
def test_what_a_higher_layer_deletes_stays_deleted(above: dict[str, bytes], left: set[str] | None) -> None:
    found = unpacked(tar(BELOW), tar(above))
    expected = {"components/b/x.yaml"} if left is None else left
    assert set(found) == {"release.yaml"} | expected


@pytest.mark.parametrize("path", ["../release.yaml", "components/../../etc/x.yaml", "/../x.yaml", "a\\..\\x.yaml"])
def test_a_path_that_leaves_the_bundle(path: str) -> None:
    assert path in refusal(layer(tar({path: b"a: 1"}))).value
    assert path in refusal(layer(b"a: 1", path)).value


def test_a_path_that_is_too_long() -> None:
    assert refusal(layer(b"a: 1", "a/" * 600 + "x.yaml")).field == "layers[0]"


@pytest.mark.parametrize("path", ["release.yaml", "components/a/x.yaml", "components", "components/a"])
def test_a_link_in_the_place_of_a_file(path: str) -> None:
    error = refusal(layer(tar({"x.yaml": b"a: 1"}, links={path: "/etc/passwd"})))
    assert "link" in error.message
    assert error.value == path


def test_links_elsewhere_in_an_ordinary_image_do_no_harm() -> None:
    assert unpacked(tar(ALL, links={"bin/ls": "/bin/busybox", "etc": "/private/etc"})) == dict(FILES)


def test_a_layer_bomb() -> None:
    limits = Limits(unpacked_bytes=1_000_000)
    bomb = tar({"large.bin": b"\0" * 50_000_000})
    assert len(bomb) < 100_000
    assert "unpack to too much" in refusal(layer(bomb), limits=limits).message
    small = tar({"small.bin": b"\0" * 600_000})
    assert "unpack to too much" in refusal(layer(small), layer(small), limits=limits).message


def test_one_file_that_is_too_large() -> None:
    limits = Limits(file_bytes=1000)
    assert "x.yaml: 2000 bytes" in refusal(layer(tar({"x.yaml": b"#" * 2000})), limits=limits).value
    assert "x.yaml: 2000 bytes" in refusal(layer(b"#" * 2000, "x.yaml"), limits=limits).value


def test_too_many_entries() -> None:
    content = tar({f"{number}.txt": b"" for number in range(50)})
    assert "too many" in refusal(layer(content), limits=Limits(entries=20)).message


@pytest.mark.parametrize(
    "content",
    [
        tar(ALL)[:-30],
        tar(ALL, compressed=False)[:700],
        b"\x1f\x8b\x08\x00garbage",
        b"<html>no archive</html>",
        b"",
    ],
    ids=["cut gzip", "cut tar", "no gzip", "no archive", "empty"],
)
def test_a_layer_that_does_not_unpack(content: bytes) -> None:
    error = refusal(layer(content))
    assert error.message in ("a layer cannot be unpacked", "the image holds no YAML file")


def test_zstd_is_named() -> None:
    assert refusal(layer(b"\x28\xb5\x2f\xfd....")).value == "zstd"


def test_no_yaml_at_all() -> None:
    assert refusal(layer(tar({"README.md": b"#"}))).message == "the image holds no YAML file"
    assert refusal(layer(b"{}")).message == "the image holds no YAML file"
    assert refusal().message == "the image holds no YAML file"


def test_two_layers_of_one_title() -> None:
    assert "same title" in refusal(layer(b"a: 1", "x.yaml"), layer(b"a: 2", "./x.yaml")).message
    assert unpack("x", [layer(b"a: 1", "x.yaml"), layer(b"a: 1", "x.yaml")], Limits()) == {"x.yaml": "a: 1"}


def test_a_file_that_is_no_text() -> None:
    with pytest.raises(InvalidDocument, match="not UTF-8") as caught:
        unpacked(tar({"x.yaml": b"a: 1\nb: \xff"}))
    assert caught.value.subject.endswith("!x.yaml:2")
