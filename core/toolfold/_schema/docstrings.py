"""What a docstring says of parameters, in the style of Google, NumPy or Sphinx.

griffe reads the entries. It takes long to import, so that waits for the first docstring that describes parameters.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Literal

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
