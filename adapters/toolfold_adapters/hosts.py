"""The programs that people run MCP servers in, as data: where each has its configuration, and how it cuts answers.

Gateways read these files by it, and `toolfold init` writes them (SPEC GWY-2, GWY-13); answers fit into what a host
passes on to its model (SPEC CTL-4), which is all that evaluations give theirs (SPEC EVA-1). A new host is a new row.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from attrs import field, frozen

Environment = Literal["inherited", "minimal"] | tuple[str, ...]
"""What a server gets of the environment of what starts it: all, what programs need to run, or that and these names."""


@frozen(kw_only=True)
class HostView:
    """What a host shows a model of what a server sends, in characters; `None` is all of it.

    Attributes:
        client: The name by which it introduces itself.
        era: `"auto"` for the newest revision of MCP, `"legacy"` for those with a handshake.
        lists_again: Whether it lists the tools again after a notification that they have changed.
        instructions: How much of the server's instructions.
        descriptions: How much of a tool's description.
        results: How long a result may be that is passed on whole; a longer one is cut to its beginning and end
            (`ends`).
    """

    client: str = "toolfold-evaluate"
    era: Literal["auto", "legacy"] = "auto"
    lists_again: bool = True
    instructions: int | None = None
    descriptions: int | None = None
    results: int | None = None
    ends: tuple[int, int] = (0, 0)

    def result(self, text: str) -> str:
        """Return what it shows of a result."""
        if self.results is None or len(text) <= self.results:
            return text
        first, last = self.ends
        return f"{text[:first]}\n[...]\n{text[len(text) - last :]}"


Scope = Literal["local", "project", "user"]
"""Where servers are in force: for their user in one folder, for everybody in it, or for their user everywhere."""


@frozen(kw_only=True)
class Host:
    """A program that starts MCP servers.

    Attributes:
        name: What people call it.
        clients: How the names begin by which it introduces itself, if not as its own.
        lists_again: Whether a list that has changed reaches its model.
        files: Its files, those of a user before those of a project, whose places begin with `./`. `{VAR:-folder}` is a
            folder that a variable of the environment can name, `{settings}` where programs store the settings of
            their user.
        section: The keys that lead to the servers in a file, with dots.
        precedence: The scopes, first the one whose entry counts where a name is in several.
        merged: Whether entries of one name in several files are one entry, key by key.
        program: The keys that an entry has the program and its arguments under; a single one has both.
        entry: What the gateway's entry has beside them. It makes the host wait for the gateway and show its tools.
        most: The keys of numbers of which the gateway needs the most that one of its servers has, with what the host
            takes without one; `None` if that is no limit.
        every: The switches that the gateway has if each of its servers has them.
        permissions: The keys of an entry that name tools, which have other names behind a gateway: looked for in the
            entries of every host.
        rules: Where else servers and tools are named: files, with the keys that lead there; `*` is any.
        off: The last of such keys under which are the names of servers that are switched off.
        then: A note for its users once servers of a scope have moved.
        passed_over: More keys that the host has for itself.
        variable: The form of a variable that this host alone knows.
        environment: What it gives its servers of its own environment, beside what their entries add (SPEC GWY-8).
        shows_meta: Whether its model reads the `_meta` of a result, too.
        cut: How many characters of a text it shows, if these are fewer than its `views` say of a result.
        retains_results: Whether it puts a long result in a file that its model was seen to read (SPEC GWY-17).
        reads_structured: Whether its model reads structured content by programs, which take any length.
        unshown: The types of content that its model sees nothing of, by how the names of clients begin that were seen
            to do so whatever their model sees (SPEC GWY-17).
        views: What it shows, by the names that an evaluation has for its versions (SPEC EVA-1).
    """

    name: str
    clients: tuple[str, ...] = ()
    lists_again: bool = True
    files: tuple[str, ...] = ()
    section: str = "mcpServers"
    precedence: tuple[Scope, ...] = ("local", "project", "user")
    merged: bool = False
    program: tuple[str, ...] = ("command", "args")
    entry: Mapping[str, Any] = field(factory=dict[str, Any])
    most: Mapping[str, float | None] = field(factory=dict[str, float | None])
    every: tuple[str, ...] = ()
    permissions: tuple[str, ...] = ()
    rules: Mapping[str, tuple[str, ...]] = field(factory=dict[str, tuple[str, ...]])
    off: tuple[str, ...] = ()
    then: Mapping[Scope, str] = field(factory=dict[Scope, str])
    passed_over: tuple[str, ...] = ()
    variable: str | None = None
    environment: Environment = "inherited"
    shows_meta: bool = False
    cut: int | None = None
    retains_results: bool = False
    reads_structured: bool = False
    unshown: Mapping[str, tuple[str, ...]] = field(factory=dict[str, tuple[str, ...]])
    views: Mapping[str, HostView] = field(factory=dict[str, HostView])

    @property
    def passes(self) -> int | None:
        """How many bytes of a result it passes on whole, or `None` if its model can read all of any.

        SPEC GWY-17.
        """
        newest = next(iter(self.views.values()), None)
        limits = (self.cut, None if newest is None else newest.results)
        return None if self.retains_results else min((one for one in limits if one is not None), default=None)


_GEMINI: dict[str, Any] = {
    "most": {"timeout": 600_000},
    "every": ("trust",),
    "passed_over": ("extensionName", "targetAudience", "targetServiceAccount"),
    "variable": r"\$([A-Za-z_]\w*)",
}
_MEDIA = ("image", "audio")
_GEMINI_RULES = ("mcp.allowed", "mcp.excluded", "tools.allowed", "allowMCPServers", "excludeMCPServers")
_GEMINI_OFF = ("excluded", "excludeMCPServers")
_CLAUDE_CODE_RULES = (
    *("permissions.allow", "permissions.ask", "permissions.deny"),
    *("enabledMcpjsonServers", "disabledMcpjsonServers"),
)

_OPENCODE_RULES = ("permission", "tools")
_OPENCODE: dict[str, Any] = {
    "section": "mcp",
    "merged": True,
    "program": ("command",),
    "entry": {"type": "local", "enabled": True},
    "most": {"timeout": 30_000},
    "variable": r"\{env:([A-Za-z_]\w*)\}",
}

_OF_CODEX = (
    *("HOME", "LOGNAME", "PATH", "SHELL", "USER", "__CF_USER_TEXT_ENCODING", "LANG", "LC_ALL", "TERM", "TMPDIR", "TZ"),
    *("PATHEXT", "COMSPEC", "SYSTEMROOT", "SYSTEMDRIVE", "USERNAME", "USERDOMAIN", "USERPROFILE", "HOMEDRIVE"),
    *("HOMEPATH", "PROGRAMFILES", "PROGRAMFILES(X86)", "PROGRAMW6432", "PROGRAMDATA", "LOCALAPPDATA", "APPDATA"),
    *("TEMP", "TMP", "POWERSHELL", "PWSH"),
)
"""What Codex gives every server: `DEFAULT_ENV_VARS` in its sources, of POSIX and of Windows."""

# From each host's own documentation, read in November 2026; what makes it wait for a server and show its tools, where
# Cline's command line has its file, and which of Claude Code's entries counts, was seen by running it.
HOSTS = (
    Host(  # modelcontextprotocol.io/docs/tools/debugging has its environment
        name="Claude Desktop",
        clients=("claude-ai",),
        lists_again=False,
        files=("{settings}/Claude/claude_desktop_config.json",),
        environment="minimal",
    ),
    Host(  # code.claude.com/docs/en/mcp; `projects` of the first file has those that `claude mcp add` adds
        name="Claude Code",
        files=("{CLAUDE_CONFIG_DIR:-~}/.claude.json", "./.mcp.json"),
        entry={"type": "stdio", "alwaysLoad": True},
        most={"timeout": None},
        rules={
            "{CLAUDE_CONFIG_DIR:-~}/.claude.json": (
                *("projects.*.allowedTools", "projects.*.disabledMcpServers"),
                *("projects.*.enabledMcpjsonServers", "projects.*.disabledMcpjsonServers"),
            ),
            "{CLAUDE_CONFIG_DIR:-~/.claude}/settings.json": _CLAUDE_CODE_RULES,
            "./.claude/settings.json": _CLAUDE_CODE_RULES,
            "./.claude/settings.local.json": _CLAUDE_CODE_RULES,
        },
        off=("disabledMcpServers", "disabledMcpjsonServers"),
        retains_results=True,
        then={"project": "Claude Code asks before it first uses an entry of a project; until then it is pending."},
        views={
            "claude-code": HostView(
                client="claude-code", instructions=4_096, descriptions=4_096, results=50_000, ends=(2_000, 0)
            ),
            "claude-code-2.1.197": HostView(client="claude-code", era="legacy", instructions=2_048, descriptions=2_048),
        },
    ),
    Host(name="Cursor", files=("~/.cursor/mcp.json", "./.cursor/mcp.json")),  # cursor.com/docs/context/mcp
    Host(  # code.visualstudio.com/docs/copilot/reference/mcp-configuration
        name="VS Code",
        files=("{settings}/Code/User/mcp.json", "./.vscode/mcp.json"),
        section="servers",
        entry={"type": "stdio"},
        passed_over=("dev", "gallery", "sandbox", "sandboxEnabled", "version"),
    ),
    Host(  # developers.openai.com/codex/mcp
        name="Codex",
        lists_again=False,
        files=("{CODEX_HOME:-~/.codex}/config.toml", "./.codex/config.toml"),
        section="mcp_servers",
        merged=True,
        entry={"required": True},
        most={"startup_timeout_sec": 30, "tool_timeout_sec": 60},
        every=("supports_parallel_tool_calls",),
        permissions=("tools", "default_tools_approval_mode", "approval_mode"),
        passed_over=("experimental_environment", "oauth_resource", "scopes", "startup_timeout_ms"),
        environment=_OF_CODEX,
        reads_structured=True,
        cut=36_000,  # it shows 10,000 tokens of the result as JSON
        views={
            "codex": HostView(
                client="codex-mcp-client",
                era="legacy",
                lists_again=False,
                instructions=247,
                descriptions=0,
                results=40_000,
                ends=(20_000, 20_000),
            )
        },
    ),
    Host(  # docs.github.com/en/copilot/how-tos/copilot-cli
        name="Copilot CLI",
        clients=("copilot", "github-copilot"),
        files=("{COPILOT_HOME:-~/.copilot}/mcp-config.json",),
        entry={"type": "local", "tools": ["*"], "deferTools": "never"},
        most={"timeout": None},
        unshown={"copilot": _MEDIA},  # they are left out
        views={"copilot": HostView(client="copilot", instructions=0, results=25_000, ends=(500, 0))},
    ),
    Host(  # geminicli.com/docs/tools/mcp-server
        name="Gemini CLI",
        files=("~/.gemini/settings.json", "./.gemini/settings.json"),
        rules=dict.fromkeys(("~/.gemini/settings.json", "./.gemini/settings.json"), _GEMINI_RULES),
        off=_GEMINI_OFF,
        cut=38_000,  # it shows 40,000 with what it wraps a result in
        views={"gemini": HostView(client="gemini-cli", era="legacy", results=40_000, ends=(8_000, 32_000))},
        **_GEMINI,
    ),
    Host(  # qwenlm.github.io/qwen-code-docs
        name="Qwen Code",
        clients=("qwen",),
        lists_again=False,
        files=("~/.qwen/settings.json", "./.qwen/settings.json"),
        rules=dict.fromkeys(("~/.qwen/settings.json", "./.qwen/settings.json"), _GEMINI_RULES),
        off=_GEMINI_OFF,
        views={
            "qwen": HostView(
                client="qwen-code", era="legacy", lists_again=False, descriptions=157, results=28_000, ends=(2_000, 0)
            )
        },
        **_GEMINI,
    ),
    Host(  # opencode.ai/docs/mcp-servers
        name="opencode",
        files=(
            "{XDG_CONFIG_HOME:-~/.config}/opencode/opencode.json",
            "{XDG_CONFIG_HOME:-~/.config}/opencode/opencode.jsonc",
            "./opencode.json",
            "./opencode.jsonc",
        ),
        rules={f"{{XDG_CONFIG_HOME:-~/.config}}/opencode/opencode.{end}": _OPENCODE_RULES for end in ("json", "jsonc")}
        | {f"./opencode.{end}": _OPENCODE_RULES for end in ("json", "jsonc")},
        retains_results=True,  # it was seen to pass on most of it by its own tools
        views={"opencode": HostView(client="opencode", era="legacy", results=50_000)},
        **_OPENCODE,
    ),
    Host(  # kilo.ai/docs/automate/mcp/using-in-kilo-code, which is made from opencode
        name="Kilo",
        files=(
            "{XDG_CONFIG_HOME:-~/.config}/kilo/kilo.json",
            "{XDG_CONFIG_HOME:-~/.config}/kilo/kilo.jsonc",
            "./kilo.json",
            "./kilo.jsonc",
            "./.kilo/kilo.json",
            "./.kilo/kilo.jsonc",
        ),
        rules={f"{{XDG_CONFIG_HOME:-~/.config}}/kilo/kilo.{end}": ("permission",) for end in ("json", "jsonc")}
        | {f"./{folder}kilo.{end}": ("permission",) for folder in ("", ".kilo/") for end in ("json", "jsonc")},
        **_OPENCODE,
    ),
    Host(  # the same page, "VSCode (Legacy)"
        name="Kilo (legacy)",
        files=(
            "{settings}/Code/User/globalStorage/kilocode.kilo-code/settings/mcp_settings.json",
            "~/.kilocode/cli/global/settings/mcp_settings.json",
            "./.kilocode/mcp.json",
        ),
        permissions=("alwaysAllow",),
    ),
    Host(  # moonshotai.github.io/kimi-code/en/customization/mcp
        name="Kimi Code",
        clients=("kimi",),
        lists_again=False,
        shows_meta=True,
        files=("{KIMI_CODE_HOME:-~/.kimi-code}/mcp.json", "./.kimi-code/mcp.json"),
        most={"startupTimeoutMs": 30_000, "toolTimeoutMs": None},
        rules={"{KIMI_CODE_HOME:-~/.kimi-code}/config.toml": ("permission.rules",)},
    ),
    Host(  # docs.factory.ai/cli/configuration/mcp; the user's file has precedence
        name="Droid",
        files=("~/.factory/mcp.json", "./.factory/mcp.json"),
        precedence=("user", "local", "project"),
        entry={"type": "stdio"},
        most={"timeoutMs": None},
    ),
    Host(  # docs.mistral.ai/vibe/code/cli/mcp-servers, and how its sources merge the two files
        name="Vibe",
        files=("{VIBE_HOME:-~/.vibe}/config.toml", "./.vibe/config.toml"),
        section="mcp_servers",
        merged=True,
        entry={"name": "toolfold", "transport": "stdio"},
        most={"startup_timeout_sec": 10, "tool_timeout_sec": 60},
        passed_over=("prompt", "sampling_enabled"),
        rules=dict.fromkeys(
            ("{VIBE_HOME:-~/.vibe}/config.toml", "./.vibe/config.toml"), ("enabled_tools", "disabled_tools", "tools")
        ),
    ),
    Host(  # docs.cline.bot/mcp
        name="Cline",
        clients=("cline", "@cline/"),
        lists_again=False,
        files=(
            "{settings}/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
            "~/.cline/data/settings/cline_mcp_settings.json",
        ),
        most={"timeout": 60, "networkTimeout": None},
        permissions=("alwaysAllow", "autoApprove"),
        environment="minimal",  # that of the SDK for TypeScript
        shows_meta=True,
        unshown={"@cline/": _MEDIA},  # their base64 is passed on as text
        cut=5_500,  # it shows 8,000 of the result as JSON, with its `_meta`, and with each quotation mark escaped
        views={
            "cline": HostView(
                client="@cline/core",
                era="legacy",
                lists_again=False,
                instructions=0,
                results=8_000,
                ends=(4_000, 4_000),
            )
        },
    ),
    Host(  # docs.continue.dev/reference
        name="Continue",
        lists_again=False,
        files=("~/.continue/config.yaml",),
        entry={"name": "toolfold"},
        most={"connectionTimeout": None},
        passed_over=("faviconUrl", "sourceFile"),
        environment="minimal",  # that of the SDK for TypeScript: core/context/mcp/MCPConnection.ts
        variable=r"\$\{\{\s*secrets\.([A-Za-z_]\w*)\s*\}\}",
        unshown={"continue-cli": _MEDIA},  # their base64 is passed on as text
        views={"cn": HostView(client="continue", era="legacy", lists_again=False, instructions=0)},
    ),
    Host(  # docs.windsurf.com/windsurf/cascade/mcp
        name="Windsurf", files=("~/.codeium/windsurf/mcp_config.json",), permissions=("alwaysAllow",)
    ),
    Host(  # goose-docs.ai/docs/guides/config-files
        name="Goose",
        files=("{XDG_CONFIG_HOME:-~/.config}/goose/config.yaml", "{settings}/Block/goose/config/config.yaml"),
        section="extensions",
        program=("cmd", "args"),
        entry={"type": "stdio", "name": "toolfold", "enabled": True},
        most={"timeout": 300},
        passed_over=("bundled", "display_name"),
    ),
    Host(  # zed.dev/docs/ai/mcp
        name="Zed",
        files=(
            "{XDG_CONFIG_HOME:-~/.config}/zed/settings.json",
            "{settings}/Zed/settings.json",
            "./.zed/settings.json",
        ),
        section="context_servers",
        merged=True,
        entry={"source": "custom", "env": {}},
        most={"timeout": None},
        passed_over=("remote",),
    ),
    Host(  # fast-agent.ai/mcp; files of secrets have more of the same entries, and the last two are what it read first
        name="fast-agent",
        files=(
            "{FAST_AGENT_HOME:-./.fast-agent}/fast-agent.yaml",
            "{FAST_AGENT_HOME:-./.fast-agent}/fast-agent.secrets.yaml",
            "./fastagent.config.yaml",
            "./fastagent.secrets.yaml",
        ),
        section="mcp.servers",
        merged=True,
        entry={"transport": "stdio"},
        most={"read_timeout_seconds": None},
        then={"project": "Agents name their servers: name the entry of Toolfold where they name one that moved."},
        passed_over=(
            *("http_read_timeout_seconds", "http_timeout_seconds", "read_transport_sse_timeout_seconds"),
            *("defer_loading", "include_instructions", "load_on_start", "max_missed_pings", "ping_interval_seconds"),
            *("protocol_mode", "reconnect_on_disconnect"),
        ),
        environment="minimal",  # that of the SDK for Python
        cut=15_000,  # it shows the first 8,000 bytes and the last
        views={"fast-agent": HostView(client="fast-agent", results=16_000, ends=(8_000, 8_000))},
    ),
)

SECTIONS = tuple(dict.fromkeys(("mcp.servers", *(host.section for host in HOSTS))))
"""Where servers are in a file, in the order in which they are looked for; the first is in VS Code's settings too."""


