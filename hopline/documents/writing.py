"""Documents → YAML text that Kubernetes reads back as the same documents."""

from __future__ import annotations

from collections.abc import Iterable

import yaml

from hopline.documents.scalars import needs_quotes
from hopline.domain.resources import Document


class _Dumper(yaml.SafeDumper):
    """Quotes what the Go reader would take for a number or a boolean (`y`, `1e3`), and writes no aliases."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Blocks for printable lines; escapes for what YAML would fold or take for a line break (U+0085, U+2028)."""
    printable = all(line.isprintable() for line in text.split("\n"))
    if needs_quotes(text) or text == "<<" or not printable:
        style: str | None = '"'
    else:
        style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def dump_documents(documents: Iterable[Document]) -> str:
    """The documents as one YAML text, in order, with keys in the order of the document."""
    return yaml.dump_all(
        documents, Dumper=_Dumper, sort_keys=False, default_flow_style=False, allow_unicode=True, width=120
    )
