import asyncio

from hopline.runtime.probes import probes
from starter.dev_server import free_port


async def ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    if not request.endswith(b"\r\n\r\n"):
        writer.write_eof()
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def test_live_always_ready_only_while_it_polls() -> None:
    ready = False
    async with probes(free_port(), lambda: ready, host="127.0.0.1") as port:
        assert (await ask(port, b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        assert (await ask(port, b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")).startswith(b"HTTP/1.1 503 ")
        ready = True
        assert (await ask(port, b"GET /readyz?verbose HTTP/1.1\r\nHost: x\r\n\r\n")).startswith(b"HTTP/1.1 200 ")


async def test_nonsense_gets_no_stack_trace_and_harms_nobody() -> None:
    async with probes(free_port(), lambda: True, host="127.0.0.1") as port:
        assert await ask(port, b"\r\n\r\n") == b""
        assert await ask(port, b"half a request") == b""
        assert (await ask(port, b"GET / HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 404 ")


async def test_port_zero_serves_nothing() -> None:
    async with probes(0, lambda: True) as port:
        assert port == 0
