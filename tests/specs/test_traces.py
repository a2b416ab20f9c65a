"""Traces of what ran: what is written, and what the specification does not allow (SPEC TRC-1)."""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import count, product
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.cli.support import invoke
from tests.simulation.plan import drawn
from tests.simulation.traced import found
from toolfold import HookFailed, ParentInactive, ToolError, ToolSet
from toolfold_adapters.observe.trace import Trace
from toolfold_adapters.stores import MemoryStore
from toolfold_specs.machine.regions import System, members, union
from toolfold_specs.reference import System as Reference
from toolfold_specs.reference import step
from toolfold_specs.systems import systems
from toolfold_specs.traces import NotATrace, Outcome, shown, verify
from verification.rows import stale

pytestmark = pytest.mark.spec("TRC-1")


def made(fail: Iterable[str] = ()) -> ToolSet:
    """Return a tool set whose groups have hooks, of which some fail."""
    tools, failing = ToolSet("shop"), {*fail}

    def hook(name: str) -> Callable[[], Any]:
        def run() -> None:
            if name in failing:
                raise ToolError("on purpose")

        async def run_on_loop() -> None:
            run()

        return run if name == "activate a.b" else run_on_loop

    for path in ("a", "a.b", "c", "d"):
        parent, _, name = path.rpartition(".")
        hooks: dict[str, Any] = (
            {} if path == "d" else {f"on_{verb}": hook(f"{verb} {path}") for verb in ("activate", "deactivate")}
        )
        tools.register_group(name, f"Group {path}", parent=parent or None, **hooks)
    tools.register_exclusion("a", "c")
    tools.register("read", lambda: "read", description="Read.", group="a")
    tools.register("look", lambda **_: "seen", description="Look.", input_schema={"type": "object"})
    return tools


