"""One sshd per test: what a push leaves on its node is what the test looks at."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from ssh.push_lab import PushLab, push_lab
from ssh.sshd import Sshd, agent, running


@pytest.fixture
def sshd() -> Iterator[Sshd]:
    with running() as server:
        yield server


@pytest.fixture
async def lab(tmp_path: Path, sshd: Sshd) -> AsyncIterator[PushLab]:
    """With an old agent on the node, a new one in the repository, and a Secret that fits."""
    async with push_lab(tmp_path / "lab", sshd) as found:
        sshd.install(agent("old"))
        found.offer(agent("new"))
        found.grant()
        yield found