def files_of(
    home: Path, folder: Path, environ: Mapping[str, str], platform: str = sys.platform
) -> Iterator[tuple[Host, Path, Scope]]:
    """Yield each host, each place where it may have a file, and its scope: `folder` is that of the project."""
    for host in HOSTS:
        for file in host.files:
            yield host, *located(file, home, folder, environ, platform)


def located(
    file: str, home: Path, folder: Path, environ: Mapping[str, str], platform: str = sys.platform
) -> tuple[Path, Scope]:
    """Return where a file of a row is, and its scope."""
    place = re.sub(r"\{(\w+):-(.*?)\}", lambda match: environ.get(match[1]) or match[2], file)
    place = place.replace("{settings}", str(_settings_folder(home, environ, platform)))
    if place.startswith("~/"):
        return home / place[2:], "user"
    return folder / place, "project" if place.startswith("./") else "user"


@lru_cache(maxsize=256)
def host_called(client: str) -> Host | None:
    """Return the host whose client calls itself so, or `None`."""
    called = _plain(client)
    known = (host for host in HOSTS if any(called.startswith(_plain(one)) for one in host.clients or (host.name,)))
    return next(known, None)


def _plain(name: str) -> str:
    return name.casefold().replace(" ", "-")


def cut_for(client: str) -> int | None:
    """Return how many characters of a text a host shows that cuts it, by what its client calls itself."""
    host = host_called(client)
    return None if host is None else host.cut


