"""Traces of Quint are replayed on implementations, which agree or are said to depart from them (SPEC TRC-1)."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import invoke
from toolfold_specs.driver import Driver, Setup
from toolfold_specs.itf import ItfError, read_trace, replay_trace, shown
from verification.library.driver import CoreDriver
from verification.mutants import transitions
from verification.mutants.driver import EngineDriver

pytestmark = pytest.mark.spec("TRC-1")

TRACES = sorted((Path(__file__).parents[2] / "specs" / "quint" / "traces").glob("*.itf.json"))
LIBRARY = "verification.library.driver:CoreDriver"


@pytest.mark.parametrize("make", [CoreDriver, EngineDriver])
def test_implementations_do_what_the_traces_of_quint_say(make: Callable[[], Driver]) -> None:
    verbs = set[str]()
    for path in TRACES:
        moments = read_trace(path)
        verbs |= {moment.operation.verb for moment in moments if moment.operation is not None}
        with closing(make()) as driver:
            replayed = replay_trace(moments, driver)
        assert (replayed.states, replayed.divergence) == (len(moments), None)
    assert verbs == {"activate", "deactivate", "transition"}


def test_mutants_depart_from_a_trace() -> None:
    departed = set[str]()
    for mutant in transitions.MUTANTS:
        for path in TRACES[:4]:
            found = None
            with closing(mutant.driver()) as driver, suppress(ItfError):  # some refuse the system
                found = replay_trace(read_trace(path), driver).divergence
            if found is not None:
                departed.add(mutant.name)
                assert f"State {found.moment.index}: " in next(shown(found))
                break
    assert len(departed) >= 10


def _file(tmp_path: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    data = json.loads(TRACES[0].read_text(encoding="utf-8"))
    change(data)
    path = tmp_path / "trace.itf.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def test_conform_replays_a_trace_and_shows_where_a_target_departs(tmp_path: Path) -> None:
    allowed = invoke("conform", "--itf", str(TRACES[0]), LIBRARY)
    assert (allowed.exit_code, allowed.stdout) == (0, "in process: as in the trace, 13 states.\n")

    def close_all(data: dict[str, Any]) -> None:
        place = next(n for n, state in enumerate(data["states"]) if state["active"]["#set"])
        data["states"][place]["active"]["#set"] = []

    departs = invoke("conform", "--itf", str(_file(tmp_path, close_all)), LIBRARY)
    assert departs.exit_code == 1
    assert "in process: it departs from the trace." in departs.stdout
    assert "and are to be none." in departs.stdout


def test_a_trace_of_which_nothing_can_be_replayed_is_no_success(tmp_path: Path) -> None:
    code = (
        "from toolfold_specs.driver import Driver\nfrom verification.library.driver import CoreDriver\n\n\n"
        "def of_one_group() -> Driver:\n    driver = CoreDriver()\n"
        "    driver.capabilities = driver.capabilities - {'transition'}\n    return driver\n"
    )
    (tmp_path / "limited.py").write_text(code, encoding="utf-8")
    limited = f"{tmp_path / 'limited.py'}:of_one_group"
    nothing = invoke("conform", "--itf", str(TRACES[0]), limited)
    assert nothing.exit_code == 2
    assert nothing.stdout.endswith(": nothing was replayed: this target has no transitions of several groups.\n")
    assert f"toolfold: No request of {TRACES[0]} can be made here." in nothing.stderr
    single = next(path for path in TRACES if path.name == "single_0.itf.json")
    assert invoke("conform", "--itf", str(single), limited).exit_code == 0


def test_what_is_no_trace_of_the_module_is_refused(tmp_path: Path) -> None:
    for change, why in (
        (lambda data: data.pop("states"), "has no variable 'states'"),
        (lambda data: data["states"][1].pop("answer"), "has no variable 'answer'"),
        (lambda data: data.update(states=[]), "has no states"),
        (lambda data: data.update(states=3), "is no trace in the Informal Trace Format"),
    ):
        with pytest.raises(ItfError, match=why):
            read_trace(_file(tmp_path, change))
    nothing = invoke("conform", "--itf", str(_file(tmp_path, lambda data: data.update(states=[]))), LIBRARY)
    assert nothing.exit_code == 2
    with pytest.raises(ItfError, match="can't be read"):
        read_trace(tmp_path / "missing")
    with closing(EngineDriver()) as driver:
        driver.capabilities = driver.capabilities - {"setups"}
        driver.given = Setup()
        with pytest.raises(ItfError, match="is of another system than this target's"):
            replay_trace(read_trace(TRACES[0]), driver)
