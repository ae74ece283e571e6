"""A real OpenSSH server on a free port of this machine, with host keys and a configuration of its own.

What a node has beside it is faked by programs in front of the PATH of its sessions: `systemctl` starts and stops the
binary that is installed, `sudo` asks or refuses as a test says. Both write down how they were called.
"""

from __future__ import annotations

import getpass
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from looking import PATIENCE

SSHD = Path("/usr/sbin/sshd")
ACCOUNT = "hopline-ssh" if os.getuid() == 0 else getpass.getuser()
"""Whom the server lets in, beside root where it runs as root."""

SUDO_PASSWORD = "open-sesame-7c1d"
SYSTEMCTL = """#!/bin/sh
echo "$*" >>{home}/systemctl.calls
pid=$(/bin/cat {home}/agent.pid 2>/dev/null)
alive() {{ [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null; }}
case $1 in
  show) if alive; then echo "$pid"; else echo 0; fi ;;
  is-active) if alive; then echo active; else echo failed; exit 3; fi ;;
  stop) if alive; then kill "$pid"; fi ;;
  restart)
    if alive; then kill "$pid"; fi
    rm -f {home}/agent.pid
    if grep -q BROKEN {binary}; then echo "Job for bkeagent.service failed." >&2; exit 1; fi
    setsid {binary} 100000 </dev/null >/dev/null 2>&1 &
    while [ "$(readlink /proc/$!/exe)" != {binary} ]; do kill -0 $! || exit 1; sleep 0.01; done
    echo $! >{home}/agent.pid ;;
esac
"""
SUDO = """#!/bin/sh
echo "$*" >>{home}/sudo.calls
mode=$(/bin/cat {home}/sudo.mode)
[ "$mode" != refuses ] || {{ echo "{account} is not in the sudoers file." >&2; exit 1; }}
asks=
case $1 in
  -n) shift; [ "$mode" = free ] || {{ echo "sudo: a password is required" >&2; exit 1; }} ;;
  -S) asks=$3; shift 3 ;;
esac
[ "$1" != -- ] || shift
if [ "$mode" = asks ]; then
  tries=0
  while :; do
    printf %s "$asks" >&2
    IFS= read -r given || exit 1
    [ "$given" != {password} ] || break
    tries=$((tries + 1)); [ $tries -lt 3 ] || exit 1
    echo "Sorry, try again." >&2
  done
fi
exec "$@"
"""


def agent(text: str) -> bytes:
    """A program that runs for long, and is another one for every text; BROKEN does not start, DEAF answers nobody."""
    return Path("/bin/sleep").read_bytes() + f"\nnode agent {text}\n".encode()


