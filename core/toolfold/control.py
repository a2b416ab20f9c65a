"""Control tools: the activators, deactivators and loaders that the library makes itself (SPEC 8).

They are ordinary specs with visibility rules and handlers of their own. What a handler does to the state goes through
`Session.transition` like any other request; here it is only put into words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from string import Formatter
from typing import TYPE_CHECKING, Any, Literal

from attrs import evolve, field, frozen

from .catalog import Catalog, GroupSpec, Role, Spec
from .dispatch import AboutTools, Context, ToolResult, arguments_refused
from .errors import (
    ConfigError,
    ExclusionConflict,
    GroupNotFound,
    HookFailed,
    InvalidArguments,
    ParentInactive,
    QuotaExceeded,
    ReentrantTransition,
    ToolfoldError,
)
from .limits import quoted
from .listing import listed
from .machine import TransitionRequest
from .names import check_segment, is_text, qualified_name
from .opening import opener
from .schema import NO_ARGUMENTS, Arguments
from .visibility import Always, Group, Not, Visibility, groups_of

if TYPE_CHECKING:
    from .observe import Change

ControlName = Literal["per_group", "none", "load_tool_group", "expand_tools"]
ControlVisibility = Literal["always", "relevant"]
RESERVED: tuple[Role, ...] = ("activate", "deactivate")
REFUSALS = (GroupNotFound, ParentInactive, ExclusionConflict, QuotaExceeded, HookFailed, ReentrantTransition)

ERROR_META = "dev.toolfold/error"
"""In the `_meta` of a refusal's result: the name of the error, and what it names."""

_ANNOTATIONS = {"destructiveHint": False, "idempotentHint": True, "openWorldHint": False}


_NOTHING: Mapping[str, Any] = {"group": "", "title": "", "count": 0, "tools": "", "groups": "", "argument": ""}


def _filled(template: str, **values: Any) -> str:
    """Return a text of a loader: each has every placeholder, whether or not there is something to put there."""
    return template.format(**{**_NOTHING, **values})


def _check_template(_: object, attribute: Any, template: Any) -> None:
    """Raise `ConfigError` unless the text can be filled in."""
    if template is None:
        return
    try:
        _filled(template)
    except (LookupError, ValueError, AttributeError, TypeError) as error:
        known = "{group}, {title}, {count}, {tools}, {groups} and {argument}"
        raise ConfigError(f"A loader's text {attribute.name!r} may mention {known}, and is {template!r}.") from error
    tools = [(form, conversion) for _, name, form, conversion in Formatter().parse(template) if name == "tools"]
    if tools not in ([], [("", None)]):
        raise ConfigError(f"A loader's text {attribute.name!r} may mention {{tools}} once, as it is: {template!r}.")


