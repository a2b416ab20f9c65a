"""The wheel holds what the checkout holds, and nothing else; the source distribution holds the checkout."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
from configparser import ConfigParser
from email import message_from_string
from email.message import Message
from pathlib import Path
from zipfile import ZipFile

import pytest

import toolfold

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
