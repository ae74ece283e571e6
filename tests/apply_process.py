"""A process that applies one manifest file as a component, so that a test can kill it: `python -m apply_process`."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from builders_domain import component, release, sample_facts
from hopline.kube.client import connect
from hopline.kube.credentials import KubeconfigFile
from hopline.operations.component_objects import ComponentObjects, read_objects
from hopline.operations.manifests import apply_documents

ROOT = Path(__file__).parent.parent


def read_component(kube_namespace: str, text: str, version: str = "v2", **yaml: Any) -> ComponentObjects:
    """The component `web` with one file; NAMESPACE in it is replaced."""
    declared = component("web", version, yaml={"namespace": kube_namespace, **yaml})
    files = {f"web@{version}": text.replace("NAMESPACE", kube_namespace)}
    return read_objects(release("v26.06", declared, manifests=files), declared, sample_facts())


def start_apply(kubeconfig: Path, kube_namespace: str, file: Path, strategy: str) -> subprocess.Popen[bytes]:
    """Starts it."""
    command = [sys.executable, "-m", "apply_process", str(kubeconfig), kube_namespace, str(file), strategy]
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    return subprocess.Popen(command, env=environment)


async def _apply(kubeconfig: Path, objects: ComponentObjects) -> None:
    await apply_documents(await connect(KubeconfigFile(kubeconfig)), objects)


if __name__ == "__main__":
    read = read_component(sys.argv[2], Path(sys.argv[3]).read_text(), applyStrategy=sys.argv[4])
    asyncio.run(_apply(Path(sys.argv[1]), read))
