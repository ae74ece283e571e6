"""The base of everything that crosses a process boundary, and the two names that every message carries."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class WireModel(BaseModel):
    """camelCase in JSON, accepted in both spellings, unknown keys ignored, frozen.

    Loose on purpose: a field that an older worker does not know must not stop a run. Strictness lives where a person
    reads the error (the parse of a start input, the checks of a document).
    """

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, serialize_by_alias=True, extra="ignore", frozen=True
    )


class WireEnum(StrEnum):
    """A word that crosses a process boundary; each subclass has a member UNKNOWN.

    A word that an older worker does not know is read as UNKNOWN, because it must not stop a run.
    """

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls.__members__["UNKNOWN"]


class ClusterKey(WireModel):
    """Names one cluster: the BKECluster, and the ClusterVersion of the same name (openfuyao-api.md §1.2)."""

    kube_namespace: str = Field(alias="namespace")
    name: str

    def __str__(self) -> str:
        return f"{self.kube_namespace}/{self.name}"
