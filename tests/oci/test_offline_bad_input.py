"""What cannot be built or loaded is refused with object, value and remedy, and leaves nothing half-written."""

from __future__ import annotations

import gzip
import io
import json
import resource
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from artifacts import Artifact, digest_of, indexed, titled
from hopline.oci import side_by_side
from hopline.runtime.settings import child_environment
from offline_lab import CONFIG_NAME, CONTAINERD, HOPLINE, ROOT, login_options, noise, program
from offline_site import Site
from starter.__main__ import run

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What may pass is tried again at once, and only once."""
    monkeypatch.setattr(side_by_side, "ATTEMPTS", 2)
    monkeypatch.setattr(side_by_side, "LONGEST_WAIT_SECONDS", 0.01)


def unpacked(site: Site) -> Path:
    """The folder of a good bundle."""
    assert site.build() == 0
    subprocess.run(["tar", "-xzf", str(site.tarball)], cwd=site.folder, check=True)
    return site.folder / "offline-v26.06"


# --- build ---------------------------------------------------------------------------------------------------------


def test_a_tag_that_is_missing(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    config = site.upstream.config().replace("v3.6.8", "v9.9.9")
    assert site.build(config=config) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert f"{site.upstream.registry.host}/openfuyao/etcd:v9.9.9" in said
    assert "repos[0].subImages[0].images[2].tag[0]" in said
    assert not site.tarball.exists()
    assert site.build() == 0, "the next one goes on"


def test_a_registry_that_does_not_let_us_in(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    login = json.loads((Path(login_options(site.folder, site.upstream.registry)[-1])).read_text())
    login["auths"][site.upstream.registry.host]["auth"] = "dXBncmFkZTp3cm9uZw=="
    (site.folder / "wrong.json").write_text(json.dumps(login))
    assert site.build("--auth-file", str(site.folder / "wrong.json")) == 1
    said = capsys.readouterr().err
    assert "does not let us in" in said and "trying again" not in said
    assert "wrong" not in said.replace("wrong.json", "")


def test_an_image_for_other_machines(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.upstream.push("lonely", "v1", program("lonely", "arm64"))
    assert site.build() == 3
    assert "the image is not for amd64" in capsys.readouterr().err
    site.upstream.push("lonely", "v1", indexed({"linux/arm64": program("lonely", "arm64")}))
    assert site.build() == 3
    assert not site.tarball.exists()


def test_a_blob_that_is_damaged_in_the_registry(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    layer = max(site.upstream.images["etcd:v3.6.8"].blobs, key=str)
    hexadecimal = layer.removeprefix("sha256:")
    place = site.upstream.registry.data / "blobs" / "sha256" / hexadecimal[:2] / hexadecimal / "data"
    good = place.read_bytes()
    place.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    assert site.build() == 1
    assert layer in capsys.readouterr().err
    place.write_bytes(good)
    assert site.build() == 0


def test_a_file_that_is_not_there(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    (site.upstream.files / "containerd" / CONTAINERD).unlink()
    assert site.build() == 1
    assert CONTAINERD in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (f'"fileName": "{CONTAINERD}"', '"fileName": "../../etc/x"', "leads out of its folder"),
        (f'"fileName": "{CONTAINERD}"', '"fileName": "x", "fileAlias": "charts/x"', "the name of a folder"),
        ('"address": "http://', '"address": "http://user:word@', "holds a login"),
        ('"targetRepo": "kubernetes"', '"targetRepo": "../x"', "has a name that registries refuse"),
        ('"openFuyaoVersion": "v26.06", ', "", "does not say for which version"),
        ('"files": [', '"openFuyaoCharts": [{"name": "x"}], "files": [', "cannot be carried"),
    ],
)
def test_a_version_config_that_asks_for_too_much(
    site: Site, capsys: pytest.CaptureFixture[str], old: str, new: str, words: str
) -> None:
    config = site.upstream.config()
    assert old in config
    assert site.build(config=config.replace(old, new)) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert words in said and "word@" not in said
    assert not site.tarball.exists()


def test_a_catalogue_that_is_none(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.upstream.push("upgrade-path", "latest", titled({"paths.yaml": "kind: Other\n"}))
    assert site.build() == 3
    assert "does not hold one UpgradePath" in " ".join(capsys.readouterr().err.split())


def test_a_start_without_a_path(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert site.build("--from", "v26.03") == 3
    assert "v26.03" in capsys.readouterr().err


def test_a_name_that_is_no_tarball(site: Site) -> None:
    (site.folder / CONFIG_NAME).write_text(site.upstream.config())
    assert run(["offline", "build", "-f", str(site.folder / CONFIG_NAME), "-t", str(site.folder / "x.zip")]) == 2


LIMITED = """import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
from starter.__main__ import main
sys.argv = ["hopline", *sys.argv[2:]]
main()
"""


def limited(size: int, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """A command that cannot write a file of more than `size` bytes, as on a full disk."""
    command = [sys.executable, "-c", LIMITED, str(size), *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=child_environment({}), capture_output=True, text=True, check=False, timeout=100
    )


def test_a_disk_that_is_full_while_building(site: Site) -> None:
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    site.upstream.push("big", "v1", program("big", layers=1, size=3_000_000))
    (site.folder / CONFIG_NAME).write_text(site.upstream.config())
    arguments = ["offline", "build", "-f", str(site.folder / CONFIG_NAME), "-t", str(site.tarball)]
    done = limited(2_000_000, [*arguments, *login_options(site.folder, site.upstream.registry)])
    assert done.returncode == 1, done.stderr
    assert "cannot be written" in done.stderr and "make room" in done.stderr
    assert "Traceback" not in done.stderr
    assert not site.tarball.exists()
    assert site.build() == 0


def test_a_disk_that_is_full_while_loading(site: Site) -> None:
    assert site.build() == 0
    files = site.folder / "files"
    done = limited(40_000, [*site.load_command()[len(HOPLINE) :], "--files-dir", str(files)])
    assert done.returncode == 1, done.stderr
    assert "cannot be written" in done.stderr and "Traceback" not in done.stderr
    assert site.load("--files-dir", str(files)) == 0
    assert [path.name for path in files.iterdir()] == [CONTAINERD]


# --- load ----------------------------------------------------------------------------------------------------------


def blob_of(package: Path, image: Artifact) -> Path:
    digest = max(image.blobs, key=lambda one: len(image.blobs[one]))
    return package / "volumes" / "oci-layout" / "blobs" / "sha256" / digest.removeprefix("sha256:")


def change(place: Path) -> None:
    content = bytearray(place.read_bytes())
    content[0] ^= 1
    place.write_bytes(content)


def cut(place: Path) -> None:
    place.write_bytes(place.read_bytes()[:-1])


@pytest.mark.parametrize("damage", [change, cut, Path.unlink])
def test_a_damaged_blob(site: Site, capsys: pytest.CaptureFixture[str], damage: Callable[[Path], None]) -> None:
    package = unpacked(site)
    place = blob_of(package, site.upstream.images["etcd:v3.6.8"])
    damage(place)
    assert site.load(source=str(package)) == 3
    assert place.name in capsys.readouterr().err.replace("\n", "")
    held = [path.parent.name for path in (site.target.data / "blobs").glob("sha256/*/*/data")]
    assert place.name not in held


@pytest.mark.parametrize("damage", [change, cut, Path.unlink])
def test_a_damaged_file(site: Site, capsys: pytest.CaptureFixture[str], damage: Callable[[Path], None]) -> None:
    package = unpacked(site)
    files = site.folder / "files"
    files.mkdir()
    (files / CONTAINERD).write_bytes(b"what was there before")
    damage(package / "volumes" / CONTAINERD)
    assert site.load("--files-dir", str(files), source=str(package)) == 3
    assert CONTAINERD in capsys.readouterr().err.replace("\n", "")
    assert (files / CONTAINERD).read_bytes() == b"what was there before"
    assert [path.name for path in files.iterdir()] == [CONTAINERD]


def test_a_tarball_that_is_cut_off(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert site.build() == 0
    whole = site.tarball.read_bytes()
    for length in (len(whole) // 2, len(whole) - 4, 1):
        site.tarball.write_bytes(whole[:length])
        assert site.load() == 3
        assert "cut off or damaged" in " ".join(capsys.readouterr().err.split())
    assert not site.writes()
    site.tarball.write_bytes(whole)
    assert site.load() == 0


def hostile(kind: str) -> bytes:
    """A tarball that leads somewhere else."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        entry = tarfile.TarInfo("x/manifests.yaml")
        entry.size = 1
        archive.addfile(entry, io.BytesIO(b"a"))
        entry = tarfile.TarInfo({"parent": "x/../../out", "absolute": "/tmp/out"}.get(kind, "x/out"))
        entry.type = {"symlink": tarfile.SYMTYPE, "link": tarfile.LNKTYPE, "device": tarfile.CHRTYPE}.get(
            kind, tarfile.REGTYPE
        )
        entry.linkname = "/etc/passwd"
        archive.addfile(entry, io.BytesIO(b""))
    return gzip.compress(plain.getvalue())


