"""Runs Python programs in processes that have their imports already, since those can take longer than the program.

    python forking.py fork SOCKET MODULE...        import modules, then fork for each program until stdin ends
    python forking.py run SOCKET FILE ARGUMENT...  run a program in such a fork

A program has the streams, the folder and the environment of its `run`; each of the two ends with the other.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
from importlib import import_module
from pathlib import Path

STREAMS = (0, 1, 2)
READY = "ready"


def run(place: str, *arguments: str) -> None:
    """Have a program run, and return once it has ended."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(place)
        socket.send_fds(connection, [b"\n"], STREAMS)
        connection.sendall(json.dumps([arguments, str(Path.cwd()), dict(os.environ)]).encode() + b"\n")
        connection.recv(1)


def fork(place: str, *modules: str) -> None:
    """Import modules, then fork for each program that is to be run, and become it there."""
    for module in modules:
        import_module(module)
    gc.freeze()  # so that a fork copies little of it
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(place)
        listening.listen()
        print(READY, flush=True)
        while sys.stdin not in select.select([sys.stdin, listening], [], [])[0]:
            connection, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                _become(connection)
                return
            connection.close()


def _become(connection: socket.socket) -> None:
    """Run the program that is asked for over a connection, which ends with this process."""
    _, descriptors, _, _ = socket.recv_fds(connection, 1, len(STREAMS))
    for descriptor, stream in zip(descriptors, STREAMS, strict=True):
        os.dup2(descriptor, stream)
        os.close(descriptor)
    with connection.makefile("r", encoding="utf-8") as requests:
        (file, *arguments), folder, environment = json.loads(requests.readline())
    threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [file, *arguments]
    sys.path[0] = str(Path(file).parent)
    sys.path[1:1] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    runpy.run_path(file, run_name="__main__")


def _end_with(connection: socket.socket) -> None:
    connection.recv(1)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    {"fork": fork, "run": run}[sys.argv[1]](*sys.argv[2:])
