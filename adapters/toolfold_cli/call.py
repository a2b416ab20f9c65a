"""`toolfold call`: one call of a tool, in a session of its own."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import partial
from typing import Any, cast

import click

from toolfold import Component, ConfigError, ToolResult, ToolSet
from toolfold.spi import ancestors, table
from toolfold_adapters.transport.signals import stdout_reserved

from .explain import facts_option
from .failures import Failed, run
from .options import COMMAND, TargetCommand, active_option, chosen_target, target_command
from .printing import show, show_json
from .targets import GatewayOptions, Target, full_name, open_target

PAIR = re.compile(r"[^\s={}\"]+=")
Arguments = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Returns the arguments of a call, given the input schema of its tool."""


class CallCommand(TargetCommand):
    """A command with a TARGET, a tool and its arguments; or the latter two, and after `--` the command of a server."""

    positional = "TARGET TOOL [ARGUMENTS | NAME=VALUE...]"
    before_command = "TOOL [ARGUMENTS | NAME=VALUE...]"


@target_command(
    "call",
    "toolfold call shop:tools hours",
    "toolfold call shop:tools orders.place item=tea count=2",
    """toolfold call shop:tools orders.place '{"item": "tea"}'""",
    """toolfold call create_issue '{"title": "It broke"}' -- npx -y some-mcp-server""",
    cls=CallCommand,
)
@click.option("--profile", metavar="NAME", help="Call it with this profile.")
@active_option(help="Groups to open besides that of the tool, separated by commas.")
@facts_option
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON.")
def call_command(
    ctx: click.Context,
    /,
    targets: tuple[str, ...],
    profile: str | None,
    active: tuple[str, ...],
    facts: Mapping[str, Any],
    as_json: bool,
    **given: Any,
) -> None:
    """Open the group of a TOOL, hooks included, call it, and print what it answers.

    ARGUMENTS is a JSON object. A VALUE is a text where the tool's schema has a text, and elsewhere JSON if it can be
    read as that. The status is 1 if the answer is an error.
    """
    first = 0 if COMMAND in ctx.meta else 1
    words = targets[first:]
    if not words:
        raise click.UsageError("Say which TOOL to call, and its arguments as NAME=VALUE or as one JSON object.", ctx)
    arguments = _parsed(ctx, words[1:])
    target, options = chosen_target(ctx, targets[:first], **given)
    result: ToolResult = run(partial(_called, target, options, words[0], arguments, profile, active, facts))
    if as_json:
        show_json({"content": list(result.content), "structured": result.structured, "is_error": result.is_error})
    elif not result.is_error:
        for block in result.content:
            show(str(block["text"]) if "text" in block else f"({block.get('type')})")
    if result.is_error:
        raise Failed(result.text or "The tool answered with an error.")


def _parsed(ctx: click.Context, words: tuple[str, ...]) -> Arguments:
    """Return a function of a tool's input schema that returns the arguments which the words say."""
    given = [word for word in words if not PAIR.match(word)]
    if given and len(words) > 1:
        raise click.UsageError("Give the arguments as NAME=VALUE each, or as one JSON object in quotes.", ctx)
    if given:
        arguments = _parsed_object(ctx, given[0])
        return lambda _: arguments
    pairs = [word.partition("=")[::2] for word in words]
    if twice := next((name for name, count in Counter(name for name, _ in pairs).items() if count > 1), None):
        raise click.UsageError(f"{twice} is given twice; a list is JSON, as in {twice}='[1, 2]'.", ctx)
    return lambda schema: {name: _value(table(schema.get("properties")) or {}, name, text) for name, text in pairs}


def _parsed_object(ctx: click.Context, text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise click.UsageError(
            f"The arguments are neither NAME=VALUE each nor JSON: {error}. Put one object in quotes.", ctx
        ) from error
    if not isinstance(value, dict):
        raise click.UsageError('The arguments are not a JSON object, such as \'{"item": "tea"}\'.', ctx)
    return cast("dict[str, Any]", value)


def _value(properties: Mapping[str, Any], name: str, text: str) -> Any:
    """Return what a text stands for as a property of a schema: itself, or the JSON that it is."""
    try:
        return text if (table(properties.get(name)) or {}).get("type") == "string" else json.loads(text)
    except ValueError:
        return text


async def _called(
    target: Target,
    options: GatewayOptions,
    name: str,
    arguments: Arguments,
    profile: str | None,
    active: tuple[str, ...],
    facts: Mapping[str, Any],
) -> ToolResult:
    """Return the answer of a tool of a target, in a session of its own with the group of the tool open."""
    with stdout_reserved():
        async with open_target(target, options) as opened:
            if opened.server is not None:
                raise ConfigError(
                    f"{target.text} is a server, whose tools are called over MCP. Give the command that starts it: "
                    "toolfold call TOOL ARGUMENTS -- COMMAND."
                )
            component = _tool(opened.tools, name)
            groups = (*opened.groups_of(active), *_groups_of(component))
            async with opened.tools.open_session(profile, () if facts else groups) as session:
                for fact, value in facts.items():  # hooks may ask for them
                    session.set_fact(fact, value)
                await session.transition(groups if facts else ())
                return await session.call(component.name, arguments(component.definition["inputSchema"]))


def _tool(tools: ToolSet, name: str) -> Component:
    """Return the tool of a name, as it is registered or as clients see it; without its groups if that is enough."""
    known = tools.catalog.tools
    if (found := full_name(known, name, tools.catalog.spoken)) is not None:
        return known[found]
    bases = get_close_matches(name.rpartition(".")[2], [one.rpartition(".")[2] for one in known], 1)
    near = [tools.catalog.spoken(one) for one in known if one.rpartition(".")[2] in {name, *bases}]
    hint = f" Did you mean {' or '.join(near)}?" if near else " toolfold inspect TARGET --tools lists them."
    raise ConfigError(f"There is no tool {name!r}.{hint}")


def _groups_of(component: Component) -> tuple[str, ...]:
    """Return the group of a tool, after those that it is in."""
    return () if component.group is None else (*ancestors(component.group), component.group)
