"""A certificate authority for one test, and the certificate of a server on loopback."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


class Authority:
    """Signs one server certificate for 127.0.0.1 and localhost; `expired` makes one that ended yesterday."""

    def __init__(self, *, expired: bool = False) -> None:
        now = datetime.now(UTC)
        end = now - timedelta(days=1) if expired else now + timedelta(days=2)
        own_key, self._key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
        own_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Hopline test authority")])
        ca = _builder(own_name, own_name, own_key, now - timedelta(days=3), now + timedelta(days=3))
        ca = ca.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "registry")])
        server = _builder(name, own_name, self._key, now - timedelta(days=2), end)
        names = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
        server = server.add_extension(x509.SubjectAlternativeName(names), critical=False)
        self.pem = ca.sign(own_key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()
        self._server = server.sign(own_key, hashes.SHA256()).public_bytes(Encoding.PEM)

    def write(self, folder: Path) -> dict[str, str]:
        """Writes certificate and key; returns their places as `certificate` and `key`."""
        certificate, key = folder / "server.crt", folder / "server.key"
        certificate.write_bytes(self._server)
        key.write_bytes(self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return {"certificate": str(certificate), "key": str(key)}


def _builder(
    name: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, start: datetime, end: datetime
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(issuer).public_key(key.public_key())
    return builder.serial_number(x509.random_serial_number()).not_valid_before(start).not_valid_after(end)
