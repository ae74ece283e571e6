"""Hopline: everything about upgrading a Kubernetes platform that would be true without Temporal."""