class Sshd:
    """One server, which stands for one node.

    Attributes:
        home: of the node's fakes; `binary` is where its agent is installed.
    """

    def __init__(self, folder: Path, address: str = "127.0.0.1") -> None:
        if not SSHD.exists() or not _exists(ACCOUNT):
            raise AssertionError("OpenSSH's server or the account for tests is missing: tests/ssh/install.sh")
        self.folder = folder
        self.address = address
        self.port = free_port(address)
        self.home = folder / "node"
        self.binary = self.home / "bin" / "bkeagent"
        self.user_key = folder / "user_key"
        self._process: subprocess.Popen[bytes] | None = None
        self._prepare()

    def _prepare(self) -> None:
        tools = self.home / "tools"
        self.binary.parent.mkdir(parents=True)
        tools.mkdir()
        make_key(self.folder / "host_key")
        make_key(self.user_key)
        shutil.copy(self.user_key.with_suffix(".pub"), self.folder / "authorized_keys")
        words = {"home": self.home, "binary": self.binary, "account": ACCOUNT, "password": SUDO_PASSWORD}
        for name, text in (("systemctl", SYSTEMCTL), ("sudo", SUDO)):
            (tools / name).write_text(text.format(**words))
            (tools / name).chmod(0o755)
        self.sudo("free")
        for path in (self.home, *self.home.rglob("*")):
            if os.getuid() == 0:
                os.chown(path, pwd.getpwnam(ACCOUNT).pw_uid, pwd.getpwnam(ACCOUNT).pw_gid)
        (self.folder / "sshd_config").write_text(
            f"ListenAddress {self.address}:{self.port}\n"
            f"HostKey {self.folder}/host_key\n"
            f"AuthorizedKeysFile {self.folder}/authorized_keys\n"
            "PidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin yes\nLogLevel VERBOSE\nMaxStartups 100\n"
            "PasswordAuthentication yes\n"
            f"SetEnv PATH={tools}:/usr/local/bin:/usr/bin:/bin\n"
        )

    def install(self, content: bytes) -> None:
        """As if an agent had been there for long, and were running."""
        self.binary.write_bytes(content)
        self.binary.chmod(0o755)
        if os.getuid() == 0:
            account = pwd.getpwnam(ACCOUNT)
            os.chown(self.binary, account.pw_uid, account.pw_gid)
        tool = str(self.home / "tools" / "systemctl")
        who = {"user": ACCOUNT, "group": ACCOUNT, "extra_groups": []} if os.getuid() == 0 else {}
        subprocess.run([tool, "restart", "bkeagent"], check=True, **who)
        (self.home / "systemctl.calls").unlink()

    def sudo(self, mode: str) -> None:
        """`free`, `asks` or `refuses`."""
        (self.home / "sudo.mode").write_text(mode)

    def fake(self, name: str, text: str) -> None:
        """Another program of the node."""
        tool = self.home / "tools" / name
        tool.write_text(f"#!/bin/sh\n{text}\n")
        tool.chmod(0o755)

    @property
    def known_hosts(self) -> str:
        """Its line, as ssh-keyscan prints it."""
        key = " ".join((self.folder / "host_key.pub").read_text().split()[:2])
        return f"[{self.address}]:{self.port} {key}\n"

    @property
    def leftovers(self) -> list[str]:
        """Files beside the binary that are neither it nor the agent before."""
        kept = {self.binary.name, f"{self.binary.name}.bak.hopline"}
        return sorted(path.name for path in self.binary.parent.iterdir() if path.name not in kept)

    @property
    def runs(self) -> bytes:
        """What the agent that runs was started from; empty: none runs."""
        with suppress(OSError):
            return Path(f"/proc/{(self.home / 'agent.pid').read_text().strip()}/exe").read_bytes()
        return b""

    def calls(self, tool: str) -> list[str]:
        """How a fake was called."""
        file = self.home / f"{tool}.calls"
        return file.read_text().splitlines() if file.exists() else []

    @property
    def restarts(self) -> int:
        """How often the unit was restarted."""
        return self.calls("systemctl").count("restart bkeagent")

    @property
    def log(self) -> str:
        """What the server has said."""
        return (self.folder / "sshd.log").read_text()

    def start(self) -> None:
        """Listen."""
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        log = (self.folder / "sshd.log").open("ab")
        arguments = [str(SSHD), "-D", "-e", "-f", str(self.folder / "sshd_config")]
        with log:
            self._process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stderr=log, start_new_session=True)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            with suppress(OSError), socket.create_connection((self.address, self.port), timeout=1):
                return
            assert self._process.poll() is None, self.log
            time.sleep(0.02)
        raise AssertionError(f"sshd does not listen: {self.log}")

    def stop(self) -> None:
        """With every session and the agent."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)
            self._process.wait()
            self._process = None

    def stop_agent(self) -> None:
        """The end of a test."""
        with suppress(OSError, ValueError):
            os.kill(int((self.home / "agent.pid").read_text()), signal.SIGKILL)


@contextmanager
def running(address: str = "127.0.0.1") -> Iterator[Sshd]:
    """A server while the block runs, in a folder that its account may enter (those of pytest are for one user)."""
    with tempfile.TemporaryDirectory(prefix="hopline-sshd-") as folder:
        Path(folder).chmod(0o711)
        server = Sshd(Path(folder), address)
        server.start()
        try:
            yield server
        finally:
            server.stop()
            server.stop_agent()


def make_key(file: Path, passphrase: str = "") -> None:
    """A key pair as ssh-keygen makes it."""
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", "", "-f", str(file)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def free_port(address: str) -> int:
    """One that nobody listens at."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def _exists(account: str) -> bool:
    try:
        return bool(pwd.getpwnam(account))
    except KeyError:
        return False
