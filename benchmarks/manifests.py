"""Reading and rendering a large manifest: against libyaml's bare parse, and beside an event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import yaml

from benchmarks.definitions import definition
from benchmarks.measure import Figure, spread
from hopline.documents.loading import load_documents
from hopline.domain.templates import render

ROUNDS = 5
MEGABYTES = 3.5
MAX_RATIO = 1.5
MAX_BLOCKED_MS = 500.0
_TICK_SECONDS = 0.005


def large_manifest() -> str:
    """CustomResourceDefinitions of about 170 kB each, as controllers bring them."""
    parts: list[str] = []
    size, number = 0, 0
    while size < MEGABYTES * 1e6:
        parts.append(definition(number, "example.org", 320, annotation='made-by: "{{ .maker }}"'))
        size += len(parts[-1])
        number += 1
    return "".join(parts)


def reading() -> list[Figure]:
    """Processor time of rendering and reading, as a multiple of the parser's own events and of PyYAML's fast loader."""
    text = large_manifest()
    data: dict[str, object] = {"maker": "the benchmark"}
    rendered = render(text, data, "large.yaml")

    def ours() -> None:
        load_documents(render(text, data, "large.yaml"), "large.yaml")

    def events() -> None:
        for _ in yaml.parse(rendered, Loader=yaml.CSafeLoader):
            pass

    own, bare, loaded = [], [], []
    for _ in range(ROUNDS):
        own.append(_seconds(ours))
        bare.append(_seconds(events))
        loaded.append(_seconds(lambda: list(yaml.load_all(rendered, Loader=yaml.CSafeLoader))))
    detail = f"{len(text) / 1e6:.1f} MB, {spread([seconds * 1000 for seconds in own])}"
    return [
        Figure("render and read ÷ libyaml's bare parse", min(own) / min(bare), "times", MAX_RATIO, detail),
        Figure("render and read ÷ PyYAML's fast loader", min(own) / min(loaded), "times"),
    ]


async def blocked() -> list[Figure]:
    """The longest time for which the event loop did not run while a thread renders and reads."""
    text = large_manifest()

    def work() -> None:
        load_documents(render(text, {"maker": "the benchmark"}, "large.yaml"), "large.yaml")

    beside_nothing = await _longest_gap(lambda: time.sleep(0.5))
    detail = f"{beside_nothing * 1000:.1f} ms beside a thread that sleeps"
    return [
        Figure(
            "event loop blocked while a manifest is read", await _longest_gap(work) * 1000, "ms", MAX_BLOCKED_MS, detail
        )
    ]


async def _longest_gap(work: Callable[[], object]) -> float:
    """Seconds, over all rounds."""
    longest = 0.0
    for _ in range(ROUNDS):
        task = asyncio.create_task(asyncio.to_thread(work))
        while not task.done():
            began = time.monotonic()
            await asyncio.sleep(_TICK_SECONDS)
            longest = max(longest, time.monotonic() - began - _TICK_SECONDS)
        await task
    return longest


def _seconds(call: Callable[[], None]) -> float:
    """Processor time: other processes of the machine do not count."""
    began = time.process_time()
    call()
    return time.process_time() - began
