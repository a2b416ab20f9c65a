"""The steps of a violation in plain lines, and the figures that every form of a report gives."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..clauses import PROFILES
from ..driver import Group, Operation, Setup, Tool
from ..report import NOT_SEEN, ClauseVerdict, Report, Status, Verdict, Violation

ABSENT = object()
ERAS = ("legacy", "modern")
NO_VERDICT = Verdict.NOT_APPLICABLE.value
LINE = 200
"""How many characters a thing to fix has at most: its details follow below."""
MANY = 3
"""How many further checks, or reasons, are named."""


def plain(text: str) -> str:
    """Return a text on one line with everything unprintable escaped, since answers of implementations are untrusted."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def title(report: Report) -> str:
    """Return a line that names what was checked."""
    return f"Conformance of {plain(report.header.get('target', 'an implementation'))}"


def particulars(report: Report) -> str:
    """Return a line with the rest of the header and the settings."""
    header = [f"{name} {plain(value)}" for name, value in report.header.items() if name not in ("target", "arguments")]
    return "; ".join([*header, f"settings: {' / '.join(map(plain, report.settings)) or 'none'}"])


def to_fix(report: Report) -> tuple[str, ...]:
    """Return a line for each thing to fix, beneath a line that counts them; nothing if there are none.

    These are clauses that are violated unexpectedly, expectations to remove, and failures of the target or the kit.
    """
    violations = (f"{finding(one)}{_follows(report, one.clause)}" for one in unexpected(report))
    stale = (f"{plain(str(one))}  holds again: remove it from the expected failures" for one in report.stale)
    failures = (
        f"{status.value.upper()}  {plain(setting)}: {_cut(plain(reason))}"
        for status, setting, reason, _ in incomplete(report)
        if status is not Status.INTERRUPTED
    )
    lines = (*violations, *stale, *failures)
    things = "1 thing" if len(lines) == 1 else f"{len(lines)} things"
    return (f"{things} to fix:", *(f"  {line}" for line in lines)) if lines else ()


def _follows(report: Report, root: str) -> str:
    """Return which clauses may be violated for that reason alone, in brackets; "" if there are none."""
    ids = [row.clause.id for row, _ in hidden(report, root)]
    return f" (and maybe {', '.join(ids)}, which may follow from it)" if ids else ""


def unexpected(report: Report) -> Iterator[Violation]:
    """Yield the shortest violation of each clause that the report is about and that was to hold."""
    for row, first, _ in violated(report):
        if row.aimed_at and row.verdict is Verdict.VIOLATED:
            yield first


def finding(violation: Violation) -> str:
    """Return a violation in one line: the clause, the last step of its history, and what was wrong."""
    last = f"{plain(_in_words(violation.history[-1]))}: " if violation.history else ""
    return f"{violation.clause}  {_cut(f'{last}{plain(violation.message)}')}"


def _cut(text: str) -> str:
    return text if len(text) <= LINE else f"{text[: LINE - 2]} …"


def why(row: ClauseVerdict) -> str:
    """Return the basis of a verdict in a few words: the reason, or the first check."""
    first, *others = (row.reason,) if row.reason else (row.checks or ("",))
    return plain(first) + (f" (+{len(others)} more)" if others else "")


def counts(rows: Iterable[ClauseVerdict]) -> Mapping[str, int]:
    """Return the number of clauses with each verdict that occurs."""
    counted = Counter(row.verdict for row in rows)
    return {verdict.value: counted[verdict] for verdict in Verdict if counted[verdict]}


def summary(report: Report) -> str:
    """Return the last line of a report."""
    aimed = [row for row in report.rows if any(map(row.clause.is_of, report.profiles)) or _is_known_besides(row)]
    clauses = "; ".join(f"{number} {verdict}" for verdict, number in counts(aimed).items())
    judged = sum(result.cases for result in report.results)
    outcomes = {0: "It conforms", 1: "It does not conform", 2: "It could not be checked to the end"}
    about = f" ({', '.join(report.profiles)})" if any(row.clause.profile for row in aimed) else ""
    return f"{outcomes[report.exit_status]}{about}: {clauses}; {judged:,} answers judged in {report.seconds:.1f} s."


def label(row: ClauseVerdict) -> str:
    """Return the verdict on a violated clause, or "ADVICE" where it is about style."""
    advice = row.clause.profile == "style" and not row.aimed_at and row.verdict is Verdict.VIOLATED
    return "ADVICE" if advice else row.verdict.value.upper()


