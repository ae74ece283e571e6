"""A bundle that the real `hopline offline build` has made of the example releases, and ways to damage a copy of it."""

from __future__ import annotations

import asyncio
import io
import json
import shutil
import tarfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from artifacts import Artifact, titled
from hopline.oci.bundle_archive import unpack_archive
from offline_lab import for_both
from scripted_registry import ScriptedRegistry, serving
from starter.__main__ import run

EXAMPLES = Path(__file__).parents[1] / "deploy" / "examples"
HOPS = ("v26.06-rc.3", "v26.06")
NAME = "offline-v26.06"
WEB = """apiVersion: batch/v1
kind: Job
metadata: {name: migrate, namespace: kube-system}
spec:
  template:
    spec:
      initContainers: [{name: i, image: "{{.repo}}web-init:v2"}]
      containers:
      - name: c
        image: "{{.repo}}web:v2"
        args: ["--sidecar-image={{.repo}}web-sidecar:v2", "--tier={{.tier}}"]
        env: [{name: OPERAND_IMAGE, value: "{{.repo}}web-operand:v2"}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: web, namespace: kube-system}
data:
  web.yaml: |
    image: {{.repo}}web-config:v2
---
apiVersion: web.example/v1
kind: Web
metadata: {name: web, namespace: kube-system}
spec: {repository: "{{.imageRepo}}/kubernetes", image: web-custom, version: v2}
"""
"""Every place in which an image can be named, in a component that needs a parameter."""
Options = Sequence[str]
WEB_IMAGES = ("web-init", "web", "web-sidecar", "web-operand", "web-config", "web-custom")
WEB_COMPONENT = "kind: ComponentVersion\nspec: {name: web, type: yaml, version: v2}\n"
WEB_ENTRY = "      - name: web\n        version: v2\n"
PLATFORM_IMAGES = {
    "cluster-api-provider-bke": HOPS,
    "calico-node": ("v3.30.2", "v3.30.3"),
    "coredns": ("v1.12.2", "v1.12.3"),
    "kube-proxy": ("v1.34.4-of.1", "v1.34.5-of.1"),
}


@dataclass
class Hub(ScriptedRegistry):
    """A registry that knows one repository from another."""

    tags: dict[str, str] = field(default_factory=dict)

    def publish(self, name: str, tag: str, image: Artifact) -> None:
        """An image below `openfuyao`."""
        self.push(f"{name}:{tag}", image)
        self.before = self._named

    async def _named(self, request: web.Request) -> web.StreamResponse | None:
        name, _, target = request.path.removeprefix("/v2/openfuyao/").partition("/manifests/")
        if not target or target.startswith("sha256:"):
            return None
        body = self.manifests.get(f"{name}:{target}")
        if body is None:
            return web.json_response({"errors": [{"code": "MANIFEST_UNKNOWN"}]}, status=404)
        return web.Response(body=body, content_type=json.loads(body)["mediaType"])


def release_files(version: str) -> dict[str, str]:
    """An example release; the last one with the component `web`."""
    folder = EXAMPLES / "releases" / version
    files = {path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.rglob("*.y*ml"))}
    if version == HOPS[-1]:
        files["release.yaml"] += WEB_ENTRY
        files["components/web/v2/component.yaml"] = WEB_COMPONENT
        files["components/web/v2/objects.yaml"] = WEB
    return files


def version_config(host: str, version: str) -> str:
    """A VersionConfig with the images of all versions, so that two of them may be given."""
    names = {**PLATFORM_IMAGES, **dict.fromkeys(WEB_IMAGES, ("v2",))}
    images = [{"name": name, "tag": list(tags)} for name, tags in names.items()]
    images += [{"name": "release-image", "tag": list(HOPS)}, {"name": "upgrade-path", "tag": ["latest"]}]
    source = {"sourceRepo": f"{host}/openfuyao", "targetRepo": "kubernetes", "images": images}
    document = {
        "openFuyaoVersion": version,
        "registry": {"architecture": ["amd64", "arm64"]},
        "repos": [{"needDownload": True, "subImages": [source]}],
        "addons": [{"name": "web", "version": "v2", "param": {"tier": "gold"}}],
    }
    return json.dumps(document)