@pytest.mark.parametrize("kind", ["parent", "absolute", "symlink", "link", "device"])
def test_a_tarball_that_leads_out(site: Site, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    site.tarball.write_bytes(hostile(kind))
    assert site.load() == 3
    assert "tarball" in capsys.readouterr().err
    assert not (site.folder / "out").exists() and not Path("/tmp/out").exists()


@pytest.mark.parametrize(("name", "content"), [("x.tar.gz", b"<html>"), ("x.tar.gz", gzip.compress(b"no tar"))])
def test_what_is_no_package(site: Site, name: str, content: bytes) -> None:
    (site.folder / name).write_bytes(content)
    assert site.load(source=str(site.folder / name)) == 3
    (site.folder / "empty").mkdir()
    assert site.load(source=str(site.folder / "empty")) == 3


def storage(entries: dict[str, bytes]) -> bytes:
    """An archive as of a registry's storage."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for name, content in entries.items():
            entry = tarfile.TarInfo(f"./docker/registry/v2/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(plain.getvalue())


IMAGE = program("x")
LINK = "repositories/kubernetes/x/_manifests/tags/v1/current/link"
BLOBS = {
    f"blobs/sha256/{digest[7:9]}/{digest[7:]}/data": content
    for digest, content in {**IMAGE.blobs, IMAGE.digest: IMAGE.body}.items()
}
LAYER = max(BLOBS, key=lambda one: len(BLOBS[one]))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"x", "cut off or damaged"),
        (storage({}), "no images of a registry"),
        (storage(BLOBS), "no images of a registry"),
        (storage({LINK: b"latest"}), "not what its name says"),
        (storage({LINK: IMAGE.digest.encode()}), "lacks a blob"),
        (
            storage({**BLOBS, LAYER: b"other", LINK: IMAGE.digest.encode()}),
            f"image.tar.gz/docker/registry/v2/{LAYER}",
        ),
        (storage({**BLOBS, LINK: IMAGE.digest.encode()})[:-200], "cut off or damaged"),
    ],
)
def test_a_storage_of_a_registry_that_cannot_be_read(
    site: Site, capsys: pytest.CaptureFixture[str], content: bytes, words: str
) -> None:
    package = site.folder / "bke"
    (package / "volumes").mkdir(parents=True)
    (package / "manifests.yaml").write_text("repos: []\n")
    (package / "volumes" / "image.tar.gz").write_bytes(content)
    assert site.load(source=str(package)) == 3
    # Long paths are broken where a line ends.
    assert words.replace(" ", "") in "".join(capsys.readouterr().err.split())
    assert not site.writes()
    assert run(["offline", "verify", str(package)]) == 3
    (package / "volumes" / "image.tar.gz").write_bytes(storage({**BLOBS, LINK: IMAGE.digest.encode()}))
    assert site.load(source=str(package)) == 0


def test_a_package_without_images(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    package = site.folder / "bke"
    package.mkdir()
    (package / "manifests.yaml").write_text("repos: []\n")
    assert site.load(source=str(package)) == 3
    assert "neither volumes/oci-layout nor volumes/image.tar.gz" in " ".join(capsys.readouterr().err.split())


def test_a_target_that_is_no_registry(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert site.build() == 0
    base = ["offline", "load", "--source", str(site.tarball), "--target"]
    assert run([*base, "https://x/"]) == 2
    host = site.upstream.address.removeprefix("http://")
    assert run([*base, host, "--plain-http"]) == 1
    said = capsys.readouterr().err
    assert host in said
    assert run([*base, "127.0.0.1:1", "--plain-http"]) == 1


def test_a_layout_that_names_nothing_useful(site: Site) -> None:
    package = unpacked(site)
    index = package / "volumes" / "oci-layout" / "index.json"
    (package / "bundle.json").unlink()
    document = json.loads(index.read_text())
    document["manifests"][0]["annotations"] = {"org.opencontainers.image.ref.name": "no-tag"}
    index.write_text(json.dumps(document))
    assert site.load(source=str(package)) == 3


def test_a_manifest_that_is_not_what_its_name_says(site: Site) -> None:
    package = unpacked(site)
    image = site.upstream.images["etcd:v3.6.8"]
    place = package / "volumes" / "oci-layout" / "blobs" / "sha256" / image.digest.removeprefix("sha256:")
    change(place)
    assert site.load(source=str(package)) == 3
    assert digest_of(noise("x", 1)) != image.digest
