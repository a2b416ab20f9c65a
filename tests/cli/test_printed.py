"""What commands print is what their transcripts show: `python -m tests.cli.printing --write` writes them anew."""

from __future__ import annotations

import re
import sys

import pytest

from tests.cli.printing import commands_in, difference, play, transcripts
from tests.cli.support import invoke
from toolfold_cli.program import COMMANDS

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="transcripts have the paths of POSIX")

PROCESSES = "it serves or starts other programs: pages of the documentation have it"
ELSEWHERE = {
    "toolfold (serve|connect) .*": PROCESSES,
    "toolfold (up|down).*": "tests/process/runtime",
    "toolfold conform (--describe|--driver|https:|shop|engine).*": "tests/process/cli/test_conform.py",
    "toolfold conform --itf .*": "tests/specs/test_itf.py",
    "toolfold conform --smoke engine.*": "the smallest systems of another driver",
    "toolfold (report|status).*": "what was used is no file: tests/cli/test_report.py",
    "toolfold help serve": "tests/cli/test_usage.py",
    "toolfold man.*": "tests/cli/test_man.py",
    "toolfold init( --undo| --measure)?": "it asks: tests/cli/test_init.py",
    "toolfold evaluate( --player hosts .*)?": "it plays for minutes: tests/adapters/evaluation",
    "toolfold evaluate (.* )?--model .*": "it asks a model",
    "toolfold login .*": "what it asks and stores: tests/cli/test_login.py",
    "toolfold verify (trace.jsonl.1|one).*": "tests/specs/test_traces.py",
    "toolfold logins --store .*": "it needs a Redis",
}
"""The examples of the help that no transcript has, and why."""


def played(name: str) -> None:
    stale = play(name)
    shown = "\n".join(difference(block, text, name) for block, text in stale.items())
    assert not stale, f"python -m tests.cli.printing --write {name}\n{shown}"


def examples(command: str) -> list[str]:
    """Return the examples in the help of a command, without what is said of them."""
    text = invoke(*command.split(), "--help").stdout.partition("Examples:\n")[2]
    return [re.split(r"\s{2,}", line.strip())[0] for line in text.splitlines() if line.strip().startswith("toolfold ")]


@pytest.mark.parametrize("command", ["", *COMMANDS], ids=lambda command: command or "toolfold")
def test_each_example_of_the_help_is_in_a_transcript_or_said_to_be_elsewhere(command: str) -> None:
    assert examples(command)
    lines = (re.sub("^[A-Z]+=[^ ]+ ", "", line) for name in transcripts() for line in commands_in(name))
    played = {re.split(r" [|>] ", line)[0] for line in lines}
    left = [one for one in examples(command) if not any(re.fullmatch(elsewhere, one) for elsewhere in ELSEWHERE)]
    assert [one for one in left if re.split(r" [|>] ", one)[0] not in played] == []


def test_each_transcript_is_played_by_a_test() -> None:
    played_here = {
        name.removeprefix("test_what_").removesuffix("_prints") for name in globals() if name.endswith("_prints")
    }
    assert played_here == set(transcripts())


@pytest.mark.spec("GWY-8", "GWY-2")
def test_what_approve_prints() -> None:
    played("approve")


def test_what_call_prints() -> None:
    played("call")


@pytest.mark.spec("GWY-19")
def test_what_check_prints() -> None:
    played("check")


def test_what_completion_prints() -> None:
    played("completion")


@pytest.mark.spec("CNF-2", "CNF-3", "CNF-4", "CNF-8")
def test_what_conform_prints() -> None:
    played("conform")


@pytest.mark.spec("DEL-7")
def test_what_demo_prints() -> None:
    played("demo")


@pytest.mark.spec("DIA-1", "DIA-2", "PRO-1", "ERR-2", "GRP-2")
def test_what_diagram_prints() -> None:
    played("diagram")


@pytest.mark.spec("EVA-1")
def test_what_evaluate_prints() -> None:
    played("evaluate")


@pytest.mark.spec("EXP-1", "EXP-2", "SES-5", "SKL-2")
def test_what_explain_prints() -> None:
    played("explain")


@pytest.mark.spec("GWY-2", "GWY-5", "GWY-13")
def test_what_init_prints() -> None:
    played("init")


@pytest.mark.spec("GWY-5", "NAM-4", "GRP-2")
def test_what_inspect_prints() -> None:
    played("inspect")


@pytest.mark.spec("GWY-19")
def test_what_logins_prints() -> None:
    played("logins")


@pytest.mark.spec("PRO-2")
def test_what_profiles_prints() -> None:
    played("profiles")


@pytest.mark.spec("COD-1")
def test_what_stubs_prints() -> None:
    played("stubs")


@pytest.mark.spec("TRC-1")
def test_what_verify_prints() -> None:
    played("verify")