def levels(report: Report) -> Iterator[str]:
    """Yield the verdicts of each level of conformance, those of delivery for each era, as far as there are any."""
    for profile in PROFILES:
        rows = {"": report.rows}
        if profile == "delivery":
            eras = {setting: setting.rpartition(", ")[2] for setting in report.settings}
            rows = {f", {era}" if era in ERAS else "": report.rows_in(setting) for setting, era in eras.items()}
        for where, known in rows.items():
            counted = counts(row for row in known if row.clause.is_of(profile))
            verdicts = [f"{number} {verdict}" for verdict, number in counted.items() if verdict != NO_VERDICT]
            aim = "" if profile in report.profiles else " (advice)" if profile == "style" else " (not aimed at)"
            if verdicts:
                yield f"{profile}{where}{aim}: {'; '.join(verdicts)}"


def hidden(report: Report, root: str) -> Iterator[tuple[ClauseVerdict, Violation]]:
    """Yield the shortest masked violation of each clause that may follow from the violation of another."""
    for row in report.rows:
        if row.hidden and (found := min(row.hidden, key=brevity)).root == root:
            yield row, found


def left_out(report: Report) -> Iterator[tuple[str, str]]:
    """Yield each reason why something was left out, after the names of all that it is the reason of."""
    names: dict[str, list[str]] = {}
    for name, reason in report.left_out.items():
        names.setdefault(reason, []).append(name)
    yield from ((", ".join(named), reason) for reason, named in names.items())


def not_applicable(report: Report) -> str:
    """Return a line on how many clauses could not be checked in this way, and why; "" if all could."""
    rows = [row for row in report.rows if row.verdict is Verdict.NOT_APPLICABLE]
    unseen = sum(row.reason == NOT_SEEN for row in rows)
    reasons = Counter(row.reason for row in rows if row.reason != NOT_SEEN)
    parts = [f"{number}: {plain(reason)}" for reason, number in reasons.most_common(MANY)]
    rest = len(rows) - unseen - sum(number for _, number in reasons.most_common(MANY))
    parts += [f"{rest} for other reasons, which the JSON report lists"] if rest else []
    parts += [f"{unseen}: no check of the kit is about them"] if unseen else []
    return f"Not applicable: {len(rows)} clauses ({'; '.join(parts)})" if rows else ""


def _is_known_besides(row: ClauseVerdict) -> bool:
    return not row.clause.profile and row.verdict is not Verdict.NOT_APPLICABLE


def files(report: Report) -> Iterator[tuple[str, Violation]]:
    """Yield each violation with the name of its file: first those that fail the run, of each clause the shortest."""
    every = (one for _, first, others in violated(report) for one in (first, *others))
    seen: Counter[str] = Counter()
    for violation in every:
        if not seen:
            yield "failure.json", violation
        seen[violation.clause] += 1
        count = seen[violation.clause]
        yield f"failure-{violation.clause}{f'-{count}' if count > 1 else ''}.json", violation


def violated(report: Report) -> tuple[tuple[ClauseVerdict, Violation, tuple[Violation, ...]], ...]:
    """Return each violated clause with its shortest violation and the others; those that fail the run come first."""
    rows = sorted((row for row in report.rows if row.violations), key=_weight)
    ordered = ((row, sorted(row.violations, key=brevity)) for row in rows)
    return tuple((row, first, tuple(others)) for row, (first, *others) in ordered)


def _weight(row: ClauseVerdict) -> tuple[bool, bool]:
    return not row.fails, row.verdict is Verdict.EXPECTED


def brevity(violation: Violation) -> tuple[bool, int, int]:
    """Return what violations are sorted by, those first that show most in the fewest steps."""
    groups = len(violation.setup.groups) if violation.setup else 0
    return not violation.history, len(violation.history), groups


def incomplete(report: Report) -> tuple[tuple[Status, str, str, tuple[str, ...]], ...]:
    """Return status, setting and reason of checks that did not complete, with the checks that share them."""
    checks: dict[tuple[Status, str, str], list[str]] = {}
    for result in report.results:
        if result.status in (Status.INTERRUPTED, Status.DIED, Status.BROKEN):
            checks.setdefault((result.status, result.setting, result.reason), []).append(result.check)
    return tuple((*known, tuple(names)) for known, names in checks.items())


def found_by(violation: Violation) -> str:
    """Return the check that found a violation, and the setting."""
    return f"check {plain(violation.check)}, {plain(violation.setting)}"


def also_found_by(others: Sequence[Violation]) -> Iterator[str]:
    """Yield lines that name the other checks that found the same violation, but not too many."""
    yield from (f"also found by {found_by(other)}" for other in others[:MANY])
    if len(others) > MANY:
        yield f"and by {len(others) - MANY} more"


