"""Loaders: what one tool that opens any group by name is called, takes and answers, as values (SPEC CTL-3, GRP-3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from string import Formatter
from typing import Any

from attrs import field
from attrs.validators import instance_of

from .._limits import quoted
from .._names import ancestors
from .._schema.arguments import Arguments
from .._values import frozen
from ..errors import ConfigError

_NOTHING: Mapping[str, Any] = {"group": "", "title": "", "count": 0, "tools": "", "groups": "", "argument": ""}


MOST_NAMED = 50
"""How many groups the schema of a loader names, so that strict modes and grammars keep models from inventing others."""


def filled(template: str, **values: Any) -> str:
    """Return a text of a loader: each has every placeholder, whether or not there is something to put there."""
    return template.format(**{**_NOTHING, **values})


def _check_template(_: object, attribute: Any, template: Any) -> None:
    """Raise `ConfigError` unless the text can be filled in."""
    if template is None:
        return
    try:
        filled(template)
    except (LookupError, ValueError, AttributeError, TypeError) as error:
        known = "{group}, {title}, {count}, {tools}, {groups} and {argument}"
        raise ConfigError(f"A loader's text {attribute.name!r} may mention {known}, and is {template!r}.") from error
    tools = [(form, conversion) for _, name, form, conversion in Formatter().parse(template) if name == "tools"]
    if tools not in ([], [("", None)]):
        raise ConfigError(f"A loader's text {attribute.name!r} may mention {{tools}} once, unformatted: {template!r}.")


@frozen(kw_only=True)
class LoaderTexts:
    """What a loader answers, as templates for `str.format`.

    A template may mention `{group}` (its path), `{title}` (the name that people see), `{tools}` (what can be called
    now, a line for each tool; over MCP, with its input schema), `{count}` (how many tools), `{groups}` (all that the
    loader can open) and `{argument}`. Over MCP the tools stand at the end of a text that does not mention them.

    SPEC CTL-3, GRP-3.

    Args:
        loaded: The group is open now.
        nothing: The group is open now, and nothing more can be called.
        again: The group was open already, so nothing changed.
        missing: The argument was left out.
        not_found: There is no such group.
        empty: The group has no tools, so it was not opened; `None` to open it all the same.

    Raises:
        ConfigError: A template mentions something else, or `{tools}` more than once.
    """

    loaded: str = field(validator=_check_template)
    nothing: str = field(validator=_check_template)
    again: str = field(validator=_check_template)
    missing: str | None = field(default=None, validator=_check_template)
    not_found: str | None = field(default=None, validator=_check_template)
    empty: str | None = field(default=None, validator=_check_template)


@frozen(kw_only=True)
class Loader:
    """One tool that opens any group by name.

    SPEC CTL-3.

    Args:
        name: The tool's name.
        argument: The name of its only argument, the path of a group.
        description: What the model reads, between the names of groups and their list.
        argument_description: What the model reads about the argument.
        texts: What it answers; the library's own words otherwise.
        closer: The name of a tool that takes the same argument and closes groups; none unless it is given. It closes
            those that have a deactivator where each group has control tools of its own (SPEC CTL-2).
        closer_description: What the model reads about that tool.
        needs_groups: Whether there is no such tool while there is no group that it can open.
        opens_outer: Whether it opens the groups that a group is in as well, instead of saying that they come first.
        hidden: Whether lists leave its tools out: a model opens groups by searches alone, and code by name.
        room: How many characters the description has at most, with the list of groups: their descriptions are cut to
            fit, and then their names (SPEC CTL-7). Opening a group shows its description whole.
    """

    name: str
    argument: str = "group"
    description: str = field(
        default="Open a group of tools, so that its tools can be called.", validator=instance_of(str)
    )
    argument_description: str = "The group to open."
    texts: LoaderTexts | None = None
    closer: str | None = None
    closer_description: str = "Close a group and the groups in it."
    needs_groups: bool = False
    opens_outer: bool = False
    hidden: bool = False
    room: int = 2_000

    def opened_with(self, path: str) -> tuple[str, ...]:
        """Return the groups that it opens for a group, in their order."""
        return (*ancestors(path), path) if self.opens_outer else (path,)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its tools."""
        return (self.name,) if self.closer is None else (self.name, self.closer)

    def refusals(self, path: str, title: str, groups: str) -> tuple[str, ...]:
        """Return how its own texts refuse to open a group: there is none of that name, or it has no tools.

        SPEC GRP-3.
        """
        templates = () if self.texts is None else (self.texts.not_found, self.texts.empty)
        return tuple(
            filled(one, group=quoted(path), title=title, groups=groups) for one in templates if one is not None
        )

    def schema(self, groups: Iterable[str] = ()) -> Mapping[str, Any]:
        """Return the schema of its arguments; it names these groups, if they are no more than `MOST_NAMED`."""
        named = list(groups)
        enum = {"enum": named} if 0 < len(named) <= MOST_NAMED else {}
        return {
            "type": "object",
            "properties": {self.argument: {"type": "string", "description": self.argument_description, **enum}},
            "required": [self.argument],
            "additionalProperties": False,
        }

    @cached_property
    def accepted(self) -> Arguments:
        """The arguments that it accepts."""
        return Arguments.passing_handle(self.name, self.schema())  # what it answers to a wrong name is its own


PRESETS: Mapping[str, Loader] = {
    "open_group": Loader(name="open_group", closer="close_group", needs_groups=True),
    "load_tool_group": Loader(
        name="load_tool_group",
        argument="group_name",
        description="Load a group of tools. Its tools can be called only after that, and then for the rest of the "
        "conversation.",
        argument_description="The group to load.",
        texts=LoaderTexts(
            loaded="Loaded {count} tools from group '{title}':\n{tools}",
            nothing="Loaded 0 tools from group '{title}'.",
            again="Tool group '{title}' was loaded already, so nothing changed.\n{tools}",
            missing="Required parameter '{argument}' is missing.",
            not_found="Tool group '{group}' not found. Available groups: {groups}",
            empty="Tool group '{group}' has no available tools.",
        ),
    ),
    "expand_tools": Loader(
        name="expand_tools",
        argument="group",
        argument_description="The group to expand.",
        texts=LoaderTexts(
            loaded="## {title} Tools\n\n{tools}",
            nothing="## {title} Tools\n\nThe group is expanded, and adds no tools to the list.",
            again="The group {title} was expanded already, so nothing changed.\n\n{tools}",
        ),
    ),
}
