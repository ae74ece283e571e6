"""Child processes that never outlive the test run, and the loopback ports they listen on."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# Below the ephemeral range: a port in it could become some client's source port while a killed server restarts.
_PORTS = range(20_000, 32_000)
_LAST_LOG_LINES = 15
_NO_PROXY = urllib.request.ProxyHandler({})


class ProcessFailed(Exception):
    """A program of the control plane ended or did not become ready; the message ends with its last log lines."""


@dataclass(frozen=True)
class ManagedProcess:
    """One running child, leader of a process group of its own."""

    name: str
    popen: subprocess.Popen[bytes]
    log: Path

    def failure(self, what: str) -> ProcessFailed:
        """An error that says what happened and shows the end of the log."""
        lines = self.log.read_text(errors="replace").splitlines()[-_LAST_LOG_LINES:]
        return ProcessFailed("\n".join([f"{self.name} {what}; its log ends with:", *lines]))


class ProcessFamily:
    """A group of children and their data folder; both are gone after `close`, or when this process dies."""

    def __init__(self, label: str) -> None:
        self.data_dir = Path(tempfile.mkdtemp(prefix=f"hopline-{label}-"))
        guardian = [sys.executable, str(Path(__file__).with_name("guardian.py")), str(self.data_dir)]
        self._guardian = subprocess.Popen(guardian, stdin=subprocess.PIPE, start_new_session=True, text=True)
        self._running: list[ManagedProcess] = []

    def start(
        self, name: str, command: Sequence[str], env: Mapping[str, str] | None = None, folder: Path | None = None
    ) -> ManagedProcess:
        """Starts a program, by default in this environment and the data folder; logs to `<data_dir>/<name>.log`."""
        log = self.data_dir / f"{name}.log"
        with log.open("ab") as output:
            popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder or self.data_dir,
                env=env,
                start_new_session=True,
            )
        return self.adopt(ManagedProcess(name, popen, log))

    def adopt(self, process: ManagedProcess) -> ManagedProcess:
        """Takes a child that somebody else started, as leader of a process group of its own, into the family."""
        self._tell_guardian(f"+{process.popen.pid}")
        self._running.append(process)
        return process

    def stop(self, process: ManagedProcess, grace_seconds: float = 0.0) -> None:
        """Ends a process group: SIGTERM first when it is given time, else SIGKILL at once."""
        if grace_seconds and process.popen.poll() is None:
            process.popen.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.popen.wait(grace_seconds)
        if process.popen.poll() is None:
            os.killpg(process.popen.pid, signal.SIGKILL)
        process.popen.wait()
        self._tell_guardian(f"-{process.popen.pid}")
        self._running.remove(process)

    def find(self, name: str) -> ManagedProcess:
        """The running child of that name."""
        return next(process for process in self._running if process.name == name)

    @property
    def process_ids(self) -> dict[str, int]:
        """The running children by name."""
        return {process.name: process.popen.pid for process in self._running}

    def close(self) -> None:
        """Ends everything, youngest first, and deletes the data; calling it again does nothing."""
        for process in reversed(self._running.copy()):
            self.stop(process)
        assert self._guardian.stdin
        self._guardian.stdin.close()
        self._guardian.wait()

    def _tell_guardian(self, line: str) -> None:
        assert self._guardian.stdin
        self._guardian.stdin.write(line + "\n")
        self._guardian.stdin.flush()


def wait_until(condition: Callable[[], bool], process: ManagedProcess, what: str, seconds: float = 60.0) -> None:
    """Looks until the condition holds; raises ProcessFailed when the process ends first or time is up."""
    deadline = time.monotonic() + seconds
    while not condition():
        if (code := process.popen.poll()) is not None:
            raise process.failure(f"ended with code {code} before it was {what}")
        if time.monotonic() > deadline:
            raise process.failure(f"was not {what} within {seconds:.0f} s")
        time.sleep(0.03)


def answers(url: str, token: str = "", context: ssl.SSLContext | None = None) -> bool:
    """Whether an address answers 200 now."""
    opener = urllib.request.build_opener(_NO_PROXY, urllib.request.HTTPSHandler(context=context))
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with opener.open(request, timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError, ssl.SSLError):
        return False


def free_ports(count: int) -> list[int]:
    """Distinct loopback ports that nothing listens on now."""
    found: list[int] = []
    for port in random.sample(_PORTS, k=len(_PORTS)):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise ProcessFailed(f"no {count} free loopback ports between {_PORTS.start} and {_PORTS.stop}: end what holds them")
