"""The signature of a function: its parameters, their annotations, and its docstring."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache, partial
from types import CellType, CodeType, FunctionType
from typing import Any, Literal, get_type_hints

from ..errors import InvalidDefinition


def hints_of(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of a function, resolved, or raise `InvalidDefinition` for `name`."""
    annotated: Any = function
    while isinstance(annotated, partial):
        annotated = annotated.func
    if not (inspect.isroutine(annotated) or inspect.isclass(annotated)):
        annotated = type(annotated).__call__
    try:
        return get_type_hints(annotated, include_extras=True)
    except Exception as error:  # annotations may be any expression, evaluated here
        problem = f"its annotations can't be resolved ({error}): import or define what they name in the module"
        raise InvalidDefinition(name, problem) from error


def signature_of(name: str, function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a function, or raise `InvalidDefinition` for `name` if it has none to inspect."""
    if type(function) is FunctionType and not (function.__dict__ or function.__defaults__ or function.__kwdefaults__):
        return list(_parameters_of(function.__code__))
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise InvalidDefinition(name, "its handler has no signature to read; wrap it in a function") from error


@lru_cache(maxsize=256)
def _parameters_of(code: CodeType) -> Sequence[inspect.Parameter]:
    """Return the parameters of all functions without defaults that a piece of code makes: a gateway has thousands."""
    cells = tuple(CellType() for _ in code.co_freevars)
    return tuple(inspect.signature(FunctionType(code, {}, closure=cells)).parameters.values())


def docstring_of(function: Any) -> str:
    """Return the docstring of a function, or of a callable object's own class, cleaned; `""` if there is none."""
    documented = function if inspect.isroutine(function) or inspect.isclass(function) else None
    return inspect.getdoc(documented) or "" if documented is not None else ""


# -- docstrings -------------------------------------------------------------------------------------------------------


Style = Literal["sphinx", "numpy", "google"]

_SECTIONS: Mapping[Style, re.Pattern[str]] = {
    "sphinx": re.compile(
        r"^:(?:param|parameter|arg|argument|key|keyword|type)\b[^:\n]*:.*\n?(?:[ \t]+\S.*\n?)*", re.MULTILINE
    ),
    "numpy": re.compile(
        r"^(?:Other )?Parameters[ \t]*\n-{3,}[ \t]*\n(?:(?!\S[^\n]*\n-{3,}[ \t]*$)[^\n]*\n?)*", re.MULTILINE
    ),
    "google": re.compile(
        r"^(?:(?:Keyword |Other )?(?:Args|Arguments|Params|Parameters)):[ \t]*\n(?:[ \t]+\S.*\n?|[ \t]*\n)+",
        re.MULTILINE,
    ),
}
"""The sections on parameters in a cleaned docstring."""

_GAP = re.compile(r"\n{3,}")


def split_docstring(docstring: str, parameters: Collection[str]) -> tuple[str, dict[str, str]]:
    """Return a cleaned docstring without its sections on parameters, and what these say of each parameter.

    Sections in which none of the `parameters` is found are left where they are.
    """
    for style, sections in _SECTIONS.items():
        if found := sections.findall(docstring):
            texts = _texts(style, "\n".join(found))
            if not texts.keys().isdisjoint(parameters):
                return _GAP.sub("\n\n", sections.sub("", docstring)).strip(), texts
    return docstring, {}


def _texts(style: Style, section: str) -> dict[str, str]:
    from griffe import Docstring, DocstringSectionParameters

    # The first line is blank since its indentation is not looked at when a docstring is cleaned.
    parsed = Docstring(f"\n{section}", parser=style, parser_options={"warnings": False}).parse()
    texts: dict[str, str] = {}
    for one in parsed:
        if isinstance(one, DocstringSectionParameters):
            for parameter in one.value:
                texts.setdefault(parameter.name.lstrip("*"), parameter.description)
    return texts
