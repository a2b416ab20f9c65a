"""The clauses of an answer: those that it is evidence for, and those that it violates.

A `Judgement` compares an answer with the oracle's, member by member. Each comparison names the clause that is violated
if the member is wrong, and of which it shows a part if it is right; so a clause counts as held only by what could have
betrayed it. The state is compared first, since it says most, then what the answer says about it, then side effects.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import ClassVar, TypeAlias, cast

from attrs import frozen

from .clauses import load_clauses
from .driver import Answer, Operation
from .oracle import Oracle, World
from .properties import SOMETIMES, Members, Request, Step, broken

OUTCOMES = frozenset({"ACT-1", "ACT-2", "ACT-3", "ACT-4", "ACT-5"})
"""The clauses about the outcome of a transition of one group."""

ABOUT_HOOKS = frozenset({"ACT-1", "ACT-2", "ACT-3", "HOOK-4", "HOOK-8"})
"""Clauses about the outcome of a transition that also say which hooks run, or that none does."""

REFUSED: Mapping[str, str] = MappingProxyType(
    {"GroupNotFound": "ACT-1", "ParentInactive": "ACT-2", "QuotaExceeded": "ACT-10", "HookFailed": "HOOK-4"}
)
"""The clause of each error of a transition."""

Part: TypeAlias = tuple[str, str]
"""A clause that a case puts to the test, and a member of the answer that shows a part of it."""

REFUSAL = "a refusal by its name, or with `active` or `text`"
"""What shows that something is refused: this says little without the reason, or the state."""

NAMED = "the name of an error"
"""What shows why something is refused."""

IN_DETAIL = "detail."
CAUSE, ENDED = f"{IN_DETAIL}cause", f"{IN_DETAIL}list"
"""What shows the error that a hook met, and how an ended session answers a list."""


@cache
def rests_on(clause: str) -> frozenset[str]:
    """Return the clauses that a case of this one relies on: where it shows one violated, it may say nothing new."""
    return next((one.rests_on for one in load_clauses() if one.id == clause), frozenset[str]())


@cache
def core_of(clause: str) -> str:
    """Return what shows the core of a clause, without which no other part of it is evidence; "" if it has none."""
    return next((one.core for one in load_clauses() if one.id == clause), "")


def observed(answer: Answer, member: str) -> bool:
    """Return whether an answer shows a member; what is absent is evidence for nothing (SPEC CNF-8, CNF-9)."""
    if member == NAMED:
        return answer.error not in (None, "error")
    if member == REFUSAL:
        shown = answer.error != "error" or answer.active is not None or answer.text is not None
        return answer.error is not None and shown
    if member.startswith(IN_DETAIL):
        return member.removeprefix(IN_DETAIL) in answer.detail
    return getattr(answer, member) is not None


@frozen
class Mismatch:
    """A difference between an answer and the right one: the clause that it violates, and a sentence."""

    clause: str
    message: str
    explains: bool = False
    """Whether all else that is wrong with the answer may follow from it, since the state or the outcome is wrong."""
    besides: frozenset[str] = frozenset()
    """Other clauses that a wrong state breaks."""
    also: str | None = None
    """The clause that says what the outcome is, where that is violated too: it gets no violation, but does not hold."""


class Judgement:
    """An answer, judged.

    Args:
        oracle: The system.
        world: The state before the operation.
        operation: What was asked.
        expected: The right answer.
        got: The answer.
    """

    def __init__(self, oracle: Oracle, world: World, operation: Operation, expected: Answer, got: Answer) -> None:
        self.oracle, self.world, self.operation, self.expected, self.got = oracle, world, operation, expected, got
        self.before = world.state_of(operation.session)
        self._misjudged = (got.error is None) != (expected.error is None)  # refused, or not refused
        self._misnamed = got.error not in (None, "error", expected.error)
        self.mismatches: list[Mismatch] = []
        """What is wrong, up to what explains the rest."""
        self._parts: dict[Part, None] = {}
        self._BY_VERB.get(operation.verb, Judgement._other)(self)

    @property
    def explained(self) -> bool:
        """Whether something is wrong that may explain all else."""
        return any(one.explains for one in self.mismatches)

    @property
    def shown(self) -> tuple[Part, ...]:
        """The parts of clauses that the answer is evidence for, as far as it has the members: what is right in it."""
        wrong = {one.clause for one in self.mismatches}
        return () if self.explained else tuple(part for part in self._parts if part[0] not in wrong)

    def _tests(self, clause: str, *members: str) -> None:
        """Note that the case puts a clause to the test, and which members show it."""
        self._parts.update(((clause, member), None) for member in members)

    def _differs(self, clause: str, message: str, explains: bool = False) -> None:
        self._add(Mismatch(clause, message, explains))

    def _add(self, mismatch: Mismatch) -> None:
        if not self.explained:
            self.mismatches.append(mismatch)

    def _judge(self, clause: str, member: str, message: str) -> None:
        """Judge a member as a whole; the message has places for what it is and for what it should be."""
        got, expected = getattr(self.got, member), getattr(self.expected, member)
        if got is not None and got != expected:
            said = map(_hooks, (got, expected or ())) if member == "hooks" else (got, expected)
            self._differs(clause, message.format(*said))

    def _judge_error(self, clause: str, wanted: str, explains: bool = False) -> None:
        """Judge whether it is refused as expected, by the right error where that has a name."""
        if self.got.error not in (self.expected.error, self.expected.error and "error"):
            self._differs(clause, f"{_outcome(self.got)} instead of {wanted}", explains)

    # -- transitions ---------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        expected, got = self.expected, self.got
        home, blamed = self._homes()
        refused = expected.error is not None
        self._tests(home, REFUSAL if home in ("ACT-1", "ACT-2") else "active", NAMED if refused else "changed")
        self._tests("INV-5", "active")
        if got.active is not None and got.active != expected.active:
            self._add(self._wrong_state(blamed))
        if self._misjudged:
            self._differs(blamed, f"{_outcome(got)} instead of {_outcome(expected)}", explains=True)
        if got.changed is not None and expected.changed is not None and got.changed != expected.changed:
            self._differs(blamed, f"says changed={got.changed} where changed={expected.changed} is true")
        if self._misnamed:
            self._differs(blamed, f"{got.error} instead of {expected.error}")
        for name, value in expected.detail.items():
            if name == "cause":
                self._tests("HOOK-7", CAUSE)
            elif name != "outcome":
                self._tests(home, f"{IN_DETAIL}{name}")
            if name in got.detail and got.detail[name] != value:
                self._differs(blamed, f"the error names {got.detail[name]!r} as {name}, not {value!r}")
        self._hooks_of_step(home, blamed)
        if expected.notified:
            self._tests("NTF-1", "notified")
        self._judge("NTF-1", "notified", NOTICES)
        if expected.changed and (step := self._as_step(expected)) is not None:
            known = (known for known in SOMETIMES if step.request in known.requests and known(step))
            self._parts.update(((known.clause, "active"), None) for known in known)

    def _homes(self) -> tuple[str, str]:
        """Return the clause that a right outcome of a transition shows, and the one that a wrong outcome breaks."""
        home = self._home()
        if self.expected.detail.get("outcome") == "ask":
            return home, "HOOK-7"
        if home == "HOOK-4" and self._misnamed and not self.got.hooks:
            return home, {"activate": "ACT-4", "deactivate": "ACT-5"}.get(self.operation.verb, "ACT-9")
        scripts = dict(self.world.scripts)
        if home == "HOOK-8" and not any(scripts.get((at, phase)) == "fail" for phase, at in self.expected.hooks or ()):
            return "ACT-5", home  # no hook fails, so nothing is forced
        return home, home

    def _home(self) -> str:
        if self.expected.error in REFUSED:
            return REFUSED[str(self.expected.error)]
        if self.oracle.setup.max_active is not None:
            return "FND-3" if self.oracle.setup.evict_idlest else "ACT-10"
        if self.operation.verb == "transition":
            return "ACT-9"
        if not self.expected.changed:
            return "ACT-3"
        if self.operation.verb == "activate":
            return "ACT-4"
        return "HOOK-8" if self.operation.arguments.get("force") else "ACT-5"

    def _as_step(self, answer: Answer) -> Step | None:
        """Return it as a transition of the machine; None where a limit on active groups has rules of its own."""
        oracle, operation = self.oracle, self.operation
        if oracle.setup.max_active is not None or answer.active is None or not {*answer.active} <= {*oracle.paths}:
            return None
        group = None if operation.verb == "transition" else oracle.number[operation.arguments["group"]]
        after = Members(oracle.number[path] for path in answer.active)
        return Step(oracle.system.forest, cast(Request, operation.verb), group, Members(self.before.active), after)

    def _wrong_state(self, home: str) -> Mismatch:
        right, wrong = set(self.expected.active or ()), set(self.got.active or ())
        message = _difference(wrong - right, right - wrong, "is still or newly active")
        arguments, verb = self.operation.arguments, self.operation.verb
        asked = {*arguments["activate"], *arguments["deactivate"]} if verb == "transition" else {arguments["group"]}
        if home in ("ACT-1", "ACT-2") and verb == "transition":
            return Mismatch("ACT-9", message, explains=True)
        moved = home in ("ACT-4", "ACT-5", "ACT-9") and wrong != set(self.oracle.active(self.before))
        step = self._as_step(self.got) if moved and not (right ^ wrong) & asked else None
        known = [] if step is None else list(broken(step))
        if not known:
            return Mismatch(home, message, explains=True)
        besides = frozenset(one.clause for one in known[1:])
        also = home if home in besides else None
        return Mismatch(known[0].clause, f"{message}, yet {known[0].name}", True, besides, also)

    def _hooks_of_step(self, home: str, blamed: str) -> None:
        expected, ran, right = self.expected, self.got.hooks or (), self.expected.hooks or ()
        failed = (expected.detail["phase"], expected.detail["group"]) if expected.error == "HookFailed" else None
        if home in ABOUT_HOOKS and any(group.hooks for group in self.oracle.setup.groups):
            self._tests(home, "hooks")
        if right:
            self._tests("HOOK-1", "hooks")
        if len(right) > 1 and expected.error is None:
            self._tests("HOOK-3", "hooks")
        if failed is not None and right and right[-1] != failed:
            self._tests("HOOK-5", "hooks")
        if self.got.hooks is not None and ran != expected.hooks:
            clause = "HOOK-1" if Counter(right) - Counter(ran) else "HOOK-3"
            if failed is not None:
                clause = _about_failure(ran, right, failed)
            elif blamed in ABOUT_HOOKS:
                clause = blamed
            self._differs(clause, f"hooks ran as {_hooks(ran)} instead of {_hooks(right)}")

    # -- lists and calls ----------------------------------------------------------------------------------------------

    def _list(self) -> None:
        cursor, expected, got = self.operation.arguments.get("cursor"), self.expected, self.got
        if expected.error is not None:
            self._tests("LST-3", REFUSAL, NAMED)
        else:
            self._tested_by_list(cursor)
        if self._misjudged or self._misnamed:
            clause = "LST-3" if expected.error else "LST-2" if cursor else "LST-1"
            self._differs(clause, f"{_outcome(got)} instead of {_outcome(expected)}")
        elif got.error is None:
            self._judge_list()

    def _tested_by_list(self, cursor: str | None) -> None:
        expected, setup = self.expected, self.oracle.setup
        if len(expected.names or ()) > 1:
            self._tests("LST-1", "names" if expected.controls else "tools")
        listed = [tool for tool in setup.tools if tool.full_name in (expected.tools or ())]
        if any(tool.group is not None for tool in setup.tools):
            self._tests("VIS-2", "tools")
            if any(tool.group and not tool.flat for tool in listed):
                self._tests("NAM-2", "tools")
        if self.oracle.paths:
            self._tests("CTL-2" if setup.relevant_controls else "CTL-1", "controls")
        if any(tool.hidden and self.oracle.available(self.before, tool) for tool in setup.tools):
            self._tests("VIS-6", "tools")
        if any(tool.when.removeprefix("fact ") in self.before.facts for tool in setup.tools):
            self._tests("SES-5", "tools")
        if cursor is not None or expected.next_cursor is not None:
            self._tests("LST-2", "tools", *(["next_cursor"] if expected.next_cursor is not None else []))

    def _judge_list(self) -> None:
        expected, got, setup = self.expected, self.got, self.oracle.setup
        names, paged = set(got.tools or ()), setup.page_size is not None
        if unknown := names - {tool.full_name for tool in setup.tools}:
            self._differs("NAM-2", f"lists {_said(unknown)}, which no tool is called", explains=True)
        if hidden := names & {tool.full_name for tool in setup.tools if tool.hidden}:
            self._differs("VIS-6", f"lists {_said(hidden)}, which is hidden")
        if got.tools is not None and (wrong := names ^ set(expected.tools or ())):
            unpaged = not paged or bool(names - self.oracle.listed(self.before))
            self._differs("VIS-2" if unpaged else "LST-2", f"is wrong about {_said(wrong)}")
        for shown in (got.names,) if got.names is not None else (got.tools, got.controls):
            if shown is not None and list(shown) != sorted(set(shown)):
                self._differs("LST-1", f"the list comes as {', '.join(shown)}")
                break
        if got.controls is not None and (wrong := set(got.controls) ^ set(expected.controls or ())):
            clause = "LST-2" if paged else "CTL-2" if setup.relevant_controls else "CTL-1"
            self._differs(clause, f"is wrong about {_said(wrong)}")
        if paged and got.tools is not None and (got.next_cursor is None) != (expected.next_cursor is None):
            self._differs("LST-2", "there is no next page" if got.next_cursor is None else "there is one page too many")

    def _list_groups(self) -> None:
        if self.oracle.paths:
            self._tests("LST-4", "groups")
        if self.got.groups is None:
            return
        rows, right = [dict(row) for row in self.got.groups], [dict(row) for row in self.expected.groups or ()]
        seen = [{name: row[name] for name in truth if name in row} for row, truth in zip(rows, right, strict=False)]
        if len(rows) != len(right) or any({**truth, **row} != truth for truth, row in zip(right, seen, strict=True)):
            self._differs("LST-4", f"groups are listed as {rows} instead of {right}")

    def _call(self) -> None:
        expected, got = self.expected, self.got
        home = self._home_of_call()
        self._tests(home, *(("is_error", "text") if expected.error is None else (REFUSAL,)))
        if expected.error is not None:
            self._tests("CALL-1", NAMED)
        if self._misjudged:
            self._differs(home, f"{_outcome(got)} instead of {_outcome(expected)}")
        elif got.error not in ("error", expected.error):
            self._differs("CALL-1", f"{got.error} instead of {expected.error}")
        elif got.is_error is not None and got.is_error != expected.is_error:
            self._differs(home, f"is {'an error' if got.is_error else 'no error'}: {got.text!r}")
        elif expected.is_error and got.text is not None and "secret" in got.text:
            self._differs("CALL-3", f"shows the model the text of an exception: {got.text!r}")
        elif expected.text is not None and got.text is not None and not _says(got.text, expected.text):
            self._differs(home, f"answers {got.text!r} instead of {expected.text!r}")

    def _home_of_call(self) -> str:
        tool = next(
            (tool for tool in self.oracle.setup.tools if tool.full_name == self.operation.arguments["tool"]), None
        )
        if tool is None:
            return "CALL-1"
        if self.expected.error is not None:
            return "VIS-5"
        if tool.hidden:
            return "VIS-6"
        if not self.expected.is_error:
            return "VIS-7"
        return "CALL-3" if tool.does != "echo" else "CALL-2"

    def _why(self) -> None:
        self._tests("EXP-1", "why")
        self._judge_error("EXP-1", "a reason")
        if self.got.error is None:
            self._judge("EXP-1", "why", f"the reason of {self.operation.arguments['tool']} is {{0!r}}, not {{1!r}}")

    # -- sessions -----------------------------------------------------------------------------------------------------

    def _end(self) -> None:
        expected, got = self.expected, self.got
        if self.before.order:
            self._tests("SES-3", ENDED)
            if expected.hooks:
                self._tests("HOOK-9", "hooks")
        self._judge("HOOK-9", "hooks", RAN)
        if got.hooks is not None and got.error != expected.error:
            self._differs("HOOK-9", f"{_outcome(got)} instead of {_outcome(expected)}")
        if got.active is not None and got.active != expected.active:
            self._differs("SES-3", f"{', '.join(got.active)} is still active once the session has ended")
        if "list" in got.detail and got.detail["list"] != expected.detail["list"]:
            self._differs("SES-3", "a session that has ended still lists tools")

    def _restore(self) -> None:
        expected, got = self.expected, self.got
        home = "PER-1" if self.oracle.following(self.operation).setup == self.oracle.setup else "PER-2"
        same = self.operation.arguments.get("setup") is None
        self._tests(home, "active", *([f"{IN_DETAIL}discarded"] if expected.detail["discarded"] else []))
        if same:
            self._tests("PER-1", f"{IN_DETAIL}equal")
        self._judge_error(home, "success")
        if got.active is not None and got.active != expected.active:
            right, wrong = set(expected.active or ()), set(got.active)
            self._differs(home, _difference(wrong - right, right - wrong, "is active"))
        if (discarded := got.detail.get("discarded")) is not None and set(discarded) != set(
            expected.detail["discarded"]
        ):
            self._differs(home, f"{', '.join(discarded) or 'nothing'} is reported as discarded")
        if got.detail.get("equal") is False and same:
            self._differs("PER-1", "the restored session is dumped as another value")

    def _register(self) -> None:
        there = self.oracle.following(self.operation)
        added = len(there.setup.exclusions) > len(self.oracle.setup.exclusions)
        home = "REG-5" if len(there.paths) < len(self.oracle.paths) else "REG-3" if added else "REG-7"
        self._tests(home, "active")
        if self.expected.hooks:
            self._tests("REG-5", "hooks")
        self._judge_error(home, _outcome(self.expected), explains=True)
        if self.got.active is not None and self.got.active != self.expected.active:
            self._differs(home, f"{', '.join(self.got.active) or 'nothing'} is active afterwards")
        self._judge(home, "hooks", RAN)

    def _other(self) -> None:
        expected, got, sets = self.expected, self.got, self.operation.verb == "set_fact"
        if sets and expected.notified:
            self._tests("NTF-3", "notified")
        if got.error is not None:
            self._differs("SES-5" if sets else "INV-5", f"{_outcome(got)} instead of success")
        if got.active is not None and expected.active is not None and got.active != expected.active:
            self._differs("INV-5", f"{', '.join(got.active) or 'nothing'} is active, not {', '.join(expected.active)}")
        if expected.notified is not None:
            self._judge("NTF-3", "notified", NOTICES)

    _BY_VERB: ClassVar[Mapping[str, Callable[[Judgement], None]]] = MappingProxyType(
        {
            **dict.fromkeys(("activate", "deactivate", "transition"), _step),
            "list": _list,
            "list_groups": _list_groups,
            "call": _call,
            "why": _why,
            "end": _end,
            "restore": _restore,
            "register": _register,
        }
    )


NOTICES = "{0} notices of a changed list instead of {1}"
RAN = "hooks ran as {0} instead of {1}"
"""Messages about a wrong member, with what it is and what it should be."""


def _about_failure(
    ran: tuple[tuple[str, str], ...], right: tuple[tuple[str, str], ...], failed: tuple[str, str]
) -> str:
    """Return the clause that is violated if other hooks ran in a transition in which one fails."""
    reached = right.index(failed) + 1
    if ran[:reached] == right[:reached]:
        visited = {group for _, group in ran[:reached]}
        return "HOOK-4" if any(group not in visited for _, group in ran[reached:]) else "HOOK-5"
    return "HOOK-3" if failed in ran else "HOOK-1"


def _outcome(answer: Answer) -> str:
    if answer.error is not None:
        return answer.error if answer.error != "error" else "a refusal"
    return "success"


def _said(names: set[str]) -> str:
    return ", ".join(sorted(names))


def _difference(extra: set[str], lost: set[str], how: str) -> str:
    """Return which groups are active and should not be, and the other way round, in words."""
    found = [f"{_said(extra)} {how}"] if extra else []
    return "; ".join([*found, *([f"{_said(lost)} is not active"] if lost else [])])


def _hooks(ran: tuple[tuple[str, str], ...]) -> str:
    return "[" + ", ".join(f"{phase} {group}" for phase, group in ran) + "]"


def _says(text: str, expected: str) -> bool:
    """Return whether a text contains what is expected, or equals it as JSON, however that is formatted."""
    try:
        return expected in text or bool(json.loads(text) == json.loads(expected))
    except ValueError:
        return False
