"""What a check of manifests says: the stable JSON of `hopline check manifests`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hopline.domain.plan import Severity
from hopline.domain.resources import Document
from hopline.domain.wire import WireModel

Path = tuple[str | int, ...]
"""Keys and list indexes from the top of a document."""


class ManifestFinding(WireModel):
    """Something that a person should know about a manifest.

    Attributes:
        file: its path below the folder that was checked.
        line: in the file as it was written, before rendering; 0 for the file as a whole.
        object: `Kind namespace/name`, empty when there is none yet.
    """

    severity: Severity
    file: str
    line: int = 0
    object: str = ""
    field: str = ""
    message: str
    remedy: str = ""


class ManifestReport(WireModel):
    """The result for a folder: how many files were read, how many objects they hold, and the findings in file order."""

    files: int
    objects: int
    findings: tuple[ManifestFinding, ...] = ()

    @property
    def blocks(self) -> bool:
        """Whether the component could not be applied as it stands."""
        return any(finding.severity is Severity.BLOCKS for finding in self.findings)


@dataclass(frozen=True)
class Complaint:
    """A finding of a rule about one object, before anyone has looked up its line."""

    severity: Severity
    path: Path
    message: str
    remedy: str

    @property
    def field(self) -> str:
        """`spec.template.spec.containers[0].env`."""
        return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path).removeprefix(".")


@dataclass(frozen=True)
class Component:
    """What is known about the component that the objects belong to.

    Attributes:
        kube_namespace: where objects go that name no namespace; empty when nobody has said.
        described: there is a ComponentVersion, so an empty `kube_namespace` is final.
        kubernetes: the version that the cluster will have; empty when nobody has said.
    """

    kube_namespace: str = ""
    described: bool = False
    kubernetes: str = ""


def mapping(value: object) -> Mapping[str, object]:
    """The value where it is a mapping, else an empty one: rules look into documents that nobody has validated."""
    return value if isinstance(value, Mapping) else {}


def identity(document: Document, kube_namespace: str = "") -> tuple[str, str, str, str]:
    """Group, kind, namespace and name: what makes two documents one object."""
    metadata = mapping(document.get("metadata"))
    group = str(document.get("apiVersion", "")).rpartition("/")[0]
    place = str(metadata.get("namespace") or kube_namespace)
    return (group, str(document.get("kind", "")), place, str(metadata.get("name", "")))
