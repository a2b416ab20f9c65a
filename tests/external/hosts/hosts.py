"""The hosts: what each is installed from, how it is configured and started, and what it does differently."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

SERVER = "toolfold"
MODEL = "scripted"

# Cases whose outcome is not the same for all hosts.
BY_NAME = "by its own name"
LONG = "10,000 tokens are passed on"


@frozen
class Setting:
    """What a host is started with.

    Attributes:
        home: Its home, which is empty.
        work: The folder that it works in.
        model: The address of the model.
        server: The command that starts the gateway.
        prompt: What it is asked to do.
    """

    home: Path
    work: Path
    model: str
    server: tuple[str, ...]
    prompt: str = "Do the task with the tools."

    @property
    def entry(self) -> dict[str, Any]:
        """The gateway as most configurations have a server."""
        return {"command": self.server[0], "args": list(self.server[1:])}


@frozen
class Launch:
    """How a host is started: its arguments, and its environment beside HOME and PATH."""

    arguments: tuple[str, ...]
    env: Mapping[str, str] = {}
    before: tuple[str, ...] = ()
    """The arguments that it is run with once before, to learn of the model."""


@frozen
class Host:
    """A host.

    Attributes:
        name: As people know it.
        package: What it is installed from, with its version.
        program: What starts it: below `node_modules`, or below the environment's `bin` if it is from PyPI.
        configure: Writes its configuration and returns how to start it.
        outcomes: The outcomes of cases that differ from those of most hosts, by the name of the case.
        modern: Whether it asks for the era of 2026-07-28 first.
        search: When it gives its model a search of its own in place of the tools of servers.
    """

    name: str
    package: str
    program: str
    configure: Callable[[Setting], Launch]
    outcomes: Mapping[str, str] = {}
    modern: bool = False
    search: str = "no"

    @property
    def from_pypi(self) -> bool:
        """Whether it is installed by pip, and not by npm."""
        return "==" in self.package

    @property
    def version(self) -> str:
        """The version that was measured."""
        return self.package.rpartition("@")[2].rpartition("==")[2]


def _written(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def claude_code(setting: Setting) -> Launch:
    """Claude Code."""
    file = _written(setting.work / "mcp.json", {"mcpServers": {SERVER: {**setting.entry, "alwaysLoad": True}}})
    allowed = ("--strict-mcp-config", "--allowedTools", f"mcp__{SERVER},ToolSearch")
    off = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY")
    return Launch(
        ("-p", setting.prompt, "--mcp-config", str(file), *allowed),
        {"ANTHROPIC_BASE_URL": setting.model, "ANTHROPIC_API_KEY": "none", **dict.fromkeys(off, "1")},
    )


def codex(setting: Setting) -> Launch:
    """Codex, with a model that it knows, so that its tools are called by programs."""
    _written(
        setting.home / ".codex/config.toml",
        f"""
        model = "gpt-6.1-sol"
        model_provider = "scripted"
        approval_policy = "never"
        sandbox_mode = "danger-full-access"
        [analytics]
        enabled = false
        [model_providers.scripted]
        name = "scripted"
        base_url = "{setting.model}/v1"
        env_key = "NO_KEY"
        wire_api = "responses"
        request_max_retries = 0
        stream_max_retries = 0
        [mcp_servers.{SERVER}]
        command = {json.dumps(setting.server[0])}
        args = {json.dumps(setting.server[1:])}
        required = true
        """,
    )
    return Launch(("exec", "--skip-git-repo-check", "--json", setting.prompt), {"NO_KEY": "none"})


def qwen_code(setting: Setting) -> Launch:
    """Qwen Code."""
    entry = {**setting.entry, "trust": True}
    _written(setting.home / ".qwen/settings.json", {"mcpServers": {SERVER: entry}, **_quiet("openai")})
    env = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"{setting.model}/v1", "OPENAI_MODEL": MODEL}
    return Launch(("-y", "-p", setting.prompt), env)


def gemini(setting: Setting) -> Launch:
    """Gemini CLI."""
    entry = {**setting.entry, "trust": True}
    _written(setting.home / ".gemini/settings.json", {"mcpServers": {SERVER: entry}, **_quiet("gemini-api-key")})
    env = {
        "GEMINI_API_KEY": "none",
        "GOOGLE_GEMINI_BASE_URL": setting.model,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "GEMINI_TELEMETRY_ENABLED": "false",
    }
    return Launch(("-m", "gemini-2.5-pro", "-y", "-p", setting.prompt), env)


def _quiet(account: str) -> dict[str, Any]:
    return {
        "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "security": {"auth": {"selectedType": account}, "folderTrust": {"enabled": False}},
    }


def copilot(setting: Setting) -> Launch:
    """Copilot CLI, with a model of its user's own, so without a login."""
    entry = {"type": "local", **setting.entry, "tools": ["*"], "deferTools": "never"}
    _written(setting.home / ".copilot/mcp-config.json", {"mcpServers": {SERVER: entry}})
    env = {
        "COPILOT_PROVIDER_BASE_URL": f"{setting.model}/v1",
        "COPILOT_PROVIDER_TYPE": "openai",
        "COPILOT_PROVIDER_API_KEY": "none",
        "COPILOT_MODEL": MODEL,
        "COPILOT_OFFLINE": "true",
        "COPILOT_AUTO_UPDATE": "false",
    }
    return Launch(("-p", setting.prompt, "--allow-all-tools"), env)


