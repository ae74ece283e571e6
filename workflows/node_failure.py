"""A node that cannot be brought to the target."""

from __future__ import annotations


class NodeFailed(Exception):
    """`message` says why; `remedy` what a person can do, empty: look at the node's agent.

    `may_retry`: its Command has failed and nothing of it runs any more, so that another one may do better.
    `untouched`: nothing was begun on the node, and nothing is wrong with it.
    """

    def __init__(self, message: str, remedy: str = "", *, may_retry: bool = False, untouched: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.may_retry = may_retry
        self.untouched = untouched
