"""The configurations of clients, as they are."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from toolfold import ConfigError
from toolfold_adapters.gateway import GatewayConfig, UpstreamConfig, load_config
from toolfold_adapters.gateway.config.settings import OAuthConfig
from toolfold_adapters.names import server_name

pytestmark = pytest.mark.spec("GWY-2")

PYTHON = sys.executable
ENVIRON = {"TOKEN": "t0ken", "EMPTY": "", "PATH": "/nowhere"}


def load(folder: Path, data: Any, name: str = "mcp.json") -> GatewayConfig:
    file = folder / name
    file.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return load_config(file, ENVIRON)


def servers(folder: Path, entries: Any, name: str = "mcp.json") -> GatewayConfig:
    return load(folder, {"mcpServers": entries}, name)


GOOD = {"command": PYTHON}


def allowed(file: Path, section: str, keys: str) -> str:
    """Return what is said of what a client allows of tools."""
    why = "it is about tools by names that they do not have behind Toolfold"
    return f"{file}, {section}: passed over, since {why}: {keys}. Set it anew in the client."


def test_claude_desktop_claude_code_and_cursor(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        {
            "theme": "dark",
            "mcpServers": {
                "files": {
                    "command": PYTHON,
                    "args": ["-m", "files"],
                    "env": {"KEY": "${TOKEN}", "PORT": 80, "ON": True},
                },
                "web": {
                    "type": "http",
                    "url": "https://x.org/${TOKEN}",
                    "headers": {"Authorization": "Bearer ${TOKEN}"},
                },
                "old": {"type": "sse", "url": "https://x.org/sse", "autoApprove": ["a"], "disabledTools": ["b"]},
                "off": {"command": "no-such-program", "disabled": True},
            },
        },
        "claude_desktop_config.json",
    )
    assert config.upstreams == {
        "files": UpstreamConfig(command=(PYTHON, "-m", "files"), env={"KEY": "t0ken", "PORT": "80", "ON": "true"}),
        "web": UpstreamConfig(url="https://x.org/t0ken", headers={"Authorization": "Bearer t0ken"}),
        "old": UpstreamConfig(url="https://x.org/sse", transport="sse", exclude_tools=("b",)),
    }
    assert (config.left_out, config.prefixed) == (("off",), True)
    assert config.problems == (allowed(tmp_path / "claude_desktop_config.json", "mcpServers", "old.autoApprove"),)


def test_vs_code_with_comments_inputs_and_variables_of_the_editor(tmp_path: Path) -> None:
    folder = tmp_path / ".vscode"
    folder.mkdir()
    config = load(
        folder,
        """{
          // what VS Code asks for; "quoted // text" stays
          "inputs": [{"type": "promptString", "id": "api-key"}, {"id": "host", "default": "https://x.org"},],
          "servers": {
            "files": {
              "type": "stdio", "command": "PYTHON", "args": ["${workspaceFolder}", "//not a comment", "$${LITERAL}"],
              "env": {"HOST": "${input:host}", "TOKEN": "${env:TOKEN}"}, /* and so
              on */ "gallery": true,
            },
            "asks": {"url": "https://x.org", "headers": {"Key": "${input:api-key}"}},
          },
        }""".replace('"PYTHON"', json.dumps(PYTHON)),
    )
    assert config.upstreams == {
        "files": UpstreamConfig(
            command=(PYTHON, str(tmp_path), "//not a comment", "${LITERAL}"),
            env={"HOST": "https://x.org", "TOKEN": "t0ken"},
        )
    }
    assert config.problems == (
        f"{folder / 'mcp.json'}, servers.asks: VS Code would ask for ${{input:api-key}}; set the environment variable "
        "TOOLFOLD_INPUT_API_KEY. The server is left out.",
        f"{folder / 'mcp.json'}, servers: passed over, since it changes nothing that is run: files.gallery.",
    )


def test_claude_code_has_servers_of_the_user_and_of_the_project_in_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    projects = {str(tmp_path): {"mcpServers": {"here": GOOD}}, "/elsewhere": {"mcpServers": {"there": GOOD}}}
    assert set(load(tmp_path, {"mcpServers": {"user": GOOD}, "projects": projects}).upstreams) == {"user", "here"}
    assert set(load(tmp_path, {"projects": projects}).upstreams) == {"here"}


GEMINI = {"httpUrl": "https://x.org", "headers": {"Key": "$TOKEN"}, "trust": True, "timeout": 5, "includeTools": ["a"]}
OPENCODE = {
    "a": {"type": "local", "command": [PYTHON, "-v"], "environment": {"KEY": "{env:TOKEN}"}, "timeout": 9},
    "b": {"type": "remote", "url": "https://x.org", "oauth": False},
    "off": {"type": "local", "command": ["x"], "enabled": False},
}
CONTINUE = f"""
name: mine
mcpServers:
  - name: a
    command: {PYTHON}
    args: [-v]
    env:
      KEY: ${{{{ secrets.TOKEN }}}}
  - name: b
    type: streamable-http
    url: https://x.org
    requestOptions:
      headers: {{Key: b}}
