"""What the kit asks of an implementation: a driver that configures it, performs operations on it and gives its answers.

A `Setup` is a whole system as data: groups, exclusion sets, tools, limits. An `Operation` is one request as data. An
`Answer` is what came of it. A driver turns operations into whatever the implementation understands; subclass `Driver`
and write a method for each verb. Everything that not every implementation can do is a named capability (SPEC CNF-8):
what a driver does not name is left out of the checks and listed in the report.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from attrs import asdict, evolve, field, frozen

MAIN = "main"
"""The session that operations are for unless they name another."""

Phase: TypeAlias = Literal["on_activate", "on_deactivate", "on_rollback"]
PHASES: tuple[Phase, ...] = ("on_activate", "on_deactivate", "on_rollback")

CAPABILITIES: Mapping[str, str] = MappingProxyType(
    {
        "setups": "any system can be configured, not only the one that is there",
        "errors": "a refusal is told apart by the name of its error",
        "registration": "a setup that breaks a rule is refused",
        "listing": "tools can be listed, and the list follows the state",
        "paging": "lists come in pages of a given size",
        "groups": "groups can be listed with their states",
        "calls": "tools can be called",
        "hidden tools": "tools can be left out of lists, and be called all the same",
        "relevant controls": "control tools can be listed only while they could do something",
        "facts": "facts can be set on a session, and rules can depend on them",
        "notifications": "each answer tells how many notices of a changed list came",
        "transition": "several activations and deactivations can be one step",
        "force": "a deactivation can be forced although a hook fails",
        "limits": "the number of active groups can be limited",
        "sessions": "several sessions can be open at once",
        "ending": "a session can be ended, and a new one opened under its name",
        "hooks": "groups can have hooks, and each answer tells which of them ran",
        "failing hooks": "a hook can be told to fail",
        "asking hooks": "a hook can be told to ask its own session for a transition",
        "blocked hooks": "a hook can be told to wait until it is released",
        "concurrency": "operations can be started before earlier ones have ended",
        "cancellation": "an operation under way can be cancelled",
        "persistence": "a session's state can be dumped and restored",
    }
)

AT_RUN_TIME: Mapping[str, str] = MappingProxyType(
    {"live registration": "groups and exclusions can be registered and removed while sessions are open"}
)
"""What random histories make use of, and no check needs."""

OVER_MCP: Mapping[str, str] = MappingProxyType(
    {
        "wire": "it is reached over MCP",
        "legacy wire": "it is reached over MCP with sessions, up to 2025-11-25",
        "modern wire": "it is reached over MCP without sessions, from 2026-07-28",
        "call-through": "it lists a tool that calls others",
    }
)
"""The capabilities of drivers over MCP: what checks of the protocol need."""


class DriverFault(Exception):
    """The driver sent what its protocol does not allow: nothing is said of the implementation, and the status is 2."""


class NotSupported(DriverFault):
    """The driver has no such verb: a fault of the harness, since the kit asks for capabilities first."""


class LeftOut(Exception):
    """A check can't be run on this implementation; the message says why."""


class TargetFailed(Exception):
    """The implementation itself failed: it crashed, hung, closed the connection or answered what cannot be read."""


