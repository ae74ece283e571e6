"""`hopline offline verify`: a bundle of the real build is closed, and every way to damage it is named."""

from __future__ import annotations

import io
import json
import tarfile
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from artifacts import titled
from bundle_lab import EXAMPLES, HOPS, NAME, Copy, Hub, build_bundle, published, release_files, version_config
from oci_signed import SIGNATURE_KEYS, held
from offline_lab import for_both
from starter.__main__ import run
from starter.exit_codes import ExitCode

WEB = "component web v2 of release v26.06"


@pytest.fixture(scope="module")
def tarball(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_bundle(tmp_path_factory.mktemp("bundle"))


@pytest.fixture
def copy(tarball: Path, tmp_path: Path) -> Copy:
    return Copy.of(tarball, tmp_path)


Verify = Callable[..., dict[str, Any]]


@pytest.fixture
def verify(capsys: pytest.CaptureFixture[str]) -> Verify:
    """The JSON of a verification, whose exit code agrees with it."""

    def verified(source: Path, *options: str) -> dict[str, Any]:
        capsys.readouterr()
        code = run(["offline", "verify", str(source), "-o", "json", *options])
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        assert code == (ExitCode.DONE if found["closed"] else ExitCode.REFUSED)
        return found

    return verified


def blocking(found: dict[str, Any]) -> list[str]:
    return [one["message"] for one in found["findings"] if one["severity"] == "blocks"]


def wanted(found: dict[str, Any]) -> dict[str, str]:
    return {one["image"]: one["wantedBy"] for one in found["missing"]}


# --- whole ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["tarball", "folder"])
def test_a_bundle_of_the_real_build_is_closed(tarball: Path, copy: Copy, verify: Verify, form: str) -> None:
    found = verify(tarball if form == "tarball" else copy.root)
    assert found["closed"], found
    assert (found["missing"], found["corrupt"]) == ([], [])
    assert sorted(found["versions"]) == sorted(HOPS)
    assert sorted(found["releases"]) == sorted(HOPS)
    assert found["architectures"] == ["amd64", "arm64"]
    assert found["images"] == 4 * 2 + 6
    assert not blocking(found)
    assert [path.name for path in tarball.parent.iterdir() if path.name.startswith(".")] == []


def test_the_screen(tarball: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["offline", "verify", str(tarball)]) == ExitCode.DONE
    told = capsys.readouterr().out
    assert f"{tarball} is closed" in told
    assert "14 images that 2 releases run, for amd64, arm64" in told


def test_a_package_of_the_existing_tools_is_read_as_well(copy: Copy, verify: Verify) -> None:
    copy.as_of_existing_tools()
    found = verify(copy.root)
    assert found["closed"], found
    assert found["versions"] == [HOPS[-1]]


def test_a_package_with_the_storage_of_a_registry_is_read_as_well(copy: Copy, verify: Verify) -> None:
    copy.as_of_a_registry()
    before = sorted(path.name for path in copy.root.parent.iterdir())
    found = verify(copy.root)
    assert found["closed"], found
    assert found["versions"] == [HOPS[-1]]
    assert sorted(path.name for path in copy.root.parent.iterdir()) == before


def test_real_clusters_take_the_place_of_the_assumed_one(copy: Copy, verify: Verify, tmp_path: Path) -> None:
    text = (EXAMPLES / "cluster.yaml").read_text()
    parameter = "    addons:\n      - {name: web, version: v2, param: {tier: gold}}\n"
    (tmp_path / "cluster.yaml").write_text(text.replace("  clusterConfig:\n", f"  clusterConfig:\n{parameter}", 1))
    found = verify(copy.root, "-f", str(tmp_path / "cluster.yaml"))
    assert found["closed"], found
    # Without the parameter nobody can say what the component runs.
    found = verify(copy.root, "-f", str(EXAMPLES / "cluster.yaml"))
    assert any("tier has no value" in message for message in blocking(found)), found["findings"]


def test_parameters_of_the_version_config_are_needed(copy: Copy, verify: Verify) -> None:
    for config in (copy.root / "version-configs").iterdir():
        document = json.loads(config.read_text())
        document.pop("addons")
        config.write_text(json.dumps(document))
    found = verify(copy.root)
    assert any("tier has no value" in message for message in blocking(found))
    assert {one["path"] for one in found["corrupt"]} == {
        f"version-configs/VersionConfig-{version}.yaml" for version in HOPS
    }


# --- something is missing ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("image", "place"),
    [
        ("web-init:v2", f"{WEB}, components/web/v2/objects.yaml:1: Job"),
        ("web:v2", "spec.template.spec.containers[0].image"),
        ("web-sidecar:v2", "spec.template.spec.containers[0].args[0]"),
        ("web-operand:v2", "spec.template.spec.containers[0].env[0].value"),
        ("web-config:v2", "ConfigMap kube-system/web data.web.yaml"),
        ("web-custom:v2", "Web kube-system/web spec"),
        ("coredns:v1.12.2", "component coredns v1.12.2 of release v26.06-rc.3"),
    ],
)
def test_an_image_that_is_not_inside_is_named_with_who_wants_it(
    copy: Copy, verify: Verify, image: str, place: str
) -> None:
    copy.remove(f"kubernetes/{image}")
    found = verify(copy.root)
    full = f"deploy.bocloud.k8s:40443/kubernetes/{image}"
    assert set(wanted(found)) == {full}
    assert place in wanted(found)[full]
    assert found["corrupt"] == []
    excepted = verify(copy.root, "--except", full, "--except", f"kubernetes/{image}")
    assert excepted["closed"], excepted
    assert excepted["excepted"] == [full]


