"""An MCP server behind the gateway, without an SDK so that many start quickly: `upstream.py WHAT [FILE]`.

WHAT is one of `NOUNS`, or anything else for a server that ends at once. With FILE it answers nothing until that exists.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

NOUNS = {
    "acmetracker": ("issue", "comment", "label", "milestone", "branch", "release", "pull_request", "review"),
    "acmewiki": ("page", "attachment", "template"),
    "acmeorders": ("order", "invoice"),
    "acmearchive": (),
    "acmemany": tuple(f"record_of_kind_{number}" for number in range(20)),
}
VERBS = {
    "create": "Create {} in a repository.",
    "list": "List all {}s of a repository.",
    "get": "Get one {} of a repository by its number.",
    "update": "Change the title or the state of {}s of a repository.",
    "delete": "Delete one {} of a repository for good.",
}
LONG_LINES = 1000
"""The lines of the long result, of forty characters or ten tokens each."""
LONGER_LINES = 1500
"""Those of the results of the archive, which have some 60 kB as text."""
EXPORTS = ("export_text", "export_rows", "export_only_rows")
"""The tools of the archive: a text, rows as structured content that a text says too, and rows alone."""


def tools(what: str) -> list[dict[str, Any]]:
    """Return the definitions of a server's tools."""
    schema = {
        "type": "object",
        "properties": {"repo": {"type": "string", "description": "As owner/name."}, "title": {"type": "string"}},
        "required": ["repo"],
    }
    made = [
        {"name": f"{verb}_{noun}", "description": text.format(noun.replace("_", " ")), "inputSchema": schema}
        for noun in NOUNS[what]
        for verb, text in VERBS.items()
    ]
    names = EXPORTS if what == "acmearchive" else ("export",)
    exports = [{"name": one, "description": "Export everything.", "inputSchema": {"type": "object"}} for one in names]
    return [*made, *exports]


def exported(name: str) -> dict[str, Any]:
    """Return a result of the archive."""
    lines = [f"{number:05} in the export of all there is now" for number in range(LONGER_LINES)]
    if name == "export_text":
        return {"content": [{"type": "text", "text": "\n".join(lines)}]}
    rows = {"rows": lines}
    said = [{"type": "text", "text": json.dumps(rows)}] if name == "export_rows" else []
    return {"content": said, "structuredContent": rows}


def result(what: str, name: str, arguments: Any) -> str:
    """Return the text of a result: what was called, or the long one."""
    if name == "export":
        return "\n".join(f"{number:05} in the export of all there is now" for number in range(LONG_LINES))
    return f"{what} ran {name} with {json.dumps(arguments)}"


def answer(what: str, method: str, params: Any) -> dict[str, Any] | None:
    """Return the result of a request; `None` if it is not known."""
    match method:
        case "initialize":
            about = {"capabilities": {"tools": {}}, "serverInfo": {"name": what, "version": "1"}}
            return {"protocolVersion": params["protocolVersion"], **about}
        case "tools/list":
            return {"tools": tools(what)}
        case "tools/call" if params["name"] in EXPORTS:
            return exported(params["name"])
        case "tools/call":
            text = result(what, params["name"], params.get("arguments"))
            return {"content": [{"type": "text", "text": text}]}
        case "ping":
            return {}
    return None


def main(what: str, file: str = "") -> None:
    """Serve until the input ends."""
    if what not in NOUNS:
        sys.exit("ECONNREFUSED 127.0.0.1:5432")
    for line in sys.stdin:
        while file and not Path(file).exists():
            time.sleep(0.05)
        asked = json.loads(line)
        if "id" in asked:
            found = answer(what, asked.get("method", ""), asked.get("params"))
            said = {"error": {"code": -32601, "message": "Unknown"}} if found is None else {"result": found}
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
