"""The file of `toolfold serve --auth`: each fault of it is one sentence with its place (SPEC DEL-6)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.support import invoke
from toolfold_adapters.mcp.http.auth import digest_of
from toolfold_cli.authentication import load_authentication

TOKEN = "0123456789abcdef"
OAUTH = '[oauth]\nissuer = "https://login.example"\nresource = "https://tools.example/mcp"\n'


@pytest.mark.spec("DEL-6")
@pytest.mark.parametrize("written", [TOKEN, f"sha256:{digest_of(TOKEN)}"])
async def test_a_token_is_known_as_it_is_or_by_its_digest(tmp_path: Path, written: str) -> None:
    file = tmp_path / "auth.toml"
    file.write_text(f'[tokens]\nalice = "{written}"\n')
    verifier = load_authentication(file).verifier
    accepted = await verifier.verify_token(TOKEN)
    assert accepted is not None
    assert accepted.client_id == "alice"
    assert await verifier.verify_token(written + "x") is None


@pytest.mark.spec("DEL-6")
@pytest.mark.parametrize("rest", [f'[tokens]\nalice = "{TOKEN}"\n', f'{OAUTH}jwks = "https://login.example/keys"\n'])
def test_operators_are_those_that_the_file_names(tmp_path: Path, rest: str) -> None:
    file = tmp_path / "auth.toml"
    file.write_text(f'operators = ["alice"]\n{rest}')
    assert load_authentication(file).operators == {"alice"}


@pytest.mark.spec("SAF-7")
@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", r"give \[tokens\] or \[oauth\]\."),
        ("[tokens", "it is not valid TOML"),
        ('[tokens]\nalice = "short"', r"tokens\.alice: .* at least 16 characters"),
        ('[tokens]\nalice = "${MISSING_TOKEN}"', "environment variable MISSING_TOKEN is not set"),
        (f'[tokens]\nalice = "{TOKEN}"\n{OAUTH}jwks = "https://login.example"', r"give \[tokens\] or \[oauth\]\."),
        ('[tokens]\nalice = "sha256:5c9ca8aa5d"', "'alice' has no SHA-256 digest"),
        (f'[tokens]\nalice = "{TOKEN}"\nbob = "{TOKEN}"', "'alice' and 'bob' have the same token"),
        ("[token]\n", "token: is not known here; remove it, or use one of operators, tokens, oauth"),
        (f'operators = ["bob"]\n[tokens]\nalice = "{TOKEN}"', "operators names 'bob', who has no token"),
        (f'{OAUTH}scope = ["read"]', r"oauth\.scope: is not known here; .* issuer, resource, scopes"),
        (OAUTH, "oauth: give jwks, for signed tokens, or introspection"),
        (OAUTH + 'jwks = "no URL"', r"oauth\.jwks: .* valid URL"),
        (
            OAUTH + 'introspection = "https://login.example/ask"\nclient_id = "x"',
            "client_id and client_secret go together",
        ),
    ],
)
def test_a_fault_is_named_with_the_file(shop: Path, text: str, fault: str) -> None:
    (shop / "auth.toml").write_text(text)
    result = invoke("serve", "shop:tools", "--http", "--port", "0", "--auth", "auth.toml")
    assert result.exit_code == 1
    assert result.stderr.startswith("toolfold: auth.toml")
    assert result.stderr.count("\n") == 1
    assert not result.stderr.endswith("..\n")
    assert re.search(fault, result.stderr)
