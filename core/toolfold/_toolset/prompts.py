"""The groups in a system prompt, which lists for the model what it can open (SPEC GRP-5).

The section says nothing about which groups are open, so it stays the same for the whole conversation.
"""

from __future__ import annotations

from collections.abc import Iterable

from .._catalog.catalog import Catalog
from .._names import ToWire
from .._session.session import Session
from .._view.describe import line_of
from .toolset import ToolSet

HEADING = "## Available Tool Groups"
_RULE = "\n\n---\n\n"


def prompt_section(of: ToolSet | Session, *, to_wire: ToWire = str, active: Iterable[str] = ()) -> str:
    """Return the section of a system prompt that lists the groups, or `""` if the model can open none.

    The instructions of groups that are open from the start come after the list, for the model opens none of these:
    pinned ones, those of a session's profile, and `active` (SPEC SKL-1).

    SPEC GRP-5.

    Args:
        of: A tool set, or a session, which under a profile has fewer groups.
        to_wire: Maps tools' names to those that the model knows.
        active: Groups that are open from the start.
    """
    catalog = of.catalog
    profile = of.profile if isinstance(of, Session) else None
    instructions = catalog.initial_instructions((*(profile.active if profile else ()), *active))
    return "\n\n".join(text for text in (_listed(catalog, to_wire), instructions) if text)


def _listed(catalog: Catalog, to_wire: ToWire) -> str:
    groups = catalog.named_openers
    if not groups:
        return ""
    opener = to_wire(next(iter(groups.values())))
    if catalog.loader is not None:
        guide = f"Use `{opener}` to load tools from a group before using them."
    else:
        guide = f"Open a group by its own tool, such as `{opener}`, before you call the tools in it."
    return "\n".join([HEADING, "", guide, "", *(line_of(path, catalog.group(path).description) for path in groups)])


def system_prompt(base: str, of: ToolSet | Session, *, to_wire: ToWire = str, active: Iterable[str] = ()) -> str:
    """Return a system prompt with the section of `prompt_section` at its end.

    Without a section the base prompt is returned unchanged; a blank one is replaced by the section.

    SPEC GRP-5.
    """
    section = prompt_section(of, to_wire=to_wire, active=active)
    if not section:
        return base
    return f"{base}{_RULE}{section}" if base.strip() else section
