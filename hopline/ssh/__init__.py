"""Nodes over SSH, on asyncssh: credentials from a Secret, host keys that are known, root through sudo."""
