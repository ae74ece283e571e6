"""What the real cosign signed verifies; whatever is changed about it does not. `registry/sign_fixtures.py` made it."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from hypothesis import given, settings
from hypothesis import strategies as st

from hopline.domain.errors import InvalidInput, InvalidRelease
from hopline.oci import ed25519ph
from hopline.oci.keys import SigningKey, read_keys
from hopline.oci.signatures import SIGNATURE_ANNOTATION, FoundSignature, Verdict, judge, require_signature
from oci_signed import SIGNATURE_KEYS, held

KINDS, FORMATS = ("ecdsa", "rsa", "ed25519"), ("simple", "bundle")
OTHER = "sha256:" + "0" * 64


def key(kind: str) -> tuple[SigningKey, ...]:
    return read_keys((SIGNATURE_KEYS[kind],), field="key")


def signature(kind: str, form: str) -> tuple[FoundSignature, str]:
    """The one signature of a fixture, and the digest that it is over."""
    document = held(kind, form)
    for body in document["manifests"].values():
        for layer in json.loads(b64decode(body)).get("layers", []):
            if "cosign" in layer["mediaType"] or "sigstore" in layer["mediaType"]:
                content = b64decode(document["blobs"][layer["digest"]])
                text = layer.get("annotations", {}).get(SIGNATURE_ANNOTATION, "")
                return FoundSignature(layer["mediaType"], content, text), document["digest"]
    raise AssertionError(f"{kind}-{form} holds no signature")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMATS)
def test_what_cosign_made_verifies(kind: str, form: str) -> None:
    found, digest = signature(kind, form)
    judgement = judge(found, frozenset({digest, OTHER}), key(kind))
    assert judgement.verdict is Verdict.VERIFIED
    assert judgement.key == key(kind)[0].name


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMATS)
def test_another_key_or_another_image_is_wrong(kind: str, form: str) -> None:
    found, digest = signature(kind, form)
    others = tuple(one for other in KINDS if other != kind for one in key(other))
    wrong_key = judge(found, frozenset({digest}), others)
    assert wrong_key.verdict is Verdict.WRONG
    assert "none of the keys" in wrong_key.reason
    wrong_image = judge(found, frozenset({OTHER}), key(kind))
    assert wrong_image.verdict is Verdict.WRONG
    assert f"over {digest}" in wrong_image.reason


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_payload_is_wrong(kind: str) -> None:
    found, digest = signature(kind, "simple")
    changed = replace(found, content=found.content.replace(digest.encode(), OTHER.encode()))
    assert judge(changed, frozenset({OTHER}), key(kind)).verdict is Verdict.WRONG
    found, digest = signature(kind, "bundle")
    bundle = json.loads(found.content)
    payload = b64decode(bundle["dsseEnvelope"]["payload"]).replace(digest[7:].encode(), OTHER[7:].encode())
    bundle["dsseEnvelope"]["payload"] = b64encode(payload).decode()
    changed = replace(found, content=json.dumps(bundle).encode())
    assert judge(changed, frozenset({OTHER}), key(kind)).verdict is Verdict.WRONG


@pytest.mark.parametrize(
    ("media_type", "content", "text"),
    [
        ("application/vnd.dev.cosign.simplesigning.v1+json", b"not json", "c2ln"),
        ("application/vnd.dev.cosign.simplesigning.v1+json", b'{"critical": {"type": "other"}}', "c2ln"),
        ("application/vnd.dev.cosign.simplesigning.v1+json", b'{"critical": []}', ""),
        ("application/vnd.dev.sigstore.bundle.v0.3+json", b"[]", ""),
        ("application/vnd.dev.sigstore.bundle.v0.3+json", b'{"messageSignature": {}}', ""),
        (
            "application/vnd.dev.sigstore.bundle.v0.3+json",
            b'{"dsseEnvelope": {"payload": "!", "payloadType": "x"}}',
            "",
        ),
        ("application/vnd.cncf.notary.signature", b"", ""),
    ],
)
def test_what_is_in_no_known_format(media_type: str, content: bytes, text: str) -> None:
    judgement = judge(FoundSignature(media_type, content, text), frozenset({OTHER}), key("rsa"))
    assert judgement.verdict is Verdict.UNKNOWN_FORMAT


def test_an_attestation_is_no_signature_of_the_image() -> None:
    found, digest = signature("ecdsa", "bundle")
    bundle = json.loads(found.content)
    statement = json.loads(b64decode(bundle["dsseEnvelope"]["payload"]))
    statement["predicateType"] = "https://slsa.dev/provenance/v1"
    bundle["dsseEnvelope"]["payload"] = b64encode(json.dumps(statement).encode()).decode()
    judgement = judge(replace(found, content=json.dumps(bundle).encode()), frozenset({digest}), key("ecdsa"))
    assert judgement.verdict is Verdict.UNKNOWN_FORMAT
    assert "slsa.dev" in judgement.reason


def test_four_answers() -> None:
    found, digest = signature("ecdsa", "simple")
    digests, keys = frozenset({digest}), key("ecdsa")
    unknown = FoundSignature("application/other", b"")
    assert require_signature("x", [unknown, found, found], digests, keys) == (keys[0].name,)
    for signatures, message in (
        ([], "not signed"),
        ([unknown], "format that is not known"),
        ([unknown, replace(found, signature="AAAA")], "no signature of the image counts"),
    ):
        with pytest.raises(InvalidRelease, match=message) as caught:
            require_signature("x", signatures, digests, keys)
        assert caught.value.field == "signature"


def pem(private: Any) -> str:
    text: bytes = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return text.decode()


def test_several_keys_each_once() -> None:
    one, other = (pem(ed25519.Ed25519PrivateKey.generate()) for _ in range(2))
    assert len(read_keys((one + other, f"comment\n{one}"), field="key")) == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "cosign.pub",
        "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
        pem(rsa.generate_private_key(65537, 1024)),
        pem(ec.generate_private_key(ec.SECP384R1())),
        pem(dsa.generate_private_key(2048)),
    ],
    ids=["nothing", "a name", "damaged", "a certificate", "short RSA", "P-384", "DSA"],
)
def test_what_is_no_key(text: str) -> None:
    with pytest.raises(InvalidInput, match="ECDSA P-256, RSA"):
        read_keys((text,), field="key")


def test_a_private_key_is_refused_and_not_shown() -> None:
    private = ed25519.Ed25519PrivateKey.generate()
    text = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    with pytest.raises(InvalidInput) as caught:
        read_keys((text,), field="key")
    assert caught.value.value == "PRIVATE KEY"


def test_the_vector_of_the_rfc() -> None:
    """RFC 8032 §7.3."""
    private = bytes.fromhex("833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42")
    public = ed25519.Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()
    made = bytes.fromhex(
        "98a70222f0b8121aa9d30f813d683f809e462b469c7ff87639499bb94e6dae41"
        "31f85042463c2a355a2003d062adf5aaa10b8c61e636062aaad11c2a26083406"
    )
    assert ed25519ph.verifies(public, made, b"abc")
    assert not ed25519ph.verifies(public, made, b"abd")


@settings(max_examples=40)
@given(seed=st.binary(min_size=32, max_size=32), message=st.binary(max_size=200), bit=st.integers(0, 511))
def test_the_arithmetic_agrees_with_the_library(seed: bytes, message: bytes, bit: int) -> None:
    private = ed25519.Ed25519PrivateKey.from_private_bytes(seed)
    public, made = private.public_key().public_bytes_raw(), private.sign(message)
    assert ed25519ph.verifies_prefixed(public, made, message, b"")
    changed = bytearray(made)
    changed[bit // 8] ^= 1 << bit % 8
    assert not ed25519ph.verifies_prefixed(public, bytes(changed), message, b"")
    assert not ed25519ph.verifies(public, made, message)
