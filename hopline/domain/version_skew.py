"""What Kubernetes and etcd allow between versions, over the bundles of a whole path (openfuyao-nodes.md §5).

Rules of a hop, each with the row of the requirements table that it comes from:

- kubernetes-master, kubernetes-worker, etcd: at most one minor up, never another major (rows 6, 7);
- those and containerd: never down, `-of.N` included (rows 7, 21);
- no kubelet newer than the API servers, at no time of the hop: workers come after the control plane (rows 1, 5);
- no kubelet more than `MAX_KUBELET_LAG` minors behind the API servers, at no time (row 2, the stricter bound);
- no kube-proxy newer than the API servers (row 4);
- a change of the Kubernetes version leads to `OLDEST_KUBERNETES` or later (openfuyao-api.md §8, the webhook).

A version that is unknown or cannot be ordered is "could not look", which warns where it is the old one and blocks where
it is the new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from hopline.domain.components import CONTAINERD, ETCD, KUBE_PROXY, KUBERNETES, MASTER, WORKER
from hopline.domain.errors import InvalidVersion
from hopline.domain.plan import Finding, Severity
from hopline.domain.versions import Version, minor_distance, parse_version

MAX_KUBELET_LAG = 2
"""Minors."""
OLDEST_KUBERNETES = (1, 27, 0)
_NEVER_DOWN = (MASTER, WORKER, KUBERNETES, ETCD, CONTAINERD)
_ONE_MINOR = (MASTER, WORKER, KUBERNETES, ETCD)
_KUBERNETES = (MASTER, WORKER, KUBERNETES)


@dataclass(frozen=True)
class HopVersions:
    """Component → version, before and after one hop; components that a hop does not touch keep their version.

    Attributes:
        subject: the release, for messages.
        proxy_waits: kube-proxy starts only after kubernetes-master, by the declared dependencies.
    """

    subject: str
    before: Mapping[str, str]
    after: Mapping[str, str]
    proxy_waits: bool = True


def skew_findings(hops: Iterable[HopVersions]) -> tuple[Finding, ...]:
    """Everything in the path that these rules forbid, hop by hop."""
    return tuple(finding for hop in hops for finding in (*_changes(hop), *_kubelets(hop), *_proxy(hop)))


def _finding(hop: HopVersions, severity: Severity, name: str, message: str, remedy: str = "") -> Finding:
    field = f"spec.upgrade.components {name}"
    return Finding(severity=severity, object=hop.subject, field=field, message=message, remedy=remedy)


def _read(text: str) -> Version | None:
    try:
        return parse_version(text)
    except InvalidVersion:
        return None


def _changes(hop: HopVersions) -> Iterator[Finding]:
    for name in _NEVER_DOWN:
        old_text, new_text = hop.before.get(name, ""), hop.after.get(name, "")
        if not new_text or new_text == old_text:
            continue
        old, new = _read(old_text), _read(new_text)
        if new is None:
            message = f"version {new_text} of {name} cannot be ordered, so nobody can tell what it may follow"
            yield _finding(hop, Severity.BLOCKS, name, message, "write it as vMAJOR.MINOR.PATCH[-of.N]")
        elif old is None:
            shown = f"is {old_text}, which cannot be ordered" if old_text else "is not known"
            message = f"could not check the step of {name} to {new_text}: its current version {shown}"
            yield _finding(hop, Severity.WARNS, name, message, "compare the two versions yourself")
        else:
            yield from _change(hop, name, old, new)


def _change(hop: HopVersions, name: str, old: Version, new: Version) -> Iterator[Finding]:
    step = f"{name} {old} -> {new}"
    if new < old:
        message = f"{step} goes back: {name} is never downgraded"
        yield _finding(hop, Severity.BLOCKS, name, message, f"release a {name} of {old} or later")
    elif name in _ONE_MINOR and new.major != old.major:
        message = f"{step} changes the major version: no hop does that"
        yield _finding(hop, Severity.BLOCKS, name, message, f"release a {name} of major version {old.major}")
    elif name in _ONE_MINOR and minor_distance(old, new) > 1:
        message = f"{step} leaves out a minor version: {name} goes one at a time"
        remedy = f"add a release with {name} v{old.major}.{old.minor + 1}.x to the path"
        yield _finding(hop, Severity.BLOCKS, name, message, remedy)
    if name in _KUBERNETES and new.base != old.base and new.base < OLDEST_KUBERNETES:
        oldest = ".".join(map(str, OLDEST_KUBERNETES))
        message = f"{step}: the BKECluster webhook refuses Kubernetes versions before v{oldest}"
        yield _finding(hop, Severity.BLOCKS, name, message, f"release Kubernetes v{oldest} or later")


def _api_servers(versions: Mapping[str, str]) -> Version | None:
    return _read(versions.get(MASTER) or versions.get(KUBERNETES) or "")


def _kubelets(hop: HopVersions) -> Iterator[Finding]:
    """The control plane goes first, so its new version meets the workers' old one, and later their new one."""
    api = _api_servers(hop.after)
    if api is None:
        return
    old, new = _read(hop.before.get(WORKER, "")), _read(hop.after.get(WORKER, ""))
    if new is not None and new.base > api.base:
        message = f"kubernetes-worker {new} would be newer than the API servers ({api})"
        yield _finding(hop, Severity.BLOCKS, WORKER, message, f"release kubernetes-master {new} with it")
    for when, kubelet in (("during", old), ("after", new)):
        if kubelet is not None and minor_distance(kubelet, api) > MAX_KUBELET_LAG:
            lag = f"more than {MAX_KUBELET_LAG} minor versions behind the API servers ({api})"
            message = f"the kubelets of the workers ({kubelet}) would be {lag} {when} the hop"
            yield _finding(hop, Severity.BLOCKS, WORKER, message, "raise kubernetes-worker in the hop before")
            return


def _proxy(hop: HopVersions) -> Iterator[Finding]:
    proxy, before, after = _read(hop.after.get(KUBE_PROXY, "")), _api_servers(hop.before), _api_servers(hop.after)
    if proxy is None or after is None:
        return
    if proxy.base > after.base:
        message = f"kube-proxy {proxy} would be newer than the API servers ({after})"
        yield _finding(hop, Severity.BLOCKS, KUBE_PROXY, message, f"release kubernetes-master {proxy} with it")
    elif not hop.proxy_waits and before is not None and proxy.base > before.base:
        message = f"kube-proxy {proxy} may run before the API servers are at {after}: it does not depend on {MASTER}"
        yield _finding(hop, Severity.WARNS, KUBE_PROXY, message, f"let kube-proxy depend on {MASTER}")


def kubelet_ahead(kubelet: str, api_servers: Mapping[str, str]) -> str:
    """Which API server a kubelet of that version would be newer than, as a sentence; empty: none (rows 1, 5).

    Args:
        api_servers: node → version that its API server shows; empty text: it could not be seen, which is no yes.
    """
    wanted = _read(kubelet)
    for node, text in sorted(api_servers.items()):
        shown = _read(text)
        if shown is None or wanted is None:
            return f"the version of the API server of {node} cannot be seen ({text or 'no pod'})"
        if wanted.base > shown.base:
            return f"kubelet {kubelet} would be newer than the API server of {node} ({text})"
    return ""