async def used(tools: ToolSet, trace: Trace) -> None:
    """Use sessions in memory and in a store, so that each kind of line is written."""
    trace.listen(tools)
    async with tools.open_session(active=["d"]) as session:
        await session.transition(activate=["a", "a.b"])
        with pytest.raises(HookFailed):
            await session.activate("c")
        await session.deactivate("a", force=True)
        with pytest.raises(ParentInactive):
            await session.activate("a.b")
        await session.call("look", {"secret": "hunter2"})
    async with tools.stored_sessions(trace.around(MemoryStore())) as stored:
        await stored.ensure(stored.draft(json.dumps(["one", None]), notifies=True))
        async with stored.open("one") as session:
            await session.transition(activate=["a", "a.b"])
            session.set_fact("secret", "hunter2")
            await session.flush()
            await session.deactivate("a")
    trace.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A trace."""
    path = tmp_path / "trace.jsonl"
    anyio.run(used, made(["activate c"]), Trace(path))
    return path


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_what_sessions_did_is_allowed_and_has_no_argument_or_fact_in_it(file: Path) -> None:
    written = lines(file)
    steps = [line for line in written if "plans" in line]
    assert verify([file]) == Outcome(len(written), len(steps), 2, 1, 0)
    ended = ["committed", "committed", "aborted", "committed", "abandoned", "committed", "committed", "committed"]
    assert [line["ended"] for line in steps] == ended
    assert {"create", "acquire", "intend", "swap"} <= {line["op"] for line in written if "op" in line}
    assert "hunter2" not in file.read_text(encoding="utf-8")
    assert sys.platform == "win32" or stat.S_IMODE(file.stat().st_mode) == 0o600


def _with(line: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {**line, **members}


def _of(line: dict[str, Any], **members: Any) -> bool:
    return all(line.get(name) == value for name, value in members.items())


TAMPERED: dict[str, tuple[Callable[[dict[str, Any]], bool], Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "the groups d are open then; the specification has a, a.b, d": (
        lambda line: _of(line, what="transition", ended="committed"),
        lambda line: _with(line, after="8"),
    ),
    "opened: a; closed: none; the specification opens a, a.b": (
        lambda line: _of(line, open=[0, 1]),
        lambda line: _with(line, plans=[[*line["plans"][0][:3], ["1", "0"]]]),
    ),
    "on_activate of a was to run, and on_activate of a.b did": (
        lambda line: _of(line, open=[0, 1]),
        lambda line: _with(line, hooks=line["hooks"][::-1]),
    ),
    "the request is refused as ParentInactive, and the specification allows it": (
        lambda line: _of(line, error="ParentInactive"),
        lambda line: _with(line, open=[0]),
    ),
    "the open groups are said to be a; they were d": (
        lambda line: _of(line, open=[0, 1]),
        lambda line: _with(line, plans=[[line["catalog"], "1", *line["plans"][0][2:]]]),
    ),
    "the step is committed, and is to be aborted": (
        lambda line: _of(line, ended="aborted"),
        lambda line: _with(line, ended="committed"),
    ),
    "saved can't happen to a transition that is leased": (
        lambda line: _of(line, open=[0, 1], shared=True),
        lambda line: _with(line, events="planned intended succeeded saved"),
    ),
    "version 99 is replaced, and the record has version": (
        lambda line: _of(line, op="swap", token=None),
        lambda line: _with(line, version=99),
    ),
    "the number 1 is given, and 2 was given before": (
        lambda line: _of(line, op="swap"),
        lambda line: _with(line, gave=1, data={}),
    ),
    "version 1 is found with other data than it had": (
        lambda line: _of(line, op="swap"),
        lambda line: _with(line, gave=1),
    ),
    "hooks ran, and the record did not name": (lambda line: _of(line, op="intend"), lambda _: {}),
    "was committed, and was not written": (lambda line: _of(line, op="swap"), lambda _: {}),
    "the end of a session does not go on past hooks that fail": (
        lambda line: _of(line, what="close"),
        lambda line: _with(line, force=False),
    ),
    "a.b and a group that contains it exclude one another": (
        lambda line: "groups" in line,
        lambda line: _with(line, exclusions=[[0, 1]]),
    ),
    "the error is about the groups (1, 1), and is to be about (1, 0)": (
        lambda line: _of(line, error="ParentInactive"),
        lambda line: _with(line, of=[1, 1]),
    ),
    "the error is about the groups (0,), and is to be about (2,)": (
        lambda line: _of(line, error="HookFailed"),
        lambda line: _with(line, of=[0]),
    ),
    "a hook was cancelled, and its caller was not": (
        lambda line: _of(line, error="HookFailed"),
        lambda line: _with(line, hooks=[[*one[:3], one[3] and "cancelled", one[4]] for one in line["hooks"]]),
    ),
    "on_activate of a.b, which undoes on_deactivate, was cancelled, which was to run to its end": (
        lambda line: _of(line, error="HookFailed"),
        lambda line: _with(
            line,
            events=line["events"].rpartition(" ")[0] + " failed",
            hooks=[*line["hooks"][:-1], [*line["hooks"][-1][:3], "cancelled", line["hooks"][-1][4]]],
        ),
    ),
    "the caller was cancelled, and the step is given up as HookFailed": (
        lambda line: _of(line, error="HookFailed"),
        lambda line: _with(line, interrupted=True),
    ),
    "the caller was cancelled during a hook, and the step went on": (
        lambda line: _of(line, open=[0, 1]),
        lambda line: _with(line, interrupted=True),
    ),
    "on_activate of a went on, and succeeded": (
        lambda line: _of(line, open=[0, 1], shared=True),
        lambda line: _with(line, hooks=[[*one[:4], one[4] + 60] for one in line["hooks"]]),
    ),
    "the record says that a are open, and a, a.b are": (
        lambda line: _of(line, op="swap"),
        lambda line: _with(line, data={**line["data"], "open": ["a"]}),
    ),
    "says that a, a.b, d are open, and no step has opened them": (
        lambda line: _of(line, op="swap", token=None),
        lambda line: _with(line, data={**line["data"], "open": ["a", "a.b", "d"]}),
    ),
    "the changes of lists that are pending are [], and are to be ['tool']": (
        lambda line: _of(line, op="swap"),
        lambda line: _with(line, data={**line["data"], "pending": []}),
    ),
}


@pytest.mark.parametrize("why", TAMPERED)
def test_the_first_line_that_is_not_allowed_is_shown(file: Path, why: str) -> None:
    written, (is_meant, tampered) = lines(file), TAMPERED[why]
    place = next(number for number, line in enumerate(written) if is_meant(line))
    written[place] = tampered(written[place])
    file.write_text("".join(f"{json.dumps(line)}\n" for line in written if line), encoding="utf-8")
    problem = verify([file]).problem
    assert problem is not None
    assert why in problem.why
    listing = "\n".join(shown(problem))
    assert f"line {problem.line.number}: the specification does not allow this." in listing
    assert problem.why in listing


def _done(by: str, at: float, operation: str, gave: object, **given: Any) -> dict[str, Any]:
    """Return the line of an operation that began a tenth of a second before it ended."""
    return {"by": by, "at": at, "key": "desk/one", "op": operation, **given, "gave": gave, "took": 0.1}


def test_a_hook_in_a_thread_can_not_be_stopped_when_its_lease_ends(file: Path) -> None:
    written = lines(file)
    step = next(line for line in written if _of(line, open=[0, 1], shared=True))
    assert [*step["hooks"][1][:2]] == ["on_activate", "a.b"]
    step["hooks"][1][4] += 60
    file.write_text("".join(f"{json.dumps(line)}\n" for line in written), encoding="utf-8")
    assert verify([file]).problem is None


BEGUN = [
    _done("a", 1.0, "create", 1, data={"digest": "d1"}),
    _done("a", 2.0, "acquire", [2, 1, None, {"digest": "d1"}], seconds=2.0, version=1, intent=None),
]
OVERLAPPING: dict[str, list[dict[str, Any]]] = {
    "the lease is given, and a holds the lease for 1.0 s more": [
        _done("b", 2.9, "acquire", [3, 1, None, {"digest": "d1"}], seconds=2.0, version=1, intent=None),
        _done("a", 3.5, "release", None, token=2),
    ],
    "a record is replaced, and a holds the lease for 1.0 s more": [
        _done("b", 2.9, "swap", 3, version=1, token=None, data={"digest": "d3"}),
        _done("a", 3.5, "release", None, token=2),
    ],
    "a record is replaced under the token 2, and 3 was given before": [
        _done("b", 5.0, "acquire", [3, 1, None, {"digest": "d1"}], seconds=2.0, version=1, intent=None),
        _done("a", 6.0, "swap", 4, version=1, token=2, data={"digest": "d4"}),
    ],
    "swap under the token 2 is refused, and the lease is held for 1.0 s more": [
        _done("a", 2.9, "swap", None, version=1, token=2, data={"digest": "d3"}),
    ],
    "version 3 is made, and 1 was found 1.000 s afterwards": [
        _done("a", 2.9, "swap", 3, version=1, token=2, data={"digest": "d3"}),
        _done("b", 4.0, "read", 1, data={"digest": "d1"}),
    ],
    "version 1 is replaced, and 3 has replaced it": [
        _done("a", 2.9, "swap", 3, version=1, token=2, data={"digest": "d3"}),
        _done("b", 2.9, "swap", 4, version=1, token=None, data={"digest": "d4"}),
    ],
    "version 3 is found with other data than it had": [
        _done("a", 2.9, "swap", 3, version=1, token=2, data={"digest": "d3"}),
        _done("b", 4.0, "read", 3, data={"digest": "d1"}),
    ],
    "a lease is taken, and the one under the token 2 was not given back": [
        _done("a", 5.0, "acquire", [3, 1, None, {"digest": "d1"}], seconds=2.0, version=1, intent=None),
    ],
    "version 7 is to be replaced under a lease of version 1": [
        _done("a", 2.9, "swap", None, version=7, token=2, data={"digest": "d3"}),
    ],
    "a record is to be replaced without a lease, and a holds it, under 2": [
        _done("a", 2.9, "swap", None, version=1, token=None, data={"digest": "d3"}),
    ],
    "the lease is said to be held at 59.900, and all that were given have ended": [
        _done("b", at, "acquire", [None, 1, None, {"digest": "d1"}], seconds=2.0, version=1, intent=None)
        for at in (20.0, 40.0, 60.0)  # a and b may each have had one without a line
    ],
    "swap is interrupted": [_done("a", 2.9, "swap", "interrupted", version=1, token=2, data={"digest": "d3"})],
}


def _merged(folder: Path, written: list[dict[str, Any]]) -> Outcome:
    """Return what is found in lines, each in the file of its process, none of which has an end."""
    files = list[Path]()
    for by in ("a", "b"):
        files.append(folder / f"{by}.jsonl")
        begin = {"toolfold": "trace", "format": 2, "by": by}
        mine = [begin, *(line for line in written if line["by"] == by)]
        files[-1].write_text("".join(f"{json.dumps(line)}\n" for line in mine), encoding="utf-8")
    return verify(files)


@pytest.mark.parametrize("why", OVERLAPPING)
def test_what_two_processes_did_of_a_record_is_judged_by_when_it_began_and_ended(tmp_path: Path, why: str) -> None:
    assert _merged(tmp_path, BEGUN).problem is None
    problem = _merged(tmp_path, [*BEGUN, *OVERLAPPING[why]]).problem
    assert problem is not None
    assert why in problem.why


def test_what_a_process_that_was_killed_may_have_done_is_believed(tmp_path: Path) -> None:
    taken = _done("b", 2.9, "acquire", [3, 1, None, {"digest": "d1"}], seconds=2.0, version=1, intent=None)
    assert _merged(tmp_path, [*BEGUN, taken]).problem is None  # a may have given the lease back before


def test_traces_of_replicas_are_merged_by_version(tmp_path: Path) -> None:
    for seed in (2, 8, 14, 44):  # with replicas that are killed, and a store that does not answer
        outcome = found(drawn(seed), tmp_path / str(seed))
        assert outcome is not None
        assert (outcome.problem, outcome.processes > 1) == (None, True)


def test_a_disk_that_is_full_stops_nothing_and_what_is_lost_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, numbers, errors = os.write, count(), list[Any]()

    def limited(descriptor: int, data: bytes) -> int:
        if (number := next(numbers)) in range(4, 9):
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data[:20] if number == 9 else data)

    monkeypatch.setattr("toolfold_adapters.observe.trace.os.write", limited)
    monkeypatch.setattr("toolfold_adapters.observe.trace.log.error", lambda *said: errors.append(said))
    anyio.run(used, made(["activate c"]), Trace(tmp_path / "trace.jsonl"))
    outcome = verify([tmp_path / "trace.jsonl"])
    assert (outcome.problem, outcome.gaps) == (None, 6)
    assert len(errors) == 1


def test_a_file_of_the_greatest_size_is_followed_by_another_and_both_are_verified(tmp_path: Path) -> None:
    for size in range(3000, 3800, 100):
        file = tmp_path / f"{size}.jsonl"
        anyio.run(used, made(["activate c"]), Trace(file, most=size))
        before = file.with_name(f"{file.name}.1")
        assert max(file.stat().st_size, before.stat().st_size) <= size
        for files in ([file], [before], [before, file]):
            assert verify(files).problem is None


def test_a_file_of_an_older_format_is_followed_by_another(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text(older := '{"toolfold":"trace","format":1,"by":"one"}\n', encoding="utf-8")
    Trace(file).close()
    assert file.with_name("trace.jsonl.1").read_text(encoding="utf-8") == older
    assert verify([file]).problem is None


def test_what_is_no_trace_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    begin = '{"toolfold":"trace","format":2,"by":"one"}\n'
    for text, why in (
        ("", "is empty"),
        ("hello\nyou\n", "is no JSON"),
        ("[1]\n", "is no line of a trace"),
        ('{"a": 1}\n', "does not begin as a trace does"),
        (
            begin.replace(":2", ":1"),
            "this reads traces of format 2, not 1; the version of Toolfold that has written it",
        ),
        ("xxxx", "does not begin as a trace does"),
        ("\0" * 64, "does not begin as a trace does"),
        ("\n \n", "does not begin as a trace does"),
        (f"hello\n{begin}", "line 1 is no JSON"),
        ("[" * 100_000, "does not begin as a trace does"),
        (f'{begin}{"[" * 100_000}\n{{"closed":true,"by":"one"}}\n', "line 2 is no JSON"),
        (f'{begin}{{"by":["one"],"closed":true}}\n', "line 2 is no line of a trace: 'by' is no text"),
        (f'{begin}{{"plans":[]}}\n', "line 2 is no line of a trace: 'events' is missing"),
        (f'{begin}{{"lost":"many"}}\n', "line 2 is no line of a trace: a value in it is none that traces have"),
    ):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(NotATrace, match=why):
            verify([file])


def test_a_line_that_is_not_of_the_form_is_refused_where_traces_are_merged(tmp_path: Path) -> None:
    files = [tmp_path / "one", tmp_path / "two"]
    for file in files:
        begin = f'{{"toolfold":"trace","format":2,"by":"{file.name}"}}\n'
        file.write_text(f'{begin}{{"by":"{file.name}","key":"k","op":"acquire","gave":[]}}\n', encoding="utf-8")
    with pytest.raises(NotATrace, match="one, line 2 is no line of a trace: a value in it is none"):
        verify(files)


def test_a_trace_that_could_not_be_begun_is_one(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    for begin in ("", '{"toolf'):
        file.write_text(f'{begin}\n{{"by":"one","lost":3}}\n', encoding="utf-8")
        assert (verify([file]).gaps, verify([file]).problem) == (3, None)


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_line_that_a_killed_process_has_left_in_its_middle_is_passed_over(file: Path, goes_on: bool) -> None:
    async def go_on(tools: ToolSet, trace: Trace) -> None:
        trace.listen(tools)
        async with tools.open_session() as session:
            await session.activate("a")
        trace.close()

    whole = verify([file])
    written = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(written[:-1]) + written[-2][:30])
    if goes_on:
        anyio.run(go_on, made(), Trace(file))
    outcome = verify([file])
    assert (outcome.problem, outcome.torn, outcome.gaps) == (None, 1, 0)
    assert outcome.steps >= whole.steps + goes_on
    assert outcome.processes == 1 + goes_on
    said = invoke("verify", str(file))
    assert (said.exit_code, said.stderr) == (
        0,
        "toolfold: 1 line ends in its middle and was passed over, as a process leaves one that is killed.\n",
    )


def test_a_file_of_something_else_is_not_written_to(file: Path) -> None:
    Trace(file).close()  # goes on with a trace
    other = file.with_name("other")
    for text in ("a list\n", '{"a":1}\n', "\n\n"):
        other.write_text(text, encoding="utf-8")
        with pytest.raises(FileExistsError, match="something else than a trace"):
            Trace(other)
        assert other.read_text(encoding="utf-8") == text
    for text in ("", '\n{"by":"one","lost":3}\n', '{"toolf\n{"by":"one","lost":3}\n'):
        other.write_text(text, encoding="utf-8")
        Trace(other).close()
        assert verify([other]).problem is None


def test_a_file_that_is_named_twice_is_read_once(file: Path) -> None:
    (folder := file.parent / "other").mkdir()
    again = folder / ".." / file.name
    assert verify([file, again, file]) == verify([file])


# -- the rows ---------------------------------------------------------------------------------------------------------


def test_the_rows_of_the_kit_are_those_of_the_core() -> None:
    assert stale() == []


def _cases() -> Iterator[tuple[Reference, System]]:
    for number in range(1, 4):
        for reference in systems(number):
            order, paths = reference.canonical(reference.groups), reference.paths()
            exclusions = [sorted(map(order.index, one)) for one in reference.exclusions]
            yield reference, System.read({"groups": [paths[one] for one in order], "exclusions": exclusions})


def test_the_rows_mean_what_the_reference_model_says() -> None:
    for reference, system in _cases():
        masks = range(1 << len(system.paths))
        for before, opened, closed in product(filter(system.is_legal, masks), masks, masks):
            order = reference.canonical(reference.groups)
            state, activate, deactivate = ([order[one] for one in members(mask)] for mask in (before, opened, closed))
            expected = step(reference, frozenset(state), activate, deactivate)
            result = system.request(tuple(members(before)), members(opened), members(closed))
            assert (result.refusal or None) == expected.error
            assert union(result.order) == union(map(order.index, expected.state))
