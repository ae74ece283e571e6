"""What etcd went through in an upgrade, for the figures: who led, how often that changed, which writes it gave up."""

from __future__ import annotations

import urllib.request
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from realistic.node_commands import ETCD_HEALTH
from realistic.target_cluster import TargetCluster

_FAILED = "etcd_server_proposals_failed_total"
_SECONDS = 30.0
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class EtcdRecord:
    """Looks at the members when it begins and when it ends."""

    def __init__(self, cluster: TargetCluster) -> None:
        self._cluster = cluster
        self._leader = self._term = self._later_leader = self._later_term = ""
        self._given_up = 0

    def __enter__(self) -> Self:
        self._leader, self._term = self._look()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            return
        self._later_leader, self._later_term = self._look()
        self._given_up = sum(given_up_of(node.address) for node in self._cluster.nodes.values())

    def told(self, restarted: Sequence[str]) -> str:
        """One line; `restarted` are the nodes whose members were restarted, in their order.

        A term is an election. A member counts since its last start what it gave up.
        """
        return (
            f"etcd: led by {self._leader} in term {self._term}, members restarted: {', '.join(restarted)}, "
            f"then led by {self._later_leader} in term {self._later_term}; "
            f"writes that members gave up since their restart: {self._given_up}"
        )

    def _look(self) -> tuple[str, str]:
        """The name of the leader, empty when no member says that it is the one, and the term of the first member."""
        seen = {name: self._cluster.etcd_status(name) for name in self._cluster.nodes}
        leader = next((name for name, one in seen.items() if one["leader"] == one["header"]["member_id"]), "")
        return leader, str(next(iter(seen.values()))["raftTerm"])


def given_up_of(address: str) -> int:
    """How many writes the member at an address has given up since its start."""
    with _DIRECT.open(f"http://{address}:{ETCD_HEALTH}/metrics", timeout=_SECONDS) as answer:
        rows = (line.split() for line in answer.read().decode().splitlines())
        return int(sum(float(row[1]) for row in rows if row[:1] == [_FAILED]))
