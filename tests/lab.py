"""`make lab`: a real control plane with a cluster on it, and worker and watcher running, to try the guide by hand."""

from __future__ import annotations

import argparse
import shlex
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

from controlplane.agent_script import AgentScript
from controlplane.binaries import BinariesUnavailable, Program, find_binaries
from controlplane.lab_site import LabSite
from starter.dev_server import server_binary
from workflows.identifiers import upgrade_workflow_id

TARGET = "v26.06"


def main() -> None:
    """Starts the lab, says how to use it, and ends it on Ctrl-C or SIGTERM."""
    arguments = _arguments()
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    try:
        binaries = find_binaries()
    except BinariesUnavailable as error:
        raise SystemExit(str(error)) from None
    print("starting etcd, kube-apiserver, controllers, scheduler, kwok, Temporal, worker, watcher …", flush=True)
    script = AgentScript(seconds=arguments.seconds, backoff_scale=1.0)
    with LabSite(binaries, script, ui=True, settings={"HOPLINE_MODE": arguments.mode}) as site:
        kubectl_folder = binaries.paths[Program.KUBECTL].parent
        print("\n".join(_guide(site, kubectl_folder)), flush=True)
        stopped.wait()
        print("\nstopping; nothing is left behind", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make lab", description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="how long a node step takes")
    parser.add_argument("--mode", choices=["batches", "eager"], default="batches", help="how components are scheduled")
    return parser.parse_args()


def _guide(site: LabSite, kubectl_folder: Path) -> Iterator[str]:
    key = site.cluster.key
    where = f"{key.name} -n {key.kube_namespace}"
    wish = shlex.quote(f'{{"spec":{{"desiredVersion":"{TARGET}"}}}}')
    yield ""
    yield f"cluster {key} runs v26.06-rc.2 on {len(site.cluster.nodes)} nodes"
    yield f"Temporal's web UI is {site.server.ui_url}"
    yield ""
    yield "In another terminal:"
    for name, value in site.environment.items():
        yield f"  export {name}={shlex.quote(value)}"
    yield f"  export PATH={shlex.quote(f'{kubectl_folder}:{server_binary().parent}')}:$PATH"
    yield ""
    yield "Ask for the new version as the guide does, and watch:"
    yield f"  kubectl patch clusterversion {where} --type=merge -p {wish}"
    yield f"  kubectl get clusterversion -n {key.kube_namespace} -w"
    yield f"  kubectl get bkecluster -n {key.kube_namespace} -w"
    yield f"  kubectl get commands,bkenodes -n {key.kube_namespace}"
    yield f"  kubectl get events -n {key.kube_namespace} -w"
    yield ""
    yield "Or from the terminal and from Temporal:"
    yield f"  hopline plan {where} --to {TARGET}"
    yield f"  hopline upgrade {where} --to {TARGET} --wait"
    yield f"  hopline status {where}"
    yield f"  temporal workflow describe --workflow-id {upgrade_workflow_id(key)}"
    yield ""
    yield f"Logs: {site.data_dir}, {site.control_plane.data_dir}"
    yield "Ctrl-C ends everything and removes every file."


if __name__ == "__main__":
    main()
