"""Runs Python programs in processes that have their imports already, since those can take longer than the program.

    python forking.py fork SOCKET MODULE...        import modules, then fork for each program until stdin ends
    python forking.py run SOCKET FILE ARGUMENT...  run a program in such a fork; `-m MODULE` may take the file's place

A program has the streams, the folder, the environment and the ignored signals of its `run`, which passes signals on
and ends as it does; each of the two ends with the other.
"""

from __future__ import annotations

import marshal
import os
import signal
import socket
import sys

STREAMS = (0, 1, 2)
SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
READY = "ready"
SIZE = 8
"""How many bytes say how long a request is."""


def run(place: str, *arguments: str) -> None:
    """Have a program run, and end as it does."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(place)
        ignored = [int(one) for one in SIGNALS if signal.getsignal(one) is signal.SIG_IGN]
        for one in SIGNALS:
            if one not in ignored:
                signal.signal(one, lambda number, _: connection.sendall(bytes([number])))
        request = marshal.dumps((arguments, os.getcwd(), dict(os.environ), ignored))  # noqa: PTH109 - pathlib is slow to import
        socket.send_fds(connection, [b"%0*d" % (SIZE, len(request))], STREAMS)
        connection.sendall(request)
        status = int(connection.recv(SIZE) or -signal.SIGKILL)
    if status < 0:
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)


def fork(place: str, *modules: str) -> None:
    """Import modules, then fork for each program that is to be run, and become it there."""
    import gc
    import select
    from importlib import import_module

    for module in modules:
        import_module(module)
    gc.freeze()  # so that a fork copies little of it
    running: dict[int, tuple[int, socket.socket]] = {}  # by a pipe that ends with the program
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(place)
        listening.listen()
        print(READY, flush=True)
        while sys.stdin not in (ready := select.select([sys.stdin, listening, *running], [], [])[0]):
            for pipe in running.keys() & ready:
                os.close(pipe)
                _report(*running.pop(pipe))
            if listening in ready:
                connection, _ = listening.accept()
                ended, held = os.pipe()
                if (child := os.fork()) == 0:
                    listening.close()
                    _become(connection)
                    return
                os.close(held)
                running[ended] = child, connection


def _report(child: int, connection: socket.socket) -> None:
    """Say how a program has ended to the `run` that asked for it, if that is still there."""
    from contextlib import suppress

    _, status = os.waitpid(child, 0)
    with connection, suppress(OSError):
        connection.sendall(b"%d" % os.waitstatus_to_exitcode(status))


def _become(connection: socket.socket) -> None:
    """Run the program that is asked for over a connection, which ends with this process."""
    import runpy
    import threading
    from pathlib import Path

    size, descriptors, _, _ = socket.recv_fds(connection, SIZE, len(STREAMS))
    for descriptor, stream in zip(descriptors, STREAMS, strict=True):
        os.dup2(descriptor, stream)
        os.close(descriptor)
    (program, *arguments), folder, environment, ignored = marshal.loads(connection.recv(int(size), socket.MSG_WAITALL))
    threading.Thread(target=_end_with, args=(connection, threading.get_ident()), daemon=True).start()
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[0] = folder if program == "-m" else str(Path(program).parent)
    sys.path[1:1] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    if program == "-m":
        sys.argv = arguments
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = [program, *arguments]
        runpy.run_path(program, run_name="__main__")


def _end_with(connection: socket.socket, main: int) -> None:
    """Pass on the signals that come over a connection, until it ends, and the process with it."""
    while number := connection.recv(1):
        signal.pthread_kill(main, number[0])
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    {"fork": fork, "run": run}[sys.argv[1]](*sys.argv[2:])
