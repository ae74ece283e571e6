"""What was seen of a component before its hop: the ground for a skip (design §2.2).

A recorded version is a claim. Only what each node and each live object shows confirms it.
"""

from __future__ import annotations

from enum import StrEnum

from hopline.domain.wire import WireModel


class Presence(StrEnum):
    """Is the target of this hop already there?"""

    PRESENT = "present"
    """Seen on every node, or an empty dry-run diff: the component may be skipped."""
    ABSENT = "absent"
    """Seen that it is not there: the component runs."""
    COULD_NOT_LOOK = "could not look"
    """Never "nothing to do": the component runs."""
    NOT_INSTALLED = "not installed"
    """None of a manifest component's own workloads exists: it is left alone (openfuyao-api.md §7.4)."""
    NOT_VERIFIED = "recorded, not verified"
    """Plan on files alone: only the record can be compared."""


class ComponentSighting(WireModel):
    """What was seen of one component, compared with the version that the hop wants.

    Attributes:
        current: version that was seen or, failing that, recorded; empty when unknown.
        detail: what was looked at, for the reason shown to a person.
    """

    name: str
    presence: Presence
    current: str = ""
    detail: str = ""
