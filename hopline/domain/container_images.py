"""Images that an object names: those that its containers run, and texts that are probably more of them.

What runs is certain: the `image` of containers wherever a pod template stands, custom resources included, and image
volumes. The rest is read from texts: environment variables, arguments, data of ConfigMaps, fields of custom resources.
A text counts when it is a whole reference with a registry (`quay.io/a/b:v1`, `…@sha256:…`), or when its name says that
it is an image (`OPERAND_IMAGE`, `--sidecar-image=`, `image: b:v1`). Split fields (`repository`, `image`, `version`) are
put together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hopline.domain.image_references import ImageReference
from hopline.domain.resources import Document

Path = tuple[str | int, ...]

CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")
DOCKER_HOST, DOCKER_LIBRARY = "docker.io", "library"
_DOCKER_ALIASES = ("index.docker.io", "registry-1.docker.io")

_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)+(?::[0-9]{1,5})?"
_HOST += r"|localhost(?::[0-9]{1,5})?|[A-Za-z0-9][A-Za-z0-9-]*:[0-9]{1,5}|\[[0-9A-Fa-f:.]+\](?::[0-9]{1,5})?)"
_PATH = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*"
_TAG = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}"
_DIGEST = r"sha256:[0-9a-f]{64}"
_WHOLE = re.compile(rf"{_HOST}/{_PATH}(?::{_TAG})?@{_DIGEST}|{_HOST}/{_PATH}:{_TAG}")
_NAMED = re.compile(rf"(?:{_HOST}/)?{_PATH}(?::{_TAG})?(?:@{_DIGEST})?")
_WORD = re.compile(r"""[^\s"'`,;|()<>{}\\]+""")
_PAIR = re.compile(r"""[\s{,-]*(["']?)([\w.-]+)\1\s*[:=]\s*(["']?)([^\s"',]+)\3\s*(?:[,#}].*)?$""")
"""`image: x`, `"image":"x",`, `sandbox_image = 'x'`, `--image=x`: alone on its line."""
_BRACKETS = "[]"
_TAINT_EFFECTS = frozenset({"NoSchedule", "PreferNoSchedule", "NoExecute"})
_IMAGE_WORD = re.compile(r"(?:^|[^A-Za-z])image(?:$|[^A-Za-z])|Image(?:$|[^a-z])|(?:^|_)IMAGE(?:$|_)|image$")
_NO_REFERENCE = re.compile(r"pull|policy|secret|format|type", re.IGNORECASE)
_VERSION_WORDS = ("version", "tag", "imageTag")
_REPOSITORY_WORDS = ("repository", "repo")
_NAME_WORDS = ("image", "imageName")


@dataclass(frozen=True)
class ImageUse:
    """One image, and where in a document it stands.

    Attributes:
        probable: read from a text that need not be an image.
    """

    image: str
    path: Path
    probable: bool = False

    @property
    def field(self) -> str:
        """`spec.template.spec.containers[0].image`."""
        return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path).removeprefix(".")


def image_name(text: str) -> ImageReference | None:
    """A reference in full, as container runtimes read it: `busybox` is `docker.io/library/busybox:latest`; None when it
    is none."""
    rest, _, digest = text.strip().partition("@")
    if not _NAMED.fullmatch(text.strip()):
        return None
    first, has_path, path = rest.partition("/")
    host, name = (first, path) if has_path and ("." in first or ":" in first or first == "localhost") else ("", rest)
    name, _, tag = name.partition(":")
    if host in ("", DOCKER_HOST, *_DOCKER_ALIASES):
        host, name = DOCKER_HOST, name if "/" in name else f"{DOCKER_LIBRARY}/{name}"
    return ImageReference(host.removesuffix(":443"), name, tag or ("" if digest else "latest"), digest)


def container_images(document: Document) -> Iterator[ImageUse]:
    """What runs: of every list of containers, wherever in the document it stands, and of image volumes."""
    for path, value in _mappings(document, ()):
        for key in CONTAINER_LISTS:
            for number, container in enumerate(_items(value.get(key))):
                image = container.get("image") if isinstance(container, Mapping) else None
                if isinstance(image, str) and image.strip():
                    yield ImageUse(image, (*path, key, number, "image"))
        for number, volume in enumerate(_items(value.get("volumes"))):
            source = volume.get("image") if isinstance(volume, Mapping) else None
            reference = source.get("reference") if isinstance(source, Mapping) else None
            if isinstance(reference, str) and reference.strip():
                yield ImageUse(reference, (*path, "volumes", number, "image", "reference"))


