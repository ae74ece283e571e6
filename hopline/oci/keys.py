"""Public keys that releases are signed with: ECDSA P-256, RSA and Ed25519, as PEM."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from hopline.domain.errors import InvalidInput
from hopline.oci import ed25519ph
from hopline.oci.manifests import digest_of

LEAST_RSA_BITS = 2048

_PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey | ed25519.Ed25519PublicKey
_BLOCK = re.compile(r"-----BEGIN ([A-Z ]+)-----.+?-----END \1-----", re.DOTALL)
_LABEL = "PUBLIC KEY"


@dataclass(frozen=True)
class SigningKey:
    """A key that may have signed.

    Attributes:
        name: kind and fingerprint (SHA-256 of the DER form, cut), for people.
    """

    name: str
    key: _PublicKey = field(repr=False)

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Has this key signed exactly this message?"""
        try:
            match self.key:
                case ec.EllipticCurvePublicKey():
                    self.key.verify(signature, message, ec.ECDSA(hashes.SHA256()))
                case rsa.RSAPublicKey():
                    self.key.verify(signature, message, padding.PKCS1v15(), hashes.SHA256())
                case _:
                    return _verifies_ed25519(self.key, signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True


def _verifies_ed25519(key: ed25519.Ed25519PublicKey, signature: bytes, message: bytes) -> bool:
    """In the ordinary form, or prehashed, which is what cosign makes."""
    try:
        key.verify(signature, message)
    except InvalidSignature:
        raw = key.public_bytes(Encoding.Raw, PublicFormat.Raw)
        return ed25519ph.verifies(raw, signature, message)
    return True


def read_keys(texts: tuple[str, ...], *, field: str) -> tuple[SigningKey, ...]:
    """Every key in texts of one or more PEM blocks, each once.

    Raises:
        InvalidInput: a text without a public key, or a key of a kind that is not accepted.
    """
    found: dict[str, SigningKey] = {}
    for text in texts:
        blocks = list(_BLOCK.finditer(text))
        if not blocks:
            raise _invalid("there is no public key in PEM form", field, text.strip()[:40])
        for block in blocks:
            if block.group(1) != _LABEL:
                raise _invalid("this is not a public key", field, block.group(1))
            key = _key(block.group(0), field)
            found.setdefault(key.name, key)
    return tuple(found.values())


def _key(pem: str, field: str) -> SigningKey:
    try:
        key = load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _invalid("the public key cannot be read", field, str(error)[:200]) from None
    fingerprint = digest_of(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))
    short = fingerprint[: len("sha256:") + 16]
    if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
        return SigningKey(f"ECDSA P-256 {short}", key)
    if isinstance(key, rsa.RSAPublicKey) and key.key_size >= LEAST_RSA_BITS:
        return SigningKey(f"RSA {key.key_size} {short}", key)
    if isinstance(key, ed25519.Ed25519PublicKey):
        return SigningKey(f"Ed25519 {short}", key)
    size = f" of {key.key_size} bits" if isinstance(key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey) else ""
    raise _invalid("a key of this kind is not accepted", field, f"{type(key).__name__}{size}")


def _invalid(message: str, field: str, value: str) -> InvalidInput:
    remedy = f"give a key of ECDSA P-256, RSA ({LEAST_RSA_BITS} bits or more) or Ed25519, as cosign.pub holds it"
    return InvalidInput(message, subject="signature key", field=field, value=value, remedy=remedy)
