"""What a function says of itself: its parameters, their annotations, and its docstring."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, get_type_hints

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
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise InvalidDefinition(name, "its handler has no signature to read; wrap it in a function") from error


def docstring_of(function: Any) -> str:
    """Return the docstring of a function, or of a callable object's own class, cleaned; `""` if there is none."""
    documented = function if inspect.isroutine(function) or inspect.isclass(function) else None
    return inspect.getdoc(documented) or "" if documented is not None else ""
