"""The relay: what a host starts for each of its sessions (SPEC GWY-14, GWY-15).

It passes messages, a line each, between its pipes and the runtime of its user, which it starts if there is none. It
reads of a message what it needs to survive the end of that runtime: which requests are in progress, which of them may
be repeated, and what opened the session. Then it begins again where it was, and its host notices nothing but the calls
that may have run, which get an error that says so.

A handshake is answered with what the runtime answered the last time it was asked the same, since hosts do not wait for
a runtime that is starting. The runtime is asked all the same, and its answer kept for the next time.

Two threads block, one on each side, so this is the same on every system. What is imported is what a host waits for.
"""

from __future__ import annotations

import _thread
import json
import os
import socket
import time
import zlib
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, BinaryIO, cast

from . import place
from .starts import Starting, started

PAUSES = (0.01, 0.02, *[0.05] * 400)
"""Seconds between attempts to reach the runtime, before what waits for it gets an error: some twenty in all."""
LEAVE_SECONDS = 5.0
"""How long the last answers are waited for when the host has gone."""
ANSWER_SECONDS = 10.0
"""How long a user waits for the runtime."""
REFUSED_SECONDS = 1.0
"""How long a relay waits that was refused, before it asks again."""
SILENT_SECONDS, MOST_SILENT_SECONDS = 0.02, 0.2
"""How long a relay waits whose connection ended before anything came, as that to a runtime that is just being killed:
at first, and after several."""
LIST_CHANGED = b"notifications/tools/list_changed"
CLOSED = -32000
"""The code of the error in place of an answer that was lost."""
CONTROL = b"\t"
"""What the lines begin with that are between relay and runtime; no message does."""

HANDSHAKES = ("initialize", "server/discover")
UNENDING = frozenset({"subscriptions/listen"})
"""Requests that are answered when they end, so that nobody waits for that."""
STANDING = ("logging/setLevel", "resources/subscribe")
"""Requests whose effect lasts as long as a connection, so that they are made again on the next."""
REPEATABLE = frozenset(
    {
        *HANDSHAKES,
        *STANDING,
        "completion/complete",
        "groups/get",
        "ping",
        "prompts/get",
        "resources/read",
        "resources/unsubscribe",
        "skills/get",
        "subscriptions/listen",
        "tasks/get",
        "tasks/result",
        "tools/resolve",
    }
)
"""Requests that may be made again, beside those for lists: they change nothing, or nothing more."""

MESSAGE_BYTES = 64 * 1024 * 1024
"""The longest message of a host."""
MOST_REPEATS, SERVED = 50, 5
"""How often a request is repeated, since it may be what the runtime ends of: one that has begun to serve counts as so
many that ended before."""
OF_THE_PROTOCOL = "io.modelcontextprotocol/"
"""What the keys of `_meta` begin with on which the answer to a handshake may depend."""

OWN_TOOLS = frozenset({"close_group", "find_tools", "open_group", "read_tool"})
"""The gateway's own tools that may be called again; it finds out each time whether what `read_tool` calls reads."""

LOST = (
    "The runtime ended before it answered, and has been started again. The call may have been carried out: find out "
    "before you repeat it."
)

Message = dict[str, Any]


