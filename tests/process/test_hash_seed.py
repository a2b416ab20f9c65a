"""Pictures, exports, reports and worlds from seeds are the same bytes whatever the seed of hashing is."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.support import environment
from tests.process.conftest import ROOT

SCRIPT = """
import asyncio
from click.testing import CliRunner
from tests.core import charts
from tests.core.support import desk
from tests.diagrams import pages, support, traces
from toolfold_cli.program import program
from toolfold_diagrams import page, reachable, region_chart, sequence, statechart, structure, transaction_chart

print(charts.exported(charts.desk()), charts.exported(charts.odd()))
for source in (pages.hostile(), pages.scattered(1), pages.scattered(2), pages.wandered(pages.scattered(5), 1, 9)[-1]):
    print(page(source))
pictures = [sequence(asyncio.run(trace())) for trace in (traces.crossing, traces.gates, traces.switching)]
pictures += [structure(support.hostile()), structure(support.somewhere(support.forest(60, 90).catalog, 1))]
pictures += [reachable(desk()), statechart(support.forest(12)), transaction_chart(), region_chart()]
for picture in pictures:
    print(picture.dot, picture.mermaid)
print(CliRunner().invoke(program, ["inspect", "toolfold_cli.shop:tools", "--json"]).stdout)
"""


WORLDS = """
from tests.simulation.plan import drawn
from tests.simulation.worlds import run

for plan in map(drawn, range(12)):
    print(run(plan).digest)
"""


@pytest.mark.parametrize(
    "script",
    [pytest.param(SCRIPT, marks=pytest.mark.spec("DIA-1")), pytest.param(WORLDS, marks=pytest.mark.spec("STO-9"))],
    ids=["pictures", "worlds"],
)
def test_the_seed_of_hashing_changes_no_byte_of_any_output(script: str) -> None:
    first, second = (
        subprocess.run(
            [sys.executable, "-c", script],
            cwd=ROOT,
            check=True,
            capture_output=True,
            env=environment(PYTHONHASHSEED=seed, PYTHONIOENCODING="utf-8"),
        ).stdout
        for seed in ("1", "77")
    )
    assert len(first) > 2_000
    assert first == second
