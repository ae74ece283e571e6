"""What a long transfer tells while it goes on."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called from several threads."""

    def expect(self, size: int) -> None:
        """So many bytes more have to move."""
        ...

    def moved(self, size: int) -> None:
        """So many bytes have moved; less than nothing when they have to move again."""
        ...

    def tell(self, text: str) -> None:
        """Something that a person wants to know."""
        ...


class Silent:
    """Nobody reads along."""

    def expect(self, size: int) -> None:
        """Nothing."""

    def moved(self, size: int) -> None:
        """Nothing."""

    def tell(self, text: str) -> None:
        """Nothing."""
