"""The wheel holds what the checkout holds, and nothing else."""

import os
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "toolfold": "core",
    "toolfold_adapters": "adapters",
    "toolfold_cli": "adapters",
    "toolfold_diagrams": "diagrams",
    "toolfold_specs": "specs",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, freshly built."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    (path,) = folder.glob("*.whl")
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
    target = "toolfold_specs.drivers.toolfold:CoreDriver"
    command = [sys.executable, "-c", "from toolfold_cli import main; main()", "conform", "--smoke", target]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert "It conforms" in ran.stdout, ran.stderr
    assert ran.returncode == 0
