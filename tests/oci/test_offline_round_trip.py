"""`hopline offline build` and `load` between two real registries with TLS and logins: what goes in comes out."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from base64 import b64decode
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from artifacts import Artifact
from hopline.domain.image_references import parse_reference
from hopline.domain.offline_bundle import read_bundle
from hopline.domain.release_origin import RegistryAccess
from hopline.oci.client import RegistryClient
from hopline.oci.keys import read_keys
from hopline.oci.manifests import Manifest
from hopline.oci.one_at_a_time import alone
from hopline.oci.pulling import Puller
from hopline.oci.signatures import FoundSignature, require_signature
from hopline.oci.store import BlobStore
from hopline.oci.unpacking import Limits
from oci_signed import SIGNATURE_KEYS, held
from offline_lab import (
    CONTAINERD,
    TARBALL,
    noise,
    program,
)
from offline_site import Site
from registry.server import PASSWORD, USER, Registry

pytestmark = pytest.mark.timeout(900)
"""The first test may have to build the registry."""
WRITES = ("POST", "PATCH", "PUT", "DELETE")


def access(registry: Registry) -> RegistryAccess:
    return RegistryAccess(ca=registry.ca, username=USER, password=SecretStr(PASSWORD))


def manifest_at(registry: Registry, name: str) -> Manifest:
    """What a cluster gets there."""

    async def look() -> Manifest:
        async with RegistryClient(registry.host, access(registry)) as client:
            return await client.manifest(parse_reference(f"{registry.host}/{name}"))

    return asyncio.run(look())


def test_everything_comes_out_by_the_digests_that_went_in(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert site.build() == 0
    assert not site.tarball.with_name(f"{TARBALL}.work").exists()
    site.upstream.registry.stop()
    files = site.folder / "files"
    assert site.load("--files-dir", str(files)) == 0
    for name, image in site.upstream.images.items():
        assert manifest_at(site.target, f"kubernetes/{name}").digest == image.digest, name
    for digest in site.upstream.images["coredns:v1.12.2"].manifests:
        assert manifest_at(site.target, f"kubernetes/coredns@{digest}").digest == digest
    assert (files / CONTAINERD).read_bytes() == noise("containerd", 50_000)
    printed = capsys.readouterr().out
    assert "registry.imageAddress" not in printed
    assert "6 images brought, 0 already there, all read back" in printed
    assert "1 file installed" in printed


def test_the_tarball_unpacks_as_the_guide_types_it(site: Site) -> None:
    assert site.build() == 0
    place = site.folder / "node"
    place.mkdir()
    (place / "files").mkdir()
    subprocess.run(["tar", "-xzf", str(site.tarball)], cwd=place, check=True)
    subprocess.run(["bash", "-c", "cp containerd-*.tar.gz files/"], cwd=place, check=True)
    assert (place / "files" / CONTAINERD).read_bytes() == noise("containerd", 50_000)
    bundle = read_bundle((place / "offline-v26.06" / "bundle.json").read_bytes(), "x")
    assert bundle.releases == ("v26.06-rc.3", "v26.06")
    assert {image.name for image in bundle.images} == {f"kubernetes/{name}" for name in site.upstream.images}
    config = (place / "offline-v26.06" / bundle.configs[0].path).read_text()
    assert config == site.upstream.config()
    assert sorted(path.name for path in place.iterdir()) == [CONTAINERD, "files", "offline-v26.06"]


def test_equal_contents_make_equal_tarballs(site: Site) -> None:
    assert site.build() == 0
    first = site.tarball.read_bytes()
    assert site.build() == 0
    assert site.tarball.read_bytes() == first


def test_a_second_load_uploads_nothing(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert site.build() == 0
    files = ["--files-dir", str(site.folder / "files")]
    assert site.load(*files) == 0
    before = site.writes()
    assert before
    assert site.load(*files) == 0
    assert site.writes() == before
    assert "0 images brought, 6 already there" in capsys.readouterr().out


def test_a_folder_for_work_keeps_what_else_is_in_it(site: Site) -> None:
    """What grows there is below it, in a folder of its own: only that is removed."""
    work = site.folder / "work"
    work.mkdir()
    (work / "mine").write_text("kept")
    assert site.build("--work-dir", str(work)) == 0
    assert site.load("--work-dir", str(work)) == 0
    assert [path.name for path in work.iterdir()] == ["mine"]
    assert (site.folder / TARBALL).is_file()


def test_two_loads_of_one_tarball_do_not_unpack_into_each_other(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert site.build() == 0
    folder = site.folder / f".{TARBALL}.unpacked"
    with alone(folder, who="load", field="--source", remedy="x"):
        assert site.load() == 2
    assert "another load works on this bundle" in " ".join(capsys.readouterr().err.split())
    assert folder.is_dir()
    assert site.load() == 0
    assert not folder.exists()


def test_each_blob_goes_up_once_and_is_taken_over_elsewhere(site: Site) -> None:
    assert site.build() == 0
    assert site.load() == 0
    shared = site.upstream.images["etcd:v3.6.8"].blobs.keys() & site.upstream.images["kube-proxy:v1.34.5"].blobs.keys()
    assert len(shared) == 1
    (digest,) = shared
    ended = [request for request in site.writes() if request.startswith("PUT") and digest.split(":")[1] in request]
    mounted = [request for request in site.writes() if "mount=" in request and digest.split(":")[1] in request]
    assert (len(ended), len(mounted)) == (1, 1)


def test_each_blob_is_fetched_once(site: Site) -> None:
    assert site.build() == 0
    fetched = [request.partition("?")[0] for request in site.upstream.registry.requests() if "/blobs/sha256" in request]
    digests = [request.rpartition("/")[2] for request in fetched if request.startswith("GET")]
    assert len(digests) == len(set(digests))


@pytest.mark.parametrize("form", ["simple", "bundle"])
def test_signatures_come_along(site: Site, tmp_path: Path, form: str) -> None:
    fixture = held("ecdsa", form)
    manifests = {digest: b64decode(text) for digest, text in fixture["manifests"].items()}
    blobs = {digest: b64decode(text) for digest, text in fixture["blobs"].items()}
    top = fixture["digest"]
    site.upstream.push("etcd", "signed", Artifact(manifests.pop(top), blobs=blobs, manifests=manifests))
    for tag, digest in fixture["tags"].items():
        if digest != top:
            site.upstream.registry.push_manifest("openfuyao/etcd", tag, manifests[digest])
    assert site.build() == 0
    assert site.load() == 0
    reference = parse_reference(f"{site.target.host}/kubernetes/etcd:signed")

    async def look() -> tuple[FoundSignature, ...]:
        async with RegistryClient(site.target.host, access(site.target)) as client:
            return await Puller(BlobStore(tmp_path / "store"), Limits()).signatures(client, reference, {top})

    keys = read_keys((SIGNATURE_KEYS["ecdsa"],), field="key")
    assert require_signature(str(reference), asyncio.run(look()), frozenset({top}), keys)
    before = site.writes()
    assert site.load() == 0
    assert site.writes() == before


def test_the_report_as_a_document(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert site.build("-o", "json") == 0
    bundle = json.loads(capsys.readouterr().out)
    assert (bundle["name"], bundle["versions"]) == ("offline-v26.06", ["v26.06"])
    assert site.load("-o", "json") == 0
    report = json.loads(capsys.readouterr().out)
    assert {image["state"] for image in report["registry"]["images"]} == {"brought"}
    assert report["filesLeft"] == [CONTAINERD]


def test_packages_come_by_the_listing_of_their_server(site: Site) -> None:
    folder = site.upstream.files / "CentOS" / "7" / "amd64" / "docker-ce"
    (folder / "repodata").mkdir(parents=True)
    (folder / "docker 1.rpm").write_bytes(b"one")
    (folder / "repodata" / "repomd.xml").write_bytes(b"two")
    sections = f'"rpms": [{{"address": "{site.upstream.address}", "system": ["CentOS"], "systemVersion": ["7"], '
    sections += '"systemArchitecture": ["amd64"], "directory": ["docker-ce"]}]'
    assert site.build(config=site.upstream.config(sections=sections)) == 0
    assert site.load("--files-dir", str(site.folder / "files")) == 0
    there = site.folder / "files" / "rpms" / "CentOS" / "7" / "amd64" / "docker-ce"
    assert (there / "docker 1.rpm").read_bytes() == b"one"
    assert (there / "repodata" / "repomd.xml").read_bytes() == b"two"


def test_a_package_of_the_existing_tools(site: Site) -> None:
    assert site.build() == 0
    subprocess.run(["tar", "-xzf", str(site.tarball)], cwd=site.folder, check=True)
    package = site.folder / "offline-v26.06"
    (package / "bundle.json").unlink()
    shutil.rmtree(package / "version-configs")
    assert site.load("--files-dir", str(site.folder / "files"), source=str(package)) == 0
    for name, image in site.upstream.images.items():
        assert manifest_at(site.target, f"kubernetes/{name}").digest == image.digest, name
    assert (site.folder / "files" / CONTAINERD).is_file()


def as_of_a_registry(site: Site) -> Path:
    """What `bke build` makes: the storage of a registry, packed as it lies on disk, and an archive of files."""
    assert site.build() == 0
    assert site.load() == 0
    package = site.folder / "bke"
    (package / "volumes").mkdir(parents=True)
    (package / "manifests.yaml").write_text(site.upstream.config())
    storage = site.target.data.parents[2]
    subprocess.run(["tar", "-czf", package / "volumes" / "image.tar.gz", "."], cwd=storage, check=True)
    (package / "volumes" / "source.tar.gz").write_bytes(b"x")
    (package / "volumes" / "registry.image-amd64").write_bytes(b"x")
    return package


@pytest.mark.parametrize("packed", [False, True])
def test_a_package_with_the_storage_of_a_registry(
    site: Site, registry_binary: Path, capsys: pytest.CaptureFixture[str], packed: bool
) -> None:
    source = package = as_of_a_registry(site)
    if packed:
        (site.folder / "usr" / "bin").mkdir(parents=True)
        (site.folder / "usr" / "bin" / "bke").write_bytes(b"x")
        source = site.folder / "bke.tar.gz"
        subprocess.run(["tar", "-czf", source, "bke", "usr"], cwd=site.folder, check=True)
        shutil.rmtree(package)
    third = Registry(registry_binary)
    try:
        there = replace(site, target=third)
        assert there.load(source=str(source)) == 0
        assert "tar -xzf volumes/source.tar.gz -C /bke/mount/source_registry" in capsys.readouterr().out
        for name, image in site.upstream.images.items():
            assert manifest_at(third, f"kubernetes/{name}").digest == image.digest, name
    finally:
        third.close()
    assert not list(site.folder.glob(".*"))


def test_an_image_per_architecture(site: Site) -> None:
    """What has only tags per architecture, marked in the VersionConfig or not, is put together."""
    for one in ("amd64", "arm64"):
        site.upstream.registry.push("openfuyao/marked", f"v1-{one}-7", program("m", one))
        site.upstream.registry.push("openfuyao/plain", f"v2-{one}", program("p", one))
    config = json.loads(site.upstream.config("amd64", "arm64"))
    images: list[dict[str, Any]] = config["repos"][0]["subImages"][0]["images"]
    images[:] = [{"name": "marked", "tag": ["v1-*-7"]}, {"name": "plain", "tag": ["v2"]}]
    assert site.build("--releases", f"{site.upstream.registry.host}/openfuyao", config=json.dumps(config)) == 0
    assert site.load() == 0
    for name in ("marked:v1", "plain:v2"):
        index = manifest_at(site.target, f"kubernetes/{name}")
        assert [entry.platform for entry in index.manifests] == [("linux", "amd64"), ("linux", "arm64")]


def test_only_the_hops_from_a_version(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    config = json.loads(site.upstream.config())
    images: list[dict[str, Any]] = config["repos"][0]["subImages"][0]["images"]
    images[:] = [image for image in images if image["name"] not in ("release-image", "upgrade-path")]
    place = ["--releases", f"{site.upstream.registry.host}/openfuyao", "-o", "json"]
    assert site.build("--from", "v26.06-rc.3", *place, config=json.dumps(config)) == 0
    assert json.loads(capsys.readouterr().out)["releases"] == ["v26.06"]
    assert site.build(*place, config=json.dumps(config)) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["releases"] == ["v26.06-rc.3", "v26.06"]
    assert "the path leads through v26.06-rc.3" in said.err
