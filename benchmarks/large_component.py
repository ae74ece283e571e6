"""A component of 300 objects, 30 of them definitions, on a real API server; beside it `kubectl apply --server-side`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.definitions import definition
from benchmarks.measure import Figure, median, spread
from controlplane.audit import AuditEvent
from controlplane.binaries import BinariesUnavailable, find_binaries
from controlplane.control_plane import ControlPlane
from controlplane.programs import ADMIN
from hopline.documents.loading import load_documents
from hopline.domain.resources import DEFAULT_FIELD_MANAGER
from hopline.kube.client import connect
from hopline.kube.credentials import KubeconfigFile
from hopline.operations.component_objects import ComponentObjects
from hopline.operations.manifests import apply_documents

ROUNDS = 3
DEFINITIONS = 30
TARGET_REQUESTS = 3.0
TARGET_RATIO = 1.0

FIELDS = 60
"""Of each definition: about 30 kB, the middle of what monitoring and certificate controllers bring."""

_OTHERS = (
    """
apiVersion: {place}.example.org/v1
kind: Thing{n}
metadata: {{name: thing, namespace: {place}}}
spec: {{field0: {{replicas: 3, names: [a, b]}}}}
""",
    """
apiVersion: v1
kind: ServiceAccount
metadata: {{name: account-{n}, namespace: {place}}}
""",
    """
apiVersion: v1
kind: ConfigMap
metadata: {{name: settings-{n}, namespace: {place}, labels: {{app: app-{n}}}}}
data: {{mode: fast, settings.yaml: "level: info\\nlimit: VERSION\\n"}}
""",
    """
apiVersion: v1
kind: ConfigMap
metadata: {{name: dashboard-{n}, namespace: {place}}}
data: {{dashboard.json: "{{\\"title\\": \\"dashboard {n}\\", \\"version\\": VERSION}}"}}
""",
    """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: {place}-{n}}}
rules:
- {{apiGroups: [{place}.example.org], resources: ["things{n}"], verbs: [get, list, watch]}}
""",
    """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: role-{n}, namespace: {place}}}
rules:
- {{apiGroups: [""], resources: [pods, configmaps], verbs: [get, list, watch]}}
""",
    """
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: role-{n}, namespace: {place}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: role-{n}}}
subjects: [{{kind: ServiceAccount, name: account-{n}, namespace: {place}}}]
""",
    """
apiVersion: v1
kind: Service
metadata: {{name: app-{n}, namespace: {place}}}
spec: {{selector: {{app: app-{n}}}, ports: [{{name: http, port: 80, targetPort: 8080}}]}}
""",
    """
apiVersion: apps/v1
kind: Deployment
metadata: {{name: app-{n}, namespace: {place}, labels: {{app: app-{n}}}}}
spec:
  replicas: 0
  selector: {{matchLabels: {{app: app-{n}}}}}
  template:
    metadata: {{labels: {{app: app-{n}}}}}
    spec:
      serviceAccountName: account-{n}
      containers:
      - name: app
        image: registry.example.org/app:VERSION
        args: ["--config=/etc/app/settings.yaml"]
        ports: [{{containerPort: 8080, name: http}}]
        resources: {{requests: {{cpu: 10m, memory: 32Mi}}}}
