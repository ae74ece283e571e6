"""Between a client and a server of loopback: lets so many bytes through, then none until it is told to."""

from __future__ import annotations

import contextlib
import socket
import threading


class StallingProxy:
    """Forwards to a port of loopback. Close it."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.host = f"127.0.0.1:{self.port}"
        self.stalled = threading.Event()
        self._open = threading.Event()
        self._open.set()
        self._left = 0
        self._sending_open = threading.Event()
        self._sending_open.set()
        self._sending_left = 0
        self.sent = 0
        """Bytes that clients have sent, and that were let through."""
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def stall_after(self, count: int) -> None:
        """Let so many bytes of answers through, of all connections together, then none."""
        with self._lock:
            self._left = count
            self.stalled.clear()
            self._open.clear()

    def stall_sending_after(self, count: int) -> None:
        """The same for what clients send."""
        with self._lock:
            self._sending_left = count
            self.stalled.clear()
            self._sending_open.clear()

    def go_on(self) -> None:
        """Let everything through."""
        self._open.set()
        self._sending_open.set()

    def close(self) -> None:
        """No connection is left."""
        self.go_on()
        for one in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                try:
                    far = socket.create_connection(self._target)
                except OSError:
                    near.close()
                    continue
                self._sockets += [near, far]
                for source, sink, counts in ((near, far, False), (far, near, True)):
                    threading.Thread(target=self._forward, args=(source, sink, counts), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, counts: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(512 if counts else 64 * 1024):
                if counts:
                    self._spend(len(data))
                else:
                    self._send(len(data))
                sink.sendall(data)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _spend(self, count: int) -> None:
        with self._lock:
            self._left -= count
            if self._left < 0 and not self._open.is_set():
                self.stalled.set()
        if self._left < 0:
            self._open.wait()

    def _send(self, count: int) -> None:
        with self._lock:
            self._sending_left -= count
            is_spent = self._sending_left < 0
        if is_spent and not self._sending_open.is_set():
            self.stalled.set()
            self._sending_open.wait()
        with self._lock:
            self.sent += count
