"""How fast and how small: `python -m tests.benchmarks` prints one table. Not part of the test suite."""

import sys
from importlib.util import find_spec
from pathlib import Path


def _check_run() -> None:
    """Exit where a module is run that only has functions of a section: it would print nothing."""
    _, found, rest = " ".join(sys.orig_argv).partition(f" -m {__name__}.")
    if sys.argv[0] != "-m" or not found:
        return
    name = f"{__name__}.{rest.split()[0]}"
    spec = find_spec(name)
    if spec is not None and spec.origin and '"__main__"' not in Path(spec.origin).read_text(encoding="utf-8"):
        raise SystemExit(f"{name} is no program. Run `python -m {__name__} --section NAME`; --help names the sections.")


_check_run()