""",
)


def definitions(place: str) -> str:
    """The file with the CustomResourceDefinitions."""
    return "".join(definition(number, f"{place}.example.org", FIELDS) for number in range(DEFINITIONS))


def others(place: str, version: int) -> str:
    """The file with everything else: custom resources, RBAC, settings, workloads without pods."""
    texts = [text.format(n=n, place=place) for n in range(DEFINITIONS) for text in _OTHERS]
    return "---".join(texts).replace("VERSION", str(version))


@dataclass(frozen=True)
class _Cost:
    """Seconds, and the requests without discovery."""

    seconds: float
    requests: int
    writes: int


def three_hundred_objects() -> Iterator[Figure]:
    """First apply, second apply and a version change, each by both, in turn, on one control plane."""
    try:
        binaries = find_binaries()
    except BinariesUnavailable as error:
        print(f"not measured: {error}")
        return
    with TemporaryDirectory() as folder, ControlPlane(binaries) as control_plane:
        ours: dict[str, list[_Cost]] = {}
        theirs: dict[str, list[_Cost]] = {}
        for number in range(ROUNDS):
            for who, made in (("kubectl", theirs), ("hopline", ours)):
                place = f"{who}-{number}"
                control_plane.kubectl("create", "namespace", place)
                if made is ours:
                    _pretend_it_was_installed(control_plane, place)
                for step, version in (("first apply", 1), ("second apply", 1), ("version change", 2)):
                    run = _kubectl(control_plane, Path(folder), place, version) if made is theirs else None
                    run = run or _hopline(control_plane, place, version)
                    made.setdefault(step, []).append(_measured(control_plane, run))
    total = DEFINITIONS * (1 + len(_OTHERS))
    for step in ours:
        yield from _figures(step, ours[step], theirs[step], total)


def _figures(step: str, ours: list[_Cost], theirs: list[_Cost], total: int) -> Iterator[Figure]:
    own, other = [cost.seconds for cost in ours], [cost.seconds for cost in theirs]
    name = f"{total} objects, {step} ÷ kubectl apply --server-side"
    requests = median([cost.requests / total for cost in ours])
    detail = f"{median(own):.2f} s (n={len(own)}, {min(own):.2f} to {max(own):.2f}) against {spread(other, 's')}"
    yield Figure(name, median(own) / median(other), "times", TARGET_RATIO, detail)
    writes = f"{ours[-1].writes} writes; kubectl: {theirs[-1].requests / total:.2f}, {theirs[-1].writes} writes"
    yield Figure("... API requests per object", requests, "", TARGET_REQUESTS, writes)


def _pretend_it_was_installed(control_plane: ControlPlane, place: str) -> None:
    """A component none of whose workloads exists is left alone, so one of them stands there, as an old release's."""
    deployment = _OTHERS[-1].format(n=0, place=place).replace("VERSION", "0")
    control_plane.kubectl(
        "apply", "--server-side", f"--field-manager={DEFAULT_FIELD_MANAGER}", "-f", "-", stdin=deployment
    )


def _measured(control_plane: ControlPlane, run: Callable[[], None]) -> _Cost:
    mark = control_plane.audit_mark()
    began = time.monotonic()
    run()
    seconds = time.monotonic() - began
    made = [
        event for event in control_plane.audit_events(since=mark) if event.user == ADMIN and not _is_discovery(event)
    ]
    return _Cost(seconds, len(made), sum(event.is_write and not event.is_dry_run for event in made))


def _is_discovery(event: AuditEvent) -> bool:
    return not event.resource


def _kubectl(control_plane: ControlPlane, folder: Path, place: str, version: int) -> Callable[[], None]:
    """As its manual says: definitions, wait, the rest. The wait falls away where they are there already."""
    first, second = folder / f"{place}-definitions.yaml", folder / f"{place}-{version}.yaml"
    first.write_text(definitions(place))
    second.write_text(others(place, version))
    apply = ("apply", "--server-side")

    def run() -> None:
        if version == 1 and not (folder / place).exists():
            (folder / place).touch()
            control_plane.kubectl(*apply, "-f", str(first))
            control_plane.kubectl("wait", "--for=condition=Established", "-f", str(first))
            control_plane.kubectl(*apply, "-f", str(second))
        else:
            control_plane.kubectl(*apply, "-f", str(first), "-f", str(second))

    return run


def _hopline(control_plane: ControlPlane, place: str, version: int) -> Callable[[], None]:
    """As the worker's activity does, with reading; a client of its own, so that it has to discover everything."""
    texts = (definitions(place), others(place, version))

    async def apply() -> None:
        sources = [source for text in texts for source in await asyncio.to_thread(load_documents, text, place)]
        objects = ComponentObjects("large", f"component large v{version}", kube_namespace=place, sources=tuple(sources))
        client = await connect(KubeconfigFile(control_plane.kubeconfig))
        try:
            await apply_documents(client, objects)
        finally:
            await client.aclose()

    return lambda: asyncio.run(apply())
