"""The statechart of a catalog, exported to XState and run by it, step by step beside the core."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.core.charts import (
    FOUR,
    LARGE,
    SMALL,
    Active,
    Source,
    Trace,
    chart_of,
    followed,
    mutants,
    nested_partners,
    odd,
    tour,
    wander,
)
from tests.external.support import FOLDER, run
from toolfold import Catalog
from toolfold.machine.statechart import XSTATE_MODULE, to_xstate

pytestmark = pytest.mark.usefixtures("node_packages")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder as a user has it: the module that comes with the export, and XState."""
    (tmp_path / "statechart.mjs").write_text(XSTATE_MODULE)
    (tmp_path / "node_modules").symlink_to(FOLDER / "node_modules")
    return tmp_path


async def differing(project: Path, *runs: tuple[Source, Trace]) -> list[int]:
    """Return which of the charts are, after some step, in another state in XState than the core is."""
    asked = [(json.dumps(to_xstate(chart_of(source))), [event for event, _ in trace]) for source, trace in runs]
    (project / "runs.json").write_text(json.dumps(asked))
    module, file = project / "statechart.mjs", project / "runs.json"
    status, printed = await run("node", str(FOLDER / "statechart.mjs"), str(module), str(file))
    assert status == 0
    said: Sequence[Sequence[Any]] = json.loads(printed)
    compared = zip(runs, said, strict=True)
    return [number for number, ((_, trace), values) in enumerate(compared) if not agree(trace, values)]


def agree(trace: Trace, values: Sequence[Any]) -> bool:
    return [active for _, active in trace] == [frozenset(active_in(value)) for value in values]


def active_in(value: dict[str, Any], above: str = "") -> Iterator[str]:
    """The groups that are active in a state's value: `{"a": {"active": {"b": "inactive"}}}` has only a active."""
    for key, inner in value.items():
        path = above + key.removesuffix(":")
        if inner == "active" or isinstance(inner, dict):
            yield path
        if isinstance(inner, dict):
            yield from active_in(inner["active"], f"{path}.")


def toured(catalog: Catalog) -> Trace:
    return followed(catalog, tour(catalog))


@pytest.mark.spec("CNF-6", "DIA-1", "DIA-2", "ACT-2", "ACT-4", "ACT-5", "ACT-6", "ACT-7", "ACT-8")
async def test_every_request_in_every_state_of_all_systems_of_up_to_four_groups_gives_what_the_core_gives(
    project: Path,
) -> None:
    runs = [(catalog, toured(catalog)) for catalog in (*SMALL, *FOUR)]
    assert len(runs) > 90
    assert await differing(project, *runs) == []


@pytest.mark.spec("CNF-6", "DIA-1", "NAM-1")
async def test_random_requests_in_large_forests_and_with_odd_names_give_what_the_core_gives(project: Path) -> None:
    walks = [(catalog, followed(catalog, wander(catalog, seed, 150))) for seed, catalog in enumerate((*LARGE, odd()))]
    assert {active for _, trace in walks for _, active in trace} > {frozenset[str]()}
    assert await differing(project, *walks) == []


@pytest.mark.spec("CNF-6")
async def test_an_export_with_a_transition_disabled_or_without_its_guard_is_detected(project: Path) -> None:
    broken = [(mutant, trace) for catalog in SMALL for trace in [toured(catalog)] for mutant in mutants(catalog, trace)]
    assert len(broken) > 100
    assert await differing(project, *broken) == list(range(len(broken)))


@pytest.mark.spec("CNF-6", "ACT-4")
async def test_a_partner_below_a_partner_leaves_with_it(project: Path) -> None:
    catalog = nested_partners()
    trace = toured(catalog)
    both: Active = frozenset({"a", "a.b"})
    assert ("activate:c", frozenset({"c"})) in [after for (_, active), after in pairwise(trace) if active == both]
    assert await differing(project, (catalog, trace)) == []