"""
GOOSE = f"""
extensions:
  developer: {{enabled: true, type: builtin, name: developer}}
  a: {{type: stdio, name: A, cmd: {PYTHON}, args: [-v], envs: {{KEY: t0ken}}, timeout: 300, available_tools: []}}
  b: {{type: streamable_http, uri: "https://x.org", env_keys: [], headers: {{Key: b}}, bundled: null}}
  off: {{enabled: false, type: stdio, cmd: x}}
"""
ZED = """{
  // theirs
  "context_servers": {
    "a": {"source": "custom", "command": "PYTHON", "args": ["-v"], "env": {"KEY": "t0ken"}, "timeout": 9},
    "b": {"url": "https://x.org", "headers": {"Key": "b"}},
    "off": {"enabled": false, "source": "extension", "settings": {}},
  },
}""".replace('"PYTHON"', json.dumps(PYTHON))
LOCAL = UpstreamConfig(command=(PYTHON, "-v"), env={"KEY": "t0ken"})
WITH_LITTLE = LOCAL.model_copy(update={"environment": "minimal"})
WITHOUT_LOGIN = UpstreamConfig(url="https://x.org", oauth=OAuthConfig(enabled=False))
WITH_KEY = UpstreamConfig(url="https://x.org", headers={"Key": "b"})


@pytest.mark.parametrize(
    ("name", "data", "upstreams", "left_out"),
    [
        (".gemini/settings.json", {"mcp": {"allowed": []}, "mcpServers": {"a": GEMINI}}, {"a": "gemini"}, ()),
        (".qwen/settings.toolfold.json", {"mcpServers": {"a": GEMINI}}, {"a": "gemini"}, ()),
        ("opencode.json", {"mcp": OPENCODE}, {"a": LOCAL, "b": WITHOUT_LOGIN}, ("off",)),
        (".continue/config.yaml", CONTINUE, {"a": WITH_LITTLE, "b": WITH_KEY}, ()),
        ("goose/config.yaml", GOOSE, {"a": LOCAL, "b": WITH_KEY}, ("off",)),
        ("zed/settings.json", ZED, {"a": LOCAL, "b": WITH_KEY}, ("off",)),
    ],
)
def test_other_hosts_and_the_words_that_only_they_have(
    tmp_path: Path, name: str, data: Any, upstreams: dict[str, Any], left_out: tuple[str, ...]
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    config = load(tmp_path, data, name)
    gemini = UpstreamConfig(url="https://x.org", headers={"Key": "t0ken"}, include_tools=("a",))
    assert config.upstreams == {name: gemini if one == "gemini" else one for name, one in upstreams.items()}
    assert (config.left_out, config.problems) == (left_out, ())


def test_settings_of_vs_code_have_servers_under_mcp(tmp_path: Path) -> None:
    config = load(tmp_path, {"editor.tabSize": 2, "mcp": {"servers": {"a": GOOD}}}, "settings.json")
    assert config.upstreams == {"a": UpstreamConfig(command=(PYTHON,))}


def test_codex(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        f"""
        model = "some"
        [mcp_servers.files]
        command = '{PYTHON}'
        args = ["-v"]
        env_vars = ["TOKEN"]
        startup_timeout_sec = 5
        enabled_tools = ["a", "b"]
        [mcp_servers.files.tools.a]
        approval_mode = "approve"
        [mcp_servers.web]
        url = "https://x.org"
        bearer_token_env_var = "TOKEN"
        http_headers = {{ A = "b" }}
        env_http_headers = {{ C = "TOKEN" }}
        [mcp_servers.off]
        command = "x"
        enabled = false
        """,
        "config.toml",
    )
    assert config.upstreams == {
        "files": UpstreamConfig(
            command=(PYTHON, "-v"), env={"TOKEN": "t0ken"}, start_timeout=5, include_tools=("a", "b")
        ),
        "web": UpstreamConfig(url="https://x.org", headers={"A": "b", "C": "t0ken", "Authorization": "Bearer t0ken"}),
    }
    assert config.left_out == ("off",)
    assert config.problems == (allowed(tmp_path / "config.toml", "mcp_servers", "files.tools"),)


def test_codex_passes_on_the_variables_that_are_set(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        f"""
        [mcp_servers.files]
        command = '{PYTHON}'
        env_vars = ["TOKEN", "GONE", {{ name = "EMPTY", source = "local" }}]
        env = {{ TOKEN = "other" }}
        startup_timeout_ms = 2500
        tool_timeout_sec = 60
        disabled_tools = ["c"]
        required = true
        """,
        "config.toml",
    )
    server = UpstreamConfig(
        command=(PYTHON,), env={"TOKEN": "other", "EMPTY": ""}, start_timeout=2.5, exclude_tools=("c",)
    )
    assert (config.upstreams, config.problems) == ({"files": server}, ())


def test_copilot_names_the_tools_that_it_wants(tmp_path: Path) -> None:
    local = {"type": "local", **GOOD, "args": [], "tools": ["*"]}
    remote = {"type": "http", "url": "https://x.org", "headers": {"A": "b"}, "tools": ["read", "list"]}
    assert servers(tmp_path, {"local": local, "remote": remote}, "mcp-config.json").upstreams == {
        "local": UpstreamConfig(command=(PYTHON,)),
        "remote": UpstreamConfig(url="https://x.org", headers={"A": "b"}, include_tools=("read", "list")),
    }


def test_what_cline_and_windsurf_have_switched_off_is_left_out(tmp_path: Path) -> None:
    cline = {**GOOD, "disabled": False, "alwaysAllow": ["a"], "autoApprove": [], "networkTimeout": 60000}
    windsurf = {"serverUrl": "https://x.org", "disabledTools": ["b"], "disabled": False}
    off = {"cline": {**cline, "disabled": True}, "windsurf": {**windsurf, "disabled": True}}
    config = servers(tmp_path, {"a": cline, "b": windsurf, **off})
    assert config.upstreams == {
        "a": UpstreamConfig(command=(PYTHON,)),
        "b": UpstreamConfig(url="https://x.org", exclude_tools=("b",)),
    }
    assert config.left_out == ("cline", "windsurf")
    assert config.problems == (allowed(tmp_path / "mcp.json", "mcpServers", "a.alwaysAllow"),)


@pytest.mark.parametrize("client", [".vscode", ".cursor"])
def test_a_file_has_more_of_the_environment(tmp_path: Path, client: str) -> None:
    (tmp_path / ".env").write_text("# secrets\nexport A=1\nB='two words'  # of them\nC=${HOME}\nTOKEN=file\nD=\n")
    (tmp_path / client).mkdir()
    entry = {**GOOD, "envFile": "${workspaceFolder}/.env", "env": {"TOKEN": "${TOKEN}", "D": None}}
    relative = {**GOOD, "envFile": ".env"}
    config = load(tmp_path / client, {"mcpServers": {"a": entry, "b": relative}})
    values = {"A": "1", "B": "two words", "C": "${HOME}"}
    assert {name: dict(server.env) for name, server in config.upstreams.items()} == {
        "a": {**values, "TOKEN": "t0ken"},
        "b": {**values, "TOKEN": "file", "D": ""},
    }


def test_the_configuration_of_a_vs_code_user_is_about_the_workspace_that_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "Code" / "User" / "profiles" / "a"
    folder.mkdir(parents=True)
    config = load(folder, {"servers": {"a": {**GOOD, "cwd": "${workspaceFolder}", "args": ["${userHome}", "~/notes"]}}})
    assert config.upstreams == {
        "a": UpstreamConfig(command=(PYTHON, str(Path.home()), f"{Path.home()}/notes"), cwd=str(tmp_path))
    }


@pytest.mark.parametrize(
    ("entry", "transport"),
    [
        ({"url": "https://x.org/mcp"}, "http"),
        ({"url": "https://x.org/sse"}, "sse"),
        ({"url": "https://x.org/sse/?key=1"}, "sse"),
        ({"url": "https://x.org/sse", "type": "http"}, "http"),
        ({"url": "https://x.org/mcp", "transport": "sse"}, "sse"),
        ({"url": "https://x.org/mcp", "transportType": "streamable-http"}, "http"),
    ],
)
def test_the_older_transport_is_named_or_at_the_end_of_the_url(tmp_path: Path, entry: Any, transport: str) -> None:
    assert servers(tmp_path, {"web": entry}).upstreams["web"].transport == transport


def test_own_toml_has_several_servers(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        f"[upstreams.files]\ncommand = ['{PYTHON}']\ntitle = 'Files'\n[upstreams.web]\nurl = 'https://x.org/${{TOKEN}}'\n"
        "[upstreams.off]\ndisabled = true\n[budgets]\ngroup_tokens = 10\n",
        "gateway.toml",
    )
    assert config.upstreams == {
        "files": UpstreamConfig(command=(PYTHON,), title="Files"),
        "web": UpstreamConfig(url="https://x.org/t0ken"),
    }
    assert (config.left_out, config.budgets.group_tokens) == (("off",), 10)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${TOKEN}", "t0ken"),
        ("a-${TOKEN}-b", "a-t0ken-b"),
        ("${GONE:-none}", "none"),
        ("${GONE:-}", ""),
        ("${EMPTY:-full}", "full"),
        ("${EMPTY}", ""),
        ("${env:TOKEN}", "t0ken"),
        ("$TOKEN $5 {x} $", "$TOKEN $5 {x} $"),
        ("$${TOKEN}", "${TOKEN}"),
    ],
)
def test_variables_are_replaced(tmp_path: Path, text: str, value: str) -> None:
    config = servers(tmp_path, {"s": {**GOOD, "args": [text]}})
    assert config.upstreams["s"].command == (PYTHON, value)


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (
            {**GOOD, "args": ["${GONE}"]},
            ": the environment variable GONE is not set; set it, or write ${GONE:-default}.",
        ),
        ({**GOOD, "cwd": "${foo:bar}"}, ": ${foo:bar} is no variable that is known here; write $${ for a literal ${."),
        ({**GOOD, "arg": []}, ": arg: is not known here; remove it, or write args."),
        ({**GOOD, "zzz": []}, ": zzz: is not known here; remove it."),
        ({}, ': give either a command, such as ["npx", "some-server"], or a url.'),
        (5, ": must be a table."),
        ({"command": 5}, ": command: must be a text in quotes."),
        ({**GOOD, "args": "x"}, ": args: must be a list of texts in quotes."),
        ({**GOOD, "env": {"A": []}}, ', env.A: must be a text in quotes, such as "…".'),
        ({**GOOD, "env": []}, ": env: must be a table of texts."),
        ({**GOOD, "env_vars": [5]}, ": env_vars: must be a list of names."),
        ({**GOOD, "envFile": ".env"}, ": envFile: .env: it can't be read: No such file or directory."),
        ({**GOOD, "envFile": 5}, ": envFile: must be a text in quotes."),
        (
            {"url": "https://x", "headersHelper": "./token.sh"},
            ": headersHelper: is not supported; give the headers in headers, with ${VAR} for what is secret.",
        ),
        (
            {"type": "ws", "url": "https://x"},
            ": type: must be one of http, streamable-http, streamableHttp, streamable_http, remote, stdio, local, sse.",
        ),
        ({"url": "ftp://x"}, ": the url must start with http:// or https://."),
    ],
)
def test_a_wrong_entry_is_one_sentence_with_file_and_place_and_the_others_are_served(
    tmp_path: Path, entry: Any, problem: str
) -> None:
    config = servers(tmp_path, {"good": GOOD, "bad": entry})
    assert list(config.upstreams) == ["good"]
    place = f"{tmp_path / 'mcp.json'}, mcpServers.bad"
    assert config.problems == (f"{place}{problem} The server is left out.",)
    assert config.left_out == ("bad",)
    assert config.prefixed


def test_two_servers_of_one_name_are_reported(tmp_path: Path) -> None:
    entry = json.dumps(GOOD)
    config = load(
        tmp_path, f'{{"mcpServers": {{"a": {entry}, "a": {{"command": "x"}}, "b c": {entry}, "b_c": {entry}}}}}'
    )
    assert {name: server.title for name, server in config.upstreams.items()} == {"a": None, "b_c": "b c"}
    file = tmp_path / "mcp.json"
    assert config.problems == (
        f"{file}, mcpServers.b_c: it is called b_c here, as 'b c' is; rename one of them. The server is left out.",
        f"{file}, mcpServers: there are two servers named 'a', so the second is left out; rename one.",
    )


def test_what_is_given_twice_is_reported(tmp_path: Path) -> None:
    good = json.dumps(GOOD)
    twice = '{"command": "x", "env": {"A": "1"}, "env": {"B": "2"}}'
    config = load(tmp_path, f'{{"mcpServers": {{"a": {good}, "b": {twice}}}, "mcpServers": {{"c": {good}}}}}')
    assert list(config.upstreams) == ["a"]
    file = tmp_path / "mcp.json"
    assert config.problems == (
        f"{file}, mcpServers.b: env: is given twice; merge the two. The server is left out.",
        f"{file}: mcpServers is given twice; merge the two.",
    )


@pytest.mark.parametrize("entries", [{}, {"off": {**GOOD, "disabled": True}}])
def test_a_file_without_a_server_that_is_enabled_is_named(tmp_path: Path, entries: Any) -> None:
    with pytest.raises(ConfigError, match=r"mcp\.json, mcpServers: no server is enabled; add or"):
        servers(tmp_path, entries)


def test_where_no_entry_is_right_all_problems_are_the_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        servers(tmp_path, {"a": {}, "b": {"command": 5}})
    assert len(str(caught.value).splitlines()) == 2
    assert "left out" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"mcpServers": {"a": {}\n', ", line 1, column 24: it is not valid JSON: "),
        ('{"mcpServers": {\n"a": }', ", line 2, column 6: it is not valid JSON: Expecting value; correct it there."),
        ("[]", ": it must be a JSON object."),
        ("[" * 100_000, ": it contains a number that is too long, or is nested too deeply."),
        (
            "{}",
            " names no servers: it has none of mcp.servers, mcpServers, servers, mcp_servers, mcp, extensions, "
            "context_servers.",
        ),
        ('{"mcpServers": [{}]}', ", mcpServers must be a table of servers by their names."),
    ],
)
def test_a_file_that_is_no_configuration_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'mcp.json'}{message}")


def test_a_server_that_would_be_this_very_gateway_is_left_out(tmp_path: Path) -> None:
    program = tmp_path / "toolfold"
    program.touch(0o755)
    entry = {"command": str(program), "args": ["serve", str(tmp_path / "mcp.json")]}
    config = servers(tmp_path, {"good": GOOD, "toolfold": entry})
    assert list(config.upstreams) == ["good"]
    assert "it starts Toolfold with this very file" in config.problems[0]


def test_no_message_has_the_value_of_a_variable(tmp_path: Path) -> None:
    config = servers(tmp_path, {"good": GOOD, "a": {"url": "${TOKEN}://x"}, "c": {"cwd": "${TOKEN}"}})
    assert len(config.problems) == 2
    assert "t0ken" not in "".join(config.problems)


# -- as galleries and managers of servers publish them ----------------------------------------------------------------

CLOCK = UpstreamConfig(command=("uvx", "clock"))
BOARD = UpstreamConfig(url="http://127.0.0.1:9000/mcp")
RUNS = {"command": "uvx", "args": ["clock"]}
ANSWERS = {"url": "http://127.0.0.1:9000/mcp"}


@pytest.mark.parametrize(
    ("entry", "upstream", "over"),
    [
        ({**RUNS, "env": {}, "fromGalleryId": "vendor.clock"}, CLOCK, "clock.fromGalleryId"),
        (
            {**RUNS, "name": "clock", "isActive": True, "providerUrl": "https://x.org", "logoUrl": "https://x.org/a"},
            CLOCK,
            "clock.providerUrl, clock.logoUrl",
        ),
        ({**RUNS, "baseUrl": "", "cwd": "", "type": "", "registryUrl": "", "logoUrl": ""}, CLOCK, ""),
        ({**RUNS, "type": "STDIO"}, CLOCK, ""),
        ({**ANSWERS, "type": "HTTP"}, BOARD, ""),
        ({**ANSWERS, "type": "StreamableHTTP", "command": "", "args": [], "env": {}}, BOARD, ""),
        ({**ANSWERS, "transport": "SSE"}, BOARD.model_copy(update={"transport": "sse"}), ""),
        (
            {**RUNS, "args": ["clock", 8080, 0.5, True]},
            UpstreamConfig(command=("uvx", "clock", "8080", "0.5", "true")),
            "",
        ),
        ({**ANSWERS, "headers": {"X-Tenant": 42}}, BOARD.model_copy(update={"headers": {"X-Tenant": "42"}}), ""),
        ({**RUNS, "$comment": "ours", "x-team": 1}, CLOCK, ""),
    ],
)
def test_what_is_published_is_served_and_what_is_passed_over_is_said(
    tmp_path: Path, entry: Any, upstream: UpstreamConfig, over: str
) -> None:
    config = servers(tmp_path, {"clock": entry})
    said = f"{tmp_path / 'mcp.json'}, mcpServers: passed over, since it changes nothing that is run: {over}."
    assert (config.upstreams, config.problems) == ({"clock": upstream}, (said,) if over else ())


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"disabled": "true"}, "disabled: must be true or false, without quotes."),
        ({"enabled": "false"}, "enabled: must be true or false, without quotes."),
        ({"isActive": 0}, "isActive: must be true or false, without quotes."),
        ({"allowedTools": ["now"]}, "allowedTools: is not supported; write includeTools"),
        ({"commandd": "x"}, "commandd: is not known here; remove it, or write command."),
        ({"registryUrl": "https://x.org"}, "registryUrl: is not known here; remove it"),
    ],
)
def test_what_may_switch_off_or_change_what_is_run_is_refused_by_entry_and_key(
    tmp_path: Path, entry: Any, problem: str
) -> None:
    config = servers(tmp_path, {"good": GOOD, "clock": {**RUNS, **entry}})
    assert list(config.upstreams) == ["good"]
    assert config.problems[0].startswith(f"{tmp_path / 'mcp.json'}, mcpServers.clock: {problem}")


def test_a_switch_in_quotes_is_refused_in_our_own_file_too(tmp_path: Path) -> None:
    text = '[upstreams.a]\ncommand = ["a"]\ndisabled = "true"\n[upstreams.b]\ncommand = ["b"]'
    config = load(tmp_path, text, "gateway.toml")
    assert list(config.upstreams) == ["b"]
    assert "disabled: must be true or false" in config.problems[0]


@pytest.mark.parametrize(
    ("entry", "oauth"),
    [
        ({"oauth": {"clientId": "team", "callbackPort": 3117}}, {"client_id": "team", "callback_port": 3117}),
        ({"auth": {"CLIENT_ID": "team", "CLIENT_SECRET": "${TOKEN}"}}, {"client_id": "team", "client_secret": "t0ken"}),
        (
            {"oauth": {"enabled": True, "clientId": "team", "scopes": ["a", "b"]}},
            {"client_id": "team", "scopes": ("a", "b")},
        ),
        ({"oauth": {"clientId": "team", "scope": "a b"}}, {"client_id": "team", "scopes": ("a", "b")}),
        ({"oauth": {"enabled": True}, "authProviderType": "dynamic_discovery"}, {}),
        ({"oauth": False}, {"enabled": False}),
        ({"auth": "oauth"}, {}),
    ],
)
def test_the_client_of_a_login_is_the_one_that_is_named(tmp_path: Path, entry: Any, oauth: dict[str, Any]) -> None:
    config = servers(tmp_path, {"board": {**ANSWERS, **entry}})
    assert (config.upstreams["board"].oauth, config.problems) == (OAuthConfig(**oauth), ())


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (
            {"oauth": {"clientId": "a", "tokenUrl": "https://x"}},
            ": oauth.tokenUrl: is not supported; log in with clientId",
        ),
        ({"oauth": {"authServerMetadataUrl": "https://x"}}, ": oauth.authServerMetadataUrl: is not supported"),
        ({"auth": {"CLIENT_SECRET": "x"}}, ", oauth: client_secret is of a client: give client_id."),
        ({"oauth": {"callbackPort": 0}}, ", oauth.callback_port: must be more than 0."),
        ({"auth": "a-token"}, ": auth: must be a table with clientId; give a token in headers."),
        ({"authProviderType": "google_credentials"}, ": authProviderType: 'google_credentials' is not supported"),
    ],
)
def test_a_login_that_can_not_be_as_it_is_written_is_refused(tmp_path: Path, entry: Any, problem: str) -> None:
    config = servers(tmp_path, {"good": GOOD, "board": {**ANSWERS, **entry}})
    assert list(config.upstreams) == ["good"]
    assert config.problems[0].startswith(f"{tmp_path / 'mcp.json'}, mcpServers.board{problem}")


def test_a_server_that_is_named_in_chinese_is_served_with_that_as_its_title(tmp_path: Path) -> None:
    config = servers(tmp_path, {"文件": GOOD, "数据": GOOD, "Büro": GOOD})
    titles = {name: one.title for name, one in config.upstreams.items()}
    assert titles == {server_name("文件"): "文件", server_name("数据"): "数据", "Buro": "Büro"}
    assert config.problems == ()
