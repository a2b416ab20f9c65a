"""What each extra brings: packages, size on disk and the time to import it, for the table of the page on installing.

`python -m tests.benchmarks.installs` builds the wheel, installs it with each extra into an environment of its own, with
uv, and writes the table. Sizes are those of `du`: of the folder of packages, without the interpreter, before anything
is compiled. The time is the least of five processes, beyond a bare one. `--check`, which needs no network, says whether
the table has the extras and the numbers of packages that the installed ones require.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/how-to/install.md"
BEGIN, END = "<!-- begin: python -m tests.benchmarks.installs -->", "<!-- end -->"
EXTRAS = {
    "": "toolfold",
    "mcp": "toolfold_adapters.mcp",
    "cli": "toolfold_cli.serve",
    "conformance": "toolfold_specs.kit",
    "diagrams": "toolfold_diagrams",
    "evaluate": "toolfold_adapters.evaluation.models",
    "meaning": "toolfold_adapters.search",
    "otel": "toolfold_adapters.integrations.otel",
    "redis": "toolfold_adapters.stores.redis",
    "all": "toolfold_cli.serve",
}
"""Each extra, with the module whose import is timed."""


ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""With this variable each import would compile again, which no user sees."""


def seconds(python: Path, code: str) -> float:
    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([python, "-c", code], check=True, env=ENVIRONMENT)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return min(once() for _ in range(5))


def megabytes(path: Path) -> int:
    """Return what a file or folder takes on disk, as `du` says, in megabytes."""
    done = subprocess.run(["du", "-sk", path], check=True, stdout=subprocess.PIPE, text=True)
    return round(int(done.stdout.split()[0]) * 1024 / 1e6)


def wheel(folder: Path) -> Path:
    """Build the wheel in a folder, and return it."""
    subprocess.run(["uv", "build", "--quiet", "--wheel", "--out-dir", folder, ROOT], check=True)
    (built,) = folder.glob("*.whl")
    return built


def required(extra: str) -> set[str]:
    """Return the installed packages that the project requires with an extra, and those that these require."""
    found: set[tuple[str, str]] = set()
    waiting = {("toolfold", extra)}
    while waiting:
        name, extra = waiting.pop()
        found.add((name, extra))
        for line in requires(name) or ():
            need = Requirement(line)
            if need.marker is None or need.marker.evaluate({"extra": extra}):
                waiting |= {(canonicalize_name(need.name), each) for each in ("", *need.extras)} - found
    return {name for name, _ in found} - {"toolfold"}


def stale(page: str) -> dict[str, object]:
    """Return what the table on a page should say in another way: extras, or how many packages one brings."""
    table = page.partition(BEGIN)[2].partition(END)[0]
    said = {extra: int(count) for extra, count in re.findall(r"`toolfold(?:\[([\w-]+)\])?` \| (\d+) \|", table)}
    known = {extra: len(required(extra)) for extra in EXTRAS}
    return {
        extra or "toolfold": known.get(extra) for extra in said.keys() | known if said.get(extra) != known.get(extra)
    }


def row(extra: str, module: str, built: Path, folder: Path) -> str:
    """Install the wheel with an extra, and return its row of the table."""
    python = folder / "bin/python"
    target = f"{built}[{extra}]" if extra else str(built)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    subprocess.run(["uv", "pip", "install", "--quiet", "--python", python, target], check=True)
    (site,) = folder.glob("lib/*/site-packages")
    size = megabytes(site)
    packages = len([*site.glob("*.dist-info")]) - 1
    subprocess.run([python, "-c", f"import {module}"], check=True, env=ENVIRONMENT)  # compiles it
    spent = seconds(python, f"import {module}") - seconds(python, "pass")
    name = f"toolfold[{extra}]" if extra else "toolfold"
    return f"| `{name}` | {packages} | {size} MB | `{module}` | {spent:.2f} s |"


def main() -> None:
    rows = ["| install | other packages | size | import | processor time |", "|---|--:|--:|---|--:|"]
    with tempfile.TemporaryDirectory() as folder:
        built = wheel(Path(folder))
        rows += [row(extra, module, built, Path(folder, extra or "core")) for extra, module in EXTRAS.items()]
        rows += ["", f"The wheel, which all of them share, is {built.stat().st_size / 1e6:.1f} MB."]
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    PAGE.write_text(before + "\n".join((BEGIN, *rows, END)) + rest.split(END)[1], encoding="utf-8")
    print(*rows, sep=os.linesep)


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(
            "\n".join(f"{extra}: {count}" for extra, count in stale(PAGE.read_text(encoding="utf-8")).items()) or 0
        )
    main()
