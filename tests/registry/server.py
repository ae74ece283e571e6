"""A running registry on loopback, with TLS and basic authentication, and pushing to it without any of our own code."""

from __future__ import annotations

import json
import re
import ssl
import urllib.error
import urllib.request
from base64 import b64encode
from pathlib import Path

from artifacts import Artifact, digest_of
from controlplane.processes import ProcessFamily, free_ports, wait_until
from registry.certificates import Authority

USER, PASSWORD = "upgrade", "carry-on"
_HTPASSWD = f"{USER}:$2b$04$Awy8eR1VFtj3uNXj8QMn6e9QUVvFc6xzEnpEkTYVKhWQrOhhjuI/K\n"


class Registry:
    """One registry process. Close it."""

    def __init__(self, binary: Path, *, secure: bool = True, keep_requests: bool = False) -> None:
        self._family = ProcessFamily("registry")
        self.secure = secure
        folder = self._family.data_dir
        (port,) = free_ports(1)
        self.host = f"127.0.0.1:{port}"
        self.ca = ""
        http: dict[str, object] = {"addr": self.host, "secret": "for tests"}
        config: dict[str, object] = {
            "version": "0.1",
            "log": {"level": "error", "accesslog": {"disabled": not keep_requests}},
            "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
            "http": http,
        }
        if secure:
            authority = Authority()
            self.ca = authority.pem
            http["tls"] = authority.write(folder)
            (folder / "htpasswd").write_text(_HTPASSWD)
            config["auth"] = {"htpasswd": {"realm": "tests", "path": str(folder / "htpasswd")}}
        # JSON is YAML.
        (folder / "config.yml").write_text(json.dumps(config))
        self._command = [str(binary), "serve", str(folder / "config.yml")]
        self.start()

    def start(self) -> None:
        """Start it, with what it held before."""
        self._process = self._family.start("registry", self._command)
        wait_until(self._answers, self._process, "ready")

    def stop(self) -> None:
        """Stop the process; what it holds stays."""
        self._family.stop(self._process)

    def close(self) -> None:
        """End it, and delete what it holds."""
        self._family.close()

    @property
    def data(self) -> Path:
        """Where it keeps what was pushed."""
        return self._family.data_dir / "data" / "docker" / "registry" / "v2"

    def requests(self) -> list[str]:
        """`METHOD PATH` of every request so far, where they are kept."""
        return re.findall(r'"([A-Z]+ /v2/\S*) HTTP/', self._process.log.read_text())

    def answers(self) -> list[tuple[str, int, int]]:
        """Path, status and bytes of every answer to a GET, where requests are kept."""
        found = re.findall(r'"GET (/v2/\S*) HTTP/[\d.]+" (\d+) (\d+)', self._process.log.read_text())
        return [(path, int(status), int(size)) for path, status, size in found]

    @property
    def process_id(self) -> int:
        """Of the registry, to stall it."""
        return self._process.popen.pid

    def push(self, repository: str, tag: str, image: Artifact) -> str:
        """Push an image under a tag; returns its digest."""
        for digest, content in image.blobs.items():
            self._push_blob(repository, digest, content)
        # An index must find what it lists.
        for digest, body in sorted(image.manifests.items(), key=lambda pair: b'"manifests"' in pair[1]):
            self.push_manifest(repository, digest, body)
        self.push_manifest(repository, tag, image.body)
        return image.digest

    def push_manifest(self, repository: str, target: str, body: bytes) -> None:
        """Push a manifest or index under a tag or its digest."""
        media_type = json.loads(body)["mediaType"]
        self._ask("PUT", f"/v2/{repository}/manifests/{target}", body, {"Content-Type": media_type})

    def _push_blob(self, repository: str, digest: str, content: bytes) -> None:
        assert digest_of(content) == digest
        _, headers = self._ask("POST", f"/v2/{repository}/blobs/uploads/")
        place = headers["Location"]
        mark = "&" if "?" in place else "?"
        self._ask("PUT", f"{place}{mark}digest={digest}", content, {"Content-Type": "application/octet-stream"})

    def _answers(self) -> bool:
        try:
            self._ask("GET", "/v2/")
        except (OSError, urllib.error.URLError):
            return False
        return True

    def _ask(
        self, method: str, place: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[bytes, dict[str, str]]:
        url = place if "://" in place else f"{'https' if self.secure else 'http'}://{self.host}{place}"
        request = urllib.request.Request(url, data=body, method=method, headers=headers or {})
        context = None
        if self.secure:
            context = ssl.create_default_context(cadata=self.ca)
            pair = b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            request.add_header("Authorization", f"Basic {pair}")
        with urllib.request.urlopen(request, context=context, timeout=20) as answer:
            return answer.read(), dict(answer.headers)
