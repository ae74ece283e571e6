"""Fixtures of the tests with real registries."""

from __future__ import annotations

from offline_site import registry_binary, site

__all__ = ["registry_binary", "site"]
