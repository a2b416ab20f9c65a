"""A model of a GGUF file on loopback, by the server of llama.cpp from the package `xllamacpp`: no key, no network.

    python llama.py FILE CONTEXT

It runs in an environment of its own, with `xllamacpp`; FILE may also be the name of a package that has one. The first
line that it prints has the address, and a name of the model with the first digits of the hash of its weights; it ends
with its standard input. One thread computes: on a machine with much else to do, several wait for each other.
"""

from __future__ import annotations

import hashlib
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any


def weights_of(name: str, folder: Path) -> Path:
    """Return a file of weights: of a path, or of a package, which has it whole or in parts."""
    if Path(name).is_file():
        return Path(name)
    spec = find_spec(name)
    assert spec is not None
    whole = [one for place in spec.submodule_search_locations or () for one in Path(place).glob("*.gguf")]
    if whole:
        return whole[0]
    package: Any = import_module(name)
    return Path(package.assemble(folder / package.MODEL_NAME))


def main() -> None:
    """Serve until standard input ends."""
    llama: Any = import_module("xllamacpp")
    with TemporaryDirectory() as folder:
        weights = weights_of(sys.argv[1], Path(folder))
        asked = llama.CommonParams()
        asked.model.path = str(weights)
        asked.n_ctx, asked.n_parallel, asked.n_gpu_layers = int(sys.argv[2]), 1, 0
        asked.cpuparams.n_threads = asked.cpuparams_batch.n_threads = 1
        asked.use_jinja, asked.warmup = True, False
        server = llama.Server(asked)
        with weights.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        print(f"{server.listening_address}/v1", f"{weights.stem}-{digest[:16]}", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
