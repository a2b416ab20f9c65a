"""What `import toolfold` takes beyond its dependencies, in whole processes, alternately."""

import statistics
import subprocess
import sys
from resource import RUSAGE_CHILDREN, getrusage

from .harness import Row

DEPENDENCIES = """
import anyio, attrs, jsonschema_rs, transitions
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic_core import PydanticSerializationError, to_jsonable_python
"""
PROGRAMS = {"nothing": "pass", "dependencies": DEPENDENCIES, "toolfold": "import toolfold"}


def measure(*, quick: bool) -> list[Row]:
    """Return how long the import takes, and its ratio to that of the dependencies."""
    times: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    for _ in range(5 if quick else 25):
        for name, program in PROGRAMS.items():
            times[name].append(_run(program))
    nothing, dependencies, own = (statistics.median(times[name]) for name in ("nothing", "dependencies", "toolfold"))
    return [
        Row(
            what="import toolfold",
            value=own - nothing,
            unit="ms",
            note="processor time; less that of a process without it",
        ),
        Row(
            what="import toolfold, beyond its dependencies",
            value=own - dependencies,
            unit="ms",
            note=f"they take {1e3 * (dependencies - nothing):.0f} ms",
        ),
    ]


def _run(program: str) -> float:
    """Return the seconds of processor time that a whole process takes."""
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", program], check=True)
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