def published(hub: Hub) -> None:
    """Both hops with everything that they run, and the catalogue."""
    for name, tags in PLATFORM_IMAGES.items():
        for tag in tags:
            hub.publish(name, tag, for_both(f"{name}-{tag}", size=500))
    for name in WEB_IMAGES:
        hub.publish(name, "v2", for_both(name, size=500))
    for version in HOPS:
        hub.publish("release-image", version, titled(release_files(version)))
    hub.publish("upgrade-path", "latest", titled({"paths.yaml": (EXAMPLES / "upgrade-paths.yaml").read_text()}))


async def _built(
    folder: Path, publish: Callable[[Hub], None], config: Callable[[str, str], str], options: Options
) -> int:
    async with serving(Hub()) as hub:
        publish(hub)
        files = []
        for version in HOPS:
            file = folder / f"VersionConfig-{version}.yaml"
            file.write_text(config(hub.host, version))
            files += ["-f", str(file)]
        command = ["offline", "build", *files, "-t", str(folder / f"{NAME}.tar.gz"), "--plain-http", hub.host, *options]
        return await asyncio.to_thread(run, command)


def build_bundle(
    folder: Path,
    publish: Callable[[Hub], None] = published,
    config: Callable[[str, str], str] = version_config,
    options: Options = (),
) -> Path:
    """The tarball; the registry that it was built from is gone."""
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(asyncio.run, _built(folder, publish, config, options)).result() == 0
    return folder / f"{NAME}.tar.gz"


@dataclass(frozen=True)
class Copy:
    """An unpacked bundle that may be damaged."""

    root: Path

    @classmethod
    def of(cls, tarball: Path, folder: Path) -> Copy:
        """A fresh one."""
        return cls(unpack_archive(tarball, folder, lambda size: None))

    @property
    def manifest(self) -> dict[str, Any]:
        """`bundle.json`."""
        found: dict[str, Any] = json.loads((self.root / "bundle.json").read_text())
        return found

    def change(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Write another `bundle.json`."""
        document = self.manifest
        change(document)
        (self.root / "bundle.json").write_text(json.dumps(document))

    def blob(self, digest: str) -> Path:
        """A blob of the layout."""
        return self.root / "volumes" / "oci-layout" / "blobs" / "sha256" / digest.removeprefix("sha256:")

    def image(self, name: str) -> dict[str, Any]:
        """An entry of `images`."""
        return next(one for one in self.manifest["images"] if f"{one['repository']}:{one['tag']}" == name)

    def remove(self, name: str) -> None:
        """Take an image out, as if it had never been fetched."""
        self.change(
            lambda document: document.update(
                images=[one for one in document["images"] if f"{one['repository']}:{one['tag']}" != name]
            )
        )
        index = self.root / "volumes" / "oci-layout" / "index.json"
        document = json.loads(index.read_text())
        document["manifests"] = [
            one for one in document["manifests"] if one["annotations"]["org.opencontainers.image.ref.name"] != name
        ]
        index.write_text(json.dumps(document))

    def as_of_existing_tools(self) -> None:
        """What a package of theirs has: no `bundle.json`."""
        (self.root / "bundle.json").unlink()
        shutil.rmtree(self.root / "version-configs")

    def as_of_a_registry(self) -> None:
        """The same with the storage of a registry in place of a layout."""
        self.as_of_existing_tools()
        volumes = self.root / "volumes"
        layout = volumes / "oci-layout"
        with tarfile.open(volumes / "image.tar.gz", "w:gz") as archive:
            for blob in (layout / "blobs" / "sha256").iterdir():
                archive.add(blob, f"./docker/registry/v2/blobs/sha256/{blob.name[:2]}/{blob.name}/data")
            for one in json.loads((layout / "index.json").read_text())["manifests"]:
                repository, _, tag = one["annotations"]["org.opencontainers.image.ref.name"].rpartition(":")
                link = f"repositories/{repository}/_manifests/tags/{tag}/current/link"
                info = tarfile.TarInfo(f"./docker/registry/v2/{link}")
                info.size = len(one["digest"])
                archive.addfile(info, io.BytesIO(one["digest"].encode()))
        shutil.rmtree(layout)
