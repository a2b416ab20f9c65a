"""Which clause a wrong answer violates.

`mismatches` compares an answer with the oracle's and attributes each difference to one clause, with a sentence on what
differs. The state is compared first, since it says most, then what the answer says about it, then side effects.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from attrs import evolve, frozen

from .driver import Answer, Operation
from .homes import as_step, of_call, of_register, of_restore, of_step
from .oracle import Oracle, SessionState, World
from .properties import broken

_ONE = frozenset({"ACT-1", "ACT-2", "ACT-3", "ACT-4", "ACT-5", "ACT-6", "ACT-7", "ACT-8", "INV-1", "INV-2"})
_LISTS = frozenset({"VIS-2", "VIS-6", "CTL-1", "CTL-2", "NAM-2"})

OUTCOMES = frozenset({"ACT-1", "ACT-2", "ACT-3", "ACT-4", "ACT-5"})
"""The clauses about the outcome of a step of one group."""

RESTS_ON: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "INV-2": frozenset({"ACT-8"}),
        "INV-3": frozenset({"ACT-1"}),
        "NAM-4": frozenset({"NAM-2"}),
        "REG-4": frozenset({"NAM-2"}),
        "ACT-7": frozenset({"ACT-6"}),
        "ACT-9": _ONE,
        "ACT-10": _ONE | {"ACT-9", "INV-4", "INV-5"},
        "FND-3": frozenset({"ACT-10"}),
        "INV-5": frozenset({"INV-4"}),
        "HOOK-1": _ONE | {"ACT-9"},
        "HOOK-2": _ONE | _LISTS | {"LST-1"},
        "HOOK-3": _ONE | {"ACT-9", "HOOK-1"},
        "HOOK-4": _ONE | {"ACT-9", "HOOK-1", "HOOK-3"},
        "HOOK-5": _ONE | {"ACT-9", "HOOK-1", "HOOK-3", "HOOK-4"},
        "HOOK-6": _ONE | {"ACT-9", "HOOK-1", "HOOK-3", "HOOK-4", "HOOK-5"},
        "HOOK-7": _ONE | {"HOOK-1", "HOOK-4"},
        "HOOK-8": _ONE | {"HOOK-1", "HOOK-3", "HOOK-4"},
        "HOOK-9": frozenset({"HOOK-1", "HOOK-3", "HOOK-5"}),
        "CTL-2": frozenset({"CTL-1"}),
        "VIS-5": frozenset({"VIS-2"}),
        "VIS-6": frozenset({"NAM-2"}),
        "VIS-7": frozenset({"VIS-2", "NAM-2"}),
        "LST-2": _LISTS | {"LST-1"},
        "NTF-1": _LISTS | {"ACT-3", "ACT-9", "HOOK-4"},
        "NTF-3": _LISTS | {"SES-5"},
        "CTL-5": frozenset({"DEL-7", "ACT-2", "ACT-10", "HOOK-4"}),
        "CALL-1": frozenset({"DEL-7"}),
        "EXP-1": _ONE | _LISTS,
        "SES-2": _ONE | {"ACT-9", "INV-4", "INV-5", "HOOK-1", "HOOK-3", "HOOK-4"},
        "SES-1": _ONE | {"ACT-9"},
        "PER-1": _ONE,
        "PER-2": _ONE | {"PER-1", "REG-3"},
    }
)
"""The clauses that a case of a clause relies on. Where the case shows one violated, it may say nothing new."""


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


def mismatches(oracle: Oracle, world: World, operation: Operation, expected: Answer, got: Answer) -> Iterator[Mismatch]:
    """Yield the mismatches of an answer in the members that it has, up to one that explains the rest."""
    compare = {
        "activate": _step_mismatches,
        "deactivate": _step_mismatches,
        "transition": _step_mismatches,
        "list": _list_mismatches,
        "list_groups": _group_mismatches,
        "call": _call_mismatches,
        "why": _reason_mismatches,
        "end": _end_mismatches,
        "restore": _restore_mismatches,
        "register": _register_mismatches,
    }.get(operation.verb, _other_mismatches)
    for mismatch in compare(oracle, world.state_of(operation.session), operation, expected, got):
        yield mismatch
        if mismatch.explains:
            return


# -- by verb ------------------------------------------------------------------------------------------------------


def _step_mismatches(
    oracle: Oracle, before: SessionState, operation: Operation, expected: Answer, got: Answer
) -> Iterator[Mismatch]:
    home = of_step(oracle, operation, expected)
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
    oracle: Oracle, before: SessionState, operation: Operation, expected: Answer, got: Answer, home: str
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
    step = as_step(oracle, before, operation, got)
    known = [] if step is None else list(broken(step))
    if not known:
        return Mismatch(home, message)
    besides = frozenset(one.clause for one in known[1:])
    also = home if home in besides else None
    return Mismatch(known[0].clause, f"{message}, yet {known[0].name}", besides=besides, also=also)


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
    oracle: Oracle, before: SessionState, operation: Operation, expected: Answer, got: Answer
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
    """Yield what is wrong with the order of a list: of everything on it, or of its parts where that is not known."""
    for names in (got.names,) if got.names is not None else (got.tools, got.controls):
        if names is not None and list(names) != sorted(set(names)):
            yield Mismatch("LST-1", f"the list comes as {', '.join(names)}")
            return


def _group_mismatches(
    oracle: Oracle, before: SessionState, operation: Operation, expected: Answer, got: Answer
) -> Iterator[Mismatch]:
    del oracle, before, operation
    if got.groups is None:
        return
    rows = [dict(row) for row in got.groups]
    right = [dict(row) for row in expected.groups or ()]
    seen = [{name: row[name] for name in truth if name in row} for row, truth in zip(rows, right, strict=False)]
    if len(rows) != len(right) or any({**truth, **row} != truth for truth, row in zip(right, seen, strict=True)):
        yield Mismatch("LST-4", f"groups are listed as {rows} instead of {right}")


def _call_mismatches(
    oracle: Oracle, before: SessionState, operation: Operation, expected: Answer, got: Answer
) -> Iterator[Mismatch]:
    home = of_call(oracle, before, operation, expected)
    if (got.error is None) != (expected.error is None):
        yield Mismatch(home, f"{_outcome(got)} instead of {_outcome(expected)}")
    elif got.error not in ("error", expected.error):
        yield Mismatch("CALL-1", f"{got.error} instead of {expected.error}")
    elif got.is_error is not None and got.is_error != expected.is_error:
        yield Mismatch(home, f"is {'an error' if got.is_error else 'no error'}: {got.text!r}")
    elif expected.is_error and got.text is not None and "secret" in got.text:
        yield Mismatch("CALL-3", f"shows the model the text of an exception: {got.text!r}")
    elif expected.text is not None and got.text is not None and not _says(got.text, expected.text):
        yield Mismatch(home, f"answers {got.text!r} instead of {expected.text!r}")


def _says(text: str, expected: str) -> bool:
    """Return whether a text contains what is expected, or equals it as JSON, however that is formatted."""
    try:
        return expected in text or bool(json.loads(text) == json.loads(expected))
    except ValueError:
        return False


def _reason_mismatches(
    oracle: Oracle, before: SessionState, operation: Operation, expected: Answer, got: Answer
) -> Iterator[Mismatch]:
    del oracle, before
    if got.error is not None:
        yield Mismatch("EXP-1", f"{_outcome(got)} instead of a reason")
    elif got.why not in (None, expected.why):
        yield Mismatch("EXP-1", f"the reason of {operation.arguments['tool']} is {got.why!r}, not {expected.why!r}")


def _end_mismatches(
    oracle: Oracle, before: SessionState, operation: Operation, expected: Answer, got: Answer
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


def _restore_mismatches(
    oracle: Oracle, before: SessionState, operation: Operation, expected: Answer, got: Answer
) -> Iterator[Mismatch]:
    del before
    home = of_restore(oracle, operation)
    if got.error is not None:
        yield Mismatch(home, f"{_outcome(got)} instead of success")
    if got.active is not None and got.active != expected.active:
        extra, lost = set(got.active) - set(expected.active or ()), set(expected.active or ()) - set(got.active)
        yield Mismatch(home, f"{_said('is active', extra)}{_said('is not active', lost)}".strip("; "))
    if (dropped := got.detail.get("dropped")) is not None and set(dropped) != set(expected.detail["dropped"]):
        yield Mismatch(home, f"{', '.join(dropped) or 'nothing'} is reported as dropped")
    if got.detail.get("equal") is False and operation.arguments.get("setup") is None:
        yield Mismatch("PER-1", "the restored session is dumped as another value")


def _register_mismatches(
    oracle: Oracle, before: SessionState, operation: Operation, expected: Answer, got: Answer
) -> Iterator[Mismatch]:
    del before
    home = of_register(oracle, operation)
    if got.error not in (expected.error, expected.error and "error"):
        yield Mismatch(home, f"{_outcome(got)} instead of {_outcome(expected)}", explains=True)
    if got.active is not None and got.active != expected.active:
        yield Mismatch(home, f"{', '.join(got.active) or 'nothing'} is active afterwards")
    if got.hooks is not None and got.hooks != expected.hooks:
        yield Mismatch(home, f"hooks ran as {_hooks(got.hooks)} instead of {_hooks(expected.hooks or ())}")


def _other_mismatches(
    oracle: Oracle, before: SessionState, operation: Operation, expected: Answer, got: Answer
) -> Iterator[Mismatch]:
    del oracle, before
    if got.error is not None:
        yield Mismatch("SES-5" if operation.verb == "set_fact" else "INV-5", f"{_outcome(got)} instead of success")
    if got.active is not None and expected.active is not None and got.active != expected.active:
        yield Mismatch("INV-5", f"{', '.join(got.active) or 'nothing'} is active, not {', '.join(expected.active)}")
    if got.notified is not None and expected.notified is not None and got.notified != expected.notified:
        yield Mismatch("NTF-3", f"{got.notified} notices of a changed list instead of {expected.notified}")
