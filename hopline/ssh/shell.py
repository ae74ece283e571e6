"""Scripts on a node with the rights of root.

The command line that a node sees holds the script and its arguments, never a credential. A password of sudo is written
to its input only once sudo asks for it, and data only once the script itself has begun: so neither can end up in the
other's place, whatever sudo's rules on the node are.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator
from contextlib import suppress

import asyncssh

from hopline.domain.errors import Forbidden, Transient
from hopline.ports import ShellAnswer
from hopline.ssh.access import ROOT, SUDO_PASSWORD, Credentials, NodeAddress
from hopline.ssh.faults import mapped

BEGUN = b"hopline-script-begins\n"
ASKS = b"hopline-sudo-asks:"
MAX_OUTPUT = 64 * 1024
"""Bytes that are kept of each stream of a script."""

_PREFIX = 'LC_ALL=C; PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"; export LC_ALL PATH; echo hopline-script-begins; '


class _Stream:
    """One output of a command: what came, up to a limit, and whether more may come."""

    def __init__(self, reader: asyncssh.SSHReader[bytes], news: asyncio.Event) -> None:
        self._reader = reader
        self._news = news
        self.text = bytearray()
        self.is_over = False

    async def read(self) -> None:
        """Until its end; what is beyond the limit is thrown away."""
        try:
            while piece := await self._reader.read(MAX_OUTPUT):
                self.text.extend(piece[: MAX_OUTPUT - len(self.text)])
                self._news.set()
        finally:
            self.is_over = True
            self._news.set()


class SshShell:
    """Implements `hopline.ports.NodeShell` on one connection."""

    def __init__(
        self, connection: asyncssh.SSHClientConnection, address: NodeAddress, credentials: Credentials
    ) -> None:
        self._connection = connection
        self._address = address
        self._credentials = credentials

    async def run(
        self, script: str, *arguments: str, data: AsyncIterator[bytes] | None = None, timeout_seconds: float = 60.0
    ) -> ShellAnswer:
        """Run a POSIX shell script as root; see the port."""
        with mapped(self._address.shown, username=self._address.username):
            async with asyncio.timeout(timeout_seconds) as limit:
                process = await self._connection.create_process(self._command(script, arguments), encoding=None)
                try:
                    return await self._converse(process, data, limit, timeout_seconds)
                finally:
                    process.close()

    def _command(self, script: str, arguments: tuple[str, ...]) -> str:
        shell = shlex.join(["sh", "-c", f"{_PREFIX}{script}", "hopline", *arguments])
        if self._address.username == ROOT:
            return shell
        asking = f"-S -p {ASKS.decode()}" if self._credentials.sudo_password.get_secret_value() else "-n"
        return f"LC_ALL=C sudo {asking} -- {shell}"

    async def _converse(
        self,
        process: asyncssh.SSHClientProcess[bytes],
        data: AsyncIterator[bytes] | None,
        limit: asyncio.Timeout,
        seconds: float,
    ) -> ShellAnswer:
        news = asyncio.Event()
        output, error = _Stream(process.stdout, news), _Stream(process.stderr, news)
        reading = [asyncio.create_task(stream.read()) for stream in (output, error)]
        try:
            await self._begin(process, output, error, news)
            if data is not None:
                await _feed(process, data, limit, seconds)
            with suppress(OSError):
                process.stdin.write_eof()
            await asyncio.gather(*reading)
            await process.wait_closed()
        finally:
            for task in reading:
                task.cancel()
            await asyncio.gather(*reading, return_exceptions=True)
        return self._answer(process.returncode, bytes(output.text), bytes(error.text))

    async def _begin(
        self, process: asyncssh.SSHClientProcess[bytes], output: _Stream, error: _Stream, news: asyncio.Event
    ) -> None:
        """Return when the script runs. Raises Forbidden when it may not."""
        answered = 0
        while BEGUN not in output.text:
            asked = error.text.count(ASKS)
            if asked > 1:
                raise self._refused("the password of the Secret is not the one that sudo wants", SUDO_PASSWORD)
            if asked > answered:
                answered = asked
                process.stdin.write(self._credentials.sudo_password.get_secret_value().encode() + b"\n")
            if output.is_over and error.is_over:
                await process.wait_closed()
                if process.returncode is None:
                    raise asyncssh.ConnectionLost("connection lost")
                raise self._refused(self._last_line(bytes(error.text)) or "sudo says nothing", "sudo")
            await news.wait()
            news.clear()

    def _refused(self, why: str, field: str) -> Forbidden:
        return Forbidden(
            f"{self._address.username} may not act as root on the node: {why}",
            subject=f"node {self._address.shown}",
            field=field,
            remedy=f"allow it in sudoers without a password, or give data[{SUDO_PASSWORD}] of "
            f"{self._credentials.subject} the password that sudo asks for",
        )

    def _last_line(self, text: bytes) -> str:
        told = self._credentials.struck(text.decode(errors="replace").replace(ASKS.decode(), ""))
        lines = [line.strip() for line in told.splitlines() if line.strip()]
        return lines[-1][:300] if lines else ""

    def _answer(self, code: int | None, output: bytes, error: bytes) -> ShellAnswer:
        if code is None or code < 0:
            raise Transient(
                "the way to the node over SSH was cut off before the script had ended",
                subject=f"node {self._address.shown}",
                remedy="see whether the node is up",
            )
        told = output[output.index(BEGUN) + len(BEGUN) :].decode(errors="replace")
        return ShellAnswer(code=code, output=self._credentials.struck(told), error=self._last_line(error))


async def _feed(
    process: asyncssh.SSHClientProcess[bytes], data: AsyncIterator[bytes], limit: asyncio.Timeout, seconds: float
) -> None:
    """Write until it is over, or until the script wants no more: its end says why."""
    loop = asyncio.get_running_loop()
    async for piece in data:
        try:
            process.stdin.write(piece)
            await process.stdin.drain()
        except OSError:
            return
        limit.reschedule(loop.time() + seconds)
