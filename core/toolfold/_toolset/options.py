"""The options of registrations and the settings of a tool set: which there are, and what they can be.

Each `TypedDict` is the only list of the options that it names: signatures take it by `Unpack`, and `checked_options`
refuses whatever is not in it (SPEC KIT-8). An option that is `None` is not given.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from types import UnionType
from typing import Any, Literal, TypedDict

from .._catalog.catalog import ListBudget
from .._catalog.components import Kind
from .._catalog.modes import Modes
from .._catalog.rules import Always, Not, Visibility, check_rule
from .._usercode import is_async
from ..errors import ConfigError, InvalidDefinition, similar
from ..machine.step import Hook


class ComponentOptions(TypedDict, total=False):
    """The options of tools, prompts, resources and resource templates (SPEC REG-9).

    Attributes:
        group: The group that it belongs to; root otherwise.
        visibility: A rule that restricts the group's if it is made of predicates alone, so that both must hold, and
            replaces it if it names groups or `Visibility.always()`: `visibility=Visibility.when(is_boss)` in a group is
            for the boss while the group is active; see `Visibility` (SPEC VIS-2).
        bounded_by: Groups of which a profile must have one for it to exist under that profile, as what is in a group
            does with the group; it is available whether they are active or not (SPEC PRO-1, ISO-2).
        always: `True` is short for the rule that always holds (SPEC KIT-7).
        hidden: Leave it out of lists, or a rule: leave it out while the rule holds. It can be called while it is
            available, hidden or not (SPEC VIS-6).
        visible: The opposite of `hidden`, which goes over it.
        title: The name that people see.
        description: What the model reads; the handler's docstring otherwise (SPEC KIT-1). What the docstring of a typed
            tool says of its parameters goes to these instead, unless a `Field` describes them.
        icons: Icons in the form of the MCP specification.
        meta: More for `_meta`.
        run_in_thread: Whether a handler that is a plain function runs in a worker thread, where it delays no other
            request and other calls may run concurrently; by default as the tool set has it. Async handlers run on the
            event loop.
    """

    group: str | None
    visibility: Visibility | None
    bounded_by: Iterable[str] | None
    always: bool | None
    hidden: bool | Visibility | None
    visible: bool | Visibility | None
    title: str | None
    description: str | None
    icons: Iterable[Any] | None
    meta: Mapping[str, Any] | None
    run_in_thread: bool | None


class ToolOptions(ComponentOptions, total=False):
    """The options of a tool beside its name.

    Attributes:
        flat: Keep the name unqualified although the tool is in a group (SPEC NAM-5).
        input: The arguments: a field specification (see `toolfold.fields`), a JSON Schema mapping whose root is an
            object, or one as a JSON text (SPEC KIT-3).
        output: The structured result, in the same forms.
        input_schema: The arguments as JSON Schema, mapping or text; never taken for a field specification.
        output_schema: The structured result as JSON Schema.
        check_arguments: Whether arguments that do not fit the input schema are refused, as they are unless this is
            `False` (SPEC CALL-2): turn it off for a handler that passes them on to others who judge (SPEC GWY-7). What
            a schema says by which nothing is checked is not looked into.
        check_output: Whether a result that does not fit the output schema becomes an error, as it does unless this is
            `False` (SPEC KIT-6): turn it off for a handler that passes on what others answer.
        structured_output: Whether the return annotation of a typed handler describes the structured result where
            `output` does not: by default if it says what is in it, unless the tool set says otherwise. `True` refuses a
            handler whose annotation does not, `False` turns it off.
        category: A label, which clients get as `_meta.category` (SPEC KIT-5).
        tags: Labels for programs, or one; clients do not get them.
        annotations: Hints such as `{"readOnlyHint": True}`.
        modes: The modes of a composite tool, of which clients get the available ones (SPEC MOD-1).
        replaces_control: Whether a tool that is called `activate` or `deactivate` is meant to take the place of the one
            that opens or closes its group; there is a warning otherwise (SPEC NAM-4).
    """

    flat: bool | None
    input: Any
    output: Any
    input_schema: Any
    output_schema: Any
    check_arguments: bool | None
    check_output: bool | None
    structured_output: bool | None
    category: str | None
    tags: Iterable[str] | None
    annotations: Mapping[str, Any] | None
    modes: Modes | None
    replaces_control: bool | None


class PromptOptions(ComponentOptions, total=False):
    """The options of a prompt beside its name.

    Attributes:
        flat: Keep the name unqualified although the prompt is in a group (SPEC NAM-5).
        arguments: Names, or mappings with `name`, `description` and `required`; or one of them.
        check_arguments: Whether others are refused, and those that are missing; see `ToolOptions`.
    """

    flat: bool | None
    arguments: Iterable[Any] | None
    check_arguments: bool | None


class ResourceOptions(ComponentOptions, total=False):
    """The options of a resource or a resource template beside its URI.

    Attributes:
        name: What it is called; the URI otherwise.
        mime_type: The type of its contents.
        annotations: For whom it is and how important, in the form of the MCP specification.
        size: The size of a resource's contents in bytes.
        check_arguments: Whether a template's handler is given the values of its variables, as it is unless this is
            `False`: turn it off for a handler that passes the URI on, which it is given as `uri` (SPEC GWY-1). The
            template may then have expressions of any level of RFC 6570, and each stands for any text.
    """

    name: str | None
    mime_type: str | None
    annotations: Mapping[str, Any] | None
    size: int | None
    check_arguments: bool | None


class ToolkitOptions(TypedDict, total=False):
    """What a toolkit can say of all that it declares (SPEC KIT-4); see `ToolOptions`."""

    category: str | None
    hidden: bool | Visibility | None
    visible: bool | Visibility | None


class GroupTraits(TypedDict, total=False):
    """The options of a group beside its name, its description and its hooks; see `GroupOptions`."""

    instructions: str | None
    title: str | None
    show_deactivator: bool | None
    controls: bool | None
    selectable: bool | None
    pinned: bool | None
    opens_on: str | None
    transient: bool | None
    run_in_thread: bool | None


class GroupOptions(GroupTraits, total=False):
    """The options of a group in `ToolSet.register_group`.

    Attributes:
        on_activate: Runs before the group is activated; sync or async, with no argument or a `HookContext`.
        on_deactivate: Runs before it is deactivated.
        on_rollback: Undoes one of the two in place of the other; `False` for nothing to undo (SPEC HOOK-5).
        resume: Makes what tools need in this process, such as a connection, where the group is open in a stored session
            that another process has served before (SPEC STO-4).
        instructions: What a model reads when the group opens, before its tools; of one that is open from the start,
            where a session begins. They count against the budget of the answer (SPEC SKL-1).
        title: The name that people see; the segment otherwise.
        show_deactivator: Whether there is a tool that closes the group: there is unless this is `False` (SPEC CTL-1).
        controls: Whether clients can open and close it; by default, unless it `opens_on` an event.
        selectable: Whether a request that begins may have it open, by naming it or by fetching it; by default, where
            clients can open it by control tools (SPEC SES-6). What is in a group that is not selectable is not either.
        pinned: Whether it is open in every session from the start, closed by no client, and spared by quotas
            (SPEC FND-4, ACT-10). What contains it must be pinned too; it has no hooks, and is in no exclusion set.
        opens_on: A tool whose success opens the group: `success_of("observe")` (SPEC SES-6).
        transient: Whether its state is left out when a session is stored (SPEC PER-4).
        run_in_thread: Whether hooks that are plain functions run in worker threads; by default as the tool set has it.
            One that takes longer than `hook_timeout` can't be stopped: it has failed, but goes on in its thread, and
            what it still does is not undone. A hook that may hang should be async, or have a timeout of its own
            (SPEC HOOK-6).
    """

    on_activate: Hook | None
    on_deactivate: Hook | None
    on_rollback: Hook | Literal[False] | None
    resume: Hook | None


class GroupMarkOptions(GroupTraits, total=False):
    """The options of a group by the decorator `group`: as `GroupOptions`, and hooks by names of methods too."""

    description: str | None
    on_activate: Hook | str | None
    on_deactivate: Hook | str | None
    on_rollback: Hook | str | Literal[False] | None
    resume: Hook | str | None


OF_KIND: Mapping[Kind, frozenset[str]] = {
    "tool": ToolOptions.__optional_keys__,
    "prompt": PromptOptions.__optional_keys__,
    "resource": ResourceOptions.__optional_keys__,
    "resource_template": ResourceOptions.__optional_keys__,
}
"""The options of each kind."""

HOOKS = ("on_activate", "on_deactivate", "on_rollback", "resume")
OF_GROUPS = GroupOptions.__optional_keys__
OF_GROUP_MARKS = GroupMarkOptions.__optional_keys__
OF_TOOLKITS = ToolkitOptions.__optional_keys__

_FLAGS = (
    *("flat", "check_arguments", "check_output", "structured_output", "always", "run_in_thread"),
    "replaces_control",
    *("show_deactivator", "controls", "selectable", "pinned", "transient"),
)
_SLOTS = (("input", "input_schema"), ("output", "output_schema"))
"""Options that say the same thing in different forms: the later one goes over the other."""


def checked_options(name: str, options: Mapping[str, Any], known: Collection[str], where: str = "it") -> dict[str, Any]:
    """Return what options say, checked, with `always` and `visible` put as `visibility` and `hidden`.

    Args:
        name: What is declared or registered.
        options: The options; those that are `None` say nothing.
        known: The options that there are.
        where: Where they are written, for a message.

    Raises:
        InvalidDefinition: An option is unknown or can't have its value; it names `name`, the option, and near matches.
    """
    made = {option: value for option, value in options.items() if value is not None}
    for option, value in made.items():
        if option not in known:
            raise InvalidDefinition(name, f"{where} has the unknown option {option!r} ({instead(option, known)})")
        _check_value(name, option, value)
    if (always := made.pop("always", None)) is not None:
        if always and "visibility" in made:
            raise InvalidDefinition(name, "it has both always and visibility: leave one of them out")
        made["visibility"] = Always() if always else made.get("visibility")
    if (visible := made.pop("visible", None)) is not None:
        made.setdefault("hidden", Not(visible) if isinstance(visible, Visibility) else not visible)
    return made


def merged(under: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    """Return two layers of what `checked_options` returned as one, in which the upper one wins (SPEC KIT-4)."""
    replaced = {option for slot in _SLOTS for option in slot if not upper.keys().isdisjoint(slot)}
    return {**{option: value for option, value in under.items() if option not in replaced}, **upper}


def _check_value(name: str, option: str, value: Any) -> None:
    if option in _FLAGS and not isinstance(value, bool):
        raise InvalidDefinition(name, f"its {option} is {value!r}, and must be true or false")
    if option in ("hidden", "visible") and not isinstance(value, bool):
        if not isinstance(value, Visibility):
            raise InvalidDefinition(name, f"its {option} is {value!r}, and must be true, false or a visibility rule")
        check_rule(name, value)
    if option == "visibility":
        check_rule(name, value)


def instead(option: str, known: Collection[str]) -> str:
    """Return a suggestion for an unknown option."""
    near = similar(option, sorted(known))
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    return f"the options are {', '.join(sorted(known))}"


# -- the settings of a tool set ---------------------------------------------------------------------------------------


def check_settings(given: Mapping[str, Any], unknown: Iterable[str]) -> None:
    """Raise `ConfigError` for a setting that there is not, or one that is not as `EXPECTED` says."""
    for setting in unknown:
        known = given.keys() - {"self", "name", "unknown"}
        raise ConfigError(f"There is no setting {setting!r} ({instead(setting, known)}).")
    for setting, (expected, is_right) in EXPECTED.items():
        if not is_right(given[setting]):
            raise ConfigError(f"{setting} must be {expected}, not {given[setting]!r}.")


def _one_of(*choices: object) -> Expected:
    return f"one of {', '.join(map(repr, choices))}", lambda value: value in choices


def _is(number: type | UnionType, value: object) -> bool:
    return isinstance(value, number) and not isinstance(value, bool)


def _answers_at_once(value: Any) -> bool:
    return value is None or (callable(value) and not is_async(value))


Expected = tuple[str, Callable[[Any], bool]]
"""What a setting must be, and whether a value is that."""

_COUNT: Expected = (
    "a whole number of at least 1",
    lambda value: value is None or (_is(int, value) and value >= 1),
)
_SECONDS: Expected = (
    "a number of seconds above 0",
    lambda value: value is None or (_is(int | float, value) and value > 0),
)
_FUNCTION: Expected = ("a function that is not async", _answers_at_once)

EXPECTED: Mapping[str, Expected] = {
    "name": ("a text", lambda value: isinstance(value, str)),
    "on_hidden": _one_of("opaque", "hint"),
    "when_full": _one_of("refuse", "end_idlest"),
    "evict": _one_of(None, "oldest", "idlest"),
    **dict.fromkeys(("run_in_thread", "structured_output"), _one_of(True, False)),
    **dict.fromkeys(("page_size", "max_active", "max_sessions"), _COUNT),
    **dict.fromkeys(("hook_timeout", "idle_timeout"), _SECONDS),
    **dict.fromkeys(("state", "clock"), _FUNCTION),
    "list_budget": ("a ListBudget", lambda value: value is None or isinstance(value, ListBudget)),
    "search": ("a ranker, such as toolfold_adapters.search.bm25", _answers_at_once),
}
"""The settings that are checked by themselves."""
