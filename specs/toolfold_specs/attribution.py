"""Which clause an answer shows, and which clause a wrong one breaks.

`evidence` names what a right answer is evidence for, and in which of its members that is seen, so that a clause counts
as held only where some case put it to the test and the answer showed it. `mismatches` compares an answer with the
oracle's and names for each difference the one clause that it speaks against, with a sentence on what differs. The state
is looked at first, since it says most, then what was said of it, then side effects.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TypeAlias, cast

from attrs import evolve, frozen

from .driver import Answer, Operation
from .oracle import Holder, Oracle, World
from .properties import SOMETIMES, Members, Request, Step, broken

STEPS = ("activate", "deactivate", "transition")

_ONE = frozenset({"ACT-1", "ACT-2", "ACT-3", "ACT-4", "ACT-5", "ACT-6", "ACT-7", "ACT-8", "INV-1", "INV-2"})
_LISTS = frozenset({"VIS-2", "VIS-6", "CTL-1", "CTL-2", "NAM-2"})

RESTS_ON: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "INV-3": frozenset({"ACT-1"}),
        "REG-4": frozenset({"NAM-2"}),
        "ACT-7": frozenset({"ACT-6"}),
        "ACT-9": _ONE,
        "ACT-10": _ONE | {"ACT-9", "INV-4", "INV-5"},
        "INV-5": frozenset({"INV-4"}),
        "HOOK-1": _ONE | {"ACT-9"},
        "HOOK-3": _ONE | {"ACT-9", "HOOK-1"},
        "HOOK-4": _ONE | {"ACT-9", "HOOK-1", "HOOK-3"},
        "HOOK-5": _ONE | {"HOOK-1", "HOOK-3", "HOOK-4"},
        "HOOK-6": frozenset({"HOOK-1", "HOOK-3", "HOOK-5"}),
        "HOOK-7": _ONE | {"HOOK-1", "HOOK-4"},
        "HOOK-8": _ONE | {"HOOK-1", "HOOK-3", "HOOK-4"},
        "HOOK-9": frozenset({"HOOK-1", "HOOK-3", "HOOK-5"}),
        "VIS-5": frozenset({"VIS-2"}),
        "VIS-7": frozenset({"VIS-2", "NAM-2"}),
        "LST-2": _LISTS | {"LST-1"},
        "NTF-1": _LISTS | {"ACT-3", "ACT-9", "HOOK-4"},
        "NTF-3": _LISTS | {"SES-5"},
        "CTL-5": frozenset({"DEL-7"}),
        "CALL-1": frozenset({"DEL-7"}),
        "SES-2": _ONE | {"ACT-9", "INV-4", "INV-5", "HOOK-1", "HOOK-3", "HOOK-4"},
        "PER-2": frozenset({"PER-1"}),
    }
)
"""What a case of a clause takes for granted. Where that is broken, a wrong answer may say nothing new."""

STATE = _ONE | {"ACT-9", "ACT-10", "INV-4", "INV-5"}
"""What the state is. Where an answer shows that it is as it should be, these explain nothing else that is wrong."""


@frozen
class Mismatch:
    """The clause that a wrong answer breaks, and a sentence on how."""

    clause: str
    message: str
    explains: bool = False
    """Whether whatever else is wrong with the answer may follow from it: the state is another, or the outcome."""
    also: str | None = None
    """The clause that says what the outcome is, where that is broken too: it is not blamed, and does not hold."""


Evidence: TypeAlias = Mapping[str, str]
"""The clauses that a case puts to the test, each with the member of the answer in which it is seen."""

REFUSAL = "a refusal by its name, or with `active` or `text`"
"""What a clause about a refusal is seen in: that something is refused says little unless it says why, or what is so."""


CAUSE = "in `detail` the `cause` of a failed hook"
"""What a clause about the error that a hook met is seen in."""


def observed(answer: Answer, member: str) -> bool:
    """Return whether an answer shows a member; what is absent is evidence for nothing (SPEC CNF-8)."""
    if member == REFUSAL:
        told = answer.error != "error" or answer.active is not None or answer.text is not None
        return answer.error is not None and told
    if member == CAUSE:
        return "cause" in answer.detail
    return getattr(answer, member) is not None


def evidence(oracle: Oracle, world: World, operation: Operation, expected: Answer) -> Evidence:
    """Return the clauses that a case puts to the test, and the member of the answer that each is seen in."""
    return dict(_evidence(oracle, world, operation, expected))


def mismatches(oracle: Oracle, world: World, operation: Operation, expected: Answer, got: Answer) -> Iterator[Mismatch]:
    """Yield what an answer is wrong about as far as it was observed, up to what explains the rest."""
    compare = {
        "activate": _step_mismatches,
        "deactivate": _step_mismatches,
        "transition": _step_mismatches,
        "list": _list_mismatches,
        "list_groups": _group_mismatches,
        "call": _call_mismatches,
        "end": _end_mismatches,
        "restore": _restore_mismatches,
        "register": _register_mismatches,
    }.get(operation.verb, _other_mismatches)
    for mismatch in compare(oracle, world.holder(operation.session), operation, expected, got):
        yield mismatch
        if mismatch.explains:
            return


def attributed(oracle: Oracle, world: World, operation: Operation, expected: Answer, got: Answer) -> Mismatch | None:
    """Return what an answer is wrong about first of all, or None if it is right as far as it was observed."""
    return next(mismatches(oracle, world, operation, expected, got), None)


# -- what a case shows ------------------------------------------------------------------------------------------------


def _evidence(oracle: Oracle, world: World, operation: Operation, expected: Answer) -> Iterator[tuple[str, str]]:
    before = world.holder(operation.session)
    if operation.verb in STEPS:
        yield from _evidence_of_step(oracle, world, operation, expected)
    elif operation.verb == "list":
        yield from _evidence_of_list(oracle, before, operation, expected)
    elif operation.verb == "list_groups" and oracle.paths:
        yield "LST-4", "groups"
    elif operation.verb == "call":
        yield _call_home(oracle, before, operation, expected), "text" if expected.error is None else REFUSAL
    elif operation.verb == "set_fact" and expected.notified:
        yield "NTF-3", "notified"
    elif operation.verb == "end" and before.order:
        yield "SES-3", "active"
        if expected.hooks:
            yield "HOOK-9", "hooks"
    elif operation.verb == "restore":
        yield _restore_home(oracle, operation), "active"
    elif operation.verb == "register":
        yield _register_home(oracle, operation), "active"


def _evidence_of_step(
    oracle: Oracle, world: World, operation: Operation, expected: Answer
) -> Iterator[tuple[str, str]]:
    home = _home(oracle, operation, expected)
    if home == "HOOK-8" and not any(
        dict(world.scripts).get((hook[1], hook[0])) == "fail" for hook in expected.hooks or ()
    ):
        home = "ACT-5"  # no hook fails, so nothing is forced
    yield home, REFUSAL if home in ("ACT-1", "ACT-2") else "active"
    yield "INV-5", "active"
    if expected.notified:
        yield "NTF-1", "notified"
    if expected.hooks:
        yield "HOOK-1", "hooks"
    if len(expected.hooks or ()) > 1 and expected.error is None:
        yield "HOOK-3", "hooks"
    if expected.error == "HookFailed":
        if expected.hooks and expected.hooks[-1] != (expected.detail["phase"], expected.detail["group"]):
            yield "HOOK-5", "hooks"
        if expected.detail["outcome"] == "ask":
            yield "HOOK-7", CAUSE
    if expected.changed and (step := _step(oracle, world.holder(operation.session), operation, expected)) is not None:
        known = (known for known in SOMETIMES if step.request in known.requests and known(step))
        yield from ((known.clause, "active") for known in known)


def _evidence_of_list(
    oracle: Oracle, before: Holder, operation: Operation, expected: Answer
) -> Iterator[tuple[str, str]]:
    if expected.error is not None:
        yield "LST-3", REFUSAL
        return
    if len(expected.names or ()) > 1:
        yield "LST-1", "names" if expected.controls else "tools"
    if any(tool.group is not None for tool in oracle.setup.tools):
        yield "VIS-2", "tools"
        if any(
            tool.group and not tool.flat and tool.full_name in (expected.tools or ()) for tool in oracle.setup.tools
        ):
            yield "NAM-2", "tools"
    if oracle.paths:
        yield "CTL-2" if oracle.setup.relevant_controls else "CTL-1", "controls"
    if any(tool.hidden and oracle.available(before, tool) for tool in oracle.setup.tools):
        yield "VIS-6", "tools"
    if any(tool.when.removeprefix("fact ") in before.facts for tool in oracle.setup.tools):
        yield "SES-5", "tools"
    if operation.arguments.get("cursor") is not None or expected.next_cursor is not None:
        yield "LST-2", "tools"


def _home(oracle: Oracle, operation: Operation, expected: Answer) -> str:
    """Return the clause that says what a step's outcome is."""
    refused = {"GroupNotFound": "ACT-1", "ParentInactive": "ACT-2", "QuotaExceeded": "ACT-10", "HookFailed": "HOOK-4"}
    if expected.error in refused:
        return refused[expected.error]
    if oracle.setup.max_active is not None:
        return "ACT-10"
    if operation.verb == "transition":
        return "ACT-9"
    if not expected.changed:
        return "ACT-3"
    if operation.verb == "activate":
        return "ACT-4"
    return "HOOK-8" if operation.arguments.get("force") else "ACT-5"


