"""The interface to an implementation: a driver configures it, performs operations on it and returns its answers.

A `Setup` is a whole system as data: groups, exclusion sets, tools, limits. An `Operation` is one request as data, and
an `Answer` its result. A driver translates operations for the implementation; subclass `Driver` and write a method for
each verb. What only some implementations can do is a named capability (SPEC CNF-8): what a driver does not name is
left out of the checks and listed in the report.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from attrs import asdict, evolve, field, frozen

from .exchange import Exchange

MAIN = "main"
"""The default session of operations."""

RESERVED = ("activate", "deactivate")
"""The names of control tools, which follow no group, nor does what replaces them (SPEC NAM-4)."""

Phase: TypeAlias = Literal["on_activate", "on_deactivate", "on_rollback"]
PHASES: tuple[Phase, ...] = ("on_activate", "on_deactivate", "on_rollback")

CAPABILITIES: Mapping[str, str] = MappingProxyType(
    {
        "setups": "any system can be configured, not only a given one",
        "errors": "a refusal has the name of its error",
        "registration": "a setup that breaks a rule is refused",
        "listing": "tools can be listed, and the list follows the state",
        "paging": "lists come in pages of a given size",
        "groups": "groups can be listed with their states",
        "calls": "tools can be called",
        "reasons": "the one reason why a tool can or can't be seen and called can be asked for",
        "hidden tools": "tools can be left out of lists, and still be called",
        "relevant controls": "control tools can be listed only while they are relevant",
        "facts": "facts can be set on a session, and rules can depend on them",
        "failing rules": "the rule of a tool can raise an exception",
        "notifications": "each answer has the number of list_changed notifications",
        "transition": "several activations and deactivations can be one transition",
        "force": "a deactivation can be forced although a hook fails",
        "limits": "the number of active groups can be limited",
        "recency": "of the active groups, the one that was used least recently can make room, instead of the oldest",
        "sessions": "several sessions can be open at once",
        "ending": "a session can be ended, and a new one opened with its name",
        "hooks": "groups can have hooks, and each answer has those that ran",
        "failing hooks": "a hook can be scripted to fail",
        "asking hooks": "a hook can be scripted to request a transition of its own session",
        "crossing hooks": "a hook can be scripted to request a transition of another session",
        "blocked hooks": "a hook can be scripted to block until it is released",
        "concurrency": "operations can be started before earlier ones have ended",
        "cancellation": "an operation under way can be cancelled",
        "persistence": "a session's state can be dumped and restored",
    }
)

AT_RUN_TIME: Mapping[str, str] = MappingProxyType(
    {"live registration": "groups and exclusions can be registered and removed while sessions are open"}
)
"""Capabilities of implementations whose system changes while they run."""

IN_A_STORE: Mapping[str, str] = MappingProxyType(
    {"failover": "the process that serves can be stopped, and another goes on with its sessions"}
)
"""Capabilities of implementations whose sessions are in a store that processes share; of drivers in Python alone."""

OF_PROFILES: Mapping[str, str] = MappingProxyType(
    {"profiles": "a session can have a profile that is within that of a parent"}
)
"""Capabilities of implementations with profiles."""

OF_HANDLES: Mapping[str, str] = MappingProxyType(
    {
        "expiry": "handles can be made to expire at once",
        "names of systems": "a system of another name is another tool set",
        "waiting": "a request that sets a fact can be made to wait until it is cancelled",
    }
)
"""Capabilities of MCP servers that were made for the kit."""

OVER_MCP: Mapping[str, str] = MappingProxyType(
    {
        "wire": "it is reached over MCP",
        "legacy wire": "it is reached over MCP with sessions, up to 2025-11-25",
        "modern wire": "it is reached over MCP without sessions, from 2026-07-28",
        "call-through": "it lists a tool that calls others",
    }
)
"""Capabilities of drivers over MCP, which checks of the protocol require."""


class DriverFault(Exception):
    """The driver violated its protocol: there is no verdict on the implementation, and the exit status is 2."""


class NotSupported(DriverFault):
    """The driver does not have a verb: a fault of the harness, since the kit checks capabilities first."""


class LeftOut(Exception):
    """A check can't be run on this implementation; the message says why."""


