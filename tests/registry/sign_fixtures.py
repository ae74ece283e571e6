"""Makes `tests/oci/signed` anew: one image, signed by the real cosign with each kind of key in both formats.

Run it as `PYTHONPATH=tests python tests/registry/sign_fixtures.py`; it builds cosign, which takes minutes.

`signed/keys/<kind>.pub` are the public keys, `signed/<kind>-<format>.json` what the registry held after signing: the
image's digest, every tag, and every manifest and blob as base64.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from base64 import b64encode
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from artifacts import titled
from registry import programs
from registry.server import Registry

PLACE = Path(__file__).resolve().parents[1] / "oci" / "signed"
REPOSITORY = "kubernetes/release-image"
FORMATS = {"simple": ["--new-bundle-format=false"], "bundle": ["--new-bundle-format=true"]}


def main() -> None:
    keys = {
        "ecdsa": ec.generate_private_key(ec.SECP256R1()),
        "rsa": rsa.generate_private_key(65537, 3072),
        "ed25519": ed25519.Ed25519PrivateKey.generate(),
    }
    (PLACE / "keys").mkdir(parents=True, exist_ok=True)
    for kind, key in keys.items():
        public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        (PLACE / "keys" / f"{kind}.pub").write_bytes(public)
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        for name, options in FORMATS.items():
            (PLACE / f"{kind}-{name}.json").write_text(json.dumps(_signed(private, options), indent=1) + "\n")


def _signed(private: bytes, options: list[str]) -> dict[str, object]:
    registry = Registry(programs.registry(), secure=False)
    try:
        digest = registry.push(REPOSITORY, "v26.06", titled())
        folder = registry.data.parents[3]
        (folder / "key.pem").write_bytes(private)
        _cosign(folder, "import-key-pair", "--key", "key.pem", "--output-key-prefix", "imported")
        offline = ["--tlog-upload=false", "--use-signing-config=false", "--yes", "--allow-http-registry"]
        _cosign(folder, "sign", "--key", "imported.key", *offline, *options, f"{registry.host}/{REPOSITORY}@{digest}")
        return {"digest": digest, **_held(registry.data)}
    finally:
        registry.close()


def _cosign(folder: Path, *arguments: str) -> None:
    environment = os.environ | {"COSIGN_PASSWORD": "", "HOME": str(folder)}
    done = subprocess.run(
        [programs.cosign(), *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    sys.stderr.write(done.stderr)
    done.check_returncode()


def _held(data: Path) -> dict[str, object]:
    """Everything of the repository, read from the registry's own folder."""
    manifests = data / "repositories" / REPOSITORY / "_manifests"
    tags = {link.parents[1].name: link.read_text() for link in sorted(manifests.glob("tags/*/current/link"))}
    revisions = [f"sha256:{link.parent.name}" for link in sorted(manifests.glob("revisions/sha256/*/link"))]
    blobs = {f"sha256:{path.parent.name}": path.read_bytes() for path in sorted(data.glob("blobs/sha256/*/*/data"))}
    return {
        "tags": tags,
        "manifests": {digest: b64encode(blobs.pop(digest)).decode() for digest in revisions},
        "blobs": {digest: b64encode(content).decode() for digest, content in blobs.items()},
    }


if __name__ == "__main__":
    main()
