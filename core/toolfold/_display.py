"""How tool sets, sessions and their states are shown in notebooks: as a picture (SPEC DIA-1, DIA-3).

The core draws nothing and depends on no package that does. It finds one by name at the time when a notebook asks; where
there is none, values are shown by their `repr`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

RENDERER = "toolfold_diagrams.notebooks"
"""The module whose `bundle(value)` returns the forms of a value by MIME type."""


class Displayed:
    """A value that notebooks show as a picture."""

    __slots__ = ()

    def _repr_mimebundle_(self, **_: object) -> Mapping[str, str]:
        """Return the forms of the value by MIME type; none if there is no package that draws it."""
        try:
            renderer = import_module(RENDERER)
        except ModuleNotFoundError:
            return {}
        bundle: Mapping[str, str] = renderer.bundle(self)
        return bundle

    def _repr_svg_(self) -> str | None:
        """Return the picture as SVG, or `None` if there is no package that draws it."""
        return self._repr_mimebundle_().get("image/svg+xml")