def lists_again(client: str) -> bool:
    """Return whether a list that has changed can reach the model of a client: no host is known that keeps it back."""
    host = host_called(client)
    return host is None or host.lists_again


def shows_meta(client: str) -> bool:
    """Return whether the model of a client reads the `_meta` of results beside their text."""
    host = host_called(client)
    return host is not None and host.shows_meta


def unshown_by(client: str) -> tuple[str, ...]:
    """Return the types of content that a client was seen to show no model."""
    host, called = host_called(client), _plain(client)
    rows = () if host is None else host.unshown.items()
    return next((kinds for begins, kinds in rows if called.startswith(begins)), ())


def host_of(file: Path, section: str = "") -> Host | None:
    """Return the host whose file this is, or was before a gateway served it; else the first that has such a section."""
    parts = (*file.parts[-2:-1], file.name.replace(".toolfold.", "."))
    for host in HOSTS:
        for file_of_host in host.files:
            place = re.sub(r"\{\w+(:-)?|\}", "", file_of_host)
            named = tuple(part for part in place.split("/") if part not in ("~", ".", ""))[-2:]
            if named == parts[-len(named) :]:
                return host
    return next((host for host in HOSTS if host.section == section.rpartition(".")[2]), None)


def _settings_folder(home: Path, environ: Mapping[str, str], platform: str) -> Path:
    """Return where programs store the settings of their user."""
    if platform == "darwin":
        return home / "Library" / "Application Support"
    if platform == "win32":
        return Path(environ.get("APPDATA") or home / "AppData" / "Roaming")
    return Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
