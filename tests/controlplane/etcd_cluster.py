"""A real etcd cluster of one or more members on loopback addresses, which asks its clients for certificates."""

from __future__ import annotations

import base64
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from controlplane.binaries import Binaries, Program
from controlplane.processes import ManagedProcess, ProcessFamily, free_ports, wait_until

_DIRECT = urllib.request.ProxyHandler({})


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """Signs certificates for members and clients; `pem` is its own."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "etcd-ca")])
        own = self._builder(self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        self.pem = own.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)

    def sign(self, name: str, addresses: Sequence[str] = ()) -> Pair:
        """A certificate for a client, or for a member at `addresses`."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key)
        if addresses:
            names = x509.SubjectAlternativeName([x509.IPAddress(ip_address(one)) for one in addresses])
            builder = builder.add_extension(names, critical=False)
        made = builder.sign(self._key, hashes.SHA256())
        text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return Pair(made.public_bytes(Encoding.PEM), text)

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(key.public_key())
        builder = builder.serial_number(x509.random_serial_number())
        return builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=2))


class EtcdCluster:
    """Members `m1`, `m2`, … at 127.x.0.1, 127.x.0.2, …; all are gone after `stop`."""

    def __init__(self, binaries: Binaries, size: int = 3) -> None:
        self._binaries = binaries
        self._family = ProcessFamily("etcd")
        self.client_port, self._peer_port = free_ports(2)
        # An own network per cluster: another one may run at the same time.
        self.addresses = {f"m{index}": f"127.{self.client_port % 200 + 20}.0.{index}" for index in range(1, size + 1)}
        self.authority = Authority()
        self.client = self.authority.sign("kube-etcd-healthcheck-client")
        self._members: dict[str, ManagedProcess] = {}

    def __enter__(self) -> Self:
        try:
            for name in self.addresses:
                self._launch(name)
            for name in self.addresses:
                self.until_healthy(name)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends every member and deletes the data."""
        self._members.clear()
        self._family.close()

    def kill(self, name: str) -> None:
        """Ends a member as kill -9 does; its data stays."""
        self._family.stop(self._members.pop(name))

    def start(self, name: str) -> None:
        """Starts a member that was killed."""
        self._launch(name)

    def until_healthy(self, name: str) -> None:
        """Returns when a member reaches the quorum."""
        wait_until(lambda: self._call(name, "/health") == {"health": "true", "reason": ""}, self._members[name], "well")

    def raise_alarm(self, name: str, alarm: str) -> None:
        """Raises an alarm on a member, by the request that etcd has for tests."""
        number = self._call(name, "/v3/maintenance/status", {})["header"]["member_id"]
        self._call(name, "/v3/maintenance/alarm", {"action": "ACTIVATE", "memberID": number, "alarm": alarm})

    def leader(self) -> str:
        """Name of the member that leads."""
        while True:
            told = {name: self._call(name, "/v3/maintenance/status", {}) for name in self._members}
            for name, status in told.items():
                if status.get("leader", "0") == status["header"]["member_id"]:
                    return name
            time.sleep(0.05)

    def secret(self, name: str, kube_namespace: str, *, client: Pair | None = None, authority: bytes = b"") -> Any:
        """A Secret with certificate, key and authority; by default those that the members take."""
        pair = client or self.client
        data = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority or self.authority.pem}
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": kube_namespace},
            "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
        }

    def folder(self, name: str) -> Path:
        """Where a member has its certificates and data."""
        return self._family.data_dir / name

    def _launch(self, name: str) -> None:
        address, folder = self.addresses[name], self.folder(name)
        if not folder.exists():
            folder.mkdir()
            pair = self.authority.sign(name, [address])
            (folder / "server.crt").write_bytes(pair.certificate)
            (folder / "server.key").write_bytes(pair.key)
            (folder / "ca.crt").write_bytes(self.authority.pem)
        client, peer = f"https://{address}:{self.client_port}", f"http://{address}:{self._peer_port}"
        peers = ",".join(f"{one}=http://{where}:{self._peer_port}" for one, where in self.addresses.items())
        self._members[name] = self._family.start(
            f"etcd-{name}",
            [
                self._binaries.path(Program.ETCD),
                f"--name={name}",
                f"--data-dir={folder / 'data'}",
                "--unsafe-no-fsync",
                "--log-level=warn",
                f"--listen-client-urls={client}",
                f"--advertise-client-urls={client}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster={peers}",
                f"--cert-file={folder / 'server.crt'}",
                f"--key-file={folder / 'server.key'}",
                "--client-cert-auth",
                f"--trusted-ca-file={folder / 'ca.crt'}",
            ],
        )

    def _call(self, name: str, path: str, body: Any = None) -> Any:
        """An answer of a member, parsed; None while it gives none."""
        files = {"ca": self.authority.pem, "crt": self.client.certificate, "key": self.client.key}
        for suffix, content in files.items():
            (self._family.data_dir / f"client.{suffix}").write_bytes(content)
        place = {suffix: str(self._family.data_dir / f"client.{suffix}") for suffix in files}
        context = ssl.create_default_context(cafile=place["ca"])
        context.load_cert_chain(place["crt"], place["key"])
        opener = urllib.request.build_opener(_DIRECT, urllib.request.HTTPSHandler(context=context))
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"https://{self.addresses[name]}:{self.client_port}{path}", data=data)
        try:
            with opener.open(request, timeout=5) as response:
                return json.loads(response.read())
        except (urllib.error.URLError, OSError, ValueError):
            return None
