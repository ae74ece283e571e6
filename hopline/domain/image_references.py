"""References of images, and where releases and the catalogue lie (openfuyao-api.md §2.4, §4.6, §5.1).

A release is `<host>[:<port>]/<prefix>/release-image:<version>` at the `imageRepo` of its BKECluster, the catalogue
`…/upgrade-path:latest` at the repository of `cluster-system/bke-config`; by domain first, then by address. The public
repository counts where nobody named another one: the `imageRepo` has no host, or it has a host and no prefix and
`onlineImage` is set. A host without a prefix is asked without one (trap B78: it was never asked).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from hopline.domain.errors import InvalidInput

PUBLIC_HOST, PUBLIC_PREFIX = "cr.openfuyao.cn", "openfuyao"
RELEASE_NAME, CATALOGUE_NAME, CATALOGUE_TAG = "release-image", "upgrade-path", "latest"
DEFAULT_PREFIX = "kubernetes"
_HTTPS_PORT = "443"

_HOST = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_REPOSITORY = re.compile(r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")

REMEDY = "write it as HOST[:PORT]/NAME:TAG or HOST[:PORT]/NAME@sha256:…"


@dataclass(frozen=True)
class ImageReference:
    """One image at one registry. At least one of `tag` and `digest` is set."""

    host: str
    repository: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.host}/{self.repository}{tag}{digest}"

    @property
    def target(self) -> str:
        """What a manifest is asked by: the digest where there is one."""
        return self.digest or self.tag

    def at(self, target: str) -> ImageReference:
        """The same repository by another tag or digest."""
        if is_digest(target):
            return replace(self, digest=target)
        return replace(self, tag=target, digest="")


@dataclass(frozen=True)
class Repository:
    """Where the images of a cluster lie: hosts in the order in which they are asked, and the path before a name."""

    hosts: tuple[str, ...]
    prefix: str = ""
    is_public: bool = False
    field: str = ""
    """What says so, for messages."""

    def references(self, name: str, tag: str) -> tuple[ImageReference, ...]:
        """The candidates for one image. InvalidInput when a part cannot stand in a reference."""
        path = f"{self.prefix}/{name}" if self.prefix else name
        return tuple(parse_reference(f"{host}/{path}:{tag}", field=self.field) for host in self.hosts)


PUBLIC_REPOSITORY = Repository((PUBLIC_HOST,), PUBLIC_PREFIX, is_public=True)


def is_digest(text: str) -> bool:
    """Is it a whole `sha256:<hex>`?"""
    return _DIGEST.fullmatch(text) is not None


def parse_reference(text: str, *, field: str = "reference") -> ImageReference:
    """Read a reference. The host is never guessed.

    Raises:
        InvalidInput: no host, no tag and no digest, or a part that registries refuse.
    """
    rest, has_digest, digest = text.strip().partition("@")
    host, has_path, path = rest.partition("/")
    repository, has_tag, tag = path.rpartition(":") if ":" in path else (path, "", "")
    problem = ""
    if not has_path or not _HOST.fullmatch(host) or not ("." in host or ":" in host or host == "localhost"):
        problem = "names no registry"
    elif not _REPOSITORY.fullmatch(repository):
        problem = "has a name that registries refuse"
    elif has_tag and not _TAG.fullmatch(tag):
        problem = "has a tag that registries refuse"
    elif has_digest and not is_digest(digest):
        problem = "has a digest that is not sha256 with 64 hexadecimal digits"
    elif not tag and not digest:
        problem = "has neither tag nor digest"
    if problem:
        raise InvalidInput(f"the image reference {problem}", subject="image", field=field, value=text, remedy=REMEDY)
    return ImageReference(host, repository, tag, digest)


def release_repository(image_repo: Mapping[str, object], config: Mapping[str, object]) -> Repository:
    """Where the releases of a cluster lie.

    Args:
        image_repo: `spec.clusterConfig.cluster.imageRepo` of the BKECluster.
        config: `data` of the ConfigMap `cluster-system/bke-config`, empty when there is none.
    """
    prefix = _text(image_repo, "prefix").strip("/")
    hosts = _hosts(_text(image_repo, "domain"), _text(image_repo, "ip"), _text(image_repo, "port"))
    field = "spec.clusterConfig.cluster.imageRepo"
    online = bool(_text(config, "onlineImage")) and not _text(config, "otherRepo")
    if not hosts:
        return replace(PUBLIC_REPOSITORY, field=f"{field} (no domain and no ip)")
    if not prefix and online:
        return replace(PUBLIC_REPOSITORY, field="ConfigMap cluster-system/bke-config onlineImage")
    return Repository(hosts, prefix, field=field)


def catalogue_repository(config: Mapping[str, object]) -> Repository:
    """Where the catalogue lies, by `data` of the ConfigMap `cluster-system/bke-config`.

    Raises:
        InvalidInput: the ConfigMap names no repository at all.
    """
    other = _text(config, "otherRepo").strip("/")
    if other:
        host, _, prefix = other.partition("/")
        name, port = _split(host)
        return Repository(_hosts(name, _text(config, "otherRepoIp"), port), prefix.strip("/"), field="otherRepo")
    if _text(config, "onlineImage"):
        return replace(PUBLIC_REPOSITORY, field="onlineImage")
    hosts = _hosts(_text(config, "domain"), _text(config, "host"), _text(config, "imageRepoPort"))
    if not hosts:
        raise InvalidInput(
            "nothing says where the upgrade catalogue lies",
            subject="ConfigMap cluster-system/bke-config",
            field="data",
            value="none of otherRepo, onlineImage, domain, host",
            remedy="set otherRepo to HOST[:PORT]/PREFIX, or domain, host and imageRepoPort",
        )
    return Repository(hosts, DEFAULT_PREFIX, field="domain, host, imageRepoPort")


def _text(values: Mapping[str, object], key: str) -> str:
    value = values.get(key)
    return str(value).strip() if isinstance(value, str | int) else ""


def _split(host: str) -> tuple[str, str]:
    name, has_port, port = host.rpartition(":")
    return (name, port) if has_port and port.isdigit() else (host, "")


def _hosts(domain: str, address: str, port: str) -> tuple[str, ...]:
    """Domain before address, each once; the port of HTTPS is left out, as the existing controller does."""
    suffix = "" if port in ("", _HTTPS_PORT) else f":{port}"
    found = (f"[{name}]" if ":" in name and name[0] != "[" else name for name in (domain, address) if name)
    return tuple(dict.fromkeys(f"{name}{suffix}" for name in found))
