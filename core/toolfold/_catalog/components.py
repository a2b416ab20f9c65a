"""What is registered: tools, prompts, resources and their templates, groups, and profiles (SPEC 1, 3)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Hashable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Literal

from attrs import evolve, field

from .._names import ToWire, split_name
from .._plain import approximate_tokens
from .._schema.arguments import Arguments
from .._usercode import InThread
from .._values import frozen
from ..errors import ConfigError
from ..machine import paths_of
from ..machine.step import Hook, Hooks
from .loader import Loader
from .modes import Modes
from .rules import Both, Not, Visibility, enabling_groups, is_static, required_groups

Kind = Literal["tool", "prompt", "resource", "resource_template"]


KINDS: tuple[Kind, ...] = ("tool", "prompt", "resource", "resource_template")


Role = Literal["activate", "deactivate", "load", "find"]


WithheldBy = Literal["quarantined", "starting", "failed"]
"""Why a tool that is known of is not in a catalog: it is not approved, or its server has not said what it offers."""


Handler = Callable[[dict[str, Any], Any], Awaitable[Any]]
"""Takes the arguments and the context of a call."""


def words(kind: Kind) -> str:
    """Return a kind as prose."""
    return kind.replace("_", " ")


def kinds_of(kinds: Kind | Iterable[Kind]) -> frozenset[Kind]:
    """Return kinds as a set; a single text is one kind. Raises `ConfigError` for what is none."""
    given = frozenset((kinds,) if isinstance(kinds, str) else kinds)
    if unknown := [kind for kind in given if kind not in KINDS]:
        raise ConfigError(f"There is no kind {unknown[0]!r}; the kinds are {', '.join(KINDS)}.")
    return given


@frozen(kw_only=True)
class Group:
    """A group as it was registered.

    `on_rollback` is `None` to undo a hook by its opposite, a hook of its own, or `False` to opt out (SPEC HOOK-5).
    `resume` runs in a process that takes over a session in which the group is open (SPEC STO-4).
    `instructions` are what a model reads when the group opens (SPEC SKL-1).
    `opens_on` is the tool whose success opens the group (SPEC SES-6). One that is not `selectable` is opened by no
    request that names or fetches it, nor is what is in it; see `Catalog.selectable`. A `pinned` group is open where a
    session begins, is closed by no client, and is never evicted (SPEC FND-4). A `transient` group is not stored
    (SPEC PER-4).
    """

    path: str
    description: str = ""
    instructions: str = ""
    title: str | None = None
    on_activate: Hook | None = None
    on_deactivate: Hook | None = None
    on_rollback: Hook | Literal[False] | None = None
    resume: Hook | None = None
    show_deactivator: bool = True
    controls: bool = True
    selectable: bool = True
    pinned: bool = False
    opens_on: str | None = None
    transient: bool = False

    @property
    def parent(self) -> str | None:
        """The path of the parent, or `None` for a group at root."""
        return split_name(self.path)[0] or None

    @property
    def display_name(self) -> str:
        """The title, or else the last segment of the path."""
        return self.title or split_name(self.path)[1]

    @property
    def hooks(self) -> Hooks:
        """What its transitions run."""
        return Hooks(self.path, self.on_activate, self.on_deactivate, self.on_rollback)

    @property
    def has_hooks(self) -> bool:
        """Whether any transition of this group runs something."""
        return self.on_activate is not None or self.on_deactivate is not None

    @property
    def has_hooks_in_threads(self) -> bool:
        """Whether some of them run in a thread, where nothing can stop them."""
        return any(isinstance(one, InThread) for one in (self.on_activate, self.on_deactivate, self.on_rollback))


@frozen(kw_only=True, eq=False)
class Component:
    """Something registered: a tool, prompt, resource or resource template.

    `name` is the full name, the URI, or the URI template. `definition` is what clients read,
    in the shape of the MCP specification; treat it as read-only. `control` is set for what the library made itself, and
    `loader` for a tool that opens groups by name. `hidden` says whether lists leave it out, or is the rule under which
    they do (SPEC VIS-6); ask `visibility.is_hidden`. `modes` is set for a composite tool, and `origin` for one as
    offered in one snapshot: what was registered. `replaces_control` says whether a user's tool is there in place of one
    that opens or closes its group (SPEC NAM-4). `bounded_by` are groups of which a profile must have one, beside its
    own.

    SPEC REG-9.
    """

    kind: Kind
    name: str
    rule: Visibility
    definition: Mapping[str, Any]
    handler: Handler
    arguments: Arguments | None = None
    group: str | None = None
    bounded_by: tuple[str, ...] = ()
    hidden: bool | Visibility = False
    category: str | None = None
    tags: tuple[str, ...] = ()
    control: tuple[Role, str] | None = None
    loader: Loader | None = None
    modes: Modes | None = None
    origin: Component | None = None
    replaces_control: bool = False

    @property
    def description(self) -> str:
        """The description that the model reads."""
        return str(self.definition.get("description", ""))

    @property
    def title(self) -> str | None:
        """The human-readable name, if there is one."""
        return self.definition.get("title")

    @cached_property
    def tokens(self) -> int:
        """About how many tokens its definition has."""
        return approximate_tokens(self.render())

    @property
    def opens_or_closes(self) -> bool:
        """Whether it is the control tool of one group, or an author's tool in its place."""
        return self.replaces_control or (self.control is not None and self.control[1] != "")

    @property
    def never_listed(self) -> bool:
        """Whether lists leave it out in every snapshot."""
        return self.hidden is True

    @property
    def listing_rule(self) -> Visibility:
        """The rule under which lists have it, unless they never do: available, and not hidden by its rule.

        That a composite tool needs a mode is not part of it.
        """
        return self.rule if isinstance(self.hidden, bool) else Both(self.rule, Not(self.hidden))

    def belongs_to(self, path: str) -> bool:
        """Return whether a group has it: it is in the group, or shared with it. No control tool is.

        SPEC SKL-2.
        """
        return self.control is None and (self.group == path or path in enabling_groups(self.rule))

    @cached_property
    def required_groups(self) -> frozenset[str]:
        """Groups each of which must be active for it to be available; empty if none is necessary."""
        return required_groups(self.rule)

    def may_change(self, arguments: Mapping[str, Any]) -> bool:
        """Return whether a call opens or closes groups: of a control tool, unless that is only asked to find tools."""
        if self.control is None or self.control[0] != "find":
            return self.control is not None
        assert self.arguments is not None
        return self.arguments.read(arguments).get("open") is True

    @cached_property
    def is_settled(self) -> bool:
        """Whether its definition, and whether it is listed, depends on the active groups alone."""
        return is_static(self.listing_rule) and (self.modes is None or not self.modes.changing)

    @property
    def input_schema(self) -> Mapping[str, Any]:
        """The JSON Schema of a tool's arguments; empty for other kinds."""
        schema: Mapping[str, Any] = self.definition.get("inputSchema", {})
        return schema

    def render(self, to_wire: ToWire = str) -> dict[str, Any]:
        """Return the definition as a caller reads it, who knows tools by `to_wire`.

        SPEC NAM-6.
        """
        return {**self.definition, "name": to_wire(self.name)} if self.kind == "tool" else {**self.definition}