def fast_agent(setting: Setting) -> Launch:
    """fast-agent."""
    file = _written(
        setting.work / "fastagent.config.yaml",
        {
            "default_model": f"generic.{MODEL}",
            "logger": {"type": "none", "progress_display": False, "show_chat": False, "show_tools": False},
            "generic": {"api_key": "none", "base_url": f"{setting.model}/v1"},
            "mcp": {"servers": {SERVER: setting.entry}},
        },
    )
    configured = ("--config-path", str(file), "--servers", SERVER, "--model", f"generic.{MODEL}")
    return Launch(("go", *configured, "--message", setting.prompt))


def opencode(setting: Setting) -> Launch:
    """opencode."""
    model = {"name": MODEL, "tool_call": True, "limit": {"context": 400_000, "output": 8_000}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": MODEL,
        "options": {"baseURL": f"{setting.model}/v1", "apiKey": "none"},
        "models": {MODEL: model},
    }
    _written(
        setting.work / "opencode.json",
        {
            "autoupdate": False,
            "share": "disabled",
            "model": f"{MODEL}/{MODEL}",
            "small_model": f"{MODEL}/{MODEL}",
            "permission": "allow",
            "provider": {MODEL: provider},
            "mcp": {SERVER: {"type": "local", "command": list(setting.server), "enabled": True}},
        },
    )
    off = ("OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_DISABLE_MODELS_FETCH", "OPENCODE_DISABLE_LSP_DOWNLOAD")
    return Launch(("run", "--model", f"{MODEL}/{MODEL}", setting.prompt), dict.fromkeys(off, "1"))


def continue_cli(setting: Setting) -> Launch:
    """Continue's command line."""
    model = {
        "name": MODEL,
        "provider": "openai",
        "model": MODEL,
        "apiBase": f"{setting.model}/v1",
        "apiKey": "none",
        "roles": ["chat"],
        "capabilities": ["tool_use"],
    }
    about = {"name": MODEL, "version": "1.0.0", "schema": "v1"}
    file = _written(
        setting.work / "config.yaml", {**about, "models": [model], "mcpServers": [{"name": SERVER, **setting.entry}]}
    )
    env = {"CONTINUE_TELEMETRY_ENABLED": "0", "POSTHOG_DISABLED": "1"}
    return Launch(("--config", str(file), "--auto", "-p", setting.prompt), env)


def cline(setting: Setting) -> Launch:
    """Cline's command line."""
    _written(setting.home / ".cline/data/settings/cline_mcp_settings.json", {"mcpServers": {SERVER: setting.entry}})
    account = ("auth", "-p", "openai-compatible", "-k", "none", "-m", MODEL, "-b", f"{setting.model}/v1")
    env = {"CLINE_TELEMETRY_DISABLED": "1", "POSTHOG_DISABLED": "1"}
    return Launch(("--auto-approve", "true", setting.prompt), env, before=account)


HOSTS = (
    Host(
        "Claude Code",
        "@anthropic-ai/claude-code@2.1.330",
        "@anthropic-ai/claude-code/cli-wrapper.cjs",
        claude_code,
        modern=True,
        search="always; an entry with `alwaysLoad`, as `init` writes it, is not searched",
    ),
    Host(
        "Codex",
        "@openai/codex@0.169.0",
        "@openai/codex/bin/codex.js",
        codex,
        {LONG: "71%"},
        search="always with the models that it knows",
    ),
    Host(
        "Qwen Code",
        "@qwen-code/qwen-code@0.24.4",
        "@qwen-code/qwen-code/cli-entry.js",
        qwen_code,
        {LONG: "55%"},
        search="always",
    ),
    Host(
        "Copilot CLI",
        "@github/copilot@1.0.102",
        "@github/copilot/npm-loader.js",
        copilot,
        {LONG: "49%"},
        modern=True,
        search='from some 30 tools on, unless the entry has `"deferTools": "never"`',
    ),
    Host("fast-agent", "fast-agent-mcp==0.10.46", "fast-agent", fast_agent, {LONG: "29%"}, modern=True),
    Host("opencode", "opencode-ai@1.18.33", "opencode-linux-x64/bin/opencode", opencode, {BY_NAME: "yes"}),
    Host(
        "Gemini CLI",
        "@google/gemini-cli@0.61.0",
        "@google/gemini-cli/bundle/gemini.js",
        gemini,
        {BY_NAME: "yes", LONG: "75%"},
    ),
    Host("Continue", "@continuedev/cli@1.5.47", "@continuedev/cli/dist/cn.js", continue_cli),
    Host("Cline", "cline@3.0.65", "@cline/cli-linux-x64/bin/cline", cline, {LONG: "10%"}),
)
