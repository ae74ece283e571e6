"""A real registry (distribution 3) and the real cosign: built with Go, kept outside the tree under a hash.

`registry` is built for the tests. `cosign` takes five minutes of two cores, so its signatures are kept in
`tests/oci/signed`, and only `tests/registry/sign_fixtures.py` builds it. Run this file to build the registry ahead of
the tests.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from controlplane.go_module import BUILD_TIMEOUT_SECONDS, BinariesUnavailable, go_toolchain, locked

HERE = Path(__file__).resolve().parent
BUILD_COMMAND = "PYTHONPATH=tests python tests/registry/programs.py"
_READY_MADE = "HOPLINE_TEST_REGISTRY"


def registry() -> Path:
    """The registry: the file that HOPLINE_TEST_REGISTRY names, else built here. Raises BinariesUnavailable."""
    ready = os.environ.get(_READY_MADE)
    return Path(ready) if ready else _built(HERE, "registry", "github.com/distribution/distribution/v3/cmd/registry")


def cosign() -> Path:
    """cosign, built here. Raises BinariesUnavailable."""
    return _built(HERE / "cosign", "cosign", "github.com/sigstore/cosign/v3/cmd/cosign")


def _built(module: Path, name: str, package: str) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hopline" / "registry"
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / f"{name}-{_key(module)}"
    with locked(folder.with_suffix(".lock")):
        if not (folder / name).is_file():
            _build(module, name, package, folder)
    return folder / name


def _key(module: Path) -> str:
    digest = hashlib.sha256(" ".join(os.uname()[::4]).encode())
    for name in ("go.mod", "go.sum"):
        digest.update((module / name).read_bytes())
    return digest.hexdigest()[:16]


def _build(module: Path, name: str, package: str, folder: Path) -> None:
    """Builds beside the final folder and renames, so that a half-done build is never taken for a whole one."""
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    command = [go_toolchain(), "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags=-s -w"]
    done = subprocess.run(
        [*command, "-o", str(partial / name), package],
        cwd=module,
        env=os.environ | {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"},
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILD_TIMEOUT_SECONDS,
    )
    if done.returncode:
        reason = "\n".join((done.stderr or done.stdout).strip().splitlines()[-5:])
        raise BinariesUnavailable(f"no {name}:\n{reason}\ninstall Go, then run: {BUILD_COMMAND}")
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


if __name__ == "__main__":
    print(registry())