def steps(violation: Violation) -> Iterator[str]:
    """Yield the lines of a violation: the system, the operations, the expected answer and the one that came."""
    if violation.setup is not None and (violation.history or violation.exchange is None):
        yield from (f"given  {line}" if not n else f"       {line}" for n, line in enumerate(_given(violation.setup)))
    for number, operation in enumerate(violation.history, 1):
        yield f"{number:>5}  {plain(_step(operation))}"
    names = differing(violation.expected, violation.got)
    for word, answer in (("expected", violation.expected), ("got", violation.got)):
        if violation.expected or violation.got:
            yield f"       {word:<8}  {_members(answer, names)}"


def messages(violation: Violation, longest: int | None = None) -> Iterator[str]:
    """Yield the messages that show a violation over MCP, cut to a length."""
    exchange = violation.exchange
    for one in () if exchange is None else exchange.messages:
        client = f"{one.client} " if exchange and exchange.clients > 1 else ""
        text = plain(json.dumps(one.content, ensure_ascii=False))
        cut = text if longest is None or len(text) <= longest else f"{text[:longest]} … ({len(text):,} characters)"
        yield f"{client}{'-->' if one.is_sent else '<--'} {cut}"


def confirmation(violation: Violation) -> str:
    """Return a sentence on whether another client was answered alike."""
    match None if violation.exchange is None else violation.exchange.is_confirmed:
        case True:
            return "A client that shares no code with the kit was answered in the same way."
        case False:
            return "A client that shares no code with the kit was answered otherwise, or not in time."
        case None:
            return ""


def replay(report: Report, failure: Path | str) -> str:
    """Return the command that replays the violation in a file."""
    arguments = report.header.get("arguments") or report.header.get("target", "")
    return f"toolfold conform --replay {shlex.quote(str(failure))} {arguments}"


def histories(row: ClauseVerdict) -> Iterator[str]:
    """Yield the lines of all violations of a clause."""
    for violation in row.violations:
        yield from ("", f"{plain(violation.message)} ({found_by(violation)})", *steps(violation))


def _in_words(operation: Operation) -> str:
    """Return an operation for people, who read "open" and "close" where drivers have "activate" and "deactivate"."""
    word = {"activate": "open", "deactivate": "close"}.get(operation.verb)
    return f"{word} {operation.arguments['group']}" if word else _step(operation)


def _step(operation: Operation) -> str:
    """Return an operation in a line; one that overlaps others is identified by a number."""
    number = operation.arguments.get("ticket")
    if number is None:
        return str(operation)
    begun = operation.arguments.get("operation")
    return f"{operation.verb} number {number}" + (f": {Operation.from_json(begun)}" if begun else "")


def differing(expected: Mapping[str, Any], got: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the members in which two answers differ; all of them if those that both have are equal.

    An answer without an error is a success; any other member that is absent was not observed.
    """
    both = [name for name in expected if name in got or name == "error"]
    both += [name for name in got if name == "error" and name not in expected]
    differ = tuple(name for name in both if expected.get(name) != got.get(name))
    return differ or tuple(dict.fromkeys((*expected, *got)))


def _members(answer: Mapping[str, Any], names: Iterable[str]) -> str:
    shown = {name: answer.get(name, ABSENT) for name in names}
    if "error" in shown and shown["error"] in (ABSENT, None):
        shown["error"] = None
    return ", ".join(f"{name}: {_value(value)}" for name, value in shown.items() if value is not ABSENT) or "nothing"


def _value(value: Any) -> str:
    return plain(json.dumps(value, ensure_ascii=False, default=str))


def _given(setup: Setup) -> Iterator[str]:
    groups = ", ".join(_group(group) for group in setup.groups)
    yield f"groups {groups}" if groups else "no groups"
    for exclusion in setup.exclusions:
        yield f"exclusion {{{', '.join(map(plain, exclusion))}}}"
    if setup.tools:
        yield f"tools {', '.join(_tool(tool) for tool in setup.tools)}"
    if setup.max_active is not None:
        policy = "evict the oldest" if setup.evict_oldest else "refuse"
        pinned = f", {', '.join(map(plain, setup.pinned))} pinned" if setup.pinned else ""
        yield f"at most {setup.max_active} active: {policy}{pinned}"
    if setup.page_size is not None:
        yield f"pages of {setup.page_size}"
    if setup.relevant_controls:
        yield "control tools only while they can do something"


def _group(group: Group) -> str:
    details = [f"hooks {', '.join(map(plain, group.hooks))}"] if group.hooks else []
    details += [] if group.deactivator else ["no deactivator"]
    return plain(group.path) + (f" ({'; '.join(details)})" if details else "")


def _tool(tool: Tool) -> str:
    details = [] if tool.when == "group" else [plain(tool.when)]
    details += ["hidden"] if tool.hidden else []
    details += [] if tool.does == "echo" else [tool.does]
    details += [] if tool.input_schema is None else [f"input {_value(tool.input_schema)}"]
    return plain(tool.full_name) + (f" ({'; '.join(details)})" if details else "")
