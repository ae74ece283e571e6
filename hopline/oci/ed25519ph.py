"""Ed25519ph (RFC 8032 §5.1): what cosign makes with an Ed25519 key, and `cryptography` does not have.

Verification only. It works on public values, so its running time may depend on them. `tests/oci/test_signatures.py`
holds the arithmetic to `cryptography`, by ordinary Ed25519, and the prefix to the RFC's own vector and to cosign.
"""

from __future__ import annotations

import hashlib

_P = 2**255 - 19
_L = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, _P) % _P
_ROOT = pow(2, (_P - 1) // 4, _P)

PREHASHED = b"SigEd25519 no Ed25519 collisions\x01\x00"
"""dom2 with the flag for a prehashed message and an empty context."""

_Point = tuple[int, int, int, int]
"""Extended coordinates: X, Y, Z, T with x = X/Z, y = Y/Z, x·y = T/Z."""


def verifies(public: bytes, signature: bytes, message: bytes) -> bool:
    """Is this an Ed25519ph signature of the message by this key? `public` is the raw key of 32 bytes."""
    return verifies_prefixed(public, signature, hashlib.sha512(message).digest(), PREHASHED)


def verifies_prefixed(public: bytes, signature: bytes, message: bytes, prefix: bytes) -> bool:
    """RFC 8032 §5.1.7 with dom2 as `prefix`; an empty one is ordinary Ed25519."""
    if len(public) != 32 or len(signature) != 64:
        return False
    key, commitment = _decode(public), _decode(signature[:32])
    scalar = int.from_bytes(signature[32:], "little")
    if key is None or commitment is None or scalar >= _L:
        return False
    challenge = int.from_bytes(hashlib.sha512(prefix + signature[:32] + public + message).digest(), "little") % _L
    return _equal(_times(scalar, _BASE), _add(commitment, _times(challenge, key)))


def _add(a: _Point, b: _Point) -> _Point:
    left = (a[1] - a[0]) * (b[1] - b[0]) % _P
    right = (a[1] + a[0]) * (b[1] + b[0]) % _P
    cross = 2 * a[3] * b[3] * _D % _P
    scale = 2 * a[2] * b[2] % _P
    e, f, g, h = right - left, scale - cross, scale + cross, right + left
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _times(scalar: int, point: _Point) -> _Point:
    total: _Point = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            total = _add(total, point)
        point = _add(point, point)
        scalar >>= 1
    return total


def _equal(a: _Point, b: _Point) -> bool:
    return (a[0] * b[2] - b[0] * a[2]) % _P == 0 and (a[1] * b[2] - b[1] * a[2]) % _P == 0


def _recover(y: int, sign: int) -> int | None:
    """x of a point on the curve; None when there is none."""
    square = (y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P
    x = pow(square, (_P + 3) // 8, _P)
    if (x * x - square) % _P:
        x = x * _ROOT % _P
    if (x * x - square) % _P or (x == 0 and sign):
        return None
    return _P - x if x & 1 != sign else x


def _decode(encoded: bytes) -> _Point | None:
    number = int.from_bytes(encoded, "little")
    y, sign = number & (2**255 - 1), number >> 255
    x = _recover(y, sign) if y < _P else None
    return None if x is None else (x, y, 1, x * y % _P)


_BASE_Y = 4 * pow(5, -1, _P) % _P
_BASE_X = _recover(_BASE_Y, 0) or 0
_BASE: _Point = (_BASE_X, _BASE_Y, 1, _BASE_X * _BASE_Y % _P)
