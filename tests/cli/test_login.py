"""`toolfold login`, `logins` and `logout`: what is stored, shown and ended, and nothing secret printed."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest
from mcp.shared.auth import OAuthToken

from tests.cli.support import invoke
from toolfold_adapters.gateway.callers.keys import VARIABLE, new_key
from toolfold_adapters.gateway.config.read import load_config
from toolfold_adapters.gateway.stored import stored_folder
from toolfold_adapters.gateway.upstream.logins import own_tokens
from toolfold_adapters.gateway.upstream.tokens import Stored

pytestmark = pytest.mark.spec("GWY-19")

SECRET = "the-secret-of-somebody"
BOARD = '[upstreams.board]\nurl = "https://board.example.org/mcp"\ntoken = {}\n'


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    file = tmp_path / "board.toml"
    file.write_text(BOARD)
    return str(file)


@pytest.mark.parametrize("whose", [[], ["--as", "alice"]], ids=["own", "of a caller"])
@pytest.mark.parametrize("given", [["--token", "-"], []], ids=["stdin", "prompt"])
def test_a_token_is_stored_shown_without_itself_and_ended(board: str, whose: list[str], given: list[str]) -> None:
    done = invoke("login", board, *whose, *given, stdin=f"{SECRET}\n")
    assert done.exit_code == 0, done.output
    assert "Logged in at board" in done.output
    listed = invoke("logins", "--json")
    assert [(one["server"], one["form"]) for one in json.loads(listed.stdout)] == [("board", "token")]
    shown = invoke("logins")
    assert SECRET not in done.output + listed.output + shown.output
    other = ["--as", "bob"]
    assert invoke("logout", "board", *other).exit_code == 1
    assert invoke("logout", "board", *whose).exit_code == 0
    assert "Nobody is logged in." in invoke("logins").output


def test_keys_that_are_printed_can_be_used_and_one_that_is_wrong_is_not_shown(
    board: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = invoke("logins", "--new-key").stdout.strip()
    monkeypatch.setenv(VARIABLE, key)
    assert invoke("login", board, "--as", "alice", "--token", "-", stdin=SECRET).exit_code == 0
    monkeypatch.setenv(VARIABLE, f"{new_key()},{key}")
    assert "alice" in invoke("logins").output
    monkeypatch.setenv(VARIABLE, "wrong-key")
    refused = invoke("logins")
    assert refused.exit_code == 1
    assert "wrong-key" not in refused.output


def test_a_key_that_is_lost_is_not_replaced_where_there_are_credentials(board: str, tmp_path: Path) -> None:
    assert invoke("login", board, "--as", "alice", "--token", "-", stdin=SECRET).exit_code == 0
    key = tmp_path / "data" / "toolfold" / "tokens" / "key"
    kept = key.read_text()
    key.unlink()
    for command in (["logins"], ["login", board, "--as", "bob", "--token", "-"]):
        refused = invoke(*command, stdin=SECRET)
        assert refused.exit_code == 1
        assert not key.exists()
    key.write_text(kept)
    key.chmod(0o600)
    assert "alice" in invoke("logins").output


def test_a_credential_is_stored_for_none_whom_the_rows_do_not_know(board: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.toml"
    file.write_text(f'{BOARD}[rights.alice]\naccess = "read"\n')
    refused = invoke("login", str(file), "--as", "alcie", "--token", "-", stdin=SECRET)
    assert refused.exit_code == 1
    assert "alcie has no row of rights" in refused.output
    assert invoke("login", str(file), "--as", "alice", "--token", "-", stdin=SECRET).exit_code == 0


def test_of_a_login_whose_issuer_can_not_end_the_grant_it_is_said_that_it_may_still_count(board: str) -> None:
    place = own_tokens("board", load_config(board).upstreams["board"], stored_folder("tokens"))
    given: Stored = {"tokens": OAuthToken(access_token=SECRET), "issuer": "https://login.example.org"}
    anyio.run(place.write, given)
    done = invoke("logout", "board")
    assert done.exit_code == 0, done.output
    assert "The grant may still count at https://login.example.org" in done.stdout
    assert SECRET not in done.output
    assert "Nobody is logged in." in invoke("logins").output
