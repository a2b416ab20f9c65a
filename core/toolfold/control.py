"""Control tools: the activators, deactivators and loaders that the library makes itself (SPEC 8).

They are ordinary specs with visibility rules and handlers of their own. What a handler does to the state goes through
`Session.transition` like any other request; here it is only put into words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from attrs import field, frozen

from .catalog import GroupSpec, Role, Spec
from .dispatch import Context, ToolResult
from .errors import (
    ConfigError,
    ExclusionConflict,
    GroupNotFound,
    HookFailed,
    ParentInactive,
    QuotaExceeded,
    ReentrantTransition,
    ToolError,
    ToolfoldError,
)
from .listing import listed
from .names import check_segment, qualified_name
from .schema import NO_ARGUMENTS, Arguments
from .visibility import Always, Group, Not, Visibility

if TYPE_CHECKING:
    from .session import Session

ControlVisibility = Literal["always", "relevant"]
RESERVED: tuple[Role, ...] = ("activate", "deactivate")
REFUSALS = (GroupNotFound, ParentInactive, ExclusionConflict, QuotaExceeded, HookFailed, ReentrantTransition)

_ANNOTATIONS = {"destructiveHint": False, "idempotentHint": True, "openWorldHint": False}


@frozen(kw_only=True)
class Loader:
    """One tool that opens any group by name (SPEC CTL-3).

    Args:
        name: The tool's name.
        argument: The name of its only argument, the path of a group.
        description: What the model is told; the list of groups follows it.
        argument_description: What the model is told about the argument.
    """

    name: str
    argument: str = "group"
    description: str = "Open a group of tools, so that its tools can be called."
    argument_description: str = "The group to open."

    def spec(self, groups: Iterable[GroupSpec]) -> Spec:
        """Return the loader's spec for a catalog that has `groups`."""
        lines = [_line(group.path, group.description) for group in groups if group.controls]
        description = "\n".join([self.description, *(["Groups:", *lines] if lines else ["There are no groups."])])
        schema = {
            "type": "object",
            "properties": {self.argument: {"type": "string", "description": self.argument_description}},
            "required": [self.argument],
            "additionalProperties": False,
        }

        async def handle(arguments: dict[str, Any], context: Context) -> ToolResult:
            path = arguments[self.argument]
            known = [group.path for group in context.snapshot.catalog.groups if group.controls]
            if path not in known:
                return refusal(GroupNotFound(path, known))
            return await open_group(context, path)

        return _control(("load", ""), self.name, description, schema, handle, Always(), None)


PRESETS: Mapping[str, Loader] = {
    "load_tool_group": Loader(name="load_tool_group", argument="group_name", argument_description="The group to load."),
    "expand_tools": Loader(name="expand_tools", argument="group", argument_description="The group to expand."),
}


@frozen(kw_only=True)
class ControlStyle:
    """How groups are opened: by tools of each group, by one loader, or by code and events alone (SPEC CTL-1, CTL-3)."""

    per_group: bool
    relevant_only: bool = False
    loader: Loader | None = field(default=None)

    @classmethod
    def of(cls, control: str | Loader, visibility: str) -> ControlStyle:
        """Return the style for the arguments of `ToolSet`, or raise `ConfigError`."""
        if visibility not in ("always", "relevant"):
            raise ConfigError(f'control_visibility is "always" or "relevant", not {visibility!r}.')
        if isinstance(control, Loader):
            check_segment(control.name)
            control.spec(())  # so that a text that is none is refused here, and not when tools are listed
            return cls(per_group=False, loader=control)
        if control in PRESETS:
            return cls(per_group=False, loader=PRESETS[control])
        if control in ("per_group", "none"):
            return cls(per_group=control == "per_group", relevant_only=visibility == "relevant")
        known = ", ".join(repr(name) for name in ("per_group", "none", *PRESETS))
        raise ConfigError(f"There is no control style {control!r}; use {known} or a Loader.")

    def specs(self, group: GroupSpec) -> dict[str, Spec]:
        """Return the control tools of one group by name (SPEC CTL-1, CTL-2)."""
        if not self.per_group or not group.controls:
            return {}
        made = [_activator(group, self.relevant_only)]
        if group.show_deactivator:
            made.append(_deactivator(group, self.relevant_only))
        return {spec.name: spec for spec in made}


