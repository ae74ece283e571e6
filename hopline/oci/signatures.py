"""Signatures of cosign with a key, in both of its formats.

Simple signing: the tag `sha256-<hex>.sig` names a manifest with a layer per signature. The layer is JSON that names the
digest, and an annotation of its descriptor is the signature over it.

Bundle: a manifest of artifact type `application/vnd.dev.sigstore.bundle…` refers to the digest. Its layer holds a DSSE
envelope around an in-toto statement that names the digest.

A signature counts when one of the keys made it and the signed text names the digest of the image that was asked for:
the index's, or that of the platform's manifest which is read from it. Transparency logs and time stamps are not looked
at: with a key of one's own they prove nothing more, and offline there are none. That nobody could look, that there is
no signature, that it is in a format of its own, and that it is wrong are four answers.
"""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from hopline.domain.errors import InvalidRelease
from hopline.oci.keys import SigningKey

SIMPLE_SIGNING = "application/vnd.dev.cosign.simplesigning.v1+json"
BUNDLE_PREFIX = "application/vnd.dev.sigstore.bundle"
SIGNATURE_ANNOTATION = "dev.cosignproject.cosign/signature"
SIGNATURE_PREDICATES = frozenset({"https://sigstore.dev/cosign/sign/v1"})
IN_TOTO = "application/vnd.in-toto+json"
_SIMPLE_TYPES = frozenset({"cosign container image signature", "atomic container signature"})


class Verdict(StrEnum):
    """What one signature is worth for one image."""

    VERIFIED = "verified"
    WRONG = "wrong"
    """No key made it, or it is over another image."""
    UNKNOWN_FORMAT = "unknown format"


@dataclass(frozen=True)
class FoundSignature:
    """One signature as it was found.

    Attributes:
        media_type: of the layer that holds it.
        content: that layer.
        signature: base64, for simple signing.
    """

    media_type: str
    content: bytes
    signature: str = ""


@dataclass(frozen=True)
class Judgement:
    """Of one signature: the verdict, the key that made it, and the reason where it does not count."""

    verdict: Verdict
    key: str = ""
    reason: str = ""


def judge(found: FoundSignature, digests: frozenset[str], keys: tuple[SigningKey, ...]) -> Judgement:
    """What a signature says about an image with one of these digests."""
    if found.media_type == SIMPLE_SIGNING:
        return _judge_simple(found, digests, keys)
    if found.media_type.startswith(BUNDLE_PREFIX):
        return _judge_bundle(found, digests, keys)
    return Judgement(Verdict.UNKNOWN_FORMAT, reason=f"media type {found.media_type or '(none)'}")


def require_signature(
    subject: str, found: Iterable[FoundSignature], digests: frozenset[str], keys: tuple[SigningKey, ...]
) -> tuple[str, ...]:
    """The names of the keys whose signatures count.

    Raises:
        InvalidRelease: there is no signature, none in a known format, or none that counts.
    """
    judgements = [judge(one, digests, keys) for one in found]
    names = tuple(sorted({one.key for one in judgements if one.verdict is Verdict.VERIFIED}))
    if names:
        return names
    wrong = [one.reason for one in judgements if one.verdict is Verdict.WRONG]
    unknown = [one.reason for one in judgements if one.verdict is Verdict.UNKNOWN_FORMAT]
    if wrong:
        message, value = "no signature of the image counts", "; ".join(dict.fromkeys(wrong))
        remedy = "check that the key is the publisher's, and that the tag still names what was signed"
    elif unknown:
        message, value = "the image is signed in a format that is not known", "; ".join(dict.fromkeys(unknown))
        remedy = "sign it with a key: cosign sign --key cosign.key IMAGE@DIGEST"
    else:
        message, value = "the image is not signed", "no signature at the registry"
        remedy = "sign it: cosign sign --key cosign.key IMAGE@DIGEST"
    raise InvalidRelease(message, subject=subject, field="signature", value=value, remedy=remedy)


def _judge_simple(found: FoundSignature, digests: frozenset[str], keys: tuple[SigningKey, ...]) -> Judgement:
    payload = _mapping(found.content)
    critical = _part(payload, "critical")
    signature = _decoded(found.signature)
    if signature is None or critical.get("type") not in _SIMPLE_TYPES:
        return Judgement(Verdict.UNKNOWN_FORMAT, reason="simple signing without a signature or a type")
    signed = str(_part(critical, "image").get("docker-manifest-digest"))
    return _over(signed, found.content, (signature,), digests, keys)


def _judge_bundle(found: FoundSignature, digests: frozenset[str], keys: tuple[SigningKey, ...]) -> Judgement:
    envelope = _part(_mapping(found.content), "dsseEnvelope")
    payload = _decoded(envelope.get("payload"))
    kind = envelope.get("payloadType")
    if payload is None or kind != IN_TOTO:
        return Judgement(Verdict.UNKNOWN_FORMAT, reason="a bundle without an in-toto statement")
    statement = _mapping(payload)
    predicate = str(statement.get("predicateType"))
    if predicate not in SIGNATURE_PREDICATES:
        return Judgement(Verdict.UNKNOWN_FORMAT, reason=f"an attestation of type {predicate}")
    subjects = statement.get("subject")
    named = [str(_part(entry, "digest").get("sha256")) for entry in subjects] if isinstance(subjects, list) else []
    signed = next((f"sha256:{one}" for one in named if f"sha256:{one}" in digests), f"sha256:{(named or ['?'])[0]}")
    entries = envelope.get("signatures")
    made = [entry.get("sig") for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    signatures = tuple(signature for text in made if (signature := _decoded(text)))
    return _over(signed, pre_authentication(kind, payload), signatures, digests, keys)


def pre_authentication(payload_type: str, payload: bytes) -> bytes:
    """What DSSE signs: type and payload, each with its length."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def _over(
    signed: str,
    message: bytes,
    signatures: tuple[bytes, ...],
    digests: frozenset[str],
    keys: tuple[SigningKey, ...],
) -> Judgement:
    maker = next((key for key in keys for signature in signatures if key.verifies(signature, message)), None)
    if maker is None:
        return Judgement(Verdict.WRONG, reason=f"made with none of the keys: {', '.join(key.name for key in keys)}")
    if signed not in digests:
        return Judgement(Verdict.WRONG, reason=f"it is over {signed}, not over {' or '.join(sorted(digests))}")
    return Judgement(Verdict.VERIFIED, key=maker.name)


def _mapping(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _part(value: object, key: str) -> dict[str, Any]:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _decoded(text: object) -> bytes | None:
    if not isinstance(text, str) or not text:
        return None
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
