"""Where the runtime of a user is found: a folder that nobody else can enter, with a socket in it.

On Windows, whose Python has no such sockets, a file in the folder names a port on loopback, and a secret that whoever
connects has to know. This is imported by each relay: it uses little of the standard library.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import sys
from collections.abc import Mapping

if sys.platform == "win32":
    import msvcrt

    def _lock(file: int) -> None:
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


FOLDER = "TOOLFOLD_RUNTIME"
"""The variable of the environment that names the folder of the runtime, in place of the usual one."""
SOCKET, LOCK, STANDBY, TURN, LOG, PORT = "socket", "lock", "standby", "turn", "runtime.log", "port.json"
ANSWERS, STATE, SERVERS = "answers", "state", "servers"
"""What is in the folder: see `runtime` and `relay`."""
FILES, FOLDERS = (LOCK, STANDBY, TURN, LOG, PORT, SERVERS), (ANSWERS, STATE)
SET_ASIDE = ".damaged"
"""What the name of something ends with that stood in the way of the runtime."""
LONGEST_PATH = 100
"""How long the path of a socket may be, in bytes: systems allow 104 or 108."""


class Misplaced(Exception):
    """The folder of the runtime can't be used; the message says why, and what to do."""


def folder_of(environ: Mapping[str, str]) -> str:
    """Return the path of the folder of this user's runtime: the one that is named, or where the system has sockets."""
    if named := environ.get(FOLDER):
        return os.path.abspath(os.path.expanduser(named))
    if sys.platform == "win32":
        return os.path.join(environ.get("LOCALAPPDATA") or os.path.expanduser("~"), "toolfold", "runtime")
    if (given := environ.get("XDG_RUNTIME_DIR")) and os.path.isdir(given):
        return os.path.join(given, "toolfold")
    return os.path.join(environ.get("TMPDIR") or "/tmp", f"toolfold-{os.getuid()}")  # checked below


def prepared(folder: str) -> str:
    """Return a folder that only its user can enter, which is made if need be.

    Raises:
        Misplaced: It is somebody else's, or can't be made, or its path is too long for a socket.
    """
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.lstat(folder)
    except OSError as error:
        raise Misplaced(f"{folder} can't be made: {error.strerror}. Name another folder in {FOLDER}.") from error
    if not stat.S_ISDIR(found.st_mode):
        raise Misplaced(f"{folder} is no folder of its own; remove it, or name another one in {FOLDER}.")
    if sys.platform != "win32":
        if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
            raise Misplaced(
                f"Others can enter the folder {folder}, so it is not used: chmod 700 {folder}, or name another one in "
                f"{FOLDER}."
            )
        if len(os.fsencode(os.path.join(folder, SOCKET))) > LONGEST_PATH:
            raise Misplaced(f"The path {folder} is too long for a socket; name a shorter one in {FOLDER}.")
    try:
        _clear(folder)
    except OSError as error:
        raise Misplaced(
            f"{error.filename} is in the way and can't be set aside: {error.strerror}; remove it."
        ) from error
    return folder


def _clear(folder: str) -> None:
    """Set aside what is neither the file nor the folder that it is to be: it can't be opened, or never ends opening."""
    for names, is_right in ((FILES, stat.S_ISREG), (FOLDERS, stat.S_ISDIR), ((SOCKET,), _is_no_folder)):
        for name in names:
            path = os.path.join(folder, name)
            try:
                if not is_right(os.stat(path).st_mode):
                    aside(path)
            except FileNotFoundError:
                continue


def _is_no_folder(mode: int) -> bool:
    return not stat.S_ISDIR(mode)


def aside(path: str) -> str:
    """Rename something that can't be used, say so on standard error, and return the new path; raises `OSError`."""
    number, new = 0, f"{path}{SET_ASIDE}"
    while os.path.lexists(new):
        number += 1
        new = f"{path}-{number}{SET_ASIDE}"
    try:
        os.rename(path, new)
    except FileNotFoundError:
        return new  # another process was faster
    print(f"toolfold: {path} can't be used, so it is set aside as {new}", file=sys.stderr)
    return new


def locked(folder: str, name: str = LOCK) -> int | None:
    """Return the file whose lock its holder has, as long as it is open; `None` if another has it.

    The runtime of a folder holds that of `LOCK`, the copy that takes its place that of `STANDBY`, and a relay that
    starts one that of `TURN`.

    Raises:
        OSError: It can't be opened.
    """
    file = os.open(os.path.join(folder, name), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _lock(file)
    except OSError:
        os.close(file)
        return None
    return file


def is_taken(folder: str) -> bool:
    """Return whether there is a runtime, which may not take connections yet or any more, or a copy for its place."""
    for name in (LOCK, STANDBY):
        if (file := locked(folder, name)) is None:
            return True
        os.close(file)
    return False


def connected(folder: str, *, by_port: bool = False) -> tuple[socket.socket, str]:
    """Return a connection to the runtime of a folder, and the secret to begin with; raises `OSError` without one."""
    if sys.platform == "win32" or by_port:
        with open(os.path.join(folder, PORT), encoding="utf-8") as file:
            try:
                said = json.load(file)
                port, secret = int(said["port"]), str(said["secret"])
            except (ValueError, KeyError, TypeError) as error:
                raise ConnectionRefusedError(f"{PORT} is damaged") from error
        return socket.create_connection(("127.0.0.1", port), timeout=None), secret
    path = os.path.join(folder, SOCKET)
    if not os.path.exists(path):
        raise FileNotFoundError(2, "there is no runtime", path)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(path)
    except BaseException:
        connection.close()
        raise
    return connection, ""


def listening(folder: str, *, by_port: bool = False) -> tuple[socket.socket, str]:
    """Return a socket that takes the connections of relays, and the secret that these have to begin with.

    There is no other runtime: the caller holds the lock of the folder.
    """
    if sys.platform == "win32" or by_port:
        listener = socket.create_server(("127.0.0.1", 0))
        secret = os.urandom(16).hex()
        path = os.path.join(folder, PORT)
        with open(os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump({"port": listener.getsockname()[1], "secret": secret}, file)
        os.replace(f"{path}.new", path)
        return listener, secret
    path = os.path.join(folder, SOCKET)
    if os.path.lexists(path):
        os.unlink(path)  # of a runtime that was killed
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(path)
        listener.listen(128)
    except BaseException:
        listener.close()
        raise
    return listener, ""