@frozen(kw_only=True)
class LoaderTexts:
    """What a loader answers, as templates for `str.format` (SPEC CTL-3, GRP-3).

    A template may mention `{group}` (its path), `{title}` (the name that people see), `{tools}` (what can be called
    now, a line for each tool; over MCP, with its input schema), `{count}` (how many tools), `{groups}` (all that the
    loader can open) and `{argument}`. Over MCP the tools stand at the end of a text that does not mention them.

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
    """One tool that opens any group by name (SPEC CTL-3).

    Args:
        name: The tool's name.
        argument: The name of its only argument, the path of a group.
        description: What the model is told; the list of groups follows it.
        argument_description: What the model is told about the argument.
        texts: What it answers; the library's own words otherwise.
    """

    name: str
    argument: str = "group"
    description: str = "Open a group of tools, so that its tools can be called."
    argument_description: str = "The group to open."
    texts: LoaderTexts | None = None

    def spec(self, groups: Iterable[GroupSpec]) -> Spec:
        """Return the loader's spec for a catalog that has `groups`."""
        lines = [line_of(group.path, group.description) for group in groups if group.controls]
        description = "\n".join([self.description, *(["Groups:", *lines] if lines else ["There are no groups."])])
        control = _control(("load", ""), self.name, description, self._accepted.schema, self._handle, Always(), None)
        # The loader checks its arguments itself: a missing one is answered in words of its own (SPEC GRP-3).
        return evolve(control, arguments=None, loader=self)

    def refuse(self, name: str, arguments: Mapping[str, Any], catalog: Catalog) -> ToolResult | None:
        """Return the answer to a call that names no group to open in `catalog`, or `None` if it names one (GRP-3).

        `name` is the loader's name as the caller knows it.
        """
        path = arguments.get(self.argument)
        if path is None and self.texts is not None and self.texts.missing is not None:
            text = _filled(self.texts.missing, argument=self.argument)
            return _error("missing_parameter", text, parameter=self.argument)
        try:
            self._accepted.check(name, arguments)
        except InvalidArguments as error:
            kind = "missing_parameter" if path is None else "invalid_parameter"
            return evolve(arguments_refused(catalog.tools[self.name], error), structured={"error_type": kind})
        return self._unusable(str(path), catalog)

    def refusals(self, path: str, title: str, groups: str) -> tuple[str, ...]:
        """Return how its own texts refuse to open a group: there is none of that name, or it has no tools (GRP-3)."""
        templates = () if self.texts is None else (self.texts.not_found, self.texts.empty)
        return tuple(
            _filled(one, group=quoted(path), title=title, groups=groups) for one in templates if one is not None
        )

    @cached_property
    def _accepted(self) -> Arguments:
        schema = {
            "type": "object",
            "properties": {self.argument: {"type": "string", "description": self.argument_description}},
            "required": [self.argument],
            "additionalProperties": False,
        }
        return Arguments.from_schema(self.name, schema)

    async def _handle(self, arguments: dict[str, Any], context: Context) -> ToolResult:
        refused = self.refuse(context.spell(self.name), arguments, context.snapshot.catalog)
        return refused or await open_group(context, arguments[self.argument], self.texts)

    def _unusable(self, path: str, catalog: Catalog) -> ToolResult | None:
        """Return why there is nothing to open under this name, or `None` (SPEC GRP-3)."""
        texts = self.texts
        known = [group.path for group in catalog.groups if group.controls]
        if path not in known:
            text = str(GroupNotFound(path, known))
            if texts is not None and texts.not_found is not None:
                text = _filled(texts.not_found, group=quoted(path), groups=", ".join(known) or "none")
            return _error("not_found", text, group=quoted(path), groups=known)
        if texts is not None and texts.empty is not None and _is_empty(catalog, path):
            text = _filled(texts.empty, group=path, title=catalog.group(path).display_name)
            return _error("empty_group", text, group=path)
        return None


PRESETS: Mapping[str, Loader] = {
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
            loaded="## {title} Tools\n\n{tools}\n\nThey can be called by name from now on.",
            nothing="## {title} Tools\n\nThe group is expanded, and adds no tools to the list.",
            again="The group {title} was expanded already, so nothing changed.\n\n{tools}",
        ),
    ),
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

    def specs(self, group: GroupSpec) -> dict[str, Spec]:
        """Return the control tools of one group by name (SPEC CTL-1, CTL-2)."""
        if not self.per_group or not group.controls:
            return {}
        made = [_activator(group, self.relevant_only)]
        if group.show_deactivator:
            made.append(_deactivator(group, self.relevant_only))
        return {spec.name: spec for spec in made}


def step_of(spec: Spec, arguments: Mapping[str, Any], catalog: Catalog) -> TransitionRequest | None:
    """Return the step that a call of a control tool asks for in `catalog`, or `None` if it refuses the arguments."""
    if spec.control is None or (spec.arguments is not None and spec.arguments.faults(arguments)):
        return None
    role, path = spec.control
    if spec.loader is not None:
        if spec.loader.refuse(spec.name, arguments, catalog) is not None:
            return None
        path = arguments[spec.loader.argument]
    return TransitionRequest(deactivate=path) if role == "deactivate" else TransitionRequest(activate=path)


async def open_group(context: Context, path: str, texts: LoaderTexts | None = None) -> ToolResult:
    """Activate a group and return what the model is told about it, in `texts` if given (SPEC CTL-4, CTL-5)."""
    session = context.session
    before = {spec.name for spec in listed(context.view.of(session.snapshot), "tool")}
    try:
        change = await session.transition(activate=[path], view=context.view)
    except REFUSALS as error:
        return refusal(error, context)
    after = listed(context.view.of(session.snapshot), "tool")
    if change:
        new = [spec for spec in after if spec.name not in before]
    else:
        new = [spec for spec in after if spec.group == path and not spec.control]
    text: Callable[[str], str] = partial(_opened, path, change)
    if texts is not None:
        text = partial(_loaded, texts, context.snapshot.catalog.group(path), change, len(new))
    return _answer(context, path, change, text, new)


