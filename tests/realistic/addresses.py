"""Loopback addresses on which one cluster can use the ports that every cluster uses."""

from __future__ import annotations

import random
import socket
from collections.abc import Sequence

from controlplane.processes import ProcessFailed

_NETWORKS = [f"127.{second}.{third}" for second in range(64, 128) for third in range(256)]


def free_network(hosts: int, ports: Sequence[int]) -> list[str]:
    """The first `hosts` addresses of a /24 of loopback on which nothing listens on any of the ports now."""
    for network in random.sample(_NETWORKS, k=len(_NETWORKS)):
        addresses = [f"{network}.{host + 1}" for host in range(hosts)]
        if all(_is_free(address, port) for address in addresses for port in ports):
            return addresses
    raise ProcessFailed(f"on no loopback address are the ports {', '.join(map(str, ports))} free: end what holds them")


def _is_free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True
