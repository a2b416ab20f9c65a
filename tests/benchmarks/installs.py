"""What each extra brings: packages, size on disk and the time to import it, for the table of the page on installing.

`python -m tests.benchmarks.installs` installs the project with each extra into an environment of its own, with uv, and
writes the table; the size is without the interpreter, and the time is the least of five processes, beyond a bare one.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/how-to/install.md"
BEGIN, END = "<!-- begin: python -m tests.benchmarks.installs -->", "<!-- end -->"
EXTRAS = {
    "": "toolfold",
    "mcp": "toolfold_adapters.mcp",
    "cli": "toolfold_cli.program",
    "conformance": "toolfold_specs.kit",
    "diagrams": "toolfold_diagrams",
    "otel": "toolfold_adapters.integrations.otel",
    "redis": "toolfold_adapters.stores.redis",
    "all": "toolfold_cli.program",
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


def row(extra: str, module: str, folder: Path) -> str:
    """Install an extra, and return its row of the table."""
    python = folder / "bin/python"
    target = f"{ROOT}[{extra}]" if extra else str(ROOT)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    subprocess.run(["uv", "pip", "install", "--quiet", "--python", python, target], check=True)
    (site,) = folder.glob("lib/*/site-packages")
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file() and path.suffix != ".pyc")
    packages = len([*site.glob("*.dist-info")]) - 1
    subprocess.run([python, "-c", f"import {module}"], check=True, env=ENVIRONMENT)  # compiles it
    spent = seconds(python, f"import {module}") - seconds(python, "pass")
    name = f"toolfold[{extra}]" if extra else "toolfold"
    return f"| `{name}` | {packages} | {size / 1e6:.0f} MB | `{module}` | {spent:.2f} s |"


def main() -> None:
    rows = ["| install | other packages | size | import | processor time |", "|---|--:|--:|---|--:|"]
    with tempfile.TemporaryDirectory() as folder:
        rows += [row(extra, module, Path(folder, extra or "core")) for extra, module in EXTRAS.items()]
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    PAGE.write_text(before + "\n".join((BEGIN, *rows, END)) + rest.split(END)[1], encoding="utf-8")
    print(*rows, sep=os.linesep)


if __name__ == "__main__":
    main()
