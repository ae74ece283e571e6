"""Templates with data, for comparison with Go: mostly meaningful ones over known variables, some of them damaged."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

NAMES = ("s", "t", "v", "w", "n", "m", "f", "yes", "no", "list", "words", "map", "deep", "null", "missing")
TEXTS = st.one_of(
    st.sampled_from(["", "x", "true", "a,b", "v1.34.3-of.1", "v1.2", "1.10.0", "l1\nl2", "é→🙂", " 5", "-7", "0",
        "<a&b>"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
)  # fmt: skip
VERSIONS = st.from_regex(r"\Av?[0-9]{1,3}(\.[0-9]{1,2}){0,3}(-(of|rc|alpha)\.?[0-9]{0,2})?(\+[a-z0-9.]{1,4})?\Z")
INTEGERS = st.integers(-5, 5) | st.integers(-(2**63), 2**63 - 1)
FLOATS = st.sampled_from([0.0, 1.5, -2.25, 1e6, 1e21, 1e-5, 123456.0, 0.1]) | st.floats(
    allow_nan=False, allow_infinity=False
)
SCALARS = TEXTS | INTEGERS | FLOATS | st.booleans() | st.none()

DATA = st.fixed_dictionaries(
    {
        "s": TEXTS,
        "t": TEXTS,
        "v": VERSIONS,
        "w": VERSIONS,
        "n": INTEGERS,
        "m": INTEGERS,
        "f": FLOATS,
        "yes": st.just(True),
        "no": st.just(False),
        "list": st.lists(SCALARS, max_size=3),
        "words": st.lists(TEXTS, max_size=3),
        "map": st.dictionaries(st.sampled_from(["s", "k", "n", "z", "é"]), SCALARS, max_size=3),
        "deep": st.fixed_dictionaries({"list": st.lists(INTEGERS, max_size=2), "s": TEXTS}),
        "null": st.none(),
    }
)

_VERBS = st.builds(
    "%{}{}{}{}".format,
    st.sampled_from(["", "", "", "-", "0", "+", " ", "#"]),
    st.sampled_from(["", "", "3", "8"]),
    st.sampled_from(["", "", "", ".", ".2"]),
    st.sampled_from("sdvqtxXobcfeEgGU%wT"),
)
_LITERALS = st.one_of(
    st.sampled_from(
        ['"x"', '""', "`raw\\`", "'a'", "'\\n'", '"\\u00e9\\t\\x41\\101"', "0", "1", "-3", "017", "0o17", "0x1F",
            "0b11",
         "1_000", "0x_1", "1.5", "1e3", ".5", "1.", "-1e-7", "1e21", "true", "false", "nil", '"%"', "+4", "0x1p4", "1i",
         "9223372036854775807", "9223372036854775808", "1e400", "08", "1__0", "0_7",
         "1_0.5", "1e1_0", "0x1.8p1", "0x1i", "00", "-0", "0e0", "+.5", "0x", "._5", "1e", "-"]
    ),
    TEXTS.map(lambda text: '"' + text.replace("\\", "").replace('"', "").replace("\n", "\\n") + '"'),
    VERSIONS.map('"{}"'.format),
    INTEGERS.map(str),
)  # fmt: skip
_BINARY = ("eq", "ne", "lt", "le", "gt", "ge", "vgt", "vlt", "veq", "vgte", "vlte", "vne", "split",
    "stringToSliceString",
           "indent", "index", "and", "or", "print", "println")  # fmt: skip
_UNARY = ("not", "len", "int", "b64encode", "defaultFalse", "print", "println", "and", "or")
_ELSEWHERE = ("html", "js", "urlquery", "slice", "call", "include", "toYaml", "default", "quote", "nope")


@st.composite
def templates(draw: DrawFn) -> str:
    """The text of a template."""
    text = _body(draw, depth=3, variables=[], loops=0)
    return _damaged(draw, text) if draw(st.integers(0, 9)) == 0 else text


def _body(draw: DrawFn, depth: int, variables: list[str], loops: int) -> str:
    own = list(variables)
    return "".join(_node(draw, depth, own, loops) for _ in range(draw(st.integers(0 if depth < 3 else 1, 3))))


def _node(draw: DrawFn, depth: int, variables: list[str], loops: int) -> str:
    kinds: list[Callable[[], str]] = [
        lambda: draw(st.sampled_from(["a", " ", "\n", "key: ", "  - ", "\r\n", "}}", "{", "é\n", "\t"])),
        lambda: _action(draw, _pipeline(draw, depth, variables)),
        lambda: _action(draw, _pipeline(draw, depth, variables)),
        lambda: _declaration(draw, depth, variables),
        lambda: draw(st.sampled_from(["{{/* c */}}", "{{- /* c\n */ -}}", "{{/* c */ -}}", "{{/*}}*/}}"])),
    ]
    if depth > 0:
        kinds += [lambda: _choice(draw, depth, variables, loops), lambda: _loop(draw, depth, variables, loops)] * 2
    if loops or draw(st.integers(0, 40)) == 0:
        kinds.append(lambda: _action(draw, draw(st.sampled_from(["break", "continue"]))))
    return draw(st.sampled_from(kinds))()


def _action(draw: DrawFn, inside: str) -> str:
    left = draw(st.sampled_from(["{{", "{{ ", "{{- ", "{{-\n", "{{\t"]))
    right = draw(st.sampled_from(["}}", " }}", " -}}", "\n-}}", "\r\n}}"]))
    return left + inside + right


def _declaration(draw: DrawFn, depth: int, variables: list[str]) -> str:
    if variables and draw(st.booleans()):
        return _action(draw, f"{draw(st.sampled_from(variables))} = {_pipeline(draw, depth, variables)}")
    name = draw(st.sampled_from(["$x", "$y", "$é1"]))
    text = f"{name} := {_pipeline(draw, depth, variables)}"
    variables.append(name)
    return _action(draw, text)


def _choice(draw: DrawFn, depth: int, variables: list[str], loops: int) -> str:
    word = draw(st.sampled_from(["if", "if", "with"]))
    own = list(variables)
    head, body = _action(draw, f"{word} {_condition(draw, depth, own)}"), _body(draw, depth - 1, own, loops)
    text = head + (_from_top(draw, body) if word == "with" else body)
    if draw(st.integers(0, 2)) == 0:
        text += _action(draw, f"else {word} {_condition(draw, depth, own)}") + _body(draw, depth - 1, own, loops)
    if draw(st.booleans()):
        text += _action(draw, "else") + _body(draw, depth - 1, own, loops)
    return text + _action(draw, "end")


def _condition(draw: DrawFn, depth: int, own: list[str]) -> str:
    pipeline = _pipeline(draw, depth, own)
    if draw(st.integers(0, 4)):
        return pipeline
    own.append("$c")
    return f"$c := {pipeline}"


def _loop(draw: DrawFn, depth: int, variables: list[str], loops: int) -> str:
    over = draw(st.sampled_from([".list", ".words", ".map", "3", ".missing", ".null", '(split .s ",")', "$.deep.list"]))
    if draw(st.integers(0, 7)) == 0:
        over = _pipeline(draw, depth, variables)
    own = list(variables)
    names = draw(st.sampled_from([(), (), ("$e",), ("$i", "$e")]))
    own += names
    sign = ":="
    if variables and draw(st.integers(0, 3)) == 0:
        names, sign = tuple(draw(st.lists(st.sampled_from(variables), min_size=1, max_size=2))), "="
    head = f"{', '.join(names)} {sign} {over}" if names else over
    text = _action(draw, f"range {head}") + _from_top(draw, _body(draw, depth - 1, own, loops + 1))
    if draw(st.integers(0, 2)) == 0:
        text += _action(draw, "else") + _body(draw, depth - 1, own, loops)
    return text + _action(draw, "end")


_READ_FROM_DOT = re.compile(rf"(?<![\w$.)])\.(?={'|'.join(NAMES)})")


def _from_top(draw: DrawFn, body: str) -> str:
    """Where dot is another value, variables are mostly read through `$`."""
    return _READ_FROM_DOT.sub("$.", body) if draw(st.integers(0, 9)) else body


def _pipeline(draw: DrawFn, depth: int, variables: list[str]) -> str:
    text = _command(draw, depth, variables)
    while draw(st.integers(0, 4)) == 0:
        call = draw(st.sampled_from(["not", "print", 'printf "%v"', 'print "a"', "b64encode", "defaultFalse", "or .no",
                                     "and .yes", "println", "len", "int", "index .map", "eq 1", 'printf "%q"',
                                     ".s"]))  # fmt: skip
        text += draw(st.sampled_from([" | ", "|"])) + call
    return text


def _command(draw: DrawFn, depth: int, variables: list[str]) -> str:
    kind = draw(st.integers(0, 11))
    if kind <= 3 or depth <= 0:
        return _operand(draw, depth, variables)
    if kind <= 9:
        parts = _sensible(draw, depth - 1, variables)
    elif kind == 10:
        verbs = draw(st.lists(_VERBS, min_size=1, max_size=2))
        parts = ["printf", '"' + "-".join(verbs) + '"', *(_operand(draw, depth - 1, variables) for _ in verbs)]
    else:
        name = draw(st.sampled_from(_BINARY + _UNARY + _ELSEWHERE))
        parts = [name, *(_operand(draw, depth - 1, variables) for _ in range(draw(st.integers(0, 3))))]
    return draw(st.sampled_from([" ", " ", "  ", "\n"])).join(parts)


_TYPED = {
    "text": (".s", ".t", ".v", '"x"', '""', '(print .n "a")', "$.deep.s", "(index .words 0)", '(.s | printf "%s-")'),
    "version": (".v", ".w", '"v1.34.3-of.1"', '"1.2"', '"v1.02.0"', '"nonsense"', '"1.2.3-rc.1+b"'),
    "int": (".n", ".m", "3", "-1", "'a'", "(len .s)", '(int "42")', "(int .s)", "0x1F"),
    "float": (".f", "1.5", "1e3", "-0.5"),
    "bool": (".yes", ".no", "true", "(eq .n 1)", "(not .s)", "(vgt .v .w)"),
    "any": tuple("." + name for name in NAMES),
}
_CALLS = (
    ("printf", ('"%s"', '"%q"', '"%v|"', '"%-6s|"', '"%8s"', '"%.2s"', '"%x"', '"a%%%s"'), "text"),
    ("printf", ('"%d"', '"%5d"', '"%-5d|"', '"%05d"', '"%x"', '"%v"', '"%+d"', '"%o"', '"%b"', '"%c"', '"%q"',
        '"%U"'), "int"),
    ("printf", ('"%f"', '"%.2f"', '"%8.3f"', '"%g"', '"%e"', '"%v"', '"%08.2f"', '"%+.1f"', '"%G"'), "float"),
    ("printf", ('"%t"', '"%v"', '"%6t"'), "bool"),
    ("printf", ('"%v"', '"%v %%"'), "any"),
    ("index", (".list", ".words", ".deep.list"), "index"),
    ("index", (".map", "$.map"), "key"),
    ("split", (".s", ".v", '"a,b,c"', "$.t"), "separator"),
    ("stringToSliceString", (".s", ".v", '"a,b"'), "separator"),
    ("indent", (".s", '"l1\\nl2"', "$.t"), "separator"),
    ("len", (".s", ".list", ".map", ".words", '"é"', '(split .s ",")'), ""),
)  # fmt: skip
_KEYS = {
    "index": ("0", "1", "2"),
    "key": ('"k"', '"s"', '"nope"', ".s"),
    "separator": ('","', '"."', '""', '"  "', '"l"'),
}


def _sensible(draw: DrawFn, depth: int, variables: list[str]) -> list[str]:
    """The words of a call whose arguments have the types that it wants."""
    kind = draw(st.integers(0, 6))
    if kind == 0:
        name, (first, second) = (
            draw(st.sampled_from(["vgt", "vlt", "veq", "vgte", "vlte", "vne"])),
            ("version", "version"),
        )
    elif kind <= 2:
        name = draw(st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge", "eq"]))
        first = second = draw(st.sampled_from(["text", "int", "float", "bool" if name in ("eq", "ne") else "text"]))
    elif kind == 3:
        name, first, second = draw(st.sampled_from(["and", "or", "print", "println"])), "any", "any"
    elif kind == 4:
        name = draw(st.sampled_from(["not", "b64encode", "defaultFalse", "and", "or", "print"]))
        return [name, _operand(draw, depth, variables)]
    else:
        call, firsts, rest = draw(st.sampled_from(_CALLS))
        words = [call, draw(st.sampled_from(firsts))]
        if rest:
            words.append(draw(st.sampled_from(_KEYS[rest] if rest in _KEYS else _TYPED[rest])))
        return words
    words = [name, draw(st.sampled_from(_TYPED[first])), draw(st.sampled_from(_TYPED[second]))]
    if name in ("eq", "and", "or", "print") and draw(st.integers(0, 3)) == 0:
        words.append(draw(st.sampled_from(_TYPED[second])))
    return words


def _operand(draw: DrawFn, depth: int, variables: list[str]) -> str:
    kind = draw(st.integers(0, 10))
    if kind <= 3:
        return draw(st.sampled_from(["." + name for name in NAMES]))
    if kind <= 5:
        return draw(_LITERALS)
    if kind == 6 and variables:
        return draw(st.sampled_from(variables))
    if kind == 7:
        return draw(st.sampled_from([".", "$", "$.s", "$.map.k", ".map.k", "$.map.z", "$.deep.s", ".deep.list",
            "$.words",
                                     "$.n", ".missing.x", ".s.x", ".null.x", ".missing.x.y"]))  # fmt: skip
    if kind == 8 and depth > 0:
        inner = f"({_pipeline(draw, depth - 1, variables)})"
        return inner + draw(st.sampled_from(["", "", "", ".k", ".x.y"]))
    return draw(st.sampled_from([".s", ".n", ".v", ".words", ".yes", ".no"]))


def _damaged(draw: DrawFn, text: str) -> str:
    at = draw(st.integers(0, len(text)))
    what: Any = draw(st.integers(0, 2))
    if what == 0 and text:
        return text[: at - 1] + text[at:] if at else text[1:]
    inserted = draw(st.sampled_from(["{{", "}}", "(", ")", "|", ",", "\\", '"', "'", "`", ":=", "=", " ", "\n", "-",
        ".", "$",
                                     "{{end}}", "{{else}}", "!", "é", "/*", "*/", "{{ /* c */ }}", "_", "0", "@",
                                     "\x00", "\u00a0", "\ufeff",
                                     '{{define "x"}}', '{{template "x"}}', '{{block "x" .}}', "nil"]))  # fmt: skip
    return text[:at] + inserted + text[at:]