def test_what_a_version_config_lists_is_needed_although_no_manifest_names_it(copy: Copy, verify: Verify) -> None:
    file = copy.root / "version-configs" / "VersionConfig-v26.06.yaml"
    file.write_text(file.read_text().replace('"web-init"', '"web-more"'))
    found = verify(copy.root)
    assert wanted(found)["kubernetes/web-more:v2"].startswith("version-configs/VersionConfig-v26.06.yaml repos[0]")


@pytest.mark.parametrize("version", HOPS)
def test_every_hop_needs_its_release(copy: Copy, verify: Verify, version: str) -> None:
    copy.remove(f"kubernetes/release-image:{version}")
    found = verify(copy.root)
    assert f"kubernetes/release-image:{version}" in wanted(found)
    assert not found["closed"]


def test_a_release_that_the_bundle_claims_to_have(copy: Copy, verify: Verify) -> None:
    copy.change(lambda document: document["releases"].append("v26.05"))
    assert wanted(verify(copy.root)) == {"kubernetes/release-image:v26.05": "the bundle says that it has the release"}


def test_the_path_is_that_of_the_catalogue_whatever_the_bundle_says(copy: Copy, verify: Verify) -> None:
    copy.remove("kubernetes/release-image:v26.06-rc.3")
    copy.change(lambda document: document.update(releases=["v26.06"]))
    found = verify(copy.root, "--from", "v26.06-rc.2")
    assert "the path to" in wanted(found)["kubernetes/release-image:v26.06-rc.3"]
    # From rc.3 the way to v26.06 is whole; only the VersionConfigs still list the other release.
    copy.change(lambda document: document.update(versions=["v26.06"]))
    found = verify(copy.root, "--from", "v26.06-rc.3", "--except", "kubernetes/release-image:v26.06-rc.3")
    assert found["closed"], found
    found = verify(copy.root, "--except", "kubernetes/release-image:v26.06-rc.3")
    assert found["closed"], found
    assert any("a cluster at v26.06-rc.2 cannot be upgraded with it" in one["message"] for one in found["findings"])
    found = verify(copy.root, "--from", "v26.01")
    assert any("v26.01" in message for message in blocking(found))


def test_the_catalogue_is_needed(copy: Copy, verify: Verify) -> None:
    copy.remove("kubernetes/upgrade-path:latest")
    assert "kubernetes/upgrade-path:latest" in wanted(verify(copy.root))


