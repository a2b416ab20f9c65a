"""The files of `deploy/callers` fit one another, and what the page says of them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from toolfold_cli.serve import serve_command

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy/callers"
PAGE = (ROOT / "docs/how-to/people.md").read_text(encoding="utf-8")
COMPOSE = (FOLDER / "compose.yaml").read_text(encoding="utf-8")
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(COMPOSE)["services"]
USES = {"gateway.toml": "serve", "auth.toml": "serve", "realm.json": "issuer", "Caddyfile": "proxy"}


def test_what_has_to_be_set_is_what_the_page_sets() -> None:
    (written,) = re.findall(r"^cat > \.env <<END\n(.*?)^END$", PAGE, re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"\$\{(\w+):\?", COMPOSE)) == set(re.findall(r"^(\w+)=", written, re.MULTILINE))


@pytest.mark.parametrize("name", USES)
def test_a_file_is_mounted_where_its_variables_are(name: str) -> None:
    service = SERVICES[USES[name]]
    assert any(volume.startswith(f"./{name}:") for volume in service["volumes"])
    named = set(re.findall(r"\{\$?(\w+)\}", (FOLDER / name).read_text(encoding="utf-8")))
    assert named <= service["environment"].keys()
    assert named


def test_settings_of_the_gateway_are_options_that_it_has() -> None:
    keys = {"handle_key", "credentials_key"}
    settings = {
        name.removeprefix("TOOLFOLD_").lower() for name in SERVICES["serve"]["environment"] if "TOOLFOLD" in name
    }
    assert settings - keys <= {option.name for option in serve_command.params}


def test_the_realm_signs_for_the_gateway_and_has_its_client_come_back_to_it() -> None:
    realm = json.loads((FOLDER / "realm.json").read_text(encoding="utf-8"))
    (scope,) = realm["clientScopes"]
    audiences = [mapper["config"].get("included.custom.audience") for mapper in scope["protocolMappers"]]
    assert "${TOOLS_URL}/mcp" in audiences
    (client,) = realm["clients"]
    assert client["redirectUris"] == ["${TOOLS_URL}/login/person"]
    assert realm["defaultDefaultClientScopes"] == [scope["name"]]
