"""Two real registries and a server of files, for tests that build a bundle and load it (fixture `site`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from absent_parts import present
from offline_lab import CONFIG_NAME, HOPLINE, TARBALL, Upstream, auth_file, file_server, login_options, publish
from registry import programs
from registry.server import Registry
from starter.__main__ import run

WRITES = ("POST", "PATCH", "PUT", "DELETE")


@pytest.fixture(scope="module")
def registry_binary() -> Path:
    """The registry program."""
    return present(programs.registry)


@dataclass
class Site:
    """Two registries, and the folder of the person who carries a tarball from one to the other."""

    upstream: Upstream
    target: Registry
    folder: Path

    @property
    def tarball(self) -> Path:
        return self.folder / TARBALL

    def build(self, *more: str, config: str = "") -> int:
        (self.folder / CONFIG_NAME).write_text(config or self.upstream.config())
        options = login_options(self.folder, self.upstream.registry)
        return run(["offline", "build", "-f", str(self.folder / CONFIG_NAME), "-t", str(self.tarball), *options, *more])

    def load(self, *more: str, source: str = "") -> int:
        return run([*self.load_command(source)[len(HOPLINE) :], *more])

    def load_command(self, source: str = "") -> list[str]:
        (self.folder / "target-ca.pem").write_text(self.target.ca)
        options = ["--ca", str(self.folder / "target-ca.pem"), "--auth-file", str(auth_file(self.folder, self.target))]
        where = ["--source", source or str(self.tarball), "--target", self.target.host]
        return [*HOPLINE, "offline", "load", *where, *options]

    def writes(self) -> list[str]:
        """What changes something at the target."""
        return [request for request in self.target.requests() if request.startswith(WRITES)]


@pytest.fixture
def site(registry_binary: Path, tmp_path: Path) -> Iterator[Site]:
    source = Registry(registry_binary, keep_requests=True)
    target = Registry(registry_binary, keep_requests=True)
    with file_server(tmp_path / "published") as address:
        (tmp_path / "carried").mkdir()
        yield Site(publish(source, tmp_path / "published", address), target, tmp_path / "carried")
    source.close()
    target.close()