def _step(oracle: Oracle, before: Holder, operation: Operation, answer: Answer) -> Step | None:
    """Return an operation as a step of the machine, if it is one by the rules of every system: no group is evicted."""
    if oracle.setup.max_active is not None or answer.active is None or not {*answer.active} <= {*oracle.paths}:
        return None
    group = None if operation.verb == "transition" else oracle.number[operation.arguments["group"]]
    after = Members(oracle.number[path] for path in answer.active)
    return Step(oracle.system.forest, cast(Request, operation.verb), group, Members(before.active), after)


# -- what is wrong with an answer -------------------------------------------------------------------------------------


def _step_mismatches(
    oracle: Oracle, before: Holder, operation: Operation, expected: Answer, got: Answer
) -> Iterator[Mismatch]:
    home = _home(oracle, operation, expected)
    if expected.detail.get("outcome") == "ask":
        home = "HOOK-7"
    elif home == "HOOK-4" and got.error not in (None, "error", "HookFailed") and not got.hooks:
        home = {"activate": "ACT-4", "deactivate": "ACT-5"}.get(operation.verb, "ACT-9")
    if got.active is not None and got.active != expected.active:
        yield evolve(_state_mismatch(oracle, before, operation, expected, got, home), explains=True)
    if (got.error is None) != (expected.error is None):
        yield Mismatch(home, f"{_outcome(got)} instead of {_outcome(expected)}", explains=True)
    if got.changed is not None and expected.changed is not None and got.changed != expected.changed:
        yield Mismatch(home, f"says changed={got.changed} where changed={expected.changed} is true")
    if got.error not in (None, "error", expected.error):
        yield Mismatch(home, f"{got.error} instead of {expected.error}")
    for name, value in expected.detail.items():
        if name in got.detail and got.detail[name] != value:
            yield Mismatch(home, f"the error names {got.detail[name]!r} as {name}, not {value!r}")
    if got.hooks is not None and got.hooks != expected.hooks:
        yield _hook_mismatch(expected, got, home)
    if got.notified is not None and got.notified != expected.notified:
        yield Mismatch("NTF-1", f"{got.notified} notices of a changed list instead of {expected.notified}")


