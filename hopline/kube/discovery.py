"""Which kinds an API server serves, under which path; learnt once and kept for the worker's life.

The client library keeps its own copy in a temporary file that all processes share; this one is private.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from hopline.domain import resources
from hopline.domain.errors import NotFound, Transient
from hopline.domain.resources import Kind

_ALWAYS_SERVED = ("v1", "apps/v1", "batch/v1", "apiextensions.k8s.io/v1")


@dataclass(frozen=True)
class Resource:
    """The place of a kind in the API."""

    api_version: str
    plural: str
    namespaced: bool

    def collection(self, kube_namespace: str = "") -> str:
        """Path of the objects, in one Namespace or in all."""
        place = f"/namespaces/{quote(kube_namespace, safe='')}" if kube_namespace and self.namespaced else ""
        return f"{group_path(self.api_version)}{place}/{self.plural}"

    def object(self, name: str, kube_namespace: str = "", subresource: str = "") -> str:
        """Path of one object or of its subresource."""
        path = f"{self.collection(kube_namespace)}/{quote(name, safe='')}"
        return f"{path}/{quote(subresource, safe='')}" if subresource else path


_KNOWN = {
    resources.CLUSTER_VERSION: "clusterversions",
    resources.UPGRADE_PATH: "upgradepaths",
    resources.RELEASE_IMAGE: "releaseimages",
    resources.COMPONENT_VERSION: "componentversions",
    resources.BKE_CLUSTER: "bkeclusters",
    resources.BKE_NODE: "bkenodes",
    resources.COMMAND: "commands",
    resources.NODE: "nodes",
    resources.POD: "pods",
    resources.NAMESPACE: "namespaces",
    resources.SECRET: "secrets",
    resources.CONFIG_MAP: "configmaps",
    resources.ENDPOINTS: "endpoints",
    resources.EVENT: "events",
    resources.DEPLOYMENT: "deployments",
    resources.STATEFUL_SET: "statefulsets",
    resources.DAEMON_SET: "daemonsets",
    resources.JOB: "jobs",
    resources.CUSTOM_RESOURCE_DEFINITION: "customresourcedefinitions",
}
"""Kinds whose paths need no question (openfuyao-api.md §1.1); whether a custom one is served is another matter."""


def group_path(api_version: str) -> str:
    """Path of a group and version; it also lists what they hold."""
    return f"/api/{api_version}" if "/" not in api_version else f"/apis/{api_version}"


class Discovery:
    """The private cache of one API server."""

    def __init__(
        self,
        fetch: Callable[[str, str], Awaitable[Mapping[str, Any]]],
        is_defined: Callable[[str, str], Awaitable[bool]],
    ) -> None:
        """`fetch` gets the document at a path for a group and version, or raises NotFound; `is_defined` says whether a
        CustomResourceDefinition has a kind of a group and version.
        """
        self._fetch = fetch
        self._is_defined = is_defined
        self._groups: dict[str, dict[str, Resource]] = {}
        self._fetching: dict[str, asyncio.Lock] = {}

    async def find(self, kind: Kind) -> Resource:
        """Where the objects of a kind are. NotFound when it is not served, Transient when it will be."""
        return _KNOWN_RESOURCES.get((kind.api_version, kind.kind)) or await self._served(kind.api_version, kind.kind)

    async def resolve(self, api_version: str, kind: str) -> Kind:
        """The kind with its scope. NotFound when it is not served, Transient when it will be."""
        known = _KNOWN_RESOURCES.get((api_version, kind))
        if known is None or api_version not in _ALWAYS_SERVED:
            known = await self._served(api_version, kind)
        return Kind(api_version=api_version, kind=kind, namespaced=known.namespaced)

    def forget(self, api_version: str) -> None:
        """The API server has just denied a kind of this group and version: ask again next time."""
        self._groups.pop(api_version, None)

    def clear(self) -> None:
        """Another API server answers now."""
        self._groups.clear()

    async def _served(self, api_version: str, kind: str) -> Resource:
        found = self._groups.get(api_version, {}).get(kind)
        if found is not None:
            return found
        known_before = self._groups.get(api_version)
        async with self._fetching.setdefault(api_version, asyncio.Lock()):
            if (
                self._groups.get(api_version) is known_before
            ):  # Else another one has just asked, and the answer is shared.
                self._groups[api_version] = await self._read_group(api_version)
        found = self._groups.get(api_version, {}).get(kind)
        if found is not None:
            return found
        if await self._is_defined(api_version, kind):
            # Even an Established definition takes the API server up to some seconds to serve.
            raise Transient("the kind is defined but not served yet", subject=f"{kind} ({api_version})")
        raise NotFound(
            "this API server does not serve the kind",
            subject=f"{kind} ({api_version})",
            remedy="install its CustomResourceDefinition (kubectl api-resources shows what is served)",
        )

    async def _read_group(self, api_version: str) -> dict[str, Resource]:
        try:
            document = await self._fetch(group_path(api_version), api_version)
        except NotFound:
            return {}
        return {
            str(entry["kind"]): Resource(api_version, str(entry["name"]), bool(entry.get("namespaced")))
            for entry in document.get("resources") or ()
            if "/" not in entry["name"]
        }


_KNOWN_RESOURCES = {
    (kind.api_version, kind.kind): Resource(kind.api_version, plural, kind.namespaced)
    for kind, plural in _KNOWN.items()
}
