"""What simulated agents are told to do, and what they did: durations, faults, and a record of every execution."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

ANY_NODE = "*"


class Step(StrEnum):
    """One kind of work of a node agent; the value is the Kubeadm phase or the name of the built-in plugin."""

    UPGRADE_ETCD = "UpgradeEtcd"
    UPGRADE_CONTROL_PLANE = "UpgradeControlPlane"
    UPGRADE_WORKER = "UpgradeWorker"
    RESET = "Reset"
    ENVIRONMENT = "K8sEnvInit"
    PING = "Ping"


class Outcome(StrEnum):
    """How an execution ended."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass
class Execution:
    """One attempt of one sub-command on one node; times are monotonic seconds of this process."""

    node: str
    command: str
    step: Step
    arguments: tuple[str, ...]
    started: float = field(default_factory=time.monotonic)
    finished: float | None = None
    outcome: Outcome = Outcome.RUNNING

    def overlaps(self, other: Execution) -> bool:
        """Whether both ran at one time on one node, which no lock of the agent prevents (openfuyao-nodes.md §1.5)."""
        first, second = sorted((self, other), key=lambda execution: execution.started)
        return self.node == other.node and (first.finished is None or first.finished > second.started)


class AgentScript:
    """Shared by the tests' thread, which tells, and the agents' thread, which asks."""

    def __init__(self, seconds: float = 0.2, backoff_scale: float = 0.1) -> None:
        """`seconds` is how long a step takes by default; `backoff_scale` shortens the pauses between attempts."""
        self.backoff_scale = backoff_scale
        self._default_seconds = seconds
        self._seconds: dict[tuple[str, Step], float] = {}
        self._failures: Counter[tuple[str, Step]] = Counter()
        self._held: set[tuple[str, Step]] = set()
        self._executions: list[Execution] = []
        self._lock = threading.Lock()

    def take(self, step: Step, seconds: float, node: str = ANY_NODE) -> None:
        """Sets how long a step takes, on one node or on all."""
        with self._lock:
            self._seconds[node, step] = seconds

    def fail(self, node: str, step: Step, times: int) -> None:
        """Lets the next `times` attempts of a step on a node fail; a Command tries `backoffLimit + 1` times."""
        with self._lock:
            self._failures[node, step] = times

    def hold(self, node: str, step: Step) -> None:
        """Lets a step on a node go on until `release`, as an agent that hangs."""
        with self._lock:
            self._held.add((node, step))

    def release(self, node: str, step: Step) -> None:
        """Lets a held step end."""
        with self._lock:
            self._held.discard((node, step))

    @property
    def executions(self) -> list[Execution]:
        """Every attempt so far, in the order in which they began."""
        with self._lock:
            return self._executions.copy()

    def times_run(self) -> Counter[tuple[str, tuple[str, ...]]]:
        """How often each arguments ran on each node, failed attempts included: all ones mean that nothing ran twice."""
        return Counter((execution.node, execution.arguments) for execution in self.executions)

    def overlaps(self) -> list[tuple[Execution, Execution]]:
        """Pairs of executions that ran at one time on one node."""
        seen = self.executions
        return [(a, b) for index, a in enumerate(seen) for b in seen[index + 1 :] if a.overlaps(b)]

    def begin(self, node: str, command: str, step: Step, arguments: tuple[str, ...]) -> Execution:
        """Notes that an agent begins an attempt."""
        execution = Execution(node, command, step, arguments)
        with self._lock:
            self._executions.append(execution)
        return execution

    def end(self, execution: Execution, outcome: Outcome) -> None:
        """Notes how an attempt ended."""
        with self._lock:
            execution.finished, execution.outcome = time.monotonic(), outcome

    def seconds(self, node: str, step: Step) -> float:
        """How long an attempt takes."""
        with self._lock:
            return self._seconds.get((node, step), self._seconds.get((ANY_NODE, step), self._default_seconds))

    def is_held(self, node: str, step: Step) -> bool:
        """Whether the step must not end yet."""
        with self._lock:
            return (node, step) in self._held

    def takes_failure(self, node: str, step: Step) -> bool:
        """Whether this attempt is one that was told to fail; uses up one of them."""
        with self._lock:
            if not self._failures[node, step]:
                return False
            self._failures[node, step] -= 1
            return True
