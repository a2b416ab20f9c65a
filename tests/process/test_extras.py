"""What the base install says where a package of an extra is needed."""

import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import toolfold
import toolfold_adapters
import toolfold_cli
import toolfold_diagrams
import toolfold_specs
from toolfold import MissingExtra, ToolfoldError
from toolfold._extras import EXTRAS, extras_named

PACKAGES = (toolfold, toolfold_adapters, toolfold_cli, toolfold_diagrams, toolfold_specs)
SECONDS = 300
BASE_INSTALL = f"""
import sys
sys.path[:0] = {[str(Path(package.__file__ or "").parents[1]) for package in PACKAGES]!r}

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {sorted(EXTRAS)!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hidden())
"""


def on_the_base_install(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program where nothing is installed that an extra brings."""
    return subprocess.run(
        [sys.executable, "-c", BASE_INSTALL + code, *arguments],
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
    )


@pytest.mark.parametrize(
    ("code", "package", "extra"),
    [
        ("import toolfold_adapters.mcp", "mcp_types", "mcp"),
        ("import toolfold_adapters.mcp.address.handle", "mcp_types", "mcp"),
        ("import toolfold_adapters.gateway", "mcp_types", "mcp"),
        ("from toolfold import ToolSet; ToolSet('desk').run()", "mcp_types", "mcp"),
        ("from toolfold import ToolSet; ToolSet('desk').include_skill(__import__('sys').argv[1])", "ruamel", "cli"),
        ("import toolfold_adapters.integrations.fastmcp", "fastmcp", "fastmcp"),
        ("import toolfold_adapters.integrations.otel", "opentelemetry", "otel"),
        ("import toolfold_adapters.integrations.langchain", "langchain", "langchain"),
        ("import toolfold_adapters.integrations.openai_agents", "agents", "openai-agents"),
        ("import toolfold_adapters.integrations.pydantic_ai", "pydantic_ai", "pydantic-ai"),
        ("import anyio; from toolfold_cli.scenario import play; anyio.run(play, print)", "mcp", "mcp"),
        ("from toolfold_specs import Driver, check; check(Driver)", "hypothesis", "conformance"),
        ("import toolfold_specs.drivers.link", "mcp", "mcp"),
        ("import verification.library.server", "mcp_types", "mcp"),
        ("import toolfold_specs.render.text", "rich", "cli"),
    ],
)
def test_a_module_that_needs_an_extra_names_it_and_the_command_that_installs_it(
    code: str, package: str, extra: str, tmp_path: Path
) -> None:
    (tmp_path / "SKILL.md").write_text("---\nname: a\n---\n")
    done = on_the_base_install(code, str(tmp_path))
    of_the_kit = code.startswith(("from toolfold_specs", "import toolfold_specs"))
    error = "toolfold_specs.extras.MissingPackage" if of_the_kit else "toolfold.errors.MissingExtra"
    assert done.stderr.splitlines()[-1] == (
        f"{error}: '{package}' is not installed. Install it with: pip install \"toolfold[{extra}]\""
    )


def test_modules_documented_to_need_no_extra_need_none() -> None:
    done = on_the_base_install(
        "import toolfold, toolfold_adapters.inprocess, toolfold_adapters.manifests, toolfold_adapters.tokens\n"
        "import toolfold_specs, toolfold_diagrams\n"
        "print(toolfold_diagrams.transaction_chart().dot[:7])"
    )
    assert (done.stdout, done.stderr) == ("digraph\n", "")


@pytest.mark.spec("DEL-10", "ERR-2")
def test_running_a_tool_set_where_no_distribution_names_what_runs_it_is_answered_with_what_to_install() -> None:
    done = on_the_base_install(
        "import importlib.metadata\n"
        "importlib.metadata.entry_points = lambda **asked: ()\n"
        "from toolfold import ToolSet\n"
        "ToolSet('desk').run()"
    )
    assert done.stderr.endswith("'toolfold.run' is not installed. Install it with: pip install \"toolfold[mcp]\"\n")


@pytest.mark.spec("ERR-1", "ERR-2")
def test_the_error_is_one_of_the_library_and_of_imports() -> None:
    error = MissingExtra("mcp.server", "mcp")
    assert isinstance(error, ToolfoldError)
    assert isinstance(error, ModuleNotFoundError)
    assert (error.name, error.extra) == ("mcp.server", "mcp")


def test_an_old_package_that_lacks_a_module_is_distinguished_from_a_missing_one() -> None:
    with pytest.raises(MissingExtra, match=r"^'rich.no_such_module' is not installed"), extras_named():
        import_module("rich.no_such_module")


def test_every_package_of_an_extra_is_known_with_the_first_extra_that_has_it() -> None:
    """`mcp_types` comes with `mcp`, and some packages are imported by other names than they are installed by."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    brought = {
        re.split(r"[<>=\[]", requirement)[0].replace("-", "_"): extra
        for extra, requirements in reversed(project["optional-dependencies"].items())
        if extra not in ("all", "dev")
        for requirement in requirements
    }
    del brought["toolfold"]
    named = {
        "openai_agents": "agents",
        "opentelemetry_api": "opentelemetry",
        "pydantic_ai_slim": "pydantic_ai",
        "pyjwt": "jwt",
        "python_dotenv": "dotenv",
        "ruamel_yaml": "ruamel",
    }
    packages = {named.get(package, package): extra for package, extra in brought.items()}
    assert {**packages, "mcp_types": packages["mcp"]} == EXTRAS