def _outcome(answer: Answer) -> str:
    if answer.error is not None:
        return answer.error if answer.error != "error" else "a refusal"
    return "success"


def _state_mismatch(
    oracle: Oracle, before: Holder, operation: Operation, expected: Answer, got: Answer, home: str
) -> Mismatch:
    right, wrong = set(expected.active or ()), set(got.active or ())
    extra, lost = wrong - right, right - wrong
    message = f"{_said('is still or newly active', extra)}{_said('is not active', lost)}".strip("; ")
    if home in ("ACT-1", "ACT-2") and operation.verb == "transition":
        return Mismatch("ACT-9", message)
    if home not in ("ACT-4", "ACT-5", "ACT-9") or wrong == set(oracle.active(before)):
        return Mismatch(home, message)
    if (extra | lost) & {*_asked(operation, "activate"), *_asked(operation, "deactivate")}:
        return Mismatch(home, message)
    step = _step(oracle, before, operation, got)
    known = [] if step is None else list(broken(step))
    if not known:
        return Mismatch(home, message)
    also = home if home in {one.clause for one in known[1:]} else None
    return Mismatch(known[0].clause, f"{message}, yet {known[0].name}", also=also)


def _asked(operation: Operation, verb: str) -> tuple[str, ...]:
    """Return the groups that a step asks to activate, or to deactivate."""
    if operation.verb == "transition":
        return tuple(operation.arguments[verb])
    return (operation.arguments["group"],) if operation.verb == verb else ()


def _said(what: str, paths: set[str]) -> str:
    return f"{', '.join(sorted(paths))} {what}; " if paths else ""