def probable_images(document: Document) -> Iterator[ImageUse]:
    """What else may be run: found in texts, each place and image once, without those of containers."""
    split = tuple(_split(document))
    parts = {(*use.path, key) for use in split for key in _NAME_WORDS}
    taken = {use.path for use in container_images(document)} | parts
    yield from dict.fromkeys((*(use for use in _in_texts(document) if use.path not in taken), *split))


def _in_texts(document: Document) -> Iterator[ImageUse]:
    # The schema of a kind tells stories about images; only its defaults become part of an object.
    only_defaults = document.get("kind") == "CustomResourceDefinition"
    for path, text, name in _texts(document, (), ""):
        if path[0] in ("apiVersion", "kind", "metadata") or (only_defaults and "default" not in path):
            continue
        yield from (ImageUse(image, path, probable=True) for image in _images_in(text, name))


def _images_in(text: str, name: str) -> Iterator[str]:
    """Whole references in a text; and the text itself, or what stands behind `--…image=`, where a name says so."""
    if _says_image(name) and "\n" not in text and _looks_named(text):
        yield text.strip()
        return
    for line in text.splitlines():
        pair = _PAIR.match(line)
        if pair is not None and _says_image(pair[2]) and _looks_named(pair[4]):
            yield pair[4]
            continue
        for found in _WORD.finditer(line):
            word = found.group().strip(_BRACKETS)
            flag, is_flag, behind = word.partition("=")
            if is_flag and _says_image(flag) and _looks_named(behind):
                yield behind
                continue
            yield from (part for text in word.split("=") if _is_whole(part := text.rstrip(".:")))


def _is_whole(word: str) -> bool:
    """A reference with host and tag or digest; `node-role.kubernetes.io/master:NoSchedule` is none."""
    return bool(_WHOLE.fullmatch(word)) and word.rpartition(":")[2] not in _TAINT_EFFECTS


def _looks_named(text: str) -> bool:
    """A reference whose host may be missing, but not its tag or digest; with a host, neither is needed."""
    text = text.strip()
    found = image_name(text)
    if found is None:
        return False
    return ":" in text.rpartition("/")[2] or "@" in text or text.startswith(f"{found.host}/")


def _says_image(name: str) -> bool:
    return bool(_IMAGE_WORD.search(name)) and not _NO_REFERENCE.search(name)


def _split(document: Document) -> Iterator[ImageUse]:
    """`repository: r`, `image: i`, `version: v` beside each other, as values of charts and custom resources do it."""
    for path, value in _mappings(document, ()):
        tag, name = _first(value, _VERSION_WORDS), _first(value, _NAME_WORDS)
        parts = (_first(value, ("registry",)), _first(value, _REPOSITORY_WORDS), name)
        joined = "/".join(part.strip("/") for part in parts if part)
        whole = f"{joined}{'@' if tag.startswith('sha256:') else ':'}{tag}"
        if tag and ":" not in name.rpartition("/")[2] and _is_whole(whole) and path[:1] != ("metadata",):
            yield ImageUse(whole, path, probable=True)


def _first(value: Mapping[str, Any], keys: Sequence[str]) -> str:
    return next((found for key in keys if isinstance(found := value.get(key), str) and found.strip()), "")


def _mappings(value: Any, path: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    if isinstance(value, Mapping):
        yield path, value
        for key, inner in value.items():
            yield from _mappings(inner, (*path, str(key)))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _mappings(inner, (*path, index))


def _texts(value: Any, path: Path, name: str) -> Iterator[tuple[Path, str, str]]:
    """Every text of a document, where it stands, and what it is called: its key, or the `name` beside a `value`."""
    if isinstance(value, str):
        yield path, value, name
    elif isinstance(value, Mapping):
        called = value.get("name")
        for key, inner in value.items():
            own = str(called) if key == "value" and isinstance(called, str) else str(key)
            yield from _texts(inner, (*path, str(key)), own)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            before = value[index - 1] if index else None
            flag = before if isinstance(before, str) and before.startswith("-") and "=" not in before else name
            yield from _texts(inner, (*path, index), flag)


def _items(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()
