"""Control tools: the activators, deactivators and loaders that the library makes itself (SPEC 8).

They are ordinary components with visibility rules and handlers of their own. What a handler does to the state goes
through `Session.transition` like any other request; only its wording is here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from attrs import evolve, field

from .._catalog.catalog import Catalog
from .._catalog.components import Component, Group, Role
from .._catalog.loader import PRESETS, Loader, LoaderTexts, filled
from .._catalog.rules import Always, GroupActive, Not, Visibility
from .._limits import quoted
from .._names import check_segment, is_text, qualified_name, split_name
from .._schema.arguments import NO_ARGUMENTS, Arguments
from .._session.context import Context
from .._snapshot import Change
from .._values import frozen
from .._view.calling import AboutTools, ToolResult, error_result
from .._view.describe import (
    FINDABLE,
    FIRST_LINE,
    SHORTENED,
    Directory,
    describe,
    has_whole,
    names_within,
    one_line,
    shortened,
)
from .._view.listing import listed
from .._view.reasons import needing, opener
from .._view.visibility import RequestView
from ..errors import (
    ConfigError,
    ExclusionConflict,
    GroupNotFound,
    HookFailed,
    InvalidArguments,
    ParentInactive,
    QuotaExceeded,
    ReentrantTransition,
    StoreError,
    ToolfoldError,
)
from ..machine import TransitionRequest

ControlName = Literal["per_group", "none", "open_group", "load_tool_group", "expand_tools"]
ControlVisibility = Literal["always", "relevant"]
RESERVED: tuple[Role, ...] = ("activate", "deactivate")
REFUSALS = (
    *(GroupNotFound, ParentInactive, ExclusionConflict, QuotaExceeded, HookFailed, ReentrantTransition, StoreError),
)

ERROR_META = "dev.toolfold/error"
"""In the `_meta` of a refusal's result: the name of the error, and what it names."""

_ANNOTATIONS = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}

_NOTHING_NEW = "It adds no tools to the list."

_INNER = 1_000
"""How many characters the names of the groups in one have that was opened."""


@frozen(kw_only=True)
class ControlStyle:
    """How groups are opened: by tools of each group, by one loader, or only by code and events (SPEC CTL-1, CTL-3)."""

    per_group: bool
    relevant_only: bool = False
    loader: Loader | None = field(default=None)

    @classmethod
    def of(cls, control: str | Loader, visibility: str) -> ControlStyle:
        """Return the style for the arguments of `ToolSet`, or raise `ConfigError`."""
        if visibility not in ("always", "relevant"):
            raise ConfigError(f'control_visibility is "always" or "relevant", not {visibility!r}.')
        if isinstance(control, Loader):
            for name in control.names:
                check_segment(name)
            loader_components(control, ())  # so that a text that is none is refused here, and not when tools are listed
            return cls(per_group=False, loader=control)
        if is_text(control) and control in PRESETS:
            return cls(per_group=False, loader=PRESETS[control])
        if control in ("per_group", "none"):
            return cls(per_group=control == "per_group", relevant_only=visibility == "relevant")
        known = ", ".join(repr(name) for name in ("per_group", "none", *PRESETS))
        raise ConfigError(f"There is no control style {control!r}; use {known} or a Loader.")

    @property
    def has_tools(self) -> bool:
        """Whether clients can open groups at all, or only code and events can (SPEC CTL-3)."""
        return self.per_group or self.loader is not None

    def components(self, group: Group) -> dict[str, Component]:
        """Return the control tools of one group by name (SPEC CTL-1, CTL-2)."""
        if not self.per_group or not group.controls:
            return {}
        path, is_open = group.path, GroupActive(group.path)
        is_closed = Not(is_open) if group.parent is None else GroupActive(group.parent) & Not(is_open)

        async def activate(arguments: dict[str, Any], context: Context) -> ToolResult:
            return await open_group(context, path)

        async def deactivate(arguments: dict[str, Any], context: Context) -> ToolResult:
            return await close_group(context, path)

        opens = f"Open the group {path}" + (f": {group.description}" if group.description else "")
        closes = f"Close the group {path} and the groups in it."
        rows: tuple[tuple[Role, str, str, Any, Visibility], ...] = (
            ("activate", "Open", opens, activate, is_closed),
            ("deactivate", "Close", closes, deactivate, is_open),
        )
        made: dict[str, Component] = {}
        for role, verb, description, handle, relevant in rows if group.show_deactivator else rows[:1]:
            name, title = qualified_name(path, role), f"{verb} {group.title}" if group.title else None
            rule = relevant if self.relevant_only else Always()
            made[name] = control_component((role, path), name, description, NO_ARGUMENTS, handle, rule, title)
        return made


