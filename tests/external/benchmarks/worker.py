"""The benchmarks of `inspect_evals` for a caller in another environment: a line of JSON in, a line of JSON out.

It runs as a module where `inspect_evals[agentdojo]` is installed, and knows nothing of Toolfold. What is asked for is a
list: the benchmark, the name of its method, and arguments. Texts of the benchmarks are read from the package, and are
in nothing that we keep.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from typing import Any

from .dojo import Dojo
from .sessions import Benchmark
from .tau2 import Tau2


def _made(name: str) -> Benchmark:
    return Tau2() if name == "tau2" else Dojo(name)


async def _main() -> None:
    made: dict[str, Any] = {}
    answers = sys.stdout
    sys.stdout = sys.stderr  # what the benchmarks print
    for line in sys.stdin:
        name, method, given = json.loads(line)
        if name not in made:
            made[name] = _made(name)
        answer = getattr(made[name], method)(**given)
        answer = await answer if inspect.isawaitable(answer) else answer
        print(json.dumps(answer, default=str), file=answers, flush=True)


asyncio.run(_main())