def test_an_image_of_another_registry_is_missing_unless_a_rule_leads_to_the_own_one(
    copy: Copy, verify: Verify, tmp_path: Path
) -> None:
    cluster = tmp_path / "cluster.yaml"
    text = (EXAMPLES / "cluster.yaml").read_text()
    parameter = "    addons:\n      - {name: web, version: v2, param: {tier: gold}}\n"
    text = text.replace("  clusterConfig:\n", f"  clusterConfig:\n{parameter}", 1)
    cluster.write_text(text.replace("prefix: kubernetes", "prefix: elsewhere"))
    found = verify(copy.root, "-f", str(cluster))
    coredns = "registry.example.test:40443/elsewhere/coredns:v1.12.3"
    assert coredns in wanted(found)
    rule = "registry.example.test:40443/elsewhere=registry.example.test:40443/kubernetes"
    found = verify(copy.root, "-f", str(cluster), "--overrides", rule)
    assert coredns not in wanted(found)
    # Texts are not rewritten, so what they name stays missing.
    assert "registry.example.test:40443/elsewhere/web-operand:v2" in wanted(found)


def test_what_the_bundle_has_under_another_name_is_told(copy: Copy, verify: Verify) -> None:
    found = verify(copy.root, "--overrides", "deploy.bocloud.k8s:40443/kubernetes/coredns=quay.io/coredns/coredns")
    (one,) = [one for one in found["missing"] if one["image"] == "quay.io/coredns/coredns:v1.12.3"]
    assert "quay.io is not the registry of the cluster" in one["reason"]
    assert "kubernetes/coredns:v1.12.3" in one["reason"]


# --- something is damaged ------------------------------------------------------------------------------------------


def layer_of(copy: Copy, name: str) -> str:
    top = json.loads(copy.blob(copy.image(name)["digest"]).read_text())
    digest: str = json.loads(copy.blob(top["manifests"][0]["digest"]).read_text())["layers"][0]["digest"]
    return digest


def flipped(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda blob: blob.write_bytes(flipped(blob.read_bytes())), "not what its name says"),
        (lambda blob: blob.write_bytes(blob.read_bytes()[:-1]), "not what its name says"),
        (lambda blob: blob.write_bytes(b""), "not what its name says"),
        (lambda blob: blob.unlink(), "lacks a blob"),
    ],
)
def test_a_damaged_blob_is_named(copy: Copy, verify: Verify, damage: Callable[[Path], None], reason: str) -> None:
    digest = layer_of(copy, "kubernetes/web:v2")
    damage(copy.blob(digest))
    found = verify(copy.root)
    (one,) = found["corrupt"]
    assert one["path"] == f"volumes/oci-layout/blobs/sha256/{digest.removeprefix('sha256:')}"
    assert reason in one["reason"]
    assert not found["closed"]


def test_an_image_without_its_manifest_is_missing_and_damaged(copy: Copy, verify: Verify) -> None:
    copy.blob(copy.image("kubernetes/web:v2")["digest"]).unlink()
    found = verify(copy.root)
    assert "deploy.bocloud.k8s:40443/kubernetes/web:v2" in wanted(found)
    assert "lacks a blob" in found["corrupt"][0]["reason"]


def test_a_release_whose_layer_is_damaged_proves_nothing(copy: Copy, verify: Verify) -> None:
    manifest = json.loads(copy.blob(copy.image("kubernetes/release-image:v26.06")["digest"]).read_text())
    blob = copy.blob(manifest["layers"][0]["digest"])
    blob.write_bytes(flipped(blob.read_bytes()))
    found = verify(copy.root)
    assert found["corrupt"] and blocking(found)


def test_the_index_of_the_layout_must_say_the_same(copy: Copy, verify: Verify) -> None:
    other = copy.image("kubernetes/web-init:v2")["digest"]

    def change(document: dict[str, Any]) -> None:
        one = next(one for one in document["images"] if one["repository"] == "kubernetes/web")
        one["digest"] = other

    copy.change(change)
    (one,) = verify(copy.root)["corrupt"]
    assert one["path"] == "volumes/oci-layout/index.json"
    assert "kubernetes/web:v2" in one["reason"]