def _opened(path: str, change: Change, tools: str) -> str:
    parts = [f"Group {path} is open." if change else f"Group {path} was open already."]
    if change.deactivated:
        parts.append(f"Closed to make room: {', '.join(change.deactivated)}.")
    parts.append(f"You can now call:\n{tools}" if tools else "It adds no tools to the list.")
    return " ".join(parts)


def _loaded(texts: LoaderTexts, group: GroupSpec, change: Change, count: int, tools: str) -> str:
    template = texts.again if not change else texts.loaded if tools else texts.nothing
    text = _filled(template, group=group.path, title=group.display_name, count=count, tools=tools).strip()
    return f"{text}\nClosed to make room: {', '.join(change.deactivated)}." if change.deactivated else text


async def close_group(context: Context, path: str) -> ToolResult:
    """Deactivate a group and return what the model is told about it (SPEC CTL-4, CTL-5)."""
    try:
        change = await context.session.transition(deactivate=[path], view=context.view)
    except REFUSALS as error:
        return refusal(error, context)
    also = [name for name in change.deactivated if name != path]
    text = f"Group {path} is closed." if change else f"Group {path} was closed already."
    if also:
        text += f" Closed with it: {', '.join(also)}."
    return _answer(context, path, change, lambda _: text, ())


def refusal(error: ToolfoldError, context: Context) -> ToolResult:
    """Return the tool result that tells the model why a group stays as it is, and what to do (SPEC CTL-5).

    Programs find the error's name, and what it names, in `meta`.
    """
    how = None
    about: dict[str, str] = {"error": type(error).__name__}
    if isinstance(error, ParentInactive):
        about["missing"] = error.parent
        view = context.view.of(context.session.snapshot)
        how = opener(error.parent, view, context.spell) or f"it needs the group {error.parent}, which is not open"
    if isinstance(error, HookFailed):
        about |= {"group": error.group, "phase": error.phase}
    return evolve(ToolResult.of_text(refused(error, how), is_error=True), meta={ERROR_META: about})


def refused(error: ToolfoldError, how: str | None = None) -> str:
    """Return in words why a group stays as it is, and what to do (SPEC CTL-5).

    `how` says what opens the ancestor that is inactive.
    """
    if isinstance(error, ParentInactive) and how is not None:
        return f"Group {error.group!r} can't be activated yet: {how}."
    if not isinstance(error, HookFailed):
        return str(error)
    reason = "" if error.reason is None else f" Reason: {error.reason}"
    doing = "opening" if error.phase == "on_activate" else "closing"
    return f"Nothing was changed: {doing} group {error.group} failed.{reason} Try again later, or go on without it."


def _error(kind: str, text: str, **about: Any) -> ToolResult:
    return ToolResult.of_text(text, {"error_type": kind, **about}, is_error=True)


def _is_empty(catalog: Catalog, path: str) -> bool:
    """Return whether opening a group can make nothing available: no group in it, and nothing that depends on it."""
    if catalog.tool_counts.get(path) or any(group.parent == path for group in catalog.groups):
        return False
    everything = (spec for shelf in catalog.shelves.values() for spec in shelf.by_name.values())
    return not any(spec.control is None and (spec.group == path or path in groups_of(spec.rule)) for spec in everything)


def line_of(name: str, description: str) -> str:
    """Return one line, whatever line breaks a description has (SPEC CTL-4)."""
    return f"- {name}: {' '.join(description.split())}" if description else f"- {name}"


def _answer(
    context: Context, path: str, change: Change, text: Callable[[str], str], tools: Sequence[Spec]
) -> ToolResult:
    structured = {
        "group": path,
        "changed": bool(change),
        "active": list(context.session.active),
        "displaced": [name for name in change.deactivated if name != path],
        "tools": [context.spell(spec.name) for spec in tools],
    }
    lines = "\n".join(line_of(context.spell(spec.name), spec.description) for spec in tools)
    return evolve(ToolResult.of_text(text(lines), structured), about=AboutTools(tuple(tools), text))


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
