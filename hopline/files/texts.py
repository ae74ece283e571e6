"""Text of one file, byte for byte: digests are over what is on the disk."""

from __future__ import annotations

from pathlib import Path

from hopline.domain.errors import InvalidDocument


def read_text(path: Path) -> str:
    """The file as UTF-8, line ends untouched. Raises InvalidDocument when it is not UTF-8, OSError as it comes."""
    content = path.read_bytes()
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidDocument(
            "the file is not UTF-8 text", subject=f"{path}:{line}", remedy=f"save {path} as UTF-8"
        ) from None
