"""The site: it is built, nothing in it leads elsewhere or nowhere, and everything that is public is in it."""

from __future__ import annotations

import ast
import inspect
import re
import zlib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import click
import pytest

import toolfold.errors
from tests.process.docs.blocks import ROOT
from tests.process.docs.site import build
from toolfold_cli.program import COMMANDS, program
from toolfold_specs.clauses import load_clauses

MODULES = (
    "toolfold",
    "toolfold.machine",
    "toolfold_adapters.gateway",
    "toolfold_adapters.inprocess",
    "toolfold_adapters.integrations.fastmcp",
    "toolfold_adapters.integrations.langchain",
    "toolfold_adapters.integrations.openai_agents",
    "toolfold_adapters.integrations.otel",
    "toolfold_adapters.integrations.pydantic_ai",
    "toolfold_adapters.mcp",
    "toolfold_adapters.stores",
    "toolfold_diagrams",
    "toolfold_specs",
)
LOADED = {"img": "src", "script": "src", "link": "href", "source": "src", "iframe": "src", "object": "data"}
"""What a page loads without being asked, by the attribute that says from where."""


EXCLUDED = ("a", "code", "h1", "h2", "h3", "h4", "pre", "script", "style", "title")


class Links(HTMLParser):
    """The addresses in a page: what it loads, and where it leads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.followed: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if address := given.get(LOADED.get(tag, "")):
            self.loaded.append(address)
        if tag == "a" and (address := given.get("href")):
            self.followed.append(address)


def public_names(module: str) -> list[str]:
    """The names in `__all__` of a module, read from its text, as it may need an extra."""
    folders = (ROOT / folder / module.replace(".", "/") for folder in ("core", "adapters", "diagrams", "specs"))
    files = (file for path in folders for file in (path / "__init__.py", path.with_suffix(".py")) if file.exists())
    for statement in ast.parse(next(files).read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            return list(ast.literal_eval(statement.value))
    raise AssertionError(f"{module} has no __all__")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, as it is built."""
    return build(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def reference(site: Path) -> set[str]:
    """The names that the reference describes, modules left out: some have the name of what is in them."""
    _, _, packed = (site / "objects.inv").read_bytes().partition(b"using zlib.\n")
    entries = (line.split(" ") for line in zlib.decompress(packed).decode().splitlines())
    return {name for name, role, *_ in entries if role != "py:module"}


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_in_the_reference(module: str, reference: set[str]) -> None:
    names = public_names(module)
    paths = {name: {f"{module}.{name}", f"{module}.{name}.{name}"} for name in names}
    assert {name for name, known in paths.items() if reference.isdisjoint(known)} == set()


def test_every_error_is_in_the_reference(reference: set[str]) -> None:
    errors = [name for name, value in vars(toolfold.errors).items() if inspect.isclass(value)]
    names = {name for name in errors if issubclass(getattr(toolfold.errors, name), toolfold.errors.ToolfoldError)}
    assert {name for name in names if f"toolfold.errors.{name}" not in reference} == set()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_in_the_reference_with_its_options(name: str) -> None:
    _, _, section = (ROOT / "docs/reference/command-line.md").read_text(encoding="utf-8").partition(f"\n## {name}\n")
    shown = section.partition("\n## ")[0]
    command = program.get_command(click.Context(program), name)
    assert command is not None
    options = {option for parameter in command.params for option in parameter.opts if option.startswith("-")}
    assert {option for option in options if not re.search(rf"{option}\b", shown)} == set()


def test_every_option_of_serve_is_set_by_the_variable_of_its_name_which_is_in_the_reference() -> None:
    page = (ROOT / "docs/reference/environment.md").read_text(encoding="utf-8")
    command = program.get_command(click.Context(program), "serve")
    assert command is not None
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            name = parameter.opts[0].removeprefix("--")
            variable = f"TOOLFOLD_{name.replace('-', '_').upper()}"
            assert f"| `{variable}` | `--{name}` |" in page
            assert variable in (parameter.envvar, f"TOOLFOLD_{(parameter.name or '').upper()}")


def test_every_variable_that_the_code_names_is_in_the_reference() -> None:
    page = (ROOT / "docs/reference/environment.md").read_text(encoding="utf-8")
    folders = ("core", "adapters", "specs", "diagrams")
    code = "".join(path.read_text(encoding="utf-8") for folder in folders for path in (ROOT / folder).rglob("*.py"))
    assert {name for name in re.findall(r"\bTOOLFOLD_[A-Z_]+\b", code) if name not in page} == set()


def test_every_page_is_in_the_navigation() -> None:
    entries = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    assert entries == {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}


def test_a_page_loads_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert [address for address in Links(text).loaded if urlsplit(address).netloc] == [], page
        assert not re.search(r"url\(['\"]?(https?:)?//", text), page
        assert 'class="mermaid"' not in text, page  # which the theme would fetch a program for
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import )['\"]?(https?:)?//", sheet.read_text(encoding="utf-8")), sheet


class Mentions(HTMLParser):
    """The clauses that the text of a page mentions outside of links, headings and code."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.unlinked: list[str] = []
        self._inside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in EXCLUDED:
            self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in EXCLUDED:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        if not self._inside:
            self.unlinked += re.findall(r"\bSPEC [A-Z]+-\d+", data)


def test_a_mention_of_a_clause_links_to_its_whole_text(site: Path) -> None:
    headings = re.findall(r'id="([A-Z]+-\d+)"', (site / "reference/clauses.html").read_text(encoding="utf-8"))
    assert headings == [clause.id for clause in load_clauses()]
    for page in site.rglob("*.html"):
        assert Mentions(page.read_text(encoding="utf-8")).unlinked == [], page
    assert "clauses.html#ACT-2" in Links((site / "reference/toolfold.html").read_text(encoding="utf-8")).followed


def test_a_page_leads_to_those_before_and_after_it(site: Path) -> None:
    page = (site / "how-to/gateway.html").read_text(encoding="utf-8")
    assert re.findall(r'href="(\S+)" class="md-footer__link', page) == ["./install.html", "./search.html"]


def test_what_a_page_loads_and_links_to_is_there(site: Path) -> None:
    for page in site.rglob("*.html"):
        links = Links(page.read_text(encoding="utf-8"))
        for address in [*links.loaded, *links.followed]:
            url = urlsplit(address)
            if not url.scheme and not url.netloc and url.path and page.name != "404.html":
                assert (page.parent / unquote(url.path)).exists(), f"{page}: {address}"
