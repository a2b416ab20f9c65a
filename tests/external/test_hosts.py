"""What hosts pass on to their models of the gateway, and the outcomes of their calls (SPEC DEL-12, GWY-4, CTL-7).

Those of `package.json` are run, or with TESTS_HOSTS=all those of `hosts.HOSTS`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.external.hosts import running, tables
from tests.external.hosts.cases import CASES, TURNS, Case
from tests.external.hosts.hosts import HOSTS, Host
from tests.external.hosts.running import MODERN, Run, run
from tests.external.support import FOLDER

INSTALLED = json.loads((FOLDER / "package.json").read_text())["dependencies"]
IN_GATE = [host for host in HOSTS if host.package.rpartition("@")[0] in INSTALLED]
SELECTED = HOSTS if os.environ.get("TESTS_HOSTS") == "all" else IN_GATE

each_host = pytest.mark.parametrize(
    "host",
    [pytest.param(host, id=host.name, marks=pytest.mark.xdist_group(host.name)) for host in SELECTED],
    indirect=True,
    scope="module",
)


@pytest.fixture(scope="module")
def ran(host: Host, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """What was said while a host did all cases."""
    return run(host, list(TURNS.values()), tmp_path_factory.mktemp("host"))


def test_the_versions_in_the_gate_are_those_that_the_table_names() -> None:
    assert [INSTALLED[host.package.rpartition("@")[0]] for host in IN_GATE] == [host.version for host in IN_GATE]


def test_the_version_of_a_host_is_that_of_the_program_that_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "folders", lambda: [tmp_path / "none", tmp_path])
    by_name = {host.name: host for host in HOSTS}
    package = tmp_path / "node_modules/@openai/codex/package.json"
    package.parent.mkdir(parents=True)
    package.write_text('{"version": "9.8.7"}')
    (tmp_path / "python/lib/python3.13/site-packages/fast_agent_mcp-6.5.4.dist-info").mkdir(parents=True)
    found = {name: running.installed_version(by_name[name]) for name in ("Codex", "fast-agent", "Cline")}
    assert found == {"Codex": "9.8.7", "fast-agent": "6.5.4", "Cline": "unknown"}


def test_the_tables_of_hosts_have_the_rows_of_all_hosts_as_they_are_known() -> None:
    page = tables.PAGE.read_text(encoding="utf-8")
    assert tables.problems(page) == []
    first, table = HOSTS[0], tables.TABLES[-1]
    row = (f"{first.name} {first.version}", "no", "all", first.search, "2026-01-01")
    assert tables.problems(tables.written(page, table, first, [row])) == []
    for wrong in ([], [(f"{first.name} 0.1", *row[1:])], [row[:-1]], [(*row[:3], "sometimes", row[4])]):
        assert tables.problems(tables.written(page, table, first, wrong))


@each_host
@pytest.mark.spec("DEL-12", "GWY-4", "DEL-8")
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_host_shows_its_model(host: Host, ran: Run, case: Case) -> None:
    assert case.outcome(ran) == host.outcomes.get(case.name, case.expected), ran.results or ran.output


@each_host
@pytest.mark.spec("GWY-14", "GWY-15")
@pytest.mark.parametrize("killed", [False, True], ids=["warm", "killed"])
def test_a_host_shows_the_same_through_a_relay_also_when_the_runtime_is_killed_before_each_turn(
    host: Host, killed: bool, tmp_path: Path
) -> None:
    first, work, started = (tmp_path / name for name in ("first", "work", "started"))
    first.mkdir()
    work.mkdir()
    started.touch()
    with running.runtime(tmp_path, killed=killed) as (relay, kill):
        gateway = (*relay, str(running.servers(tmp_path, started)))
        run(host, [], first, gateway=gateway)  # from now on, the handshake of this host is answered at once
        ran = run(host, list(TURNS.values()), work, gateway=gateway, meanwhile=kill)
    expected = {case.name: host.outcomes.get(case.name, case.expected) for case in CASES}
    assert {case.name: case.outcome(ran) for case in CASES} == expected, ran.results or ran.output
    assert (ran.protocol == MODERN) == host.modern


@each_host
@pytest.mark.spec("DEL-12")
def test_a_host_gets_the_era_that_it_asks_for(host: Host, ran: Run) -> None:
    assert (ran.protocol == MODERN) == host.modern
