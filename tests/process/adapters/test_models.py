"""What runs the models of a search keeps nothing of its own on the machine, and reports to nobody (SPEC FND-5)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnxruntime")

NETWORK = """
from toolfold_adapters.search.networks import Network, started

network = Network()
(output,) = network.apply("Relu", "given", own=False)
started(network.written({"given": ("f4", (1,))}, output, (1,)))
"""
BY_FOLDER = """
import sys
from toolfold import ConfigError
from toolfold_adapters.search import embeddings

sys.modules.setdefault("tokenizers", sys)  # it is not reached: the folder has no model
try:
    embeddings(sys.argv[1])
except ConfigError:
    assert sys.modules["onnxruntime"]
"""


@pytest.mark.spec("FND-5")
@pytest.mark.parametrize("program", [NETWORK, BY_FOLDER])
def test_what_runs_models_keeps_no_id_of_the_machine_and_no_reports(program: str, tmp_path: Path) -> None:
    model, home = tmp_path / "model", tmp_path / "home"
    model.mkdir()
    home.mkdir()
    homes = ("HOME", "XDG_CACHE_HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA")
    variables = {**os.environ, **dict.fromkeys(homes, str(home))}
    variables.pop("ORT_DISABLE_TELEMETRY", None)
    subprocess.run([sys.executable, "-c", program, model], env=variables, check=True)
    assert [*home.rglob("*")] == []
