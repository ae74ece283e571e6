"""Fields that an API server never lets anyone change: a new version of an object that does needs a new object.

From the update validation of the Kubernetes API types (`field is immutable`), for the kinds that bundles carry.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hopline.domain.manifest_findings import Complaint, Path, identity, mapping
from hopline.domain.plan import Severity
from hopline.domain.resources import Document

_MISSING = object()

_TABLE = """
apps Deployment spec.selector
apps DaemonSet spec.selector
apps ReplicaSet spec.selector
apps StatefulSet spec.selector spec.serviceName spec.podManagementPolicy spec.volumeClaimTemplates
batch Job spec.selector spec.template spec.completionMode
rbac.authorization.k8s.io RoleBinding roleRef
rbac.authorization.k8s.io ClusterRoleBinding roleRef
storage.k8s.io StorageClass provisioner parameters reclaimPolicy volumeBindingMode
scheduling.k8s.io PriorityClass value preemptionPolicy
networking.k8s.io IngressClass spec.controller
node.k8s.io RuntimeClass handler
apiextensions.k8s.io CustomResourceDefinition spec.group spec.scope spec.names.kind spec.names.plural
- Service spec.clusterIP
- Secret type
- PersistentVolumeClaim spec.storageClassName spec.accessModes spec.volumeMode spec.volumeName spec.selector
"""

IMMUTABLE: Mapping[tuple[str, str], tuple[Path, ...]] = {
    ("" if group == "-" else group, kind): tuple(tuple(field.split(".")) for field in fields)
    for group, kind, *fields in (line.split() for line in _TABLE.strip().splitlines())
}
"""(group, kind) → the fields that stay as they were created."""

_SEALED = ("data", "binaryData")
"""What `immutable: true` seals in a ConfigMap or Secret."""


def immutable_changes(before: Iterable[Document], after: Iterable[Document]) -> Iterator[tuple[int, Complaint]]:
    """Index in `after` of each object that changes a field which cannot change, and which field.

    Fields that only one side writes do not count: the other one has whatever the API server chose.
    """
    known = {identity(document): document for document in before}
    for at, document in enumerate(after):
        old = known.get(identity(document))
        if old is None:
            continue
        for path in _fields(old):
            was, becomes = _value(old, path), _value(document, path)
            if _MISSING not in (was, becomes) and was != becomes:
                yield at, _complaint(document, path)


def _fields(old: Document) -> tuple[Path, ...]:
    fields = IMMUTABLE.get(identity(old)[:2], ())
    sealed = old.get("immutable") is True and old.get("kind") in ("ConfigMap", "Secret")
    return (*fields, *((name,) for name in _SEALED)) if sealed else fields


def _value(document: Document, path: Path) -> Any:
    value: Any = document
    for name in path:
        value = mapping(value).get(str(name), _MISSING)
    return value


def _complaint(document: Document, path: Path) -> Complaint:
    message = f"{'.'.join(map(str, path))} of a {document['kind']} cannot change, and the new version changes it"
    remedy = "give the new object another name, or delete the old one when nobody needs it"
    return Complaint(Severity.WARNS, path, message, remedy)
