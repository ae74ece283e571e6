"""Fixtures come from plugins, one file per outside part. In CI a skipped test is a failed run."""

from __future__ import annotations

import signal

import pytest
from hypothesis import HealthCheck, settings

from absent_parts import IN_CI

pytest_plugins = ["temporal_server", "upgrade_lab", "controlplane.fixtures", "realistic.fixtures", "real_lab"]

# How long one example takes says something about the machine, nothing about the code. In CI the examples are the same
# in every run, so that a commit is judged by what it changes; new ones are looked for by every other run.
settings.register_profile(
    "untimed", settings(), deadline=None, derandomize=IN_CI, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("untimed")

# A shell starts what it sends to the background with SIGINT ignored, and so do all processes below it: the tests that
# press Ctrl-C would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A part that is absent in CI must be installed there, not skipped over."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = len(reporter.stats.get("skipped", ())) if reporter else 0
    if skipped and IN_CI and exitstatus == 0:
        reporter.write_line(f"{skipped} skipped in CI counts as failed", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
