"""The pictures that the pages show are there, are pictures, and are small."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
MOST_BYTES = 300_000


def test_every_picture_is_shown_and_small() -> None:
    shown = {
        (page.parent / name).resolve()
        for page in DOCS.rglob("*.md")
        for name in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", page.read_text(encoding="utf-8"))
    }
    assert shown
    assert shown == set((DOCS / "images").iterdir())
    for picture in shown:
        content = picture.read_bytes()
        assert content.startswith(b"\x89PNG\r\n\x1a\n"), picture
        assert len(content) < MOST_BYTES, picture
