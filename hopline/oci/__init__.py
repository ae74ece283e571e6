"""Images at a registry: pulled by the distribution API, checked, and kept by digest.

A client of our own on aiohttp: docs/decisions/0004-registry-client.md says why.
"""
