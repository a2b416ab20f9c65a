"""The wheel holds what the checkout holds, and nothing else; the source distribution holds the checkout."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
from configparser import ConfigParser
from email import message_from_string
from email.message import Message
from pathlib import Path
from zipfile import ZipFile

import pytest

import toolfold
from tests.process.specs.test_blackbox import DESCRIPTION, PLAIN

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "toolfold": "core",
    "toolfold_adapters": "adapters",
    "toolfold_cli": "adapters",
    "toolfold_diagrams": "diagrams",
    "toolfold_specs": "specs",
}


def build(kind: str, source: Path, folder: Path) -> Path:
    """Build a wheel or a source distribution (sdist) of a folder, into another; return its path."""
    command = [sys.executable, "-m", "build", f"--{kind}", "--no-isolation", "--outdir", str(folder), str(source)]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    (path,) = folder.iterdir()
    return path


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, freshly built."""
    return build("wheel", ROOT, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in the source distribution, freshly built and unpacked."""
    folder = tmp_path_factory.mktemp("sources")
    with tarfile.open(build("sdist", ROOT, tmp_path_factory.mktemp("dist"))) as archive:
        archive.extractall(folder, filter="data")
    (path,) = folder.iterdir()
    return path


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel's contents, as an installation would place them."""
    folder = tmp_path_factory.mktemp("site")
    with ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def test_the_wheel_contains_only_the_packages_and_its_metadata(site: Path) -> None:
    top = {path.name for path in site.iterdir() if not path.name.endswith(".dist-info")}
    assert top == set(PACKAGES)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_file_of_a_package_is_in_the_wheel(package: str, site: Path) -> None:
    source = ROOT / PACKAGES[package] / package
    wanted = {path.relative_to(source) for path in source.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert wanted == {path.relative_to(site / package) for path in (site / package).rglob("*") if path.is_file()}
    assert Path("py.typed") in wanted


def test_the_command_is_in_the_wheel(site: Path) -> None:
    (path,) = site.glob("*.dist-info/entry_points.txt")
    points = ConfigParser()
    points.read_string(path.read_text())
    assert points["console_scripts"]["toolfold"] == "toolfold_cli:main"


def test_the_licence_is_in_the_wheel(site: Path) -> None:
    (path,) = site.glob("*.dist-info/licenses/LICENSE")
    assert "Apache License" in path.read_text()


@pytest.fixture(scope="module")
def metadata(site: Path) -> Message:
    """What the wheel says about itself."""
    (path,) = site.glob("*.dist-info/METADATA")
    return message_from_string(path.read_text(encoding="utf-8"))


def test_the_version_is_that_of_the_package(metadata: Message) -> None:
    assert metadata["Version"] == toolfold.__version__


def test_the_description_is_the_readme_without_links_into_the_repository(metadata: Message) -> None:
    readme, description = (ROOT / "README.md").read_text(encoding="utf-8"), str(metadata.get_payload())
    blocks = re.findall(r"^```.*?^```$", readme, re.MULTILINE | re.DOTALL)
    assert blocks
    assert all(block in description for block in blocks)
    links = [link for link in re.findall(r"(?<!\w)\[[^\]]*\]\(([^)]*)\)", readme) if not link.startswith("https://")]
    assert links
    assert [link for link in links if f"]({link})" in description] == []
    assert "SECURITY.md" in description
    assert "mcp-name: " in description


def test_the_source_distribution_is_the_checkout(sources: Path) -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    contents = {path.relative_to(sources).as_posix() for path in sources.rglob("*") if path.is_file()}
    assert {name for name in listed.splitlines() if (ROOT / name).exists()} <= contents


def test_the_wheel_of_the_source_distribution_is_that_of_the_checkout(
    wheel: Path, sources: Path, tmp_path: Path
) -> None:
    assert build("wheel", sources, tmp_path).read_bytes() == wheel.read_bytes()


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_of_the_wheel_is_importable_from_another_folder(package: str, site: Path, tmp_path: Path) -> None:
    code = f"import {package}; print({package}.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-W", "error", "-c", code]
    printed = subprocess.run(command, check=True, cwd=tmp_path, env=environment, capture_output=True, text=True).stdout
    assert Path(printed.strip()).is_relative_to(site)


@pytest.mark.spec("CNF-2")
def test_the_kit_runs_from_the_wheel_in_another_folder(site: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    shutil.copytree(ROOT / "specs" / "verification" / "library", tmp_path / "library")
    target = "library.driver:CoreDriver"
    command = [sys.executable, "-c", "from toolfold_cli import main; main()", "conform", "--smoke", target]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert "It conforms" in ran.stdout, ran.stderr
    assert ran.returncode == 0


# The kit alone

ALONE = """
import importlib.util, os, runpy, sys
sys.path[1:1] = sys.argv.pop(1).split(os.pathsep)
assert importlib.util.find_spec("toolfold") is None
runpy.run_module("toolfold_specs", run_name="__main__")
"""
"""Runs the kit with the packages that are installed, but none of those of a checkout that is installed as editable."""


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the contents of the kit's own wheel."""
    folder = tmp_path_factory.mktemp("kit")
    with ZipFile(build("wheel", ROOT / "specs", tmp_path_factory.mktemp("dist"))) as archive:
        archive.extractall(folder)
    return folder


def alone(kit: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the kit's command where `toolfold` can't be imported."""
    paths = (str(kit), *map(sysconfig.get_path, ("purelib", "platlib")))
    command = [sys.executable, "-S", "-c", ALONE, os.pathsep.join(paths), *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT / "tests", check=False)


@pytest.mark.spec("CNF-2", "CNF-3")
def test_the_kit_alone_checks_a_server_and_shows_what_is_violated(kit: Path, tmp_path: Path) -> None:
    assert {path.name for path in kit.iterdir() if path.suffix != ".dist-info"} == {"toolfold_specs"}
    (groups := tmp_path / "groups.toml").write_text(DESCRIPTION)
    given = ("--smoke", "--era", "legacy", "--describe", str(groups), "-o", str(tmp_path / "reports"))
    ran = alone(kit, *given, "--", sys.executable, str(PLAIN), "children stay")
    assert "INV-1  close files: " in ran.stderr
    assert "It does not conform (state): " in ran.stdout
    assert ran.returncode == 1
    assert (tmp_path / "reports" / "failure-INV-1.py").exists()


def test_the_kit_alone_leaves_out_what_it_does_not_import(kit: Path) -> None:
    tools = [
        tomllib.loads((ROOT / file).read_text("utf-8"))["tool"] for file in ("pyproject.toml", "specs/pyproject.toml")
    ]
    contracts = tools[0]["importlinter"]["contracts"]
    (left_out,) = (one["forbidden_modules"] for one in contracts if one["name"].startswith("the kit apart"))
    excluded: list[str] = tools[1]["hatch"]["build"]["targets"]["wheel"]["exclude"]
    assert [path.removesuffix(".py").replace("/", ".") for path in excluded] == left_out
    assert not [path for path in excluded if (kit / path).exists()]


def test_the_kit_alone_says_what_it_needs_to_be_told(kit: Path) -> None:
    assert alone(kit).returncode == 2
    ran = alone(kit, "--describe", "no-such-file", "--", "server")
    assert (ran.returncode, ran.stderr) == (
        2,
        "toolfold-conform: no-such-file can't be read: No such file or directory.\n",
    )


def test_the_kit_alone_has_the_dependencies_that_the_kit_has_in_the_whole() -> None:
    def names(file: str) -> dict[str, list[str]]:
        found = tomllib.loads((ROOT / file).read_text(encoding="utf-8"))["project"]
        return {"": found["dependencies"], **found.get("optional-dependencies", {})}

    whole, own = names("pyproject.toml"), names("specs/pyproject.toml")[""]
    assert {*own} <= {*whole[""], *whole["mcp"], *whole["conformance"]}
