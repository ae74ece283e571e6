"""`bke` takes the two lines of the guide's offline section, against registries as bootstrap nodes have them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from offline_lab import CONFIG_NAME, ROOT, TARBALL, file_server, login_options, publish
from offline_site import Site
from registry.server import Registry
from starter import bke

pytestmark = pytest.mark.timeout(900)
NAME = "offline-v26.06"


@pytest.fixture
def open_site(registry_binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """The target has neither TLS nor a login."""
    source, target = Registry(registry_binary), Registry(registry_binary, secure=False, keep_requests=True)
    with file_server(tmp_path / "published") as address:
        (tmp_path / "carried").mkdir()
        monkeypatch.chdir(tmp_path / "carried")
        yield Site(publish(source, tmp_path / "published", address), target, tmp_path / "carried")
    source.close()
    target.close()


def build(site: Site) -> None:
    Path(CONFIG_NAME).write_text(site.upstream.config())
    options = login_options(site.folder, site.upstream.registry)
    assert bke.run(["build", "-f", CONFIG_NAME, "-t", TARBALL, *options]) == 0
    subprocess.run(["tar", "-xzf", TARBALL], check=True)


def test_the_lines_of_the_guide(open_site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    build(open_site)
    assert bke.run(["registry", "patch", "--source", f"./{NAME}", "--target", open_site.target.host]) == 0
    assert "speaks no TLS" in capsys.readouterr().out
    assert open_site.writes()


def test_a_certificate_is_not_verified_and_said_so(
    open_site: Site, registry_binary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build(open_site)
    secure = Registry(registry_binary)
    try:
        logins = login_options(open_site.folder, secure)[-2:]
        assert bke.run(["registry", "patch", "--source", f"./{NAME}", "--target", secure.host, *logins]) == 0
        assert "not verified" in capsys.readouterr().out
        (open_site.folder / "ca.pem").write_text(secure.ca)
        verified = ["--ca", "ca.pem", *logins]
        assert bke.run(["registry", "patch", "--source", f"./{NAME}", "--target", secure.host, *verified]) == 0
        assert "not verified" not in capsys.readouterr().out
    finally:
        secure.close()


def test_what_bke_does_not_know_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert bke.run(["reset"]) == 2
    assert bke.run(["build", "-t", "x.tar.gz"]) == 2
    assert "--file" in capsys.readouterr().err


def test_bke_is_a_program_of_the_package() -> None:
    assert 'bke = "starter.bke:main"' in (ROOT / "pyproject.toml").read_text()
