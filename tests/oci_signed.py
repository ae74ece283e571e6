"""What the real cosign signed, put into a scripted registry (`oci/signed`, made by `registry/sign_fixtures.py`)."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

from scripted_registry import ScriptedRegistry

SIGNED = Path(__file__).parent / "oci" / "signed"
SIGNATURE_KEYS = {path.stem: path.read_text() for path in sorted((SIGNED / "keys").glob("*.pub"))}


def held(kind: str, form: str) -> dict[str, Any]:
    """One fixture: digest, tags, manifests and blobs in base64."""
    found: dict[str, Any] = json.loads((SIGNED / f"{kind}-{form}.json").read_text())
    return found


def signed_registry(registry: ScriptedRegistry, kind: str, form: str) -> str:
    """Hold the signed image and its signature; returns the image's digest."""
    fixture = held(kind, form)
    manifests = {digest: b64decode(text) for digest, text in fixture["manifests"].items()}
    registry.manifests |= manifests | {tag: manifests[digest] for tag, digest in fixture["tags"].items()}
    registry.blobs |= {digest: b64decode(text) for digest, text in fixture["blobs"].items()}
    return str(fixture["digest"])