def _hook_mismatch(expected: Answer, got: Answer, home: str) -> Mismatch:
    ran, right = got.hooks or (), expected.hooks or ()
    message = f"hooks ran as {_hooks(ran)} instead of {_hooks(right)}"
    if expected.error == "HookFailed":
        failed = (str(expected.detail["phase"]), str(expected.detail["group"]))
        reached = right.index(failed) + 1
        if ran[:reached] == right[:reached]:
            visited = {group for _, group in ran[:reached]}
            went_on = any(group not in visited for _, group in ran[reached:])
            return Mismatch("HOOK-4" if went_on else "HOOK-5", message)
        return Mismatch("HOOK-3" if failed in ran else "HOOK-1", message)
    if home in ("ACT-1", "ACT-2", "ACT-3", "HOOK-8"):
        return Mismatch(home, message)
    return Mismatch("HOOK-1" if Counter(right) - Counter(ran) else "HOOK-3", message)


def _hooks(ran: tuple[tuple[str, str], ...]) -> str:
    return "[" + ", ".join(f"{phase} {group}" for phase, group in ran) + "]"


def _list_mismatches(
    oracle: Oracle, before: Holder, operation: Operation, expected: Answer, got: Answer
) -> Iterator[Mismatch]:
    cursor = operation.arguments.get("cursor")
    if (got.error is None) != (expected.error is None) or got.error not in (None, "error", expected.error):
        clause = "LST-3" if expected.error else "LST-2" if cursor else "LST-1"
        yield Mismatch(clause, f"{_outcome(got)} instead of {_outcome(expected)}")
        return
    if got.error is not None:
        return
    names = set(got.tools or ())
    known = {tool.full_name for tool in oracle.setup.tools}
    if names - known:
        yield Mismatch("NAM-2", f"lists {', '.join(sorted(names - known))}, which no tool is called", explains=True)
    hidden = {tool.full_name for tool in oracle.setup.tools if tool.hidden}
    if names & hidden:
        yield Mismatch("VIS-6", f"lists {', '.join(sorted(names & hidden))}, which is hidden")
    paged = oracle.setup.page_size is not None
    if got.tools is not None and names != set(expected.tools or ()):
        wrong = sorted(names ^ set(expected.tools or ()))
        missed = not paged or bool(names - oracle.listed(before))
        yield Mismatch("VIS-2" if missed else "LST-2", f"is wrong about {', '.join(wrong)}")
    yield from _order_mismatches(got)
    if got.controls is not None and set(got.controls) != set(expected.controls or ()):
        clause = "LST-2" if paged else "CTL-2" if oracle.setup.relevant_controls else "CTL-1"
        wrong = sorted(set(got.controls) ^ set(expected.controls or ()))
        yield Mismatch(clause, f"is wrong about {', '.join(wrong)}")
    if paged and got.tools is not None and (got.next_cursor is None) != (expected.next_cursor is None):
        yield Mismatch("LST-2", "there is no next page" if got.next_cursor is None else "there is one page too many")


def _order_mismatches(got: Answer) -> Iterator[Mismatch]:
    """Yield what is wrong with the order of a list: of everything on it, or where that is not told of its parts."""
    for names in (got.names,) if got.names is not None else (got.tools, got.controls):
        if names is not None and list(names) != sorted(set(names)):
            yield Mismatch("LST-1", f"the list comes as {', '.join(names)}")
            return


def _group_mismatches(
    oracle: Oracle, before: Holder, operation: Operation, expected: Answer, got: Answer
) -> Iterator[Mismatch]:
    del oracle, before, operation
    if got.groups is None:
        return
    rows = [dict(row) for row in got.groups]
    right = [dict(row) for row in expected.groups or ()]
    seen = [{name: row[name] for name in truth if name in row} for row, truth in zip(rows, right, strict=False)]
    if len(rows) != len(right) or any({**truth, **row} != truth for truth, row in zip(right, seen, strict=True)):
        yield Mismatch("LST-4", f"groups are listed as {rows} instead of {right}")


def _call_home(oracle: Oracle, before: Holder, operation: Operation, expected: Answer) -> str:
    tool = next((tool for tool in oracle.setup.tools if tool.full_name == operation.arguments["tool"]), None)
    if tool is None:
        return "CALL-1"
    if expected.error is not None:
        return "VIS-5"
    if tool.hidden:
        return "VIS-6"
    if not expected.is_error:
        return "VIS-7"
    return "CALL-3" if tool.does != "echo" else "CALL-2"