def loader_components(loader: Loader, groups: Iterable[Group], finder: str | None = None) -> tuple[Component, ...]:
    """Return the tools of a loader in a catalog that has `groups` (SPEC CTL-3); `finder` is the tool that searches."""

    async def open_one(arguments: dict[str, Any], context: Context) -> ToolResult:
        named = group_named(opening, context.to_wire(opening.name), arguments, context.snapshot.catalog)
        return await open_group(context, named, loader) if isinstance(named, str) else named

    async def close_one(arguments: dict[str, Any], context: Context) -> ToolResult:
        named = group_named(closing, context.to_wire(closing.name), arguments, context.snapshot.catalog)
        return await close_group(context, named) if isinstance(named, str) else named

    known = Directory.openable(groups)
    if not known.groups and loader.needs_groups:
        return ()
    schema = loader.schema(known.groups)  # of groups alone, whichever are open, so that a list stays as it is
    opening = _loader_tool("load", loader.name, _directory_of(loader, known, finder), open_one, loader, schema)
    if loader.closer is None:
        return (opening,)
    closer = evolve(loader, argument_description="The group to close.")
    closing = _loader_tool("deactivate", loader.closer, loader.closer_description, close_one, closer, closer.schema())
    return opening, closing


def _directory_of(loader: Loader, known: Directory, finder: str | None) -> str:
    """Return the description of the tool that opens groups: what every host shows, and the directory (SPEC CTL-7)."""
    about = loader.description.replace("…", "...")
    about = about if len(about) <= loader.room // 2 else shortened(about, loader.room // 2)
    if not known.groups:
        return f"{about}\nThere are no groups."
    first = known.introduced(about, FIRST_LINE + len(about.partition(". ")[2]))
    inner = next((path for path in known.groups if split_name(path)[0] in known.groups), None)
    heading = f"Groups, with those in them, which are opened by path, such as {inner}:" if inner else "Groups:"
    room = loader.room - len(first) - len(heading) - 1
    return "\n".join([first, heading, *known.lines(room, finder)])


def _loader_tool(
    role: Role, name: str, description: str, handle: Any, loader: Loader, schema: Mapping[str, Any]
) -> Component:
    control = control_component((role, ""), name, description, schema, handle, Always(), None)
    # It checks its arguments itself: a missing one is answered in words of its own (SPEC GRP-3).
    return evolve(control, arguments=None, loader=loader, hidden=loader.hidden)


def group_named(component: Component, name: str, arguments: Mapping[str, Any], catalog: Catalog) -> str | ToolResult:
    """Return the group that a call of a loader's tool names, or the answer to one that names none (SPEC GRP-3).

    `name` is the tool's name as the caller knows it.
    """
    assert component.loader is not None
    assert component.control is not None
    loader, opens = component.loader, component.control[0] == "load"
    texts, is_missing = loader.texts, arguments.get(loader.argument) is None
    if is_missing and texts is not None and texts.missing is not None:
        text = filled(texts.missing, argument=loader.argument)
        return _error("missing_parameter", text, parameter=loader.argument)
    try:
        path = str(loader.accepted.check(name, arguments)[loader.argument])
    except InvalidArguments as error:
        kind = "missing_parameter" if is_missing else "invalid_parameter"
        return evolve(error_result(component, error), structured={"error_type": kind})
    groups = [group for group in catalog.groups if group.controls and (opens or group.show_deactivator)]
    known = [group.path for group in groups]
    if path not in known:
        titled = [group.path for group in groups if group.title and group.title.casefold() == path.casefold()]
        text = str(GroupNotFound(path, known, titled))
        if texts is not None and texts.not_found is not None:
            text = filled(texts.not_found, group=quoted(path), groups=", ".join(known) or "none")
        return _error("not_found", text, group=quoted(path), groups=known)
    if opens and texts is not None and texts.empty is not None and _is_empty(catalog, path):
        text = filled(texts.empty, group=path, title=catalog.group(path).display_name)
        return _error("empty_group", text, group=path)
    return path


