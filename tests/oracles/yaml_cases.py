"""YAML texts for comparison with kubectl: every way in which fifteen years of manifests have written things."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

_SPELLINGS = """
y Y yes Yes YES n N no No NO on On ON off Off OFF true True TRUE tRUE false False null Null NULL ~ nil none
0 -0 +0 1 -1 +1 007 017 08 0o17 0O17 0x1F 0X1f -0x1f +0x1f 0b101 -0b101 0o8 0xg 1_000 1__0 _1 1_ 0_7 0x_1
1.0 1. .5 -.5 +.5 ._5 .5_5 1_0.5 1e3 1E3 1e+3 1e-3 1.5e3 1e400 1e-400 1e21 1e20 123456789012345678901 1e3.5
9223372036854775807 9223372036854775808 18446744073709551615 18446744073709551616 -9223372036854775808
-9223372036854775809 +9223372036854775808 0xffffffffffffffff 0x10000000000000000 -0x8000000000000000 .inf
-.inf +.inf .Inf .nan .NaN inf nan NaN Infinity 0777 0644 -017 +017 0b2 0b -0 - + . .. ... 1.2.3 v26.06
26.06 12:30:45 190:20:30 1:30 2026-11-30 2026-11-30T12:00:00Z 2001-12-14t21:59:43.10-05:00 1,000 = << a:b
a#b http://x 80/tcp 0.1 100m 1Gi 5% 1e 0e0 0x 0o 1e5_0 _ 00 000 1.e3 e3 0.0 -0.0 1.10 1.30
"""
_WORDS = _SPELLINGS.split()
_TAGS = (
    "!!str",
    "!!int",
    "!!float",
    "!!bool",
    "!!null",
    "!!binary",
    "!!timestamp",
    "!",
    "!!map",
    "!!seq",
    "!x",
    "!!set",
)
_NUMBERS = st.one_of(
    st.integers(-(2**65), 2**65).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.text("0123456789+-._eExXbBoO:", min_size=1, max_size=8),
)
_TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8)
_PLAIN = st.sampled_from(_WORDS) | _NUMBERS
_ESCAPED = st.sampled_from(["\\n", "\\t", "\\x41", "\\u00e9", "\\U0001F600", "\\0", "\\/", "\\e", "\\_", "\\\\",
    '\\"', "\\q",
                            "a", " ", "é", "'", "\n    ", "\\\n    "])  # fmt: skip


@dataclass
class Anchors:
    """The anchors of a document so far, by what they name."""

    maps: list[str] = field(default_factory=list)
    lists: list[str] = field(default_factory=list)
    scalars: list[str] = field(default_factory=list)


@st.composite
def streams(draw: DrawFn) -> str:
    """The text of a file."""
    parts = []
    for number in range(draw(st.integers(1, 3))):
        if number or draw(st.integers(0, 3)) == 0:
            parts.append(draw(st.sampled_from(["---\n"] * 20 + ["--- # c\n", "---\n---\n", "---  \n", "...\n",
                "...\n---\n",
                                               "---\n# only\n---\n", "---\t\n"] * 3
                                               + ["--- {a: 1}\n", "----\n", "---a\n"])))  # fmt: skip
        parts.append(_document(draw))
    text = "".join(parts)
    if draw(st.integers(0, 9)) == 0:
        text = _damaged(draw, text)
    if draw(st.integers(0, 4)) == 0:
        text = text.replace("\n", "\r\n")
    if draw(st.integers(0, 7)) == 0:
        text = "\ufeff" + text
    return text.rstrip("\n") if draw(st.integers(0, 4)) == 0 else text


def _document(draw: DrawFn) -> str:
    kind = draw(st.integers(0, 19))
    if kind == 0:
        return draw(
            st.sampled_from(
                ["", "\n", "# nothing\n", "null\n", "~\n", "{}\n", "a\n", "1\n", "[]\n", "- a: 1\n", "%YAML 1.1\n"]
            )
        )
    if kind == 1:
        return _flow(draw, 3, Anchors()) + "\n"
    if kind == 2:
        return draw(_JSON)
    return _mapping(draw, "", 3, Anchors())


def _mapping(draw: DrawFn, indent: str, depth: int, anchors: Anchors) -> str:
    lines = []
    for number in range(draw(st.integers(1, 3))):
        key = _key(draw, number, anchors)
        colon = draw(st.sampled_from([":", ":", ":", " :"]))
        lines.append(f"{indent}{key}{colon}{_value(draw, indent, depth, anchors)}")
        if draw(st.integers(0, 7)) == 0:
            lines.append(draw(st.sampled_from(["# c\n", "\n", indent + "# c: d\n", " \n", "   # x\n"])))
    if anchors.maps and draw(st.integers(0, 2)) == 0:
        name = draw(st.sampled_from(anchors.maps))
        merge = draw(
            st.sampled_from([f"*{name}", f"*{name}", f"[*{name}, {{z: 1}}]", f"[*{name}, *{name}]", "{a0: 1}"])
        )
        at = draw(st.integers(0, len(lines))) if draw(st.integers(0, 9)) == 0 else len(lines)
        lines.insert(at, f"{indent}<<: {merge}\n")
    return "".join(lines)


def _key(draw: DrawFn, number: int, anchors: Anchors) -> str:
    kind = draw(st.integers(0, 29))
    if kind == 0:
        return draw(_PLAIN)
    if kind <= 2:
        odd = ['"q"', "'q'", '"a b"', "? x\n", "!!str 1", "é", "a b", "x.y/z", '"1"', "&k k", "- a", '""', "8080", "on"]
        return draw(st.sampled_from(odd)) if kind == 1 else draw(st.sampled_from(odd[:3] + odd[5:9]))
    if kind == 3 and anchors.scalars:
        return f"*{draw(st.sampled_from(anchors.scalars))} "
    return draw(st.sampled_from("abcdefg")) + (str(number) if draw(st.integers(0, 19)) else "")


def _value(draw: DrawFn, indent: str, depth: int, anchors: Anchors) -> str:
    """What stands behind `key:`, with its line break. An anchor can be used once its value is written."""
    name = draw(st.sampled_from(["A", "B", "C"])) if draw(st.integers(0, 3)) == 0 else ""
    prefix = f" &{name} " if name else " "
    kind = draw(st.integers(0, 11))
    if kind <= 2 and depth > 0:
        text, names = f"{prefix.rstrip()}\n" + _mapping(draw, indent + "  ", depth - 1, anchors), anchors.maps
    elif kind <= 4 and depth > 0:
        text, names = f"{prefix.rstrip()}\n" + _list(draw, indent, depth, anchors), anchors.lists
    elif kind == 5:
        text, names = prefix + _flow(draw, 2, anchors) + "\n", anchors.lists
    elif kind == 6:
        text, names = prefix + _block(draw, indent + "  "), anchors.scalars
    elif kind == 7 and not name and (every := anchors.maps + anchors.lists + anchors.scalars):
        return f" *{draw(st.sampled_from(every))}\n"
    else:
        ending = draw(st.sampled_from(["\n", "\n", "\n", " # c\n", "  \n", "\t# c\n", "#c\n"]))
        text, names = prefix + _scalar(draw, indent) + ending, anchors.scalars
    if name:
        names.append(name)
    return text


def _list(draw: DrawFn, indent: str, depth: int, anchors: Anchors) -> str:
    inner = indent + draw(st.sampled_from(["", "  "]))
    items = [f"{inner}-{_value(draw, inner + '  ', depth - 1, anchors)}" for _ in range(draw(st.integers(1, 3)))]
    if draw(st.booleans()):
        items.append(f"{inner}- " + _mapping(draw, inner + "  ", depth - 1, anchors).lstrip(" "))
    return "".join(items)


def _scalar(draw: DrawFn, indent: str = "") -> str:
    kind = draw(st.integers(0, 11))
    if kind <= 5:
        return draw(_PLAIN)
    if kind == 6:
        return f"{draw(st.sampled_from(_TAGS))} {draw(_PLAIN)}"
    if kind == 7:
        return '"' + "".join(draw(st.lists(_ESCAPED, max_size=4))) + '"'
    if kind == 8:
        return "'" + draw(_TEXTS).replace("'", "''") + "'"
    if kind == 9:
        first = draw(st.sampled_from(["a b", "word", "x: y", "1 2"]))
        return f"{first}\n{indent}    {draw(st.sampled_from(['more', '3', '# c', '']))}"
    if kind == 10:
        return draw(st.sampled_from(['"y"', "'1'", '""', "''", "", '"1e3"', "'null'", '"a\n    b"', "@x", "`x", "%x",
            "!!binary aGk=",
                                     "!!binary gICA", '!!str "1"', "{{ .x }}", "[a", "*nope", "&x", "? a", "|",
                                     ">-"]))  # fmt: skip
    return draw(_TEXTS)


def _flow(draw: DrawFn, depth: int, anchors: Anchors) -> str:
    kind = draw(st.integers(0, 3))
    if depth > 0 and kind == 0:
        inner = ", ".join(_flow(draw, depth - 1, anchors) for _ in range(draw(st.integers(0, 3))))
        return f"[{inner}{draw(st.sampled_from(['', '', ',']))}]"
    if depth > 0 and kind <= 2:
        pairs = ", ".join(f"k{n}: {_flow(draw, depth - 1, anchors)}" for n in range(draw(st.integers(0, 3))))
        more = ["", "", ",", ", a", ', "b":1', ", <<: {m: 1}"] if pairs else ["", "a", '"b":1', "a: , c"]
        return "{" + pairs + draw(st.sampled_from(more)) + "}"
    if anchors.scalars and draw(st.integers(0, 3)) == 0:
        return f"*{draw(st.sampled_from(anchors.scalars))} "
    return draw(_PLAIN) if draw(st.booleans()) else '"' + draw(_TEXTS).replace("\\", "").replace('"', "") + '"'


def _block(draw: DrawFn, indent: str) -> str:
    head = draw(st.sampled_from(["|", "|-", "|+", ">", ">-", ">+", "|2", ">2-", "| # c", "|\t"]))
    lines = draw(
        st.lists(st.sampled_from(["a", "  b", "", "# c", "é: 1", "\tx", "{{ x }}", "a ", "---", "1"]), max_size=4)
    )
    return f"{head}\n" + "".join(f"{indent}{line}\n" if line else "\n" for line in lines)


_JSON_VALUES = st.recursive(
    st.sampled_from(['"x"', '"\\u00e9"', '"\\ud83d\\ude00"', '"\\/"', "1", "-0", "1.0", "1.50", "1e3", "1E400",
        "true", "null", '"\\ud800"',
                     "123456789012345678901234567890", "01", "NaN", '"\t"', "'x'", "y"]),
    lambda inner: st.lists(inner, max_size=2).map(lambda items: "[" + ", ".join(items) + "]")
    | st.lists(inner, max_size=2).map(lambda items: "{" + ",\n\t".join(f'"k{n}":{item}' for n,
        item in enumerate(items)) + "}"),
    max_leaves=5,
)  # fmt: skip
_JSON = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "  ", "\n"]),
    _JSON_VALUES.map(lambda value: '{"a": ' + value + "}"),
    st.sampled_from(["\n", "", '{"b": 1}\n', '\n{"b": 1}\n{"c": 2}\n', '\n---\n{"b": 1}\n', "\n---\nb: 1\n", " x\n"]),
)


def _damaged(draw: DrawFn, text: str) -> str:
    at = draw(st.integers(0, len(text)))
    if draw(st.booleans()):
        return text[: max(at - 1, 0)] + text[at:]
    noise = draw(
        st.sampled_from(
            [*"{}[]:,-?&*!|>'\"%@`#\t\n \\\r\x00\x07\x85\u2028\ufeff~=<0", "\n---\n", "\n...\n", ": ", " #"]
        )
    )
    return text[:at] + noise + text[at:]
