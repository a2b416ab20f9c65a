"""A script that sends a server the messages of a finding, and needs nothing but Python (SPEC CNF-11)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from string import Template
from typing import Any, Final, cast

from ..exchange import Exchange, Message

PAUSE: Final = 0.5
"""Seconds that notices may come after the last answer."""
HANDLES: Final = ("dev.toolfold/handle", "handle")
"""The members of answers whose values differ from run to run, and that later requests carry."""

BETWEEN: Final = "    time.sleep(0.1)  # servers may send one notice for changes that follow at once\n"
PREFIX: Final = "io.modelcontextprotocol/"

STDIO = Template("""\
import json, subprocess, time

COMMAND = $address
MESSAGES = [  # the number of the client, and what it sends
$messages]
PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "encoding": "utf-8"}
servers = [subprocess.Popen(COMMAND, **PIPES) for _ in range($clients)]
answers = {}

def show(client, line):
    message = json.loads(line)
    print(client, "<-", json.dumps(message), flush=True)
    if "method" not in message:
        answers[client, message["id"]] = message

for client, message in MESSAGES:
    text = json.dumps(message)
$handles    print(client, "->", text, flush=True)
    print(text, file=servers[client].stdin, flush=True)
    while "id" in message and (client, message["id"]) not in answers:
        show(client, servers[client].stdout.readline())
${between}time.sleep($pause)  # notices may come after the answers
for client, server in enumerate(servers):
    server.stdin.close()
    server.terminate()
    for line in server.stdout:
        show(client, line)
""")

HTTP = Template("""\
import json, threading, time, urllib.error, urllib.request

URL = $address
MESSAGES = [  # the number of the client, and what it sends
$messages]
answers, sessions = {}, {}

def ask(client, text=None, **more):
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **more}
    request = urllib.request.Request(URL, text, {**headers, **sessions.get(client, {})})
    try:
        stream = urllib.request.urlopen(request)
    except urllib.error.HTTPError as error:
        stream = error
    if "Mcp-Session-Id" in stream.headers:
        sessions[client] = {"Mcp-Session-Id": stream.headers["Mcp-Session-Id"], "Mcp-Protocol-Version": $version}
    for line in stream:
        if line.startswith((b"{", b"data: {")):
            message = json.loads(line.removeprefix(b"data: "))
            print(client, "<-", json.dumps(message), flush=True)
            answers[client, message.get("id")] = message

for client, message in MESSAGES:
    text = json.dumps(message)
$handles    print(client, "->", text, flush=True)
$modern    ask(client, text.encode(), **headers)
    if message["method"] == "notifications/initialized":  # a stream of notices
        threading.Thread(target=ask, args=[client], daemon=True).start()
${between}time.sleep($pause)  # notices may come after the answers
""")
MODERN = Template("""\
    name = message["params"].get("name", "").encode().decode("latin-1")
    headers = {"Mcp-Protocol-Version": $version, "Mcp-Method": message["method"], "Mcp-Name": name}
""")


def script(exchange: Exchange) -> str:
    """Return a program for Python 3.9 or later that sends the requests of an exchange, and prints what comes back."""
    sent = [one for one in exchange.messages if one.is_sent]
    handles = tuple(_handles(exchange))
    version = json.dumps(next(filter(None, map(_version, reversed(exchange.messages))), ""))
    is_modern = all(one.content.get("method") != "initialize" for one in sent)
    template, address = (HTTP, exchange.address) if isinstance(exchange.address, str) else (STDIO, [*exchange.address])
    return template.substitute(
        address=repr(address),
        clients=exchange.clients,
        messages="".join(f"    ({one.client}, {_replaced(repr(dict(one.content)), handles)}),\n" for one in sent),
        handles="".join(_lookup(number, handle) for number, handle in enumerate(handles, 1)),
        modern=MODERN.substitute(version=version) if is_modern else "    headers = {}\n",
        version=version,
        pause=PAUSE,
        between=BETWEEN if any("method" in one.content for one in exchange.messages if not one.is_sent) else "",
    )


def _version(message: Message) -> str | None:
    """Return the revision of the protocol that a request names, or that the server has chosen."""
    said: Mapping[str, Any] = message.content.get("params") or message.content.get("result") or {}
    found: str | None = said.get("protocolVersion") or said.get("_meta", {}).get(f"{PREFIX}protocolVersion")
    return found


Handle = tuple[str, str]
"""A value that a server made up, and the expression that finds it in an answer."""


def _handles(exchange: Exchange) -> Iterator[Handle]:
    """Yield the handles in answers that later requests carry."""
    seen: set[str] = set()
    for at, answer in enumerate(exchange.messages):
        later = json.dumps([one.content for one in exchange.messages[at:] if one.is_sent])
        for value, path in () if answer.is_sent else handles_in(answer.content):
            if value not in seen and value in later:
                seen.add(value)
                place = f"answers.get(({answer.client}, {answer.content['id']!r}))"
                yield value, place + "".join(f"[{key!r}]" for key in path)


def handles_in(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the handles anywhere in JSON data, each with its place."""
    members: Mapping[str, Any] = cast("Mapping[str, Any]", content) if isinstance(content, Mapping) else {}
    for name, value in members.items():
        if name in HANDLES and isinstance(value, str):
            yield value, (*path, name)
        yield from handles_in(value, (*path, name))


def _replaced(text: str, handles: tuple[Handle, ...]) -> str:
    for number, (value, _) in enumerate(handles, 1):
        text = text.replace(value, f"HANDLE-{number}")
    return text


def _lookup(number: int, handle: Handle) -> str:
    name = f'"HANDLE-{number}"'
    return f"    if {name} in text:\n        text = text.replace({name}, {handle[1]})\n"
