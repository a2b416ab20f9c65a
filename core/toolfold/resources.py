"""URI templates of resources: which variables one has, and what a URI gives them (RFC 6570, levels 1 and 2)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote

from .catalog import Spec
from .errors import InvalidDefinition

_EXPRESSION = re.compile(r"\{([^{}]*)\}")
_VARIABLE = re.compile(r"\+?[A-Za-z_][A-Za-z0-9_]*")


def template_variables(template: str) -> list[str]:
    """Return the variables of a URI template in order: `{name}`, or `{+name}` for one that may hold slashes.

    Raises:
        InvalidDefinition: It has none, one twice, or an expression of another form.
    """
    found = _EXPRESSION.findall(template)
    names = [expression.removeprefix("+") for expression in found]
    if not found or len(set(names)) != len(names):
        raise InvalidDefinition(template, "a URI template needs variables with different names, such as {path}")
    for expression in found:
        if _VARIABLE.fullmatch(expression) is None:
            raise InvalidDefinition(template, f"{{{expression}}} is not of the form {{name}} or {{+name}}")
    return names


def match(templates: Iterable[Spec], uri: str) -> tuple[Spec, dict[str, str]] | None:
    """Return the first template that `uri` is an instance of, in order of name, with the values of its variables."""
    for spec in sorted(templates, key=lambda spec: spec.name):
        found = _pattern(spec.name).fullmatch(uri)
        if found is not None:
            return spec, {name: unquote(value) for name, value in found.groupdict().items()}
    return None


def _pattern(template: str) -> re.Pattern[str]:
    parts = _EXPRESSION.split(template)
    pattern = ""
    for position, part in enumerate(parts):
        if position % 2 == 0:
            pattern += re.escape(part)
        else:
            name = part.removeprefix("+")
            pattern += f"(?P<{name}>.+)" if part.startswith("+") else f"(?P<{name}>[^/?#]+)"
    return re.compile(pattern)