async def open_group(context: Context, path: str) -> ToolResult:
    """Activate a group and return what the model is told about it (SPEC CTL-4, CTL-5)."""
    session = context.session
    before = {spec.name for spec in listed(context.view.of(session.snapshot), "tool")}
    try:
        change = await session.transition(activate=[path], view=context.view)
    except REFUSALS as error:
        return refusal(error)
    after = listed(context.view.of(session.snapshot), "tool")
    if change:
        new = [spec for spec in after if spec.name not in before]
        parts = [f"Group {path} is open."]
    else:
        new = [spec for spec in after if spec.group == path and not spec.control]
        parts = [f"Group {path} was open already."]
    if change.deactivated:
        parts.append(f"Closed to make room: {', '.join(change.deactivated)}.")
    parts.append("You can now call:" if new else "It adds no tools to the list.")
    lines = [_line(context.spell(spec.name), spec.description) for spec in new]
    names = [context.spell(spec.name) for spec in new]
    return _answer(session, path, change, "\n".join([" ".join(parts), *lines]), names)


async def close_group(context: Context, path: str) -> ToolResult:
    """Deactivate a group and return what the model is told about it (SPEC CTL-4, CTL-5)."""
    session = context.session
    try:
        change = await session.transition(deactivate=[path], view=context.view)
    except REFUSALS as error:
        return refusal(error)
    also = [name for name in change.deactivated if name != path]
    text = f"Group {path} is closed." if change else f"Group {path} was closed already."
    if also:
        text += f" Closed with it: {', '.join(also)}."
    return _answer(session, path, change, text, [])


def refusal(error: ToolfoldError) -> ToolResult:
    """Return the tool result that tells the model why a group stays as it is, and what to do (SPEC CTL-5)."""
    if isinstance(error, HookFailed):
        reason = f" Reason: {error.__cause__}" if isinstance(error.__cause__, ToolError) else ""
        doing = "opening" if error.phase == "on_activate" else "closing"
        return ToolResult.of_text(
            f"Nothing was changed: {doing} group {error.group} failed.{reason} Try again later, or go on without it.",
            is_error=True,
        )
    return ToolResult.of_text(str(error), is_error=True)


def _line(name: str, description: str) -> str:
    """Return one line, whatever line breaks a description has (SPEC CTL-4)."""
    return f"- {name}: {' '.join(description.split())}" if description else f"- {name}"


def _answer(session: Session, path: str, change: Any, text: str, tools: list[str]) -> ToolResult:
    displaced = [name for name in change.deactivated if name != path]
    structured = {
        "group": path,
        "changed": bool(change),
        "active": list(session.active),
        "displaced": displaced,
        "tools": tools,
    }
    return ToolResult.of_text(text, structured)


def _activator(group: GroupSpec, relevant_only: bool) -> Spec:
    rule: Visibility = Always()
    if relevant_only:
        rule = Not(Group(group.path))
        if group.parent is not None:
            rule = Group(group.parent) & rule

    async def handle(arguments: dict[str, Any], context: Context) -> ToolResult:
        return await open_group(context, group.path)

    description = f"Open the group {group.path}" + (f": {group.description}" if group.description else "")
    name = qualified_name(group.path, "activate")
    title = f"Open {group.title}" if group.title else None
    return _control(("activate", group.path), name, description, NO_ARGUMENTS, handle, rule, title)


def _deactivator(group: GroupSpec, relevant_only: bool) -> Spec:
    rule: Visibility = Group(group.path) if relevant_only else Always()

    async def handle(arguments: dict[str, Any], context: Context) -> ToolResult:
        return await close_group(context, group.path)

    description = f"Close the group {group.path} and the groups in it."
    name = qualified_name(group.path, "deactivate")
    title = f"Close {group.title}" if group.title else None
    return _control(("deactivate", group.path), name, description, NO_ARGUMENTS, handle, rule, title)


_NO_ARGUMENTS = Arguments.from_schema("control tool", NO_ARGUMENTS)


def _control(
    role: tuple[Role, str],
    name: str,
    description: str,
    schema: Mapping[str, Any],
    handle: Any,
    rule: Visibility,
    title: str | None,
) -> Spec:
    arguments = _NO_ARGUMENTS if schema is NO_ARGUMENTS else Arguments.from_schema(name, schema)
    definition = {
        "name": name,
        **({"title": title} if title else {}),
        "description": description,
        "inputSchema": arguments.schema,
        "annotations": dict(_ANNOTATIONS),
    }
    return Spec(
        kind="tool",
        name=name,
        rule=rule,
        definition=definition,
        handler=handle,
        arguments=arguments,
        group=role[1] or None,
        control=role,
    )
