"""The driver of an MCP server as a black box: not made for the kit, with the groups that it has.

What is active is read from lists: a group is, if one of its tools is listed. Groups come from a description, or from
the names of control tools; then their tools and exclusions are found by opening each once, and the checks are whether
the same holds from then on. A new session is a new connection, or a request without a handle. Over stdio a process may
have one client, whose requests need no handle (SPEC DEL-12): then a new session is a new process in the modern era too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

from attrs import evolve

from toolfold_specs.driver import CAPABILITIES, MAIN, Answer, LeftOut, Operation, Setup, TargetFailed

from .description import (
    ControlCall,
    Described,
    Description,
    catalog_name,
    infer,
    is_control,
    load,
    only_sounds_like_control,
)
from .link import Link
from .protocol import BEYOND_MODERN, ERROR_META, wire_capabilities
from .replies import Reply
from .sessions import GRACE, McpDriver, Session

MOST_GROUPS: Final = 12
"""The greatest number of groups whose exclusions are found by trying; beyond it a description must name them."""

WAYS: Final = 3
"""How many groups are tried at most, to see whether the state of a process is that of its handles."""

CALL_TOOL: Final = "call_tool"
NO_GROUPS: Final = (
    "no tool on its list is named like GROUP__open or GROUP.activate, so its groups are not known: describe them "
    "in a file"
)
NO_HANDLE: Final = "an activation returns no handle, to distinguish sessions by"
NOT_MADE: Final = "the server was not made for the kit"
ONE_CLIENT: Final = (
    "a process of it has one client, whose requests need no handle (SPEC DEL-12), so each session of the kit has a "
    "process of its own; what sets clients apart is checked if it is started for several (Toolfold: --many-clients)"
)


class BlackBoxDriver(McpDriver):
    """Drives a server with the groups that it has.

    Args:
        link: Where the server is, and which era is spoken. It is closed with the driver.
        description: What describes its groups, or the file that does; None to find them.
        grace: Seconds that a notice that is due is awaited if it did not arrive with the answer.

    Raises:
        TargetNotStarted: The server can't be started.
        TargetFailed: Its groups can't be found.
        DescriptionError: The description is wrong.
    """

    def __init__(self, link: Link, description: Path | Description | None = None, grace: float = GRACE) -> None:
        super().__init__(link, grace)
        self._handles_are_ignored = self._without_handles = False
        self._others: set[str] = set()
        self.capabilities = frozenset({"listing"})
        self._described = Description()
        self._at_first = frozenset[str]()
        self._or_close(lambda: self._learn(description))
        self._leave_out_unrecognisable()
        self.given = self._setup = self._described.setup
        self.starts_active = self._described.starts_active
        if self._described.names_errors:
            self._or_close(self._leave_out_refusing)
        self.capabilities, self.left_out = self._able()
        self.never_shown = {**self.never_shown, **self._without_evidence()}
        self._handles_are_ignored = self._or_close(self._lists_the_same_under_a_handle)

    def _learn(self, description: Path | Description | None) -> None:
        listed = self.main.list_all_tools()
        self._note(listed)
        names = {str(tool["name"]) for tool in listed}
        self._at_first = frozenset(names)
        self.call_tool = CALL_TOOL if CALL_TOOL in names else None
        if isinstance(description, Description):
            self._described = description
        else:
            self._described = infer(names - self._others) if description is None else load(description)
        self._by_arguments = self._described.handles == "arguments"
        if self._modern and self.link.own_processes and self._described.groups:
            self.apart = self._has_one_client(inferred=description is None)
            self._begin()
        if self.apart and self._modern:
            self.not_checked = {"several clients of one process": ONE_CLIENT}
        if description is None and self._described.groups:
            self._described = self._found(names)

    def _note(self, definitions: Sequence[Mapping[str, Any]]) -> None:
        self._others |= {str(one["name"]) for one in definitions if only_sounds_like_control(one)}

    def _looks_like_control(self, name: str) -> bool:
        return is_control(name) and name not in self._others

    def _has_one_client(self, *, inferred: bool) -> bool:
        """Return whether requests without a handle change what the list under a handle shows (SPEC DEL-12)."""
        paths, session = [group.path for group in self._described.groups], self._session(MAIN)
        opened = next((path for path in paths[:WAYS] if self._opens(path, session)), None)
        if opened is None:
            return False
        before = list[str](self._names(session))
        if inferred:  # more controls may be listed now
            self._described = infer({*self._at_first, *before} - self._others)
        steps = [("deactivate", opened), *(("activate", path) for path in paths if path != opened)]
        for verb, path in steps[:WAYS]:
            self._step(verb, path, self._new(self.main, current=True))
            if self._names(session) != before:
                return True
        return False

    def _opens(self, path: str, session: Session) -> bool:
        """Return whether opening a group returns a handle, which the session has from then on."""
        self._step("activate", path, session)
        return session.handle is not None

    def _lists_the_same_under_a_handle(self) -> bool:
        """Return whether a list under a handle is the one without it: then no list shows the state (SPEC DEL-11)."""
        roots = [group.path for group in self._described.groups if "." not in group.path]
        if not (self._modern and roots and "listing" in self.capabilities):
            return False
        session = self._session(MAIN)
        without = list[str](self._names(session))
        self._step("activate", roots[0], session)
        ignored = session.handle is not None and list[str](self._names(session)) == without
        self._begin()
        return ignored

    def _leave_out_refusing(self) -> None:
        """Leave out the groups that a hook refuses to open and that leave all as it was, and those in them.

        A refusal is no fault: what a hook asks for before it lets its group open is not known here.
        """
        session, refused = self._session(MAIN), dict[str, str]()
        for group in self._described.groups:
            if (above := _above(group.path)) and not refused.keys().isdisjoint(above):
                continue
            for path in above:
                self._step("activate", path, session)
            before = self._active(session)
            reply = self._step("activate", group.path, session)
            error = cast("Mapping[str, Any]", {} if reply is None else reply.meta.get(ERROR_META) or {})
            if error.get("error") == "HookFailed" and self._active(session) == before:
                refused[group.path] = "its hook refuses to open it, and nothing is changed"
        self._begin()
        if refused:
            self._describe_without(refused)
            self.given = self._setup = self._described.setup

    def _describe_without(self, gone: Mapping[str, str]) -> None:
        """Leave out some groups with those in them, for the reasons given, and report that."""
        left = [one for one in self._described.groups if gone.keys().isdisjoint((*_above(one.path), one.path))]
        paths = {one.path for one in left}
        within = {
            one.path: next(gone[path] for path in (*_above(one.path), one.path) if path in gone)
            for one in self._described.groups
            if one.path not in paths
        }
        self.not_checked = {**self.not_checked, **{f"group {path}": why for path, why in within.items()}}
        exclusions = (tuple(path for path in members if path in paths) for members in self._described.exclusions)
        several = tuple(members for members in exclusions if len(members) > 1)
        self._described = evolve(self._described, groups=tuple(left), exclusions=several)

    def _active(self, session: Session) -> tuple[str, ...] | None:
        return None if self._handles_are_ignored else super()._active(session)

    def _leave_out_unrecognisable(self) -> None:
        """Leave out the groups whose state no list shows, and those below them, and report that."""
        recognised = {
            group.path for group in self._described.groups if set(group.tools) & self._described.labels.keys()
        }
        if not recognised:
            return
        retained = [one for one in self._described.groups if recognised.issuperset((*_above(one.path), one.path))]
        gone = [group.path for group in self._described.groups if group not in retained]
        why = "it has no tool of its own on the list, or is within such a group, so its state can't be seen"
        self._describe_without(dict.fromkeys(gone, why))

    def _able(self) -> tuple[frozenset[str], Mapping[str, str]]:
        """Return what can be driven, and why the rest can't."""
        missing = dict.fromkeys(CAPABILITIES, NOT_MADE)
        there = {"listing", "sessions"}
        tools = self.main.capabilities.get("tools")
        if self._modern:
            missing.update({name: BEYOND_MODERN[name] for name in ("notifications", "ending")})
        else:
            missing["notifications"] = "the server does not advertise tools.listChanged"
            there |= {"ending", *(["notifications"] if tools is not None and tools.get("listChanged") else [])}
        if self._modern and self._by_arguments:
            there.remove("listing")
            missing["listing"] = "a request for a list can't carry a handle"
        wire = wire_capabilities(self.link.era, self.call_tool)
        return wire | there, {name: why for name, why in missing.items() if name not in there}

    def _without_evidence(self) -> Mapping[str, str]:
        """Return the clauses that the lists of this server are no evidence for, since its names are its own."""
        found: dict[str, str] = {}
        if not self._each_its_own:
            found = dict.fromkeys(("CTL-1", "CTL-2"), "its groups have no control tools of their own")
        if any(tool.flat for tool in self._described.setup.tools):
            found["NAM-2"] = "its tools have names of their own, without the group's path"
        return found

    # -- sessions -----------------------------------------------------------------------------------------------------

    def configure(self, setup: Setup) -> Answer:
        """Start again with the given groups; any other setup is refused."""
        if setup != self.given:
            return Answer(error="error")
        self._begin()
        return Answer()

    def _begin(self) -> None:
        """Discard all sessions, so that the next ones are new."""
        for session in self._sessions.values():
            if session.connection is not self.main:
                self.link.release(session.connection)
        self._sessions.clear()
        if self.main.calls and self._is_changed():
            self.main = self.link.replaced(self.main)
        self.link.begin()

    def _is_changed(self) -> bool:
        """Return whether the state may not be the initial one, as it is on another connection."""
        if self._modern and not self.link.own_processes:
            return False
        if self.main.successes and (self.apart or not self._modern):
            return True
        return frozenset(tool["name"] for tool in self.main.list_all_tools()) != self._at_first

    def _session(self, name: str) -> Session:
        new = name not in self._sessions
        session = super()._session(name)
        if new and self.starts_active:
            for path in reversed(self.starts_active):
                self._step("deactivate", path, session)
            if still := self._active(session):
                raise TargetFailed(f"The group {still[0]} is open in a new session, and could not be closed.")
            session.notices = session.connection.changes
        return session

    # -- transitions ---------------------------------------------------------------------------------------------------

    def _step(self, verb: str, path: str, session: Session) -> Reply | None:
        """Open or close a group, whatever the result, and return the answer; None if nothing does that."""
        call = self._call_of(verb, path)
        if call is None:
            return None
        reply = self._ask(session, call.tool, call.arguments)
        with suppress(LeftOut):
            self._keep_handle(session, reply)
        return reply

    def _call_of(self, verb: str, path: str) -> ControlCall | None:
        """Return the call that opens or closes a group; for an unknown group, the one that it would have."""

        def call(group: Described) -> ControlCall | None:
            return group.activate if verb == "activate" else group.deactivate

        for group in self._described.groups:
            if group.path == path:
                return call(group)
        first = self._described.groups[0]
        known = call(first)
        return known.renamed(first.path, path) if known is not None else None

    def perform(self, operation: Operation) -> Answer:
        """Return the answer to an operation; raises `LeftOut` if no groups are known."""
        if not self._setup.groups:
            raise LeftOut(NO_GROUPS)
        return super().perform(operation)

    def _perform(self, operation: Operation) -> Answer:
        if operation.verb in ("activate", "deactivate"):
            if self._without_handles:  # is not asked again, since it may have changed what a new session is given
                raise LeftOut(NO_HANDLE)
            if not self._is_asked(operation):
                return self._not_asked(operation)
        return super()._perform(operation)

    def _is_asked(self, operation: Operation) -> bool:
        """Return whether to call for a transition: if it is to change anything also by a tool that is not listed."""
        name, _ = self._request(operation)
        session = self._session(operation.session)
        return bool(name) and (name in self._latest_names(session) or not self._is_so(operation, session))

    def _keep_handle(self, session: Session, reply: Reply) -> None:
        super()._keep_handle(session, reply)
        if self._modern and session.handle is None and not reply.is_error and reply.refused is None:
            self._without_handles = True
            raise LeftOut(NO_HANDLE)

    def _not_asked(self, operation: Operation) -> Answer:
        """Return the answer to a request without a call: a refusal, unless the state is right already."""
        session = self._session(operation.session)
        return Answer(None if self._is_so(operation, session) else "error", active=self._active(session))

    def _request(self, operation: Operation) -> tuple[str, Mapping[str, Any]]:
        if operation.verb not in ("activate", "deactivate"):
            return super()._request(operation)
        call = self._call_of(operation.verb, operation.arguments["group"])
        return _NO_CALL if call is None else (call.tool, call.arguments)

    # -- names and lists ----------------------------------------------------------------------------------------------

    def _label(self, name: str) -> str:
        return self._described.labels.get(name, name)

    def name_of(self, tool: str) -> str:
        """Return what clients call a tool of the setup."""
        return next((name for name, label in self._described.labels.items() if label == tool), tool)

    def _is_control(self, name: str) -> bool:
        calls = (call for group in self._described.groups for call in (group.activate, group.deactivate))
        return any(call is not None and call.tool == name for call in calls)

    def list(self, cursor: str | None = None, session: str = MAIN) -> Answer:
        """Ask for the whole list; its names are those of the setup, in an order that says whether the server's is."""
        names = self._latest_names(self._session(session))
        if self._handles_are_ignored:
            return Answer()
        tools = [name for name in names if name in self._described.labels]
        labels = [self._label(name) for name in tools]
        ordered = sorted(labels) if tools == sorted(tools) else labels
        controls = tuple(catalog_name(name) for name in names if self._is_control(name)) if self._each_its_own else None
        return Answer(tools=tuple(ordered), controls=controls, names=tuple(names))

    @property
    def _each_its_own(self) -> bool:
        """Whether each group has control tools of its own, by the names of CTL-1: a loader shows nothing of it."""
        return all(
            call is None or catalog_name(call.tool) == f"{group.path}.{verb}"
            for group in self._described.groups
            for verb, call in (("activate", group.activate), ("deactivate", group.deactivate))
        )

    # -- finding what is there ----------------------------------------------------------------------------------------

    def _found(self, names: set[str]) -> Description:
        """Return a description with the tools and exclusions that show when groups are opened one by one."""
        at_first = {name for name in names if self._looks_like_control(name)}
        tools: dict[str, tuple[str, ...]] = {}
        while left := [group.path for group in self._described.groups if group.path not in tools]:
            tools[left[0]] = self._found_tools(left[0], names)
            self._described = infer(names - self._others)  # opening may have shown more groups
        groups = tuple(
            evolve(group, tools=tools[group.path])
            for group in self._described.groups
            if all(tools.get(path) for path in (*_above(group.path), group.path))
        )
        unseen = {group.path for group in self._described.groups} - {group.path for group in groups}
        why = "opening it, or a group above it, adds no tools to the list, so its state can't be seen"
        self.not_checked = {**self.not_checked, **{f"group {path}": why for path in sorted(unseen)}}
        if not groups:
            raise TargetFailed("Opening its groups adds no tools to its list, so the active groups can't be seen.")
        found = evolve(self._described, groups=groups)
        if len(groups) <= MOST_GROUPS:
            found = evolve(found, exclusions=self._found_exclusions(tools, [group.path for group in groups]))
        self._begin()
        every = {name for name in names if self._looks_like_control(name)}
        return evolve(found, relevant_controls=at_first != every)

    def _found_tools(self, path: str, names: set[str]) -> tuple[str, ...]:
        """Return the tools that opening a group adds to the list; all names that are met go to `names`."""
        session = self._session(MAIN)
        for above in _above(path):
            self._step("activate", above, session)
        before = self._names(session)
        self._step("activate", path, session)
        after = self._names(session)
        names.update(before, after)
        return tuple(name for name in after if name not in before and not self._looks_like_control(name))

    def _found_exclusions(
        self, tools: Mapping[str, Sequence[str]], paths: Sequence[str]
    ) -> tuple[tuple[str, ...], ...]:
        """Return the pairs of groups that close one another when opened."""
        session = self._session(MAIN)
        pairs: set[tuple[str, ...]] = set()

        def active() -> set[str]:
            listed = set(self._names(session))
            return {path for path in paths if listed.intersection(tools[path])}

        for one in paths:
            for other in paths:
                for step in (*_above(one), one):
                    self._step("activate", step, session)
                for step in (*_above(other), other):
                    before = active()
                    self._step("activate", step, session)
                    gone = before - active()
                    rivals = (path for path in gone if path not in _above(step) and step not in _above(path))
                    pairs |= {tuple(sorted((step, path))) for path in rivals if not gone.intersection(_above(path))}
        return tuple(sorted(pairs))


_NO_CALL: Final[tuple[str, Mapping[str, Any]]] = ("", {})


def _above(path: str) -> tuple[str, ...]:
    """Return the ancestors of a group, the topmost first."""
    parts = path.split(".")
    return tuple(".".join(parts[:length]) for length in range(1, len(parts)))