class TargetFailed(Exception):
    """The implementation itself failed: it crashed, hung, closed the connection or sent an unreadable answer."""


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
    always if it has none), "always", "fact NAME": a predicate, by which it is available while that fact is true and its
    group, if any, is active (SPEC VIS-2), or "raises": its rule raises an exception, so it is never available (SPEC
    VIS-4). `does` is the handler's behaviour: "echo" returns ``{"tool": full
    name, "arguments": …}`` as JSON text, "refuse" raises an error for the model with the text "refused on purpose",
    "crash" raises any other exception with the text "secret". A `flat` tool is listed under its unqualified name (SPEC
    NAM-5); only servers that were not built for the kit have such tools.
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
        """The name by which it is listed and called.

        SPEC NAM-2.
        """
        return self.name if self.group is None or self.flat else f"{self.group}.{self.name}"

    @property
    def follows(self) -> str | None:
        """The group that must be active for it to be available, if any.

        SPEC VIS-2, NAM-4.
        """
        return None if self.when == "always" or self.name in RESERVED else self.group

    @property
    def fact(self) -> str | None:
        """The fact that must be true for it to be available, if any."""
        return self.when.removeprefix("fact ") if self.when.startswith("fact ") else None


def _groups(values: Iterable[Group]) -> tuple[Group, ...]:
    return tuple(values)


def _tools(values: Iterable[Tool]) -> tuple[Tool, ...]:
    return tuple(values)


