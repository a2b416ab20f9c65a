"""The clauses of an answer: those that it is evidence for, and those that it violates.

`KINDS` has criteria for each kind of operation. One is about a clause: the member of an answer that shows it, when a
case puts it to the test, and the message if the member differs from the oracle's. Which clause says what the outcome
of an operation is depends on the case: it is the first of `subjects` that applies, and criteria without a clause are
about it. So a clause counts as held only by what could have betrayed it.

A function compares what is no member as a whole, or violates another clause by how it differs. The state is compared
first, since it says most, then what the answer says about it, then side effects.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeAlias, cast

from attrs import frozen

from .driver import Answer, Operation, Tool
from .oracle import Oracle, World
from .properties import SOMETIMES, Members, Property, Request, Step, broken

OUTCOMES = frozenset({"ACT-1", "ACT-2", "ACT-3", "ACT-4", "ACT-5"})
"""The clauses about the outcome of a transition of one group."""

ABOUT_HOOKS = frozenset({"ACT-1", "ACT-2", "ACT-3", "HOOK-4", "HOOK-8"})
"""Clauses about the outcome of a transition that also say which hooks run, or that none does."""

Part: TypeAlias = tuple[str, str]
"""A clause that a case puts to the test, and a member of the answer that shows a part of it."""

REFUSAL = "a refusal by its name, or with `active` or `text`"
"""What shows that something is refused: this says little without the reason, or the state."""

NAMED = "the name of an error"
"""What shows why something is refused."""

IN_DETAIL = "detail."
CAUSE, ENDED = f"{IN_DETAIL}cause", f"{IN_DETAIL}list"
"""What shows the error that a hook met, and how an ended session answers a list."""


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
        self.setup, self.before, self.arguments = oracle.setup, world.state_of(operation.session), operation.arguments
        self.refused = expected.error is not None
        self.misjudged = (got.error is not None) is not self.refused
        """Whether it is refused and should not be, or the other way round."""
        self.misnamed = got.error not in (None, "error", expected.error)
        self.kind = KINDS.get(operation.verb, _OTHER)
        self._subject = next(one for one in self.kind.subjects if one.tested is None or one.tested(self))
        self.subject: str = self._subject.clause
        """The clause that says what the outcome is."""
        self.violated = self._subject.violated(self) if self._subject.violated else self.subject
        """The clause that a wrong outcome violates."""
        self.mismatches: list[Mismatch] = []
        """What is wrong, up to what explains the rest."""
        for mismatch in self._found():
            self.mismatches.append(mismatch)
            if mismatch.explains:
                break

    def _found(self) -> Iterator[Mismatch]:
        yield from self.kind.compare(self)
        for row in self.kind.criteria:
            if not row.message or (got := getattr(self.got, row.member)) is None:
                continue
            right = getattr(self.expected, row.member)
            if right is not None and got != right:
                clause = row.violated(self) if row.violated else row.clause or self.violated
                said = _words(row.member, got), _words(row.member, right)
                yield Mismatch(clause, row.message.format(*said, **self.arguments))

    @property
    def shown(self) -> Iterable[Part]:
        """The parts of clauses that the answer is evidence for, as far as it has the members: what is right in it."""
        wrong = {one.clause for one in self.mismatches}
        parts: dict[Part, None] = {}
        for row in () if any(one.explains for one in self.mismatches) else (self._subject, *self.kind.criteria):
            if row.member and (row.tested(self) if row.tested else observed(self.expected, row.member)):
                parts[row.clause or self.subject, row.member] = None
        return [part for part in parts if part[0] not in wrong]

    @cached_property
    def step(self) -> Step | None:
        """The right transition, if something changes in it."""
        return self.as_step(self.expected) if self.expected.changed else None

    def as_step(self, answer: Answer) -> Step | None:
        """Return it as a transition of the machine; None where a limit on active groups has rules of its own."""
        oracle, verb = self.oracle, self.operation.verb
        if self.setup.max_active is not None or answer.active is None or not {*answer.active} <= {*oracle.paths}:
            return None
        group = None if verb == "transition" else oracle.number[self.arguments["group"]]
        after = Members(oracle.number[path] for path in answer.active)
        return Step(oracle.system.forest, cast(Request, verb), group, Members(self.before.active), after)


Condition: TypeAlias = Callable[[Judgement], object]


@frozen
class Criterion:
    """A clause, or a part of it."""

    clause: str = ""
    """Without it, it is the one that says what the outcome is."""
    member: str = ""
    """The member of an answer that shows it."""
    tested: Condition | None = None
    """Returns whether a case puts it to the test; without it, what the right answer has is tested."""
    message: str = ""
    """What is wrong if the member differs from that of the right answer, with places for both."""
    violated: Callable[[Judgement], str] | None = None
    """Returns the clause that is violated then, where that may be another."""


def _outcomes(j: Judgement) -> str:
    got, right = j.got.error or "success", j.expected.error or ("a reason" if j.operation.verb == "why" else "success")
    return f"{'a refusal' if got == 'error' else got} instead of {right}"


def _compare_outcome(j: Judgement) -> Iterator[Mismatch]:
    if j.misjudged or j.misnamed:
        yield Mismatch(j.violated, _outcomes(j), explains=j.misjudged)


@frozen
class Kind:
    """A kind of operation."""

    subjects: tuple[Criterion, ...]
    criteria: tuple[Criterion, ...] = ()
    compare: Callable[[Judgement], Iterator[Mismatch]] = _compare_outcome
    """Yields what is wrong with an answer beside the members that criteria compare."""


def _said(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _words(member: str, value: Any) -> Any:
    if member == "hooks":
        return "[" + ", ".join(map(" ".join, value)) + "]"
    return ", ".join(value) or "nothing" if member == "active" else value


def _difference(j: Judgement, how: str) -> str:
    """Return which groups are open and should not be, and the other way round, in words; "" if none are."""
    if j.got.active is None:
        return ""
    right, wrong = {*(j.expected.active or ())}, {*j.got.active}
    found = [f"{_said(wrong - right)} {how}"] if wrong - right else []
    return "; ".join([*found, *([f"{_said(right - wrong)} is not open"] if right - wrong else [])])


# -- transitions -------------------------------------------------------------------------------------------------------


def _compare_transition(j: Judgement) -> Iterator[Mismatch]:
    if message := _difference(j, "is still or newly open"):
        yield _wrong_state(j, message)
    yield from _compare_outcome(j)
    for name, value in j.expected.detail.items():
        if j.got.detail.get(name, value) != value:
            yield Mismatch(j.violated, f"the error names {j.got.detail[name]!r} as {name}, not {value!r}")


def _wrong_state(j: Judgement, message: str) -> Mismatch:
    """Return the mismatch of a wrong state: the properties of the machine say what a transition violates beyond it."""
    right, wrong, several = {*(j.expected.active or ())}, {*(j.got.active or ())}, j.operation.verb == "transition"
    if several and j.violated in ("ACT-1", "ACT-2"):
        return Mismatch("ACT-9", message, explains=True)
    asked = {*j.arguments["activate"], *j.arguments["deactivate"]} if several else {j.arguments["group"]}
    moved = j.violated in ("ACT-4", "ACT-5", "ACT-9") and wrong != {*j.oracle.active(j.before)}
    step = j.as_step(j.got) if moved and not (right ^ wrong) & asked else None
    known = [] if step is None else list(broken(step))
    if not known:
        return Mismatch(j.violated, message, explains=True)
    besides = frozenset(one.clause for one in known[1:])
    also = j.violated if j.violated in besides else None
    return Mismatch(known[0].clause, f"{message}, yet {known[0].name}", True, besides, also)


def _failed(j: Judgement) -> tuple[str, str] | None:
    """Return phase and group of the hook that fails the transition."""
    detail = j.expected.detail
    return (detail["phase"], detail["group"]) if j.expected.error == "HookFailed" else None


def _violated_by_hooks(j: Judgement) -> str:
    """Return the clause that is violated if other hooks ran than those that should."""
    ran, right, failed = j.got.hooks or (), j.expected.hooks or (), _failed(j)
    if failed is None:
        return j.violated if j.violated in ABOUT_HOOKS else "HOOK-1" if Counter(right) - Counter(ran) else "HOOK-3"
    reached = right.index(failed) + 1
    if ran[:reached] != right[:reached]:
        return "HOOK-3" if failed in ran else "HOOK-1"
    visited = {group for _, group in ran[:reached]}
    return "HOOK-4" if any(group not in visited for _, group in ran[reached:]) else "HOOK-5"


def _some_hook_fails(j: Judgement) -> bool:
    scripts = dict(j.world.scripts)
    return any(scripts.get((path, phase)) == "fail" for phase, path in j.expected.hooks or ())


def _violated_by_failure(j: Judgement) -> str:
    if j.expected.detail["outcome"] == "ask":
        return "HOOK-7"
    if j.misnamed and not j.got.hooks:
        return {"activate": "ACT-4", "deactivate": "ACT-5"}.get(j.operation.verb, "ACT-9")
    return "HOOK-4"


def _says_which_hooks_run(j: Judgement) -> bool:
    return j.subject in ABOUT_HOOKS and any(group.hooks for group in j.setup.groups)


def _occurs(known: Property) -> Condition:
    """Return whether a transition is a situation in which a property could fail."""
    return lambda j: (step := j.step) is not None and step.request in known.requests and known(step)


# -- lists and calls ---------------------------------------------------------------------------------------------------


def _compare_list(j: Judgement) -> Iterator[Mismatch]:
    expected, got, setup = j.expected, j.got, j.setup
    yield from _compare_outcome(j)
    if j.refused or got.error is not None:
        return
    names, paged = {*(got.tools or ())}, setup.page_size is not None
    if unknown := names - j.oracle.tools.keys():
        yield Mismatch("NAM-2", f"lists {_said(unknown)}, which no tool is called", explains=True)
    if hidden := {name for name in names if j.oracle.tools[name].hidden}:
        yield Mismatch("VIS-6", f"lists {_said(hidden)}, which is hidden")
    if got.tools is not None and (wrong := names ^ {*(expected.tools or ())}):
        of_page = paged and names <= j.oracle.listed(j.before)
        yield Mismatch("LST-2" if of_page else "VIS-2", f"is wrong about {_said(wrong)}")
    for listed in (got.tools, got.controls) if got.names is None else (got.names,):
        if listed is not None and [*listed] != sorted({*listed}):
            yield Mismatch("LST-1", f"the list comes as {', '.join(listed)}")
    if got.controls is not None and (wrong := {*got.controls} ^ {*(expected.controls or ())}):
        clause = "LST-2" if paged else "CTL-2" if setup.relevant_controls else "CTL-1"
        yield Mismatch(clause, f"is wrong about {_said(wrong)}")
    if paged and got.tools is not None and (got.next_cursor is None) != (expected.next_cursor is None):
        yield Mismatch("LST-2", "there is no next page" if got.next_cursor is None else "there is one page too many")


def _compare_groups(j: Judgement) -> Iterator[Mismatch]:
    if j.got.groups is None:
        return
    rows, right = [dict(row) for row in j.got.groups], [dict(row) for row in j.expected.groups or ()]
    pairs = zip(rows, right, strict=False)
    if len(rows) != len(right) or any({**truth, **row} != {**row, **truth} for row, truth in pairs):
        yield Mismatch("LST-4", f"groups are listed as {rows} instead of {right}")


def _compare_call(j: Judgement) -> Iterator[Mismatch]:
    expected, got, text = j.expected, j.got, j.got.text
    yield from _compare_outcome(j)
    if got.is_error is not None and got.is_error != expected.is_error:
        yield Mismatch(j.subject, f"is {'an error' if got.is_error else 'no error'}: {text!r}")
    elif expected.is_error and text is not None and "secret" in text:
        yield Mismatch("CALL-3", f"shows the model the text of an exception: {text!r}")
    elif expected.text is not None and text is not None and not _says(text, expected.text):
        yield Mismatch(j.subject, f"answers {text!r} instead of {expected.text!r}")


def _says(text: str, expected: str) -> bool:
    """Return whether a text contains what is expected, or equals it as JSON, however that is formatted."""
    try:
        return expected in text or bool(json.loads(text) == json.loads(expected))
    except ValueError:
        return False


def _some_tool(condition: Callable[[Judgement, Tool], object]) -> Condition:
    """Return whether there is a list, and a tool that meets a condition."""
    return lambda j: not j.refused and any(condition(j, tool) for tool in j.setup.tools)


# -- sessions ----------------------------------------------------------------------------------------------------------


def _compare_end(j: Judgement) -> Iterator[Mismatch]:
    expected, got = j.expected, j.got
    if got.hooks not in (None, expected.hooks):
        yield Mismatch("HOOK-9", RAN.format(_words("hooks", got.hooks), _words("hooks", expected.hooks)))
    if got.hooks is not None and got.error != expected.error:
        yield Mismatch("HOOK-9", _outcomes(j))
    if got.active not in (None, expected.active):
        yield Mismatch("SES-3", f"{_words('active', got.active)} is still open once the session has ended")
    if got.detail.get("list", expected.detail["list"]) != expected.detail["list"]:
        yield Mismatch("SES-3", "a session that has ended still lists tools")


def _compare_restored(j: Judgement) -> Iterator[Mismatch]:
    yield from _compare_outcome(j)
    if message := _difference(j, "is open"):
        yield Mismatch(j.subject, message)
    if (discarded := j.got.detail.get("discarded")) is not None and {*discarded} != {*j.expected.detail["discarded"]}:
        yield Mismatch(j.subject, f"{', '.join(discarded) or 'nothing'} is reported as discarded")
    if j.got.detail.get("equal") is False and j.arguments.get("setup") is None:
        yield Mismatch("PER-1", "the restored session is dumped as another value")


# -- the criteria ------------------------------------------------------------------------------------------------------

NOTICES = "{0} notices of a changed list instead of {1}"
RAN = "hooks ran as {0} instead of {1}"

_TRANSITION = Kind(
    (
        Criterion("ACT-1", REFUSAL, lambda j: j.expected.error == "GroupNotFound"),
        Criterion("ACT-2", REFUSAL, lambda j: j.expected.error == "ParentInactive"),
        Criterion("ACT-10", "active", lambda j: j.expected.error == "QuotaExceeded"),
        Criterion("HOOK-4", "active", _failed, violated=_violated_by_failure),
        Criterion("FND-3", "active", lambda j: j.setup.max_active is not None and j.setup.evict_idlest),
        Criterion("ACT-10", "active", lambda j: j.setup.max_active is not None),
        Criterion("ACT-9", "active", lambda j: j.operation.verb == "transition"),
        Criterion("ACT-3", "active", lambda j: not j.expected.changed),
        Criterion("ACT-4", "active", lambda j: j.operation.verb == "activate"),
        Criterion("HOOK-8", "active", lambda j: j.arguments.get("force") and _some_hook_fails(j)),
        Criterion("ACT-5", "active", violated=lambda j: "HOOK-8" if j.arguments.get("force") else "ACT-5"),
    ),
    (
        Criterion(member=NAMED),
        Criterion(member="changed", message="says changed={0} where changed={1} is true"),
        *(Criterion(member=f"{IN_DETAIL}{name}") for name in ("missing", "phase", "group")),
        Criterion("", "hooks", _says_which_hooks_run, RAN, _violated_by_hooks),
        Criterion("INV-5", "active"),
        Criterion("HOOK-1", "hooks", lambda j: j.expected.hooks),
        Criterion("HOOK-3", "hooks", lambda j: not j.refused and len(j.expected.hooks or ()) > 1),
        Criterion("HOOK-5", "hooks", lambda j: j.expected.hooks and _failed(j) not in (None, j.expected.hooks[-1])),
        Criterion("HOOK-7", CAUSE),
        Criterion("NTF-1", "notified", lambda j: j.expected.notified, NOTICES),
        *(Criterion(known.clause, "active", _occurs(known)) for known in SOMETIMES),
    ),
    _compare_transition,
)

_LIST = Kind(
    (
        Criterion("LST-3", REFUSAL, lambda j: j.refused),
        Criterion("LST-2", "", lambda j: j.arguments.get("cursor")),
        Criterion("LST-1"),
    ),
    (
        Criterion("LST-3", NAMED),
        Criterion("LST-1", "names", lambda j: len(j.expected.names or ()) > 1 and j.expected.controls),
        Criterion("LST-1", "tools", lambda j: len(j.expected.names or ()) > 1 and not j.expected.controls),
        Criterion("VIS-2", "tools", _some_tool(lambda j, tool: tool.group)),
        Criterion("NAM-2", "tools", lambda j: any("." in name for name in j.expected.tools or ())),
        Criterion("CTL-1", "controls", lambda j: not j.refused and j.oracle.paths and not j.setup.relevant_controls),
        Criterion("CTL-2", "controls", lambda j: not j.refused and j.oracle.paths and j.setup.relevant_controls),
        Criterion("VIS-6", "tools", _some_tool(lambda j, tool: tool.hidden and j.oracle.available(j.before, tool))),
        Criterion("SES-5", "tools", _some_tool(lambda j, tool: tool.fact in j.before.facts)),
        Criterion("LST-2", "tools", lambda j: not j.refused and (j.arguments.get("cursor") or j.expected.next_cursor)),
        Criterion("LST-2", "next_cursor"),
    ),
    _compare_list,
)

_CALL = Kind(
    (
        Criterion("CALL-1", REFUSAL, lambda j: j.arguments["tool"] not in j.oracle.tools),
        Criterion("VIS-5", REFUSAL, lambda j: j.refused, violated=lambda j: "VIS-5" if j.misjudged else "CALL-1"),
        Criterion("VIS-6", "is_error", lambda j: j.oracle.tools[j.arguments["tool"]].hidden),
        Criterion("VIS-7", "is_error", lambda j: not j.expected.is_error),
        Criterion("CALL-3", "is_error", lambda j: j.oracle.tools[j.arguments["tool"]].does != "echo"),
        Criterion("CALL-2", "is_error"),
    ),
    (Criterion("CALL-1", NAMED), Criterion("", "text", lambda j: not j.refused)),
    _compare_call,
)

_RESTORATION = Kind(
    (
        Criterion("PER-1", "active", lambda j: j.oracle.following(j.operation).setup == j.setup),
        Criterion("PER-2", "active"),
    ),
    (
        Criterion("", f"{IN_DETAIL}discarded", lambda j: j.expected.detail["discarded"]),
        Criterion("PER-1", f"{IN_DETAIL}equal", lambda j: j.arguments.get("setup") is None),
    ),
    _compare_restored,
)

_REGISTRATION = Kind(
    (
        Criterion("REG-5", "active", lambda j: {*j.setup.paths} - {*j.arguments["setup"].paths}),
        Criterion("REG-3", "active", lambda j: len(j.arguments["setup"].exclusions) > len(j.setup.exclusions)),
        Criterion("REG-7", "active"),
    ),
    (
        Criterion("", "active", None, "{0} is open afterwards"),
        Criterion("", "hooks", lambda j: j.expected.hooks, RAN),
    ),
)

_ENDED = (Criterion("SES-3", ENDED, lambda j: j.before.order), Criterion("HOOK-9", "hooks", lambda j: j.expected.hooks))

_OTHER = Kind(
    (Criterion("SES-5", tested=lambda j: j.operation.verb == "set_fact"), Criterion("INV-5")),
    (
        Criterion("INV-5", "active", lambda _: False, "{0} is open, not {1}"),
        Criterion("NTF-3", "notified", lambda j: j.expected.notified, NOTICES),
    ),
)

KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        **dict.fromkeys(("activate", "deactivate", "transition"), _TRANSITION),
        "list": _LIST,
        "list_groups": Kind((Criterion(),), (Criterion("LST-4", "groups", lambda j: j.oracle.paths),), _compare_groups),
        "call": _CALL,
        "why": Kind(
            (Criterion("EXP-1", "why"),), (Criterion("", "why", None, "the reason of {tool} is {0!r}, not {1!r}"),)
        ),
        "end": Kind((Criterion(),), _ENDED, _compare_end),
        "restore": _RESTORATION,
        "register": _REGISTRATION,
    }
)
"""The kinds of operations, by verb; others set or show something."""
