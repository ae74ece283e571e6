"""Other registries in the place of those that manifests name: the longest prefix wins.

A rule `FROM=TO` replaces the beginning FROM of an image, up to a `/`, `:`, `@` or the end, by TO. Images are compared
in full, so `docker.io` also covers `busybox:1.36`. To apply the rules twice is to apply them once: an image that is
where a rule sends images stays as it is, and rules that send images on to each other are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hopline.domain.container_images import Path, container_images, image_name
from hopline.domain.errors import InvalidInput
from hopline.domain.resources import Document
from hopline.domain.wire import WireModel

_REMEDY = "write FROM=TO pairs with commas, such as docker.io=registry.example:5000/docker.io"


class ImageRewrite(WireModel):
    """An image as a manifest names it, and as it is applied."""

    named: str
    applied: str


@dataclass(frozen=True)
class ImageOverrides:
    """The rules, each FROM once."""

    rules: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.rules)

    def rewritten(self, image: str) -> str:
        """The image as it is applied; itself when no rule concerns it."""
        name = image_name(image)
        if name is None or not self.rules:
            return image
        full = str(name)
        if any(_begins(full, target) for _, target in self.rules):
            return image
        fitting = [rule for rule in self.rules if _begins(full, rule[0])]
        source, target = max(fitting, key=lambda rule: len(rule[0]), default=("", ""))
        return target + full[len(source) :] if source else image

    def apply(self, document: Document) -> tuple[Document, tuple[ImageRewrite, ...]]:
        """The document with every container's image rewritten, and what changed; the same document when nothing did."""
        changes = [
            (use.path, ImageRewrite(named=use.image, applied=new))
            for use in container_images(document)
            if (new := self.rewritten(use.image)) != use.image
        ]
        changed: Any = document
        for path, rewrite in changes:
            changed = _with(changed, path, rewrite.applied)
        return changed, tuple(rewrite for _, rewrite in changes)


NO_OVERRIDES = ImageOverrides()


def read_overrides(text: str, field: str) -> ImageOverrides:
    """`FROM=TO` pairs with commas.

    Raises:
        InvalidInput: a pair that names no registry, a FROM that stands twice, or rules that would follow each other.
    """
    rules: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        source, _, target = (part.strip().rstrip("/").removesuffix(":443") for part in pair.partition("="))
        if not _is_place(source) or not _is_place(target):
            raise _refused(field, pair, "is no pair of registries")
        if rules.setdefault(source, target) != target:
            raise _refused(field, pair, "says two things about one registry")
    for source, target in rules.items():
        onward = next((other for other in rules if other != source and _begins(target, other)), "")
        if onward:
            raise _refused(field, f"{source}={target}", f"sends images on to {onward}, which has a rule of its own")
    return ImageOverrides(tuple(sorted(rules.items())))


def _is_place(text: str) -> bool:
    """A host, or a host with the beginning of a repository."""
    host = text.partition("/")[0]
    return ("." in host or ":" in host or host == "localhost") and image_name(f"{text}/x:1") is not None


def _begins(image: str, prefix: str) -> bool:
    return image.startswith(prefix) and image[len(prefix) : len(prefix) + 1] in ("", "/", ":", "@")


def _with(value: Any, path: Path, new: str) -> Any:
    """A copy in which one place has another value; everything beside the way to it is shared."""
    if not path:
        return new
    head, *rest = path
    copy = list(value) if isinstance(value, list) else dict(value)
    copy[head] = _with(value[head], tuple(rest), new)  # type: ignore[index]
    return copy


def _refused(field: str, value: str, problem: str) -> InvalidInput:
    return InvalidInput(
        f"the setting {field} {problem}", subject="environment", field=field, value=value, remedy=_REMEDY
    )