def request_of(component: Component, arguments: Mapping[str, Any], catalog: Catalog) -> TransitionRequest | None:
    """Return the request that a call of a control tool asks for in `catalog`.

    It is `None` if the tool refuses the arguments, and for a search: what that opens depends on what it finds.
    """
    if component.control is None or (component.arguments is not None and component.arguments.faults(arguments)):
        return None
    role, path = component.control
    if role == "find":
        return None
    if component.loader is not None:
        named = group_named(component, component.name, arguments, catalog)
        if not isinstance(named, str):
            return None
        path = named
    if role == "deactivate":
        return TransitionRequest(deactivate=path)
    return TransitionRequest(activate=path if component.loader is None else component.loader.opened_with(path))


async def open_group(context: Context, path: str, loader: Loader | None = None) -> ToolResult:
    """Activate a group as `loader` does, and return what the model reads about it (SPEC CTL-4, CTL-5)."""
    view = context.request_view
    try:
        change = await context.session.transition([path] if loader is None else loader.opened_with(path), view=view)
    except REFUSALS as error:
        return refusal(error, context)
    before, now = states_of(change, context)
    if changed := bool(change):
        known = {component.name for component in listed(before, "tool")}
        new = [component for component in listed(now, "tool") if component.name not in known]
    else:
        new = [*listed(now, "tool", path)]
    catalog = now.snapshot.catalog
    group, instructions = catalog.group(path), catalog.instructions(change.activated or (path,))
    withheld = catalog.why_withheld(path) if not new else None
    text: Callable[[str], str] = partial(
        _opened,
        path,
        _omitted(catalog, group),
        instructions,
        changed,
        change.deactivated,
        withheld[1] if withheld else _NOTHING_NEW,
    )
    if loader is not None and loader.texts is not None:
        text = partial(_loaded, loader.texts, group, instructions, change, len(new))
    return _answer(now, path, change, text, new)


def _omitted(catalog: Catalog, group: Group) -> str:
    """Return what the list of groups may not have: the rest of the description, the groups in it (SPEC CTL-3)."""
    loader = catalog.loader
    if loader is None:
        return ""
    described = one_line(group.description)
    inner = [one.path for one in catalog.groups if one.parent == group.path and one.controls and not one.pinned]
    return " ".join(
        [
            *([] if has_whole(loader.description, group.path, described) else [f"{described.rstrip('.')}."]),
            *([f"Groups in it: {names_within(inner, _INNER)}."] if inner else []),
        ]
    )


def _opened(
    path: str, description: str, instructions: str, changed: bool, closed: Sequence[str], nothing: str, tools: str
) -> str:
    parts = [f"Group {path} is open." if changed else f"Group {path} was open already."]
    if description and changed:
        parts.append(description)
    if closed:
        parts.append(f"Closed to make room: {', '.join(closed)}.")
    last = f"Now available:\n{tools}" if tools else nothing
    said = " ".join(parts)
    return f"{said}\n\n{instructions}\n\n{last}" if instructions else f"{said} {last}"


def _loaded(texts: LoaderTexts, group: Group, instructions: str, change: Change, count: int, tools: str) -> str:
    template = texts.again if not change else texts.loaded if tools else texts.nothing
    text = filled(template, group=group.path, title=group.display_name, count=count, tools=tools).strip()
    text = f"{instructions}\n\n{text}" if instructions else text
    return f"{text}\nClosed to make room: {', '.join(change.deactivated)}." if change.deactivated else text


