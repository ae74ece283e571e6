"""What an offline bundle is made of in tests: images of programs, a VersionConfig, a catalogue, a server of files."""

from __future__ import annotations

import hashlib
import http.server
import json
import random
import sys
import threading
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from artifacts import MANIFEST_TYPE, TAR_TYPE, Artifact, descriptor, digest_of, indexed, titled
from registry.server import PASSWORD, USER, Registry

CATALOGUE = """apiVersion: config.openfuyao.com/v1alpha1
kind: UpgradePath
metadata:
  name: openfuyao-upgrade-paths
spec:
  paths:
    - from: v26.06-rc.2
      to: v26.06-rc.3
    - from: v26.06-rc.3
      to: v26.06
    - from: v26.06-rc.2
      to: v26.06
      blocked: true
"""
CONTAINERD = "containerd-v2.1.1-linux-amd64.tar.gz"
CONFIG_NAME = "VersionConfig-v26.06.yaml"
TARBALL = "offline-v26.06.tar.gz"
HOPLINE = [sys.executable, "-m", "starter"]
ROOT = Path(__file__).resolve().parent.parent


def noise(seed: str, size: int) -> bytes:
    """Bytes that nothing makes smaller, the same for the same seed."""
    return random.Random(seed).randbytes(size)


def program(name: str, architecture: str = "amd64", *, layers: int = 2, size: int = 2000, shared: int = 0) -> Artifact:
    """An image of a program: a config with its architecture, and layers; the first `shared` are those of all images."""
    config = json.dumps({"architecture": architecture, "os": "linux", "name": name}).encode()
    contents = [noise(f"{'all' if i < shared else name}-{architecture}-{i}", size) for i in range(layers)]
    blobs = {digest_of(config): config, **{digest_of(one): one for one in contents}}
    document = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": descriptor(config, "application/vnd.oci.image.config.v1+json", {}),
        "layers": [descriptor(one, TAR_TYPE, {}) for one in contents],
    }
    return Artifact(json.dumps(document).encode(), blobs=blobs)


def for_both(name: str, **more: Any) -> Artifact:
    """An index for amd64 and arm64, and for a platform that nobody asks for."""
    platforms = ("amd64", "arm64", "s390x")
    return indexed({f"linux/{one}": program(name, one, **more) for one in platforms})


def catalogue() -> Artifact:
    """The image of the catalogue."""
    return titled({"paths.yaml": CATALOGUE})


def release(version: str) -> Artifact:
    """A release image whose bytes differ by version; what is in it is judged elsewhere."""
    return titled({"release.yaml": f"kind: ReleaseImage\nspec:\n  version: {version}\n"})


@dataclass
class Upstream:
    """What is published: a registry, a server of files, and a VersionConfig of all of it."""

    registry: Registry
    files: Path
    address: str
    images: dict[str, Artifact] = field(default_factory=dict)
    """By `name:tag`."""

    def push(self, name: str, tag: str, image: Artifact) -> None:
        """One image below `openfuyao`."""
        self.registry.push(f"openfuyao/{name}", tag, image)
        self.images[f"{name}:{tag}"] = image

    def config(self, *architectures: str, sections: str = "", version: str = "v26.06") -> str:
        """A VersionConfig that lists every image that was pushed, and the containerd archive."""
        listed: dict[str, list[str]] = {}
        for name in self.images:
            listed.setdefault(name.partition(":")[0], []).append(name.partition(":")[2])
        images = [{"name": name, "tag": tags} for name, tags in listed.items()]
        document: dict[str, Any] = {
            "openFuyaoVersion": version,
            "registry": {"architecture": list(architectures) or ["amd64"]},
            "repos": [
                {
                    "needDownload": True,
                    "subImages": [
                        {
                            "sourceRepo": f"{self.registry.host}/openfuyao",
                            "targetRepo": "kubernetes",
                            "images": images,
                        }
                    ],
                }
            ],
            "files": [{"address": f"{self.address}/containerd/", "files": [{"fileName": CONTAINERD}]}],
        }
        # JSON is YAML.
        return json.dumps(document)[:-1] + (f", {sections}" if sections else "") + "}"


def publish(registry: Registry, files: Path, address: str) -> Upstream:
    """Releases of both hops, the catalogue, three programs and the containerd archive."""
    found = Upstream(registry, files, address)
    (files / "containerd").mkdir(parents=True, exist_ok=True)
    (files / "containerd" / CONTAINERD).write_bytes(noise("containerd", 50_000))
    for version in ("v26.06-rc.3", "v26.06"):
        found.push("release-image", version, release(version))
    found.push("upgrade-path", "latest", catalogue())
    found.push("etcd", "v3.6.8", program("etcd", shared=1))
    found.push("coredns", "v1.12.2", for_both("coredns"))
    found.push("kube-proxy", "v1.34.5", program("kube-proxy", shared=1))
    return found


@contextmanager
def file_server(folder: Path) -> Iterator[str]:
    """A web server with listings, as a plain one shows them; yields its address."""
    handler = partial(_Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        return None


def login_options(folder: Path, *registries: Registry) -> list[str]:
    """`--ca` for each registry and one `--auth-file` for all."""
    options: list[str] = []
    for number, registry in enumerate(registries):
        file = folder / f"ca-{number}.pem"
        file.write_text(registry.ca)
        options += ["--ca", f"{registry.host}={file}"]
    return [*options, "--auth-file", str(auth_file(folder, *registries))]


def auth_file(folder: Path, *registries: Registry) -> Path:
    """Logins as container tools keep them."""
    login = {"auth": b64encode(f"{USER}:{PASSWORD}".encode()).decode()}
    file = folder / "auth.json"
    file.write_text(json.dumps({"auths": {registry.host: login for registry in registries}}))
    return file


def everything_below(folder: Path) -> Mapping[str, str]:
    """Every file by its path, with its digest."""
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }
