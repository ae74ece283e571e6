"""Go templates in manifests (openfuyao-api.md §7.2): the part of text/template that bundles use, rendered as Go does.

Two deliberate differences to Go: a variable without a value that would be printed is refused instead of printed as
`<no value>`, and `printf` refuses what Go would print as `%!verb(…)`.
"""

from __future__ import annotations

from collections.abc import Mapping

from hopline.domain.errors import InvalidRelease
from hopline.domain.templates.evaluator import TemplateRuntimeError, evaluate
from hopline.domain.templates.functions import NAMES
from hopline.domain.templates.lexer import TemplateSyntaxError
from hopline.domain.templates.lines import Piece, Rendering
from hopline.domain.templates.parser import parse

ADDON_PARAMETERS = "spec.clusterConfig.addons[].param of the BKECluster"

__all__ = ["Rendering", "render", "render_with_lines"]


def render(text: str, data: Mapping[str, object], origin: str, places: Mapping[str, str] | None = None) -> str:
    """As `render_with_lines`: the text alone."""
    return render_with_lines(text, data, origin, places).text


def render_with_lines(
    text: str, data: Mapping[str, object], origin: str, places: Mapping[str, str] | None = None
) -> Rendering:
    """The file `origin` with its actions carried out.

    Args:
        data: the variables at top level; a missing one counts as false where it is only tested.
        places: variable → the field where a person sets it, for messages.

    Raises InvalidRelease, naming file, line and remedy.
    """
    if "{{" not in text:
        return Rendering([Piece(text, 1, True)])
    try:
        return Rendering(evaluate(parse(text, NAMES), data))
    except TemplateSyntaxError as error:
        raise InvalidRelease(
            f"template does not parse: {error}", subject=f"{origin}:{error.line}", remedy=error.remedy
        ) from None
    except TemplateRuntimeError as error:
        remedy = _where(error.missing, places or {}) if error.missing else "correct the template"
        raise InvalidRelease(
            f"template cannot be rendered: {error}", subject=f"{origin}:{error.line}", remedy=remedy
        ) from None


def _where(name: str, places: Mapping[str, str]) -> str:
    variable = name.removeprefix("$").removeprefix(".").split(".")[0]
    place = places.get(
        variable, f"{ADDON_PARAMETERS} (key {variable})" if variable.isidentifier() else ADDON_PARAMETERS
    )
    return f"set it in {place}, or test it with {{{{ if {name} }}}}"