async def close_group(context: Context, path: str) -> ToolResult:
    """Deactivate a group and return what the model reads about it (SPEC CTL-4, CTL-5)."""
    try:
        change = await context.session.transition(deactivate=[path], view=context.request_view)
    except REFUSALS as error:
        return refusal(error, context)
    also = [name for name in change.deactivated if name != path]
    text = f"Group {path} is closed." if change else f"Group {path} was closed already."
    if also:
        text += f" Closed with it: {', '.join(also)}."
    return _answer(states_of(change, context)[1], path, change, lambda _: text, ())


def states_of(change: Change, context: Context) -> tuple[RequestView, RequestView]:
    """Return views of the states before and after a change, whatever other requests have changed since (SPEC CTL-4)."""
    assert change.states is not None, "it is the caller's own"
    before, after = change.states
    return context.request_view.of(before), context.request_view.of(after)


def refusal(error: ToolfoldError, context: Context) -> ToolResult:
    """Return the tool result that says why a group was not changed, and what to do (SPEC CTL-5).

    Programs find the error's name, and what it names, in `meta`.
    """
    how = None
    about: dict[str, str] = {"error": type(error).__name__}
    if isinstance(error, ParentInactive):
        about["missing"] = error.parent
        view = context.request_view.of(context.session.snapshot)
        how = opener(error.parent, view) or needing(error.parent, None)
    if isinstance(error, HookFailed):
        about |= {"group": error.group, "phase": error.phase}
        if isinstance(error.__cause__, ToolfoldError):  # the names of other exceptions are internals
            about["cause"] = type(error.__cause__).__name__
    return evolve(ToolResult.of_text(refused(error, how), is_error=True), meta={ERROR_META: about})


def refused(error: ToolfoldError, how: str | None = None) -> str:
    """Return a sentence on why a group was not changed, and what to do.

    `how` says what opens the ancestor that is inactive.

    SPEC CTL-5.
    """
    if isinstance(error, ParentInactive) and how is not None:
        return f"Group {error.group!r} can't be opened yet: {how}."
    if not isinstance(error, HookFailed):
        return str(error)
    reason = "" if error.reason is None else f" Reason: {error.reason}"
    doing = "opening" if error.phase == "on_activate" else "closing"
    return f"Nothing was changed: {doing} group {error.group} failed.{reason} Try again later, or go on without it."


def _error(kind: str, text: str, **about: Any) -> ToolResult:
    return ToolResult.of_text(text, {"error_type": kind, **about}, is_error=True)


def _is_empty(catalog: Catalog, path: str) -> bool:
    """Return whether opening a group can make nothing available: no group in it, and nothing that depends on it."""
    if any(group.parent == path for group in catalog.groups):
        return False
    everything = (component for held in catalog.components.values() for component in held.by_name.values())
    return not any(component.belongs_to(path) for component in everything)


def _answer(
    now: RequestView, path: str, change: Change, text: Callable[[str], str], tools: Sequence[Component]
) -> ToolResult:
    structured = {
        "group": path,
        "changed": bool(change),
        "active": list(now.snapshot.active),
        "displaced": [name for name in change.deactivated if name != path],
        "tools": [now.to_wire(component.name) for component in tools],
    }
    note = SHORTENED if now.snapshot.catalog.finder is None else FINDABLE
    about = AboutTools(tuple(tools), text, describe=partial(describe, note=note))
    return evolve(ToolResult.of_text(about.listing(now.to_wire), structured), about=about)


_NO_ARGUMENTS = Arguments.passing_handle("control tool", NO_ARGUMENTS)


def control_component(
    role: tuple[Role, str],
    name: str,
    description: str,
    schema: Mapping[str, Any],
    handle: Any,
    rule: Visibility,
    title: str | None,
) -> Component:
    """Return a control tool: with a closed schema and annotations, and available under `rule` (SPEC CTL-6)."""
    arguments = _NO_ARGUMENTS if schema is NO_ARGUMENTS else Arguments.passing_handle(name, schema)
    definition = {
        "name": name,
        **({"title": title} if title else {}),
        "description": description,
        "inputSchema": schema,
        "annotations": dict(_ANNOTATIONS),
    }
    return Component(
        kind="tool",
        name=name,
        rule=rule,
        definition=definition,
        handler=handle,
        arguments=arguments,
        group=role[1] or None,
        control=role,
    )