class Relay:
    """One session of a host.

    Args:
        hello: What it sends to the runtime first; see `runtime.Hello`.
        folder: The folder of the runtime.
        start: Starts a runtime and returns its process; raises `OSError`.
        source: What the host writes.
        sink: The descriptor of what it reads.
        end: Ends the process at once, with a status: the host reads no more, or can't be served.
    """

    def __init__(
        self,
        hello: Mapping[str, Any],
        folder: str,
        start: Callable[[], Any],
        source: BinaryIO,
        sink: int,
        end: Callable[[int], object] = os._exit,
    ) -> None:
        self._end = end
        self._hello, self._folder, self._start, self._source, self._sink = hello, folder, start, source, sink
        self._lock, self._writing, self._over = (_thread.allocate_lock() for _ in range(3))
        self._connection: socket.socket | None = None
        self._ending = self._superseded = False
        self._opening: list[bytes] = []
        self._standing: dict[str, bytes] = {}
        self._pending: dict[Any, tuple[Message, bytes, bool]] = {}  # a request, its line, whether it may be repeated
        self._repeats: dict[Any, int] = {}
        self._again: list[Any] = []  # the requests that this connection repeated, until it is served
        self._waiting: list[bytes] = []
        self._silent: dict[Any, Message] = {}  # handshakes and what is repeated: their answers are not for the host
        self._repeatable = {*OWN_TOOLS}
        self._asked: dict[str, Any] = {}  # what the host is asked, by the id that it is given
        self._epoch, self._answered = 0, False

    def run(self) -> None:
        """Pass messages until the host leaves."""
        self._over.acquire()
        _thread.start_new_thread(self._hold, ())
        for line in iter(self._source.readline, b""):
            self._from_host(line if line.endswith(b"\n") else line + b"\n")
        with self._lock:
            self._ending = True
            if self._connection is not None:
                _shut(self._connection, socket.SHUT_WR)
        self._over.acquire(timeout=LEAVE_SECONDS)

    # -- from the host ------------------------------------------------------------------------------------------------

    def _from_host(self, line: bytes) -> None:
        message = _read(line)
        if message is None:
            self._pass_up(line)
            return
        method, asked = message.get("method"), message.get("id")
        if method is None:
            if (answers := self._asked.pop(str(asked), None)) is not None:
                self._pass_up(_line({**message, "id": answers}))
            return  # an answer to what an earlier runtime asked is nobody's
        if asked is None:
            with self._lock:
                if method == "notifications/initialized":
                    self._opening.append(line)
                elif method == "notifications/cancelled":
                    self._forget(_table(message.get("params")).get("requestId"))
                connection = self._routed(line)
            _send(connection, line)
            return
        if len(line) > MESSAGE_BYTES:
            self._write(_error(asked, f"The message has more than {MESSAGE_BYTES:,} bytes, so it was not sent."))
            return
        known = self._answer_of(message) if method in HANDSHAKES else None
        with self._lock:
            if method == "initialize":
                self._opening = [line]
            elif method in STANDING:
                self._standing[f"{method} {_table(message.get('params')).get('uri')}"] = line
            elif method == "resources/unsubscribe":
                self._standing.pop(f"resources/subscribe {_table(message.get('params')).get('uri')}", None)
            if known is None:
                self._pending[asked] = message, line, self._may_repeat(message)
            else:
                self._silent[asked] = message
            connection = self._routed(line, is_request=True)
        if known is not None:
            self._write(_line({"jsonrpc": "2.0", "id": asked, "result": known}))
        _send(connection, line)
        if self._superseded:
            self._leave()

    def _forget(self, asked: object) -> None:
        """Forget a request that has its answer, or waits for none any more."""
        if not isinstance(asked, list | dict):
            self._pending.pop(asked, None)
            self._repeats.pop(asked, None)

    def _pass_up(self, line: bytes) -> None:
        """Send a line to the runtime, or once there is one."""
        with self._lock:
            connection = self._routed(line)
        _send(connection, line)

    def _routed(self, line: bytes, *, is_request: bool = False) -> socket.socket | None:
        """Return the connection for a line, or `None` for one that waits, as a request does for a newer runtime.

        A request is noted under the same lock: else the next connection may begin between the two, and carry it too.
        """
        if self._connection is None or (self._superseded and is_request):
            self._waiting.append(line)
            return None
        return self._connection

    # -- from the runtime ---------------------------------------------------------------------------------------------

    def _hold(self) -> None:
        """Hold a connection to the runtime, as long as the host is there."""
        silent = 0.0
        try:
            while not self._left and self._connect():
                connection = self._connection
                assert connection is not None
                received = False
                with connection, connection.makefile("rb") as lines:
                    while line := _next(lines):
                        received = True
                        self._from_runtime(line)
                silent = 0.0 if received else min(2 * silent or SILENT_SECONDS, MOST_SILENT_SECONDS)
                time.sleep(silent)
        finally:
            self._over.release()

    def _from_runtime(self, line: bytes) -> None:
        if line.startswith(CONTROL):
            said = json.loads(line)
            if "refused" in said:
                self._refused(str(said["refused"]))
            elif "serving" in said:
                self._served()
            elif "leave" in said:
                with self._lock:
                    self._superseded = True
                self._leave()
            return
        message = _read(line) if b'"id"' in line else None
        if message is None or "id" not in message:
            if LIST_CHANGED in line:  # a tool of the same name may be another one
                self._repeatable = {*OWN_TOOLS}
            self._write(line)
            return
        given = message["id"]
        if "method" in message:
            name = f"{self._epoch}-{given}"
            self._asked[name] = given
            self._write(_line({**message, "id": name}))
            return
        with self._lock:
            silent = self._silent.pop(given, None)
            pending = self._pending.get(given)
            self._forget(given)
        asked = silent or (pending[0] if pending else {})
        method = asked.get("method")
        if method in HANDSHAKES and "result" in message:
            self._remember(asked, message["result"])
        elif method == "tools/list":
            self._learn(message.get("result"))
        if silent is None:
            self._write(line)
        self._leave()

    def _leave(self) -> None:
        """Leave a runtime in whose place there is a newer one, once it has answered all that it was asked."""
        with self._lock:
            unsent = {*self._waiting}
            asked = [message for message, line, _ in self._pending.values() if line not in unsent]
            done = not self._silent and all(message.get("method") in UNENDING for message in asked)
            if self._superseded and done and self._connection is not None:
                _shut(self._connection, socket.SHUT_RDWR)

    def _served(self) -> None:
        """Count what was repeated as what the runtime may end of from now on."""
        with self._lock:
            for asked in self._again:
                if asked in self._repeats:
                    self._repeats[asked] += SERVED - 1
            self._again.clear()

    def _learn(self, result: Any) -> None:
        """Learn which tools may be called again: those that say that they read, or do the same when called twice."""
        listed: object = _table(result).get("tools")
        for tool in map(_table, cast("list[object]", listed) if isinstance(listed, list) else ()):
            said = _table(tool.get("annotations"))
            repeatable = said.get("readOnlyHint") is True or said.get("idempotentHint") is True
            (self._repeatable.add if repeatable else self._repeatable.discard)(str(tool.get("name")))

    def _write(self, line: bytes) -> None:
        """Write a line to the host; one that reads no more has gone."""
        self._answered = True
        with self._writing:
            rest = memoryview(line)
            try:
                while rest:
                    rest = rest[os.write(self._sink, rest) :]
            except OSError:
                self._end(0)

    # -- one runtime after the other ----------------------------------------------------------------------------------

    def _connect(self) -> bool:
        """Find the runtime, or start it, and begin where the last connection was; return whether there is one."""
        with self._lock:
            self._connection = None
        starting, problem = Starting(self._folder, self._start), ""
        with starting:
            while not self._left:
                for pause in PAUSES:
                    try:
                        self._begin(*place.connected(self._folder))
                        return True
                    except OSError as error:
                        problem = error.strerror or str(error)
                    if self._left:
                        break
                    problem = starting.attempt() or problem
                    time.sleep(pause)
                else:
                    log = os.path.join(self._folder, place.LOG)
                    self._refuse(f"The runtime can't be started or reached ({problem}); {log} says why.")
        return False

    @property
    def _left(self) -> bool:
        """Whether the host has gone, and waits for nothing."""
        return self._ending and not self._pending

    def _begin(self, connection: socket.socket, secret: str) -> None:
        """Say who this is, open the session again, and repeat what may be; raises `OSError` if that can't be sent.

        What may not be repeated is answered in any case: it is not asked of the connection after this one either.
        """
        lost: list[Any] = []
        try:
            with self._lock:
                lines = self._resumed(lost)
                connection.sendall(b"".join([_line({**self._hello, "secret": secret}), *lines]))
                self._waiting.clear()
                self._connection, self._superseded = connection, False
                if self._ending:
                    _shut(connection, socket.SHUT_WR)
        except OSError:
            connection.close()
            raise
        finally:
            for asked in lost:
                self._write(_error(asked, LOST))

    def _resumed(self, lost: list[Any]) -> list[bytes]:
        """Return what a new connection begins with, and add to `lost` what can't be asked again."""
        self._epoch += 1
        again = [*self._opening, *self._standing.values()] if self._epoch > 1 else []
        unsent = {*self._waiting}
        self._again.clear()
        for asked, (_, line, repeatable) in [*self._pending.items()]:
            if line in unsent or line in again:
                continue
            repeats = self._repeats.get(asked, 0)
            if repeatable and repeats < MOST_REPEATS:
                self._repeats[asked] = repeats + 1
                self._again.append(asked)
                again.append(line)
            else:
                lost.append(asked)
                self._forget(asked)
        self._asked.clear()
        lines = [*again, *(line for line in self._waiting if line not in again)]
        sent = [one for line in lines if (one := _read(line)) is not None and "id" in one]
        self._silent = {one["id"]: one for one in sent if one["id"] not in self._pending}
        return lines

    def _may_repeat(self, message: Message) -> bool:
        """Return whether a request may be made again, by what is known when its host makes it."""
        method = message.get("method")
        if method == "tools/call":
            return _table(message.get("params")).get("name") in self._repeatable
        return method in REPEATABLE or str(method).endswith("/list")

    def _refused(self, problem: str) -> None:
        """Take note that the runtime can't serve what the host wants: at the beginning, that is the end."""
        if self._epoch == 1 and not self._answered:
            os.write(2, f"toolfold: {problem}\n".encode(errors="replace"))
            self._end(2)
        self._refuse(problem)
        time.sleep(REFUSED_SECONDS)

    def _refuse(self, problem: str) -> None:
        """Answer all requests with an error: there is no runtime."""
        with self._lock:
            pending, self._pending, self._repeats, self._waiting = self._pending, {}, {}, []
        for asked in pending:
            self._write(_error(asked, problem))

    # -- answers to handshakes ----------------------------------------------------------------------------------------

    def _question(self, message: Message) -> tuple[str, str]:
        """Return what a handshake asks of which runtime, and the file for the answer."""
        params = _table(message.get("params"))
        meta = _table(params.pop("_meta", None))
        meta = {key: value for key, value in meta.items() if key.startswith(OF_THE_PROTOCOL)}
        who = {key: self._hello.get(key) for key in ("toolfold", "target", "profile", "groups")}
        asked = json.dumps([who, _state_of(str(self._hello.get("target"))), message.get("method"), params, meta])
        return asked, os.path.join(self._folder, place.ANSWERS, f"{zlib.crc32(asked.encode()):08x}.json")

    def _answer_of(self, message: Message) -> Any:
        """Return what the runtime answered when it was last asked the same, or `None`."""
        asked, path = self._question(message)
        if not os.path.isfile(path):
            return None
        try:
            with open(path, encoding="utf-8") as file:
                stored = json.load(file)
            return stored["answer"] if stored["asked"] == asked else None
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def _remember(self, message: Message, answer: Any) -> None:
        """Keep what a handshake was answered; where that can't be written, the next one waits for the runtime."""
        asked, path = self._question(message)
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            new = f"{path}.{os.getpid()}"
            with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
                json.dump({"asked": asked, "answer": answer}, file)
            os.replace(new, path)
        except OSError:
            return


