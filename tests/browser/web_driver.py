"""A headless Chromium, driven by the WebDriver protocol over plain HTTP (https://www.w3.org/TR/webdriver2/)."""

from __future__ import annotations

import base64
import http.client
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from starter.child_processes import start, stop
from starter.dev_server import free_port

T = TypeVar("T")

PROGRAMS = ("chromium", "chromedriver")
INSTALL = "tests/browser/install.sh"
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
"""The key under which the protocol names an element."""


class WebDriverError(Exception):
    """What the driver answered instead of a value."""


def missing_programs() -> list[str]:
    """The programs that are not on the PATH."""
    return [name for name in PROGRAMS if shutil.which(name) is None]


class Browser:
    """One window. Texts are found as a person sees them."""

    def __init__(self, size: tuple[int, int] = (1280, 1050)) -> None:
        self._size = size
        self._port = free_port()
        self._session = ""
        self._profile = tempfile.TemporaryDirectory(prefix="hopline-browser-", ignore_cleanup_errors=True)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        driver = shutil.which("chromedriver")
        assert driver is not None
        self._process = start([driver, f"--port={self._port}"], log=Path(self._profile.name) / "driver.log")
        try:
            self.until(self._is_up, "chromedriver answers")
            arguments = [*FLAGS, f"--user-data-dir={self._profile.name}/profile", f"--window-size={_size(self._size)}"]
            chrome = {"args": arguments, "binary": shutil.which("chromium")}
            wanted = {"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": chrome}}}
            self._session = self._ask("POST", "/session", wanted)["sessionId"]
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        try:
            if self._session:
                self._ask("DELETE", f"/session/{self._session}")
        finally:
            assert self._process is not None
            stop(self._process)
            self._profile.cleanup()

    def _is_up(self) -> bool:
        try:
            return bool(self._ask("GET", "/status")["ready"])
        except OSError:
            return False

    def open(self, url: str) -> None:
        """Go to a page and wait until it is loaded."""
        self._command("POST", "/url", {"url": url})

    @property
    def url(self) -> str:
        """Where the window is."""
        return str(self._command("GET", "/url"))

    def script(self, text: str, *arguments: Any) -> Any:
        """The value of a JavaScript function body."""
        return self._command("POST", "/execute/sync", {"script": text, "args": list(arguments)})

    def text(self) -> str:
        """What stands on the page."""
        return str(self.script("return document.body.innerText"))

    def find(self, selector: str) -> str:
        """The first element, waiting for it: a CSS selector, or an XPath that begins with a slash."""
        using = "xpath" if selector.startswith("/") else "css selector"

        def found() -> str:
            try:
                value = self._command("POST", "/element", {"using": using, "value": selector})
            except WebDriverError:
                return ""
            return str(value[ELEMENT])

        return self.until(found, f"an element {selector}")

    def write(self, selector: str, text: str) -> None:
        """Type a text into a field."""
        self._command("POST", f"/element/{self.find(selector)}/value", {"text": text})

    def click(self, selector: str) -> None:
        """Click on an element."""
        self._command("POST", f"/element/{self.find(selector)}/click", {})

    def see(self, *texts: str, seconds: float = 60) -> str:
        """Wait until all texts stand on the page, and return the page's text."""

        def seen() -> str:
            page = self.text()
            return page if all(text in page for text in texts) else ""

        return self.until(seen, f"the page shows {texts}", seconds)

    def until(self, look: Callable[[], T], what: str, seconds: float = 60) -> T:
        """Look until there is something."""
        deadline = time.monotonic() + seconds
        while True:
            found = look()
            if found:
                return found
            if time.monotonic() > deadline:
                page = self.text() if self._session else ""
                raise AssertionError(f"never came: {what}; the page shows: {page[:2000]}")
            time.sleep(0.1)

    def picture(self) -> bytes:
        """The window as PNG."""
        return base64.b64decode(self._command("GET", "/screenshot"))

    @contextmanager
    def frame(self, selector: str) -> Iterator[None]:
        """Look into an embedded page for a while."""
        self._command("POST", "/frame", {"id": {ELEMENT: self.find(selector)}})
        yield
        self._command("POST", "/frame", {"id": None})

    def show(self, selector: str) -> None:
        """Scroll until an element is at the top."""
        element = {ELEMENT: self.find(selector)}
        self.script("arguments[0].scrollIntoView({block: 'start'})", element)

    def _command(self, method: str, path: str, body: Any = None) -> Any:
        return self._ask(method, f"/session/{self._session}{path}", body)

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            payload = None if body is None else json.dumps(body).encode()
            connection.request(method, path, payload, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            value = json.loads(answer.read())["value"]
        finally:
            connection.close()
        if answer.status != 200:
            raise WebDriverError(f"{value.get('error')}: {str(value.get('message')).splitlines()[0]}")
        return value


def _size(size: tuple[int, int]) -> str:
    return f"{size[0]},{size[1]}"