def _call_mismatches(
    oracle: Oracle, before: Holder, operation: Operation, expected: Answer, got: Answer
) -> Iterator[Mismatch]:
    home = _call_home(oracle, before, operation, expected)
    if (got.error is None) != (expected.error is None):
        yield Mismatch(home, f"{_outcome(got)} instead of {_outcome(expected)}")
    elif got.error not in ("error", expected.error):
        yield Mismatch("CALL-1", f"{got.error} instead of {expected.error}")
    elif got.is_error is not None and got.is_error != expected.is_error:
        yield Mismatch(home, f"is {'an error' if got.is_error else 'no error'}: {got.text!r}")
    elif expected.is_error and got.text is not None and "secret" in got.text:
        yield Mismatch("CALL-3", f"tells the model what an exception said: {got.text!r}")
    elif expected.text is not None and got.text is not None and not _says(got.text, expected.text):
        yield Mismatch(home, f"answers {got.text!r} instead of {expected.text!r}")


def _says(text: str, expected: str) -> bool:
    """Return whether a text has what is expected, or is the same as JSON, however that is formatted."""
    try:
        return expected in text or bool(json.loads(text) == json.loads(expected))
    except ValueError:
        return False


def _end_mismatches(
    oracle: Oracle, before: Holder, operation: Operation, expected: Answer, got: Answer
) -> Iterator[Mismatch]:
    del oracle, before, operation
    if got.hooks is not None and got.hooks != expected.hooks:
        yield Mismatch("HOOK-9", f"hooks ran as {_hooks(got.hooks)} instead of {_hooks(expected.hooks or ())}")
    if got.hooks is not None and got.error != expected.error:
        yield Mismatch("HOOK-9", f"{_outcome(got)} instead of {_outcome(expected)}")
    if got.active is not None and got.active != expected.active:
        yield Mismatch("SES-3", f"{', '.join(got.active)} is still active once the session has ended")
    if "list" in got.detail and got.detail["list"] != expected.detail["list"]:
        yield Mismatch("SES-3", "a session that has ended still lists tools")


def _restore_home(oracle: Oracle, operation: Operation) -> str:
    return "PER-1" if oracle.following(operation).setup == oracle.setup else "PER-2"


def _restore_mismatches(
    oracle: Oracle, before: Holder, operation: Operation, expected: Answer, got: Answer
) -> Iterator[Mismatch]:
    del before
    home = _restore_home(oracle, operation)
    if got.error is not None:
        yield Mismatch(home, f"{_outcome(got)} instead of success")
    if got.active is not None and got.active != expected.active:
        extra, lost = set(got.active) - set(expected.active or ()), set(expected.active or ()) - set(got.active)
        yield Mismatch(home, f"{_said('is active', extra)}{_said('is not active', lost)}".strip("; "))
    if (dropped := got.detail.get("dropped")) is not None and set(dropped) != set(expected.detail["dropped"]):
        yield Mismatch(home, f"{', '.join(dropped) or 'nothing'} is reported as dropped")


def _register_home(oracle: Oracle, operation: Operation) -> str:
    there = oracle.following(operation)
    if len(there.paths) < len(oracle.paths):
        return "REG-5"
    return "REG-3" if len(there.setup.exclusions) > len(oracle.setup.exclusions) else "REG-7"


def _register_mismatches(
    oracle: Oracle, before: Holder, operation: Operation, expected: Answer, got: Answer
) -> Iterator[Mismatch]:
    del before
    home = _register_home(oracle, operation)
    if got.error not in (expected.error, expected.error and "error"):
        yield Mismatch(home, f"{_outcome(got)} instead of {_outcome(expected)}", explains=True)
    if got.active is not None and got.active != expected.active:
        yield Mismatch(home, f"{', '.join(got.active) or 'nothing'} is active afterwards")
    if got.hooks is not None and got.hooks != expected.hooks:
        yield Mismatch(home, f"hooks ran as {_hooks(got.hooks)} instead of {_hooks(expected.hooks or ())}")


def _other_mismatches(
    oracle: Oracle, before: Holder, operation: Operation, expected: Answer, got: Answer
) -> Iterator[Mismatch]:
    del oracle, before
    if got.error is not None:
        yield Mismatch("SES-5" if operation.verb == "set_fact" else "INV-5", f"{_outcome(got)} instead of success")
    if got.active is not None and expected.active is not None and got.active != expected.active:
        yield Mismatch("INV-5", f"{', '.join(got.active) or 'nothing'} is active, not {', '.join(expected.active)}")
    if got.notified is not None and expected.notified is not None and got.notified != expected.notified:
        yield Mismatch("NTF-3", f"{got.notified} notices of a changed list instead of {expected.notified}")
