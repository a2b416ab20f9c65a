"""Build the bundle for Claude Desktop, which puts groups in front of the MCP servers of a configuration.

    python -m deploy.bundle    # writes dist/toolfold-VERSION.mcpb

The bundle has the wheel of this checkout; its host has `uv` install it, with what it needs from the package index. To
build it, install the extra `dev`, and the official program `mcpb`, which checks and packs it:
`npm ci --ignore-scripts --prefix tests/external`, or `npm install -g @anthropic-ai/mcpb`.
"""

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from toolfold import __version__

ROOT = Path(__file__).parents[1]
TEMPLATE = ROOT / "deploy" / "mcpb"
INSTALLED = ROOT / "tests" / "external" / "node_modules" / ".bin"
PROJECT = """[project]
name = "toolfold-bundle"
version = "{version}"
requires-python = ">=3.11"
dependencies = ["toolfold[cli,meaning]"]

[tool.uv.sources]
toolfold = {{ path = "{wheel}" }}
"""


def build(out: Path) -> Path:
    """Return the path of the bundle, built into the folder `out`."""
    mcpb = shutil.which("mcpb") or shutil.which("mcpb", path=str(INSTALLED))
    if mcpb is None:
        sys.exit("mcpb is not installed: npm ci --ignore-scripts --prefix tests/external")
    bundle = out.absolute() / f"toolfold-{__version__}.mcpb"
    with TemporaryDirectory() as folder:
        fill(Path(folder))
        _run(mcpb, "pack", folder, str(bundle))
    return bundle


def fill(folder: Path) -> None:
    """Put what the bundle consists of into a folder: the manifest, the script that starts it, and the wheel."""
    shutil.copytree(TEMPLATE, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "LICENSE", folder)
    _run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT))
    (wheel,) = folder.glob("*.whl")
    (folder / "pyproject.toml").write_text(PROJECT.format(version=__version__, wheel=wheel.name), encoding="utf-8")
    manifest = folder / "manifest.json"
    contents = {**json.loads(manifest.read_text(encoding="utf-8")), "version": __version__}
    manifest.write_text(json.dumps(contents, indent=2) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Build the bundle and print its path."""
    parser = argparse.ArgumentParser(prog="python -m deploy.bundle", description="Build the bundle for Claude Desktop.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="the folder of the bundle (default: dist)")
    print(build(parser.parse_args(arguments).out))


def _run(*command: str) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        sys.exit(f"{Path(command[0]).name} failed:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
