"""The checks of what only a protocol shows, of our own server in a process of its own."""

from __future__ import annotations

import pytest

from tests.process.specs.support import served_fixture
from tests.specs.test_wire_layer import assert_every_check_passes, run
from toolfold_specs.drivers.protocol import Era


@pytest.mark.spec("CNF-1", "DEL-10")
@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_our_server_passes_every_check_of_its_era(transport: str, era: Era) -> None:
    with served_fixture(transport) as target:
        assert_every_check_passes(run(target, era), era)