def test_an_image_that_is_not_for_every_machine(copy: Copy, verify: Verify) -> None:
    found = verify(copy.root, "--architecture", "amd64", "--architecture", "riscv64")
    assert "not for riscv64" in blocking(found)[0]
    assert len(blocking(found)) == 14
    assert verify(copy.root, "--architecture", "s390x")["closed"]


def test_a_release_of_another_version(copy: Copy, verify: Verify) -> None:
    def change(document: dict[str, Any]) -> None:
        digests = {one["tag"]: one for one in document["images"] if one["repository"].endswith("release-image")}
        digests["v26.06"]["digest"] = digests["v26.06-rc.3"]["digest"]

    copy.change(change)
    assert any("v26.06" in message for message in blocking(verify(copy.root)))


def signed(hub: Hub, form: str) -> None:
    """Everything, with the release that the real cosign has signed in the place of the last one."""
    published(hub)
    fixture = held("ecdsa", form)
    manifests = {digest: b64decode(text) for digest, text in fixture["manifests"].items()}
    hub.manifests |= manifests | {f"release-image:{tag}": manifests[one] for tag, one in fixture["tags"].items()}
    hub.blobs |= {digest: b64decode(text) for digest, text in fixture["blobs"].items()}


@pytest.mark.parametrize("form", ["simple", "bundle"])
def test_signatures_of_the_real_cosign_are_inside_and_count(tmp_path: Path, verify: Verify, form: str) -> None:
    tarball = build_bundle(tmp_path, lambda hub: signed(hub, form))
    for kind, value in SIGNATURE_KEYS.items():
        (tmp_path / f"{kind}.pub").write_text(value)
    found = verify(tarball, "--key", str(tmp_path / "ecdsa.pub"))
    by_image = {one["image"]: one for one in found["signatures"]}
    good = by_image["kubernetes/release-image:v26.06"]
    assert good["found"] == 1
    assert good["keys"][0].startswith("ECDSA")
    # The other hop is not signed.
    assert blocking(found) == ["the image is not signed: no signature at the registry"]
    found = verify(tarball, "--key", str(tmp_path / "rsa.pub"))
    assert any("no signature of the image counts" in message for message in blocking(found))
    assert verify(tarball)["closed"]


@pytest.mark.parametrize(
    ("spec", "closed", "words"),
    [
        ("verifySignature: true", False, "none is in the bundle"),
        ("verifySignature: true\n  signatureKey: k8s://a/b", False, "none is in the bundle"),
        ("signatureKey: k8s://a/b", True, ""),
    ],
)
def test_a_release_that_requires_a_signature_has_it_inside(
    tmp_path: Path, verify: Verify, spec: str, closed: bool, words: str
) -> None:
    def publish(hub: Hub) -> None:
        published(hub)
        files = release_files(HOPS[-1])
        files["release.yaml"] = files["release.yaml"].replace("spec:\n", f"spec:\n  {spec}\n", 1)
        hub.publish("release-image", HOPS[-1], titled(files))

    found = verify(build_bundle(tmp_path, publish))
    assert found["closed"] is closed
    assert words in str(blocking(found))


def test_a_key_that_is_none(copy: Copy, tmp_path: Path) -> None:
    (tmp_path / "cosign.pub").write_text("no key")
    assert run(["offline", "verify", str(copy.root), "--key", str(tmp_path / "cosign.pub")]) == ExitCode.USAGE


# --- other bundles -------------------------------------------------------------------------------------------------


def test_what_a_version_config_does_not_pack_is_missing_with_the_reason(tmp_path: Path, verify: Verify) -> None:
    def config(host: str, version: str) -> str:
        document = json.loads(version_config(host, version))
        source = document["repos"][0]["subImages"][0]
        (one,) = [image for image in source["images"] if image["name"] == "web"]
        source["images"].remove(one)
        document["repos"].append({"needDownload": False, "subImages": [{**source, "images": [one]}]})
        return json.dumps(document)

    found = verify(build_bundle(tmp_path, config=config))
    (missing,) = found["missing"]
    assert missing["image"] == "deploy.bocloud.k8s:40443/kubernetes/web:v2"
    assert "needDownload: false" in missing["reason"]