@frozen
class Setup:
    """A system to configure: everything to register before the first operation."""

    groups: tuple[Group, ...] = field(default=(), converter=_groups)
    exclusions: tuple[tuple[str, ...], ...] = field(default=(), converter=_sets)
    tools: tuple[Tool, ...] = field(default=(), converter=_tools)
    page_size: int | None = None
    max_active: int | None = None
    evict_oldest: bool = False
    evict_idlest: bool = False
    """Whether the oldest is the one that was used least recently (SPEC FND-3)."""
    pinned: tuple[str, ...] = field(default=(), converter=_strings)
    relevant_controls: bool = False
    """Whether control tools are listed only while they are relevant (SPEC CTL-2)."""
    name: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data for `from_json`."""
        data = {name: value for name, value in asdict(self).items() if value or name not in ("evict_idlest", "name")}
        data["tools"] = [{name: tool[name] for name in tool if name != "flat" or tool[name]} for tool in data["tools"]]
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Setup:
        """Return the setup in the JSON data of `to_json`; missing members have their defaults."""
        known: dict[str, Any] = dict(data)
        known["groups"] = [Group(**group) for group in data.get("groups", ())]
        known["tools"] = [Tool(**tool) for tool in data.get("tools", ())]
        return cls(**known)

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of the groups in canonical order."""
        return tuple(sorted((group.path for group in self.groups), key=lambda path: path.split(".")))

    @property
    def fixed(self) -> frozenset[str]:
        """The groups that clients can't close.

        SPEC CTL-1, FND-4.
        """
        return frozenset({*self.pinned, *(group.path for group in self.groups if not group.deactivator)})

    def without(self, gone: Collection[str]) -> Setup:
        """Return it without some groups, which include all their descendants, and without what refers to them."""
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
    """One request: a verb of `Driver`, its arguments by name, and the session."""

    verb: str
    arguments: Mapping[str, Any] = field(factory=dict[str, Any])
    session: str = MAIN

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data for `from_json`."""
        data, setup = asdict(self), self.arguments.get("setup")
        return {**data, "arguments": {**data["arguments"], "setup": setup.to_json()}} if setup is not None else data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Operation:
        """Return the operation in the JSON data of `to_json`."""
        known: dict[str, Any] = dict(data)
        arguments: Mapping[str, Any] = data.get("arguments", {})
        if arguments.get("setup") is not None:
            known["arguments"] = {**arguments, "setup": Setup.from_json(arguments["setup"])}
        return cls(**known)

    def __str__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.verb}({arguments})" + ("" if self.session == MAIN else f" in session {self.session!r}")


@frozen
class Answer:
    """The result of an operation. A member that is None was not observed and is not judged."""

    error: str | None = None
    """The name of the error (SPEC ERR-1) if the operation was refused, "error" if it has no name; None for success."""
    changed: bool | None = None
    detail: Mapping[str, Any] = field(factory=dict[str, Any])
    """The details of the error: `missing` for ParentInactive, `group`, `phase` and `cause` for HookFailed, `sets`, …"""
    active: tuple[str, ...] | None = None
    """The active groups after the operation, in canonical order."""
    hooks: tuple[tuple[str, str], ...] | None = None
    """Phase and group of each hook that has begun since the session's last answer, in order."""
    notified: int | None = None
    """The number of list_changed notifications to this session since its last answer."""
    tools: tuple[str, ...] | None = None
    """The names of the user's tools, in the order of the list; control tools are in `controls`."""
    controls: tuple[str, ...] | None = None
    names: tuple[str, ...] | None = None
    """Everything on the list, in its order, by the names that clients see."""
    next_cursor: str | None = None
    groups: tuple[Mapping[str, Any], ...] | None = None
    """For each group its `name`, `state`, `active` and number of `tools` (SPEC LST-4)."""
    text: str | None = None
    """The text of a call's result or refusal."""
    is_error: bool | None = None
    why: str | None = None
    """What the reason of a tool is (SPEC EXP-1): "listed", "hidden", "group", "ancestor", "excluded", "unknown", …"""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data, without members that were not observed."""
        return {name: value for name, value in asdict(self).items() if value not in (None, {})}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Answer:
        """Return the answer in the JSON data of `to_json`."""
        known: dict[str, Any] = dict(data)
        for name in ("active", "tools", "controls", "names", "groups"):
            if name in data:
                known[name] = tuple(data[name])
        if "hooks" in data:
            known["hooks"] = tuple((phase, group) for phase, group in data["hooks"])
        return cls(**known)


class Driver:
    """The base class of drivers: list what yours can do in `capabilities` and write those verbs.

    Every driver has `configure`, `activate`, `deactivate` and `snapshot`; each other verb belongs to the capability
    named in its docstring. A refusal is an `Answer` with an error, not an exception: any exception other than
    `TargetFailed` counts as a fault of the driver, and the run ends with status 2.
    """

    capabilities: frozenset[str] = frozenset()
    name: str = "in process"
    """The setting, for the report: "in process", "stdio, legacy", …"""
    left_out: Mapping[str, str] = MappingProxyType({})
    """Why capabilities are missing, where there is a specific reason."""
    not_checked: Mapping[str, str] = MappingProxyType({})
    """Parts of the target that are left out of the given system, each with the reason."""
    never_shown: Mapping[str, str] = MappingProxyType({})
    """Clauses for which its answers are no evidence although they have the members, each with the reason."""
    apart: bool = False
    """Whether each session has a process of its own."""
    given: Setup | None = None
    """The only system of a driver without the capability "setups"."""

    def configure(self, setup: Setup) -> Answer:
        """Replace the system, with new sessions; refuse it if it violates a rule."""
        raise NotSupported("configure")

    def perform(self, operation: Operation) -> Answer:
        """Return the answer to an operation, by the method of its verb."""
        answer: Answer = getattr(self, operation.verb)(session=operation.session, **operation.arguments)
        return answer

    def activate(self, group: str, session: str = MAIN) -> Answer:
        """Activate a group; the answer has `active`, and `changed` or `error`."""
        raise NotSupported("activate")

    def deactivate(self, group: str, force: bool = False, session: str = MAIN) -> Answer:
        """Deactivate a group; `force` only with the capability "force"."""
        raise NotSupported("deactivate")

    def snapshot(self, session: str = MAIN) -> Answer:
        """Return an answer with `active`."""
        raise NotSupported("snapshot")

    def transition(
        self, activate: tuple[str, ...], deactivate: tuple[str, ...], force: bool = False, session: str = MAIN
    ) -> Answer:
        """Activate and deactivate groups in one transition: "transition"; `force` only with the capability "force"."""
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

    def why(self, tool: str, session: str = MAIN) -> Answer:
        """Return an answer with `why` a tool of this full name can or can't be seen and called: "reasons"."""
        raise NotSupported("why")

    def set_fact(self, fact: str, value: bool, session: str = MAIN) -> Answer:
        """Set a fact: "facts"."""
        raise NotSupported("set_fact")

    def end(self, session: str = MAIN) -> Answer:
        """End a session and run its hooks; the next operation with its name opens a new one: "ending".

        `detail` may have as `list` the error with which the ended session refuses to list, or None if it lists.
        """
        raise NotSupported("end")

    def restore(self, setup: Setup | None = None, session: str = MAIN) -> Answer:
        """Dump a session, configure `setup` (the same if None), and restore the session in it: "persistence".

        The answer has `active`, and in `detail` as `discarded` the groups that were not restored, and perhaps as
        `equal` whether the dump of the restored session equals the first one. Nothing else remains: other sessions are
        new, and hooks are unscripted. Whether hooks run is not judged.
        """
        raise NotSupported("restore")

    def register(self, setup: Setup, session: str = MAIN) -> Answer:
        """Register and unregister what turns the system into `setup`, while sessions are open: "live registration".

        The answer has the hooks of this session only, and no notifications.
        """
        raise NotSupported("register")

    def script(self, group: str, phase: str, outcome: str, session: str = MAIN) -> Answer:
        """Set what a hook does from now on: "succeed", "fail" ("failing hooks"), "block" ("blocked hooks"), or "ask"
        for the activation of the first sibling of its group ("asking hooks"), "ask NAME" in the session of that name
        ("crossing hooks").
        """
        raise NotSupported("script")

    def fail_over(self, session: str = MAIN) -> Answer:
        """Stop the process that serves, in the middle of what it does and for longer than its leases last, and have
        another go on with the sessions: "failover". A hook that is released later goes on in the stopped process.
        """
        raise NotSupported("fail_over")

    def open_within(self, profiles: tuple[tuple[str, ...], ...], session: str = MAIN) -> Answer:
        """Open a session under a profile that is within the next one, and so on, each by the groups that it names:
        "profiles".
        """
        raise NotSupported("open_within")

    def start(self, operation: Operation) -> int:
        """Begin an operation and return a ticket for it, once it has ended, is queued or is blocked in a hook:
        "concurrency".
        """
        raise NotSupported("start")

    def blocked(self) -> tuple[tuple[str, str], ...]:
        """Return phase and group of the blocked hooks: "blocked hooks"."""
        raise NotSupported("blocked")

    def release(self, group: str, phase: str, fail: bool = False) -> None:
        """Release a blocked hook, and return once every operation has ended, is queued or is blocked."""
        raise NotSupported("release")

    def cancel(self, ticket: int) -> None:
        """Cancel an operation under way, and return once it has ended: "cancellation"."""
        raise NotSupported("cancel")

    def finish(self, ticket: int) -> Answer:
        """Wait until an operation has ended and return its answer, with the error "Cancelled" if it was cancelled."""
        raise NotSupported("finish")

    def exchange(self) -> Exchange | None:
        """Return what was sent and received since `configure`, if that is over MCP.

        SPEC CNF-11.
        """
        return None

    def close(self) -> None:
        """Release all resources."""