def _strings(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(values)


def _sets(values: Iterable[Iterable[str]]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(value) for value in values)


@frozen
class Group:
    """A group of a setup; `hooks` names the phases that have a hook."""

    path: str
    description: str = ""
    hooks: tuple[str, ...] = field(default=(), converter=_strings)
    deactivator: bool = True


@frozen
class Tool:
    """A tool of a setup.

    Its full name is the group's path and `name`, joined by a dot. `when` is "group" (available with its group, or
    always if it has none), "always", or "fact NAME": available while that fact is true. `does` says what its handler
    does: "echo" answers ``{"tool": full name, "arguments": …}`` as JSON text, "refuse" raises an error meant for the
    model with the text "refused on purpose", "crash" raises any other exception with the text "secret". A tool that is
    `flat` has a name of its own, as in a server that was not made for the kit (SPEC NAM-5); no other system has one.
    """

    name: str
    group: str | None = None
    when: str = "group"
    hidden: bool = False
    does: Literal["echo", "refuse", "crash"] = "echo"
    input_schema: Mapping[str, Any] | None = None
    flat: bool = False

    @property
    def full_name(self) -> str:
        """The name under which it is listed and called (SPEC NAM-2)."""
        return self.name if self.group is None or self.flat else f"{self.group}.{self.name}"


def _groups(values: Iterable[Group]) -> tuple[Group, ...]:
    return tuple(values)


def _tools(values: Iterable[Tool]) -> tuple[Tool, ...]:
    return tuple(values)


@frozen
class Setup:
    """A system to configure: everything that an implementation is to register before the first operation."""

    groups: tuple[Group, ...] = field(default=(), converter=_groups)
    exclusions: tuple[tuple[str, ...], ...] = field(default=(), converter=_sets)
    tools: tuple[Tool, ...] = field(default=(), converter=_tools)
    page_size: int | None = None
    max_active: int | None = None
    evict_oldest: bool = False
    pinned: tuple[str, ...] = field(default=(), converter=_strings)
    relevant_controls: bool = False
    """Whether control tools are listed only while they could do something (SPEC CTL-2)."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data; `from_json` reads it back."""
        data = asdict(self)
        data["tools"] = [{name: tool[name] for name in tool if name != "flat" or tool[name]} for tool in data["tools"]]
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Setup:
        """Return the setup that `to_json` wrote; members that are left out have their defaults."""
        known: dict[str, Any] = dict(data)
        known["groups"] = [Group(**group) for group in data.get("groups", ())]
        known["tools"] = [Tool(**tool) for tool in data.get("tools", ())]
        return cls(**known)

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of the groups in canonical order."""
        return tuple(sorted((group.path for group in self.groups), key=lambda path: path.split(".")))

    def without(self, gone: Collection[str]) -> Setup:
        """Return it without some groups, all below which are among them, and without what is about them."""
        sets = [[path for path in members if path not in gone] for members in self.exclusions]
        return evolve(
            self,
            groups=[group for group in self.groups if group.path not in gone],
            exclusions=[members for members in sets if len(members) > 1],
            tools=[tool for tool in self.tools if tool.group not in gone],
            pinned=[path for path in self.pinned if path not in gone],
        )


@frozen
class Operation:
    """One request: a verb of `Driver`, its arguments by name, and the session it is for."""

    verb: str
    arguments: Mapping[str, Any] = field(factory=dict[str, Any])
    session: str = MAIN

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data; `from_json` reads it back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Operation:
        """Return the operation that `to_json` wrote."""
        known: dict[str, Any] = dict(data)
        arguments: Mapping[str, Any] = data.get("arguments", {})
        if arguments.get("setup") is not None:
            known["arguments"] = {**arguments, "setup": Setup.from_json(arguments["setup"])}
        return cls(**known)

    def __str__(self) -> str:
        said = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.verb}({said})" + ("" if self.session == MAIN else f" in session {self.session!r}")


@frozen
class Answer:
    """What came of an operation. A member that is None was not observed, and is not judged."""

    error: str | None = None
    """The name of the error (SPEC ERR-1) if the operation was refused, "error" if it has none; None for success."""
    changed: bool | None = None
    detail: Mapping[str, Any] = field(factory=dict[str, Any])
    """What the error names: `missing` for ParentInactive, `group`, `phase` and `cause` for HookFailed, `sets`, …"""
    active: tuple[str, ...] | None = None
    """The active groups after the operation, in canonical order."""
    hooks: tuple[tuple[str, str], ...] | None = None
    """Phase and group of each hook that began since the last answer of this session, in that order."""
    notified: int | None = None
    """How many notices of a changed list this session was sent since its last answer."""
    tools: tuple[str, ...] | None = None
    """The names of the user's tools in a list, in the order of the list; control tools are in `controls`."""
    controls: tuple[str, ...] | None = None
    names: tuple[str, ...] | None = None
    """Everything on a list, in its order, by the names that clients see."""
    next_cursor: str | None = None
    groups: tuple[Mapping[str, Any], ...] | None = None
    """For each group its `name`, `state`, `active` and number of `tools` (SPEC LST-4)."""
    text: str | None = None
    """The text of a call's result, or the words in which it was denied."""
    is_error: bool | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data, without what was not observed."""
        return {name: value for name, value in asdict(self).items() if value not in (None, {})}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Answer:
        """Return the answer that `to_json` wrote."""
        known: dict[str, Any] = dict(data)
        for name in ("active", "tools", "controls", "names", "groups"):
            if name in data:
                known[name] = tuple(data[name])
        if "hooks" in data:
            known["hooks"] = tuple((phase, group) for phase, group in data["hooks"])
        return cls(**known)


class Driver:
    """What the kit drives. Subclass it: name what you can do in `capabilities` and write those verbs.

    Every driver has `configure`, `activate`, `deactivate` and `snapshot`; each other verb belongs to the capability
    that its docstring names. A refusal is an `Answer` with an error, not an exception: an exception other than
    `TargetFailed` is taken for a fault of the driver, and the run stops with status 2.
    """

    capabilities: frozenset[str] = frozenset()
    name: str = "in process"
    """The setting, for the report: "in process", "stdio, legacy", …"""
    left_out: Mapping[str, str] = MappingProxyType({})
    """Why capabilities are missing, where there is more to say than that they are."""
    not_checked: Mapping[str, str] = MappingProxyType({})
    """What of the target is left out of the system that is there, each with the reason."""
    never_shown: Mapping[str, str] = MappingProxyType({})
    """Clauses of which its answers can be no evidence, each with the reason, though they have the members for it."""
    given: Setup | None = None
    """The system that is there, for a driver without the capability "setups": it configures that one only."""

    def configure(self, setup: Setup) -> Answer:
        """Install a system in place of the one before; every session is new. Refuse it if it breaks a rule."""
        raise NotSupported("configure")

    def perform(self, operation: Operation) -> Answer:
        """Return the answer to an operation, by the method of its verb."""
        answer: Answer = getattr(self, operation.verb)(session=operation.session, **operation.arguments)
        return answer

    def activate(self, group: str, session: str = MAIN) -> Answer:
        """Activate a group; the answer has `changed`, or `error`, and `active`."""
        raise NotSupported("activate")

    def deactivate(self, group: str, force: bool = False, session: str = MAIN) -> Answer:
        """Deactivate a group; `force` only with the capability "force"."""
        raise NotSupported("deactivate")

    def snapshot(self, session: str = MAIN) -> Answer:
        """Return an answer with `active`."""
        raise NotSupported("snapshot")

    def transition(self, activate: tuple[str, ...], deactivate: tuple[str, ...], session: str = MAIN) -> Answer:
        """Do it all as one step: "transition"."""
        raise NotSupported("transition")

    def list(self, cursor: str | None = None, session: str = MAIN) -> Answer:
        """List tools: the answer has `tools`, `controls`, `names`, `next_cursor`: "listing"; with a cursor "paging"."""
        raise NotSupported("list")

    def list_groups(self, session: str = MAIN) -> Answer:
        """List groups: the answer has `groups`: "groups"."""
        raise NotSupported("list_groups")

    def call(self, tool: str, arguments: Mapping[str, Any], session: str = MAIN) -> Answer:
        """Call a tool by its full name: the answer has `text` and `is_error`, or `error`: "calls"."""
        raise NotSupported("call")

    def set_fact(self, fact: str, value: bool, session: str = MAIN) -> Answer:
        """Set a fact: "facts"."""
        raise NotSupported("set_fact")

    def end(self, session: str = MAIN) -> Answer:
        """End a session, hooks and all; the next operation under its name is for a new one: "ending".

        In `detail` it may tell as `list` the error with which the ended session refuses to list, None if it lists.
        """
        raise NotSupported("end")

    def restore(self, setup: Setup | None = None, session: str = MAIN) -> Answer:
        """Dump a session, configure `setup` (the same if None), restore the session there: "persistence".

        The answer has `active`, and in `detail` as `dropped` the groups that are not. Nothing else is left: other
        sessions are new, and hooks are told nothing. Whether hooks run is not judged.
        """
        raise NotSupported("restore")

    def register(self, setup: Setup, session: str = MAIN) -> Answer:
        """Register and unregister what makes the system be `setup`, while sessions are open: "live registration".

        Hooks that it runs are told for this session alone, and no notices are: what comes later is judged again.
        """
        raise NotSupported("register")

    def script(self, group: str, phase: str, outcome: str, session: str = MAIN) -> Answer:
        """Tell what a hook does from now on: "succeed", "fail" ("failing hooks"), "block" ("blocked hooks"), or "ask"
        for the activation of its own group's first sibling ("asking hooks").
        """
        raise NotSupported("script")

    def start(self, operation: Operation) -> int:
        """Begin an operation and return a ticket for it, once it has ended, waits for its turn or is blocked in a hook:
        "concurrency".
        """
        raise NotSupported("start")

    def blocked(self) -> tuple[tuple[str, str], ...]:
        """Return phase and group of the hooks that wait now: "blocked hooks"."""
        raise NotSupported("blocked")

    def release(self, group: str, phase: str, fail: bool = False) -> None:
        """Let a blocked hook end, and return once what follows from that has ended, waits or is blocked."""
        raise NotSupported("release")

    def cancel(self, ticket: int) -> None:
        """Cancel an operation under way, and return once it is over: "cancellation"."""
        raise NotSupported("cancel")

    def finish(self, ticket: int) -> Answer:
        """Wait for an operation's end and return its answer; error "Cancelled" if it was cancelled."""
        raise NotSupported("finish")

    def close(self) -> None:
        """Let go of everything."""