def test_an_image_by_digest_and_a_wrong_one(tmp_path: Path, verify: Verify) -> None:
    right = for_both("web-sidecar", size=500).digest

    def publish(hub: Hub, digest: str) -> None:
        published(hub)
        files = release_files(HOPS[-1])
        place = "components/web/v2/objects.yaml"
        files[place] = files[place].replace("web-sidecar:v2", f"web-sidecar@{digest}")
        hub.publish("release-image", HOPS[-1], titled(files))

    for folder in ("right", "wrong"):
        (tmp_path / folder).mkdir()
    assert verify(build_bundle(tmp_path / "right", lambda hub: publish(hub, right)))["closed"]
    found = verify(build_bundle(tmp_path / "wrong", lambda hub: publish(hub, "sha256:" + "0" * 64)))
    (missing,) = found["missing"]
    assert missing["image"].endswith(f"web-sidecar@sha256:{'0' * 64}")
    assert "kubernetes/web-sidecar:v2 has another digest" in missing["reason"]


def test_a_bundle_that_was_built_from_a_later_version_on(tmp_path: Path, verify: Verify) -> None:
    def only_last(host: str, version: str) -> str:
        return version_config(host, HOPS[-1])

    tarball = build_bundle(tmp_path, config=only_last, options=["--from", "v26.06-rc.3"])
    found = verify(tarball)
    assert found["closed"], found
    assert verify(tarball, "--from", "v26.06-rc.2")["closed"]  # both releases are listed by the VersionConfig


# --- no package ----------------------------------------------------------------------------------------------------


def packed(target: Path, entries: dict[str, bytes], links: dict[str, str] | None = None) -> Path:
    with tarfile.open(target, "w:gz") as archive:
        for name, content in entries.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for name, place in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, place
            archive.addfile(info)
    return target


@pytest.mark.parametrize(
    ("entries", "links", "reason"),
    [
        ({f"{NAME}/../../evil": b"x"}, {}, "leads out"),
        ({"/etc/evil": b"x"}, {}, "leads out"),
        ({f"{NAME}/bundle.json": b"{}"}, {f"{NAME}/volumes": "/etc"}, "neither a file nor a folder"),
        ({f"{NAME}/bundle.json": b"{}"}, {}, "neither volumes/oci-layout"),
        ({f"{NAME}/readme": b"x"}, {}, "neither bundle.json nor manifests.yaml"),
        ({"a/bundle.json": b"{}", "b/bundle.json": b"{}"}, {}, "one folder"),
    ],
)
def test_a_tarball_that_is_no_package(
    tmp_path: Path, verify: Verify, entries: dict[str, bytes], links: dict[str, str], reason: str
) -> None:
    found = verify(packed(tmp_path / "x.tar.gz", entries, links))
    assert not found["closed"]
    assert reason in found["corrupt"][0]["reason"]
    assert {path.name for path in tmp_path.iterdir()} == {"x.tar.gz"}


def test_a_tarball_that_is_cut_off(tarball: Path, tmp_path: Path, verify: Verify) -> None:
    (tmp_path / "x.tar.gz").write_bytes(tarball.read_bytes()[:-2000])
    assert "cut off" in verify(tmp_path / "x.tar.gz")["corrupt"][0]["reason"]


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 2, "name": "x"}', '{"name": "../x"}'])
def test_a_manifest_that_cannot_be_used(copy: Copy, verify: Verify, text: str) -> None:
    (copy.root / "bundle.json").write_text(text)
    found = verify(copy.root)
    assert found["corrupt"][0]["path"].endswith("bundle.json")


def test_usage(tarball: Path, tmp_path: Path) -> None:
    for arguments in (
        [],
        [str(tmp_path / "nothing.tar.gz")],
        [str(tarball), "--overrides", "docker.io"],
        [str(tarball), "--key", str(tmp_path / "none")],
        [str(tarball), "-f", str(tmp_path / "none")],
    ):
        assert run(["offline", "verify", *arguments]) == ExitCode.USAGE
