"""A transcript that is not what was printed is found out, and what varies is not."""

from __future__ import annotations

import pytest

from docs.transcripts import Typed, matched, normal, rewritten, transcript, without_repeats

PAGE = """# A page

```console
$ kubectl get x
NAME   AGE
a      5s
$ kubectl get x -w
a
^C
```

```sh
$ not typed
```

```console
$ true
```
"""


def test_commands_are_found_in_order() -> None:
    assert transcript(PAGE) == [
        Typed("kubectl get x", ("NAME   AGE", "a      5s")),
        Typed("kubectl get x -w", ("a", "^C")),
        Typed("true", ()),
    ]
    assert [typed.is_endless for typed in transcript(PAGE)] == [False, True, False]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("east   Ready   5s", "east Ready 1h12m"),
        ("at: 2026-08-01T02:00:00Z", "at: 2027-01-01T00:00:01Z"),
        ("uid: 11111111-2222-3333-4444-555555555555", "uid: aaaaaaaa-2222-3333-4444-bbbbbbbbbbbb"),
        ('  resourceVersion: "12"', '  resourceVersion: "4096"'),
        ("done in 45s (12s)", "done in 2m (1m5s)"),
        ("DONE since 14:25 UTC (2s)   plan b2de89eb", "DONE since 02:00 UTC (1s)   plan 00000000"),
    ],
)
def test_what_varies_is_left_aside(one: str, other: str) -> None:
    assert normal(one) == normal(other)


@pytest.mark.parametrize("other", ["v26.06-rc.3", "v26.0", "", "v26.06 Ready"])
def test_versions_do_not_vary(other: str) -> None:
    assert normal("v26.06") != normal(other)


@pytest.mark.parametrize(
    ("shown", "printed", "found"),
    [
        (["a", "b"], ["a", "b"], ["a", "b"]),
        (["a", "..."], ["a", "b", "c"], ["a", "..."]),
        (["...", "c"], ["a", "b", "c"], ["...", "c"]),
        (["a", "...", "c 5s"], ["a", "b", "c 9s"], ["a", "...", "c 9s"]),
        ([], [], []),
        (["a"], ["a", "b"], None),
        (["a", "c"], ["a", "b", "c"], None),
        (["...", "b", "a"], ["a", "b"], None),
        (["...", "a"], ["a", "b"], None),
        (["a"], [], None),
        ([], ["a"], None),
    ],
)
def test_a_page_tells_what_was_printed(shown: list[str], printed: list[str], found: list[str] | None) -> None:
    assert matched(shown, printed) == found


def test_repeated_lines_of_a_watch_are_one() -> None:
    assert without_repeats(["a 1s", "a 2s", "b 2s", "a 3s"]) == ["a 1s", "b 2s", "a 3s"]


def test_a_page_is_rewritten_below_its_commands() -> None:
    text = rewritten(PAGE, [["new"], ["w", "^C"], []])
    assert "$ kubectl get x\nnew\n$ kubectl get x -w\nw\n^C\n```" in text
    assert transcript(text)[2] == Typed("true", ())
    assert "$ not typed" in text
