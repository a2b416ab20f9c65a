"""The chart of the transaction as Graphviz draws it."""

from __future__ import annotations

import re

import pytest

from tests.diagrams.support import Drawn
from tests.diagrams.test_transaction_chart import FINAL, key
from toolfold.machine.transaction import STATES
from toolfold_diagrams import transaction_chart


@pytest.mark.spec("DIA-1", "DIA-2")
def test_the_states_of_the_transaction_are_those_of_the_code() -> None:
    drawn = Drawn.of(transaction_chart().dot)
    assert {*drawn.nodes} - {"initial"} == {key(state) for state in STATES}
    for state in STATES:
        node = drawn.nodes[key(state)]
        assert node["label"] == state.rpartition(".")[2].replace("_", " ")
        assert (node["peripheries"] == "2") is (state in FINAL)
    named = re.findall(r'^ +state "(.*)" as (\w+)$', transaction_chart().mermaid or "", re.MULTILINE)
    assert sorted(named) == sorted((state.rpartition(".")[2].replace("_", " "), key(state)) for state in STATES)