@frozen(kw_only=True)
class OwnComponents:
    """What sessions have in place of what is registered, such as a server's own descriptions for one of its users.

    Attributes:
        key: What it is known by: two are the same if their keys are.
        components: By kind and name what there is in place of something registered; `None` for nothing.
        withheld: Why some of those are missing, as `Catalog.withheld` has it.

    SPEC GWY-19.
    """

    key: Hashable
    components: Mapping[tuple[Kind, str], Component | None] = field(eq=False, repr=False)
    withheld: Mapping[str, tuple[WithheldBy, str]] = field(
        factory=dict[str, tuple[WithheldBy, str]], eq=False, repr=False
    )

    def of(self, kind: Kind, registered: Mapping[str, Component]) -> Iterator[tuple[str, Component]]:
        """Yield what there is of a kind, by name, given what is registered."""
        for name, component in registered.items():
            if (own := self.components.get((kind, name), component)) is not None:
                yield name, own


@frozen(cache_hash=True)
class Profile:
    """A named choice of groups: active from the start, and allowed to be activated.

    `"*"` in `available` means all others. `read_only=True` keeps only the tools whose `readOnlyHint` is true (PRO-3),
    and `destructive=False` also those whose `destructiveHint` is false: without hints, a tool may destroy.
    `within` is the profile of a parent, such as of an agent that has subagents: what does not exist under that one does
    not exist under this one, whatever it names (GWY-16). One whose name is empty is a bound alone: a session under it
    is stored as one without a profile. `own` is what its sessions have in place of what is registered (GWY-19).

    SPEC PRO-1.
    """

    name: str
    description: str = field(default="", kw_only=True)
    active: tuple[str, ...] = field(default=(), converter=paths_of, kw_only=True)
    available: tuple[str, ...] = field(default=(), converter=paths_of, kw_only=True)
    read_only: bool | None = field(default=None, kw_only=True)
    destructive: bool | None = field(default=None, kw_only=True)
    within: Profile | None = field(default=None, kw_only=True)
    own: OwnComponents | None = field(default=None, kw_only=True, repr=False)

    def __attrs_post_init__(self) -> None:
        if self.within is not None:
            object.__setattr__(self, "active", tuple(filter(self.within.admits, self.active)))

    @classmethod
    def with_own(
        cls,
        key: Hashable,
        components: Mapping[tuple[Kind, str], Component | None],
        withheld: Mapping[str, tuple[WithheldBy, str]],
    ) -> Profile:
        """Return a profile that bounds nothing, whose sessions have something in place of what is registered.

        SPEC GWY-19.

        Args:
            key: What that is known by: two are the same if their keys are.
            components: By kind and name what there is instead; `None` for nothing.
            withheld: Why some tools are missing, by name.
        """
        return cls("", available=("*",), own=OwnComponents(key=key, components=components, withheld=withheld))

    def admits(self, path: str) -> bool:
        """Return whether the group exists under this profile: named or above a named one, and in its parent's."""
        if self.within is not None and not self.within.admits(path):
            return False
        if "*" in self.available:
            return True
        return any(name == path or name.startswith(f"{path}.") for name in (*self.active, *self.available))

    def keeps(self, reads: bool, destroys: bool = True) -> bool:
        """Return whether a tool exists under this profile.

        Args:
            reads: Whether it says that it only reads.
            destroys: Whether it does not say that it destroys nothing, if it does more than read.
        """
        own = self.read_only is None or reads is self.read_only
        own = own and (self.destructive is None or (destroys and not reads) is self.destructive)
        return own and (self.within is None or self.within.keeps(reads, destroys))

    def bounded(self, bound: Profile) -> Profile:
        """Return this profile within another one, and so are those that it is within itself.

        SPEC GWY-16.
        """
        return evolve(self, within=bound if self.within is None else self.within.bounded(bound))

    @property
    def replaced(self) -> OwnComponents | None:
        """What sessions under it have in place of what is registered: the outermost profile that it is within says."""
        return self.own if self.within is None else self.within.replaced or self.own

    @property
    def named(self) -> frozenset[str]:
        """The groups that it names, or the profile of its parent."""
        own = {*self.active, *self.available} - {"*"}
        return frozenset(own if self.within is None else own | self.within.named)

    def without(self, gone: Container[str]) -> Profile:
        """Return the profile without some groups, which do not exist any more."""
        active, available = (
            tuple(path for path in paths if path not in gone) for paths in (self.active, self.available)
        )
        parent = self.within if self.within is None else self.within.without(gone)
        return evolve(self, active=active, available=available, within=parent)
