"""What a fresh interpreter loads: nothing before it is needed."""

import subprocess
import sys

import pytest

from tests.cli.support import environment

HELP = """
from click.testing import CliRunner
from toolfold_cli.program import program
assert CliRunner().invoke(program, {}).exit_code == 0
"""


@pytest.mark.parametrize(
    ("code", "not_loaded"),
    [
        ("import toolfold", {"click", "httpx", "httpx2", "mcp", "mcp_types", "rich", "starlette", "uvicorn"}),
        ("import toolfold_specs", {"toolfold", "toolfold_specs.driver"}),
        ("from toolfold_specs import check, suite, Driver", {"hypothesis", "mcp", "rich", "click", "pydantic"}),
        (HELP.format(["--help"]), {"toolfold_adapters", "toolfold_diagrams", "toolfold_specs", "mcp", "rich"}),
        (HELP.format(["serve", "--help"]), {"toolfold_diagrams", "toolfold_specs", "mcp"}),
        (HELP.format(["conform", "--help"]), {"toolfold_diagrams", "toolfold_specs.kit", "mcp", "hypothesis"}),
    ],
    ids=["core", "kit", "names of the kit", "help", "help of serve", "help of conform"],
)
def test_nothing_is_loaded_before_it_is_needed(code: str, not_loaded: set[str]) -> None:
    command = [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"]
    loaded = subprocess.run(command, env=environment(), check=True, capture_output=True, text=True).stdout.split()
    assert not not_loaded & {*loaded}