def _next(lines: BinaryIO) -> bytes:
    """Return the next whole line of a connection; nothing at its end, which may cut a line."""
    try:
        line = lines.readline()
    except OSError:
        return b""
    return line if line.endswith(b"\n") else b""


def _state_of(path: str) -> list[int]:
    """Return what tells one content of a file from another, without reading it."""
    try:
        found = os.stat(path)
    except OSError:
        return []
    return [found.st_mtime_ns, found.st_size]


def _read(line: bytes) -> Message | None:
    """Return the message in a line, or `None` if it is none; the runtime answers that."""
    try:
        message: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    message = _table(message)
    wrong = isinstance(message.get("id"), list | dict) or not isinstance(message.get("method", ""), str)
    return None if wrong or not message else message


def _table(given: object) -> dict[str, Any]:
    """Return a copy of an object of JSON, or an empty one of anything else."""
    return dict(cast("dict[str, Any]", given)) if isinstance(given, dict) else {}


def _line(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass") + b"\n"


def _error(asked: Any, text: str) -> bytes:
    return _line({"jsonrpc": "2.0", "id": asked, "error": {"code": CLOSED, "message": text}})


def _send(connection: socket.socket | None, line: bytes) -> None:
    """Send a line over a connection, if it has one; where that fails, who reads there finds that it has ended."""
    if connection is None:
        return
    try:
        connection.sendall(line)
    except OSError:
        _shut(connection, socket.SHUT_RDWR)


def _shut(connection: socket.socket, how: int) -> None:
    try:
        connection.shutdown(how)
    except OSError:
        return


# -- a program ---------------------------------------------------------------------------------------------------------

OPTIONS = ("--profile", "--groups", "--agent")
NOT_RECORDED = "--no-usage"


def parsed(arguments: list[str]) -> dict[str, Any] | None:
    """Return what the arguments of `toolfold connect` say, if they are a relay's; the command judges all others."""
    said: dict[str, Any] = {}
    rest = iter(arguments)
    for word in rest:
        name, given, value = word.partition("=")
        if word == NOT_RECORDED:
            said["usage"] = ""
        elif name in OPTIONS:
            said[name[2:]] = value if given else next(rest, None)
            if said[name[2:]] is None:
                return None
        elif word.startswith(("-", "http://", "https://")) or "target" in said:
            return None
        else:
            said["target"] = word
    return said if "target" in said else None


def relay(said: Mapping[str, Any]) -> None:
    """Be the relay of a host over standard input and output, until it leaves; raises `place.Misplaced`.

    Args:
        said: The target, and what else the command line says.
    """
    target = os.path.abspath(os.path.expanduser(str(said["target"])))
    if not os.path.isfile(target):
        raise place.Misplaced(
            f"There is no file {target}; name the configuration of a gateway or of a client, or the URL of a server."
        )
    folder = place.prepared(place.folder_of(os.environ))
    hello = {
        "toolfold": version_of_program(),
        "relay": os.urandom(16).hex(),
        "target": target,
        "profile": said.get("profile"),
        "groups": said.get("groups"),
        "agent": said.get("agent"),
        "usage": said.get("usage"),
        "folder": os.getcwd(),
        "environment": dict(os.environ),
    }
    source, sink = os.fdopen(os.dup(0), "rb"), os.dup(1)
    Relay(hello, folder, lambda: started(folder), source, sink).run()


def version_of_program() -> str:
    """Return the version of this program, whose package is not imported for that."""
    spec = find_spec("toolfold")
    with open(str(spec.origin if spec else ""), encoding="utf-8") as file:
        return next(line.split('"')[1] for line in file if line.startswith("__version__"))


def asked(folder: str, what: str) -> Any:
    """Return what the runtime of a folder answers to a question of its user, `"status"` or `"end"`.

    Raises:
        OSError: There is none.
    """
    connection, secret = place.connected(folder)
    connection.settimeout(ANSWER_SECONDS)
    with connection, connection.makefile("rb") as lines:
        connection.sendall(_line({"ask": what, "secret": secret}))
        answer = lines.readline()
        if what == "end":
            lines.read()  # until it has
    if not answer.startswith(CONTROL):
        raise ConnectionResetError("it did not answer")
    return json.loads(answer)
