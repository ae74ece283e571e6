"""Both guides for newcomers type and show the same; tests/e2e/guide/test_guide_page.py types it on a real cluster."""

from __future__ import annotations

import re

import pytest

from docs.pages import ROOT, text_of
from docs.transcripts import CHINESE, ENGLISH, parts, transcript
from guide_lines import Line, OfflineLine

_HEADING = re.compile(r"^#+ ", re.MULTILINE)


def test_both_languages_type_and_show_the_same() -> None:
    assert transcript(text_of(ENGLISH)) == transcript(text_of(CHINESE))


def test_both_languages_have_the_same_sections() -> None:
    levels = [_HEADING.findall(text_of(page)) for page in (ENGLISH, CHINESE)]
    assert levels[0] == levels[1]


@pytest.mark.parametrize("line", list(Line), ids=lambda line: line.name)
def test_every_line_of_the_openfuyao_guide_is_typed(line: Line) -> None:
    typed = [one.command for one in transcript(text_of(ENGLISH))]
    wanted = line.replace("<集群名称>", "east").replace("<命名空间>", "east")
    # An editor stands before the line, because a test cannot write into one.
    assert any(one.removeprefix(one.partition("kubectl")[0]) == wanted for one in typed)


@pytest.mark.parametrize("line", list(OfflineLine), ids=lambda line: line.name)
def test_every_offline_line_of_the_openfuyao_guide_is_typed(line: OfflineLine) -> None:
    typed = [one.command for one in transcript(parts(text_of(ENGLISH))[1])]
    assert line.with_own("v26.06", "192.0.2.10:40443") in typed


def test_the_guides_are_linked() -> None:
    readme = text_of(ROOT / "README.md")
    assert "docs/guide.md" in readme and "docs/guide.zh-CN.md" in readme
    assert "guide.zh-CN.md" in text_of(ENGLISH) and "guide.md" in text_of(CHINESE)
