"""Write what clients install the gateway from, as `server.json` says, and an index of the documentation for models.

    python -m deploy.listing            # writes them
    python -m deploy.listing --check    # names those that are stale

- links for VS Code and Cursor, in `docs/how-to/install.md`
- a plugin for Claude Code, and the marketplace that lists it: `deploy/plugins/claude-code`, `.claude-plugin`
- a plugin for Codex, and the marketplace that lists it: `deploy/plugins/codex`, `.agents/plugins`
- `llms.txt`, an index of the documentation, from the index pages in `docs/`
"""

import argparse
import json
import re
import sys
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote, urlencode

ROOT = Path(__file__).parents[1]
NAME = "toolfold"
OWNER = {"name": "The Toolfold authors"}
HOME_FILE = "~/toolfold.json"
"""What is served where nobody is asked for a path: Cursor's links and plugins of Codex have no questions."""

PAGE = "docs/how-to/install.md"
BEGIN, END = "<!-- begin: python -m deploy.listing -->\n", "\n<!-- end -->"
INDEXES = ("docs/how-to/index.md", "docs/reference/index.md", "docs/explanation/index.md")
LINK = re.compile(r"\[([^\]]+)\]\(([^):\s]+)\)")


def entry(server: Mapping[str, Any], configuration: str) -> dict[str, Any]:
    """Return how clients start the gateway: the `command` and the `args`, with what stands for the configuration."""
    (package,) = server["packages"]
    (requirement,) = [argument["value"] for argument in package["runtimeArguments"]]
    arguments = [argument.get("value", configuration) for argument in package["packageArguments"]]
    return {"command": package["runtimeHint"], "args": ["--from", requirement, package["identifier"], *arguments]}


def question(server: Mapping[str, Any]) -> str:
    """Return what the user is asked for, by clients that can ask."""
    (package,) = server["packages"]
    (asked,) = [argument for argument in package["packageArguments"] if "value" not in argument]
    return str(asked["description"])


def vscode_link(server: Mapping[str, Any]) -> str:
    """Return a link that has VS Code add the gateway, and ask for the configuration when it first starts."""
    inputs = [{"type": "promptString", "id": "configuration", "description": question(server)}]
    query = {"name": NAME, "inputs": _compact(inputs), "config": _compact(entry(server, "${input:configuration}"))}
    return f"https://insiders.vscode.dev/redirect/mcp/install?{urlencode(query, quote_via=quote)}"


def cursor_link(server: Mapping[str, Any]) -> str:
    """Return a link that has Cursor add the gateway."""
    config = b64encode(_compact(entry(server, HOME_FILE)).encode()).decode()
    return f"https://cursor.com/en/install-mcp?{urlencode({'name': NAME, 'config': config})}"


def plugins(server: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the files of both plugins and of both marketplaces, by path."""
    plugin = {
        "name": NAME,
        "version": server["version"],
        "description": server["description"],
        "author": OWNER,
        "license": "Apache-2.0",
    }
    asked = {"type": "file", "title": "Configuration", "description": question(server), "required": True}
    claude, codex = "deploy/plugins/claude-code", "deploy/plugins/codex"
    listed = {"name": NAME, "description": server["description"]}
    return {
        ".claude-plugin/marketplace.json": {
            **listed,
            "owner": OWNER,
            "plugins": [{**listed, "source": f"./{claude}"}],
        },
        f"{claude}/.claude-plugin/plugin.json": {
            **plugin,
            "userConfig": {"configuration": asked},
            "mcpServers": {NAME: entry(server, "${user_config.configuration}")},
        },
        ".agents/plugins/marketplace.json": {
            "name": NAME,
            "interface": {"displayName": server["title"]},
            "plugins": [
                {
                    "name": NAME,
                    "source": {"source": "local", "path": f"./{codex}"},
                    "policy": {"installation": "AVAILABLE", "authentication": "ON_INSTALL"},
                    "category": "Developer Tools",
                }
            ],
        },
        f"{codex}/.codex-plugin/plugin.json": {
            **plugin,
            "mcpServers": "./.mcp.json",
            "interface": {
                "displayName": server["title"],
                "shortDescription": server["description"],
                "developerName": OWNER["name"],
                "category": "Developer Tools",
            },
        },
        f"{codex}/.mcp.json": {"mcpServers": {NAME: entry(server, HOME_FILE)}},
    }


def index(server: Mapping[str, Any], root: Path) -> str:
    """Return an index of the documentation, in the form that llmstxt.org proposes."""
    lines = [f"# {server['title']}", "", f"> {server['description']}", "", "## Start", ""]
    lines += ["- [README](README.md): what it is for, and two commands that show it"]
    lines += ["- [Tutorial](docs/tutorial/index.md): a server with groups, hooks and exclusions, in twenty minutes"]
    for page in INDEXES:
        lines += _linked(page, (root / page).read_text(encoding="utf-8"))
    return "\n".join(lines) + "\n"


def generated(root: Path = ROOT) -> dict[str, str]:
    """Return the text that each file should have, by path."""
    server = json.loads((root / "server.json").read_text(encoding="utf-8"))
    links = (
        f"[Add to VS Code]({vscode_link(server)}) asks for the path of a configuration; "
        f"[Add to Cursor]({cursor_link(server)}) serves `{HOME_FILE}`."
    )
    before, rest = (root / PAGE).read_text(encoding="utf-8").split(BEGIN)
    after = rest.partition(END)[2]
    files = {path: json.dumps(value, indent=2) + "\n" for path, value in plugins(server).items()}
    return {**files, PAGE: f"{before}{BEGIN}{links}{END}{after}", "llms.txt": index(server, root)}


def stale(root: Path = ROOT) -> list[str]:
    """Return the paths of files that are not there, or not as they would be written."""
    return [path for path, text in generated(root).items() if _read(root / path) != text]


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the files, or check them: status 1 if some are stale."""
    parser = argparse.ArgumentParser(prog="python -m deploy.listing", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; name what is stale, with status 1")
    if not parser.parse_args(arguments).check:
        for path, text in generated().items():
            (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / path).write_text(text, encoding="utf-8", newline="\n")
    if old := stale():
        sys.exit(f"Stale: {', '.join(old)}. Run: python -m deploy.listing")
    print("What the gateway is installed from is up to date.")


def _linked(page: str, text: str) -> Iterator[str]:
    """Yield the headings of an index page that have links below them, and the links with what their lines say."""
    folder = PurePosixPath(page).parent
    heading = ""
    for line in text.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif line.startswith(("|", "- ")) and (found := LINK.search(line)):
            if heading:
                yield from ("", f"## {heading}", "")
                heading = ""
            said = (line[: found.start()] + line[found.end() :]).strip("|-:, ")
            target = _path(folder, found[2], page)
            yield f"- [{found[1]}]({target})" + (f": {said}" if said else "")


def _path(folder: PurePosixPath, target: str, page: str) -> str:
    """Return where a link of a page leads to, from the root."""
    file, hash_sign, anchor = target.partition("#")
    parts = list[str]()
    for part in (folder / file).parts if file else PurePosixPath(page).parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts) + hash_sign + anchor


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


if __name__ == "__main__":
    main()
