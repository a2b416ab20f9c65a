"""The adapter for the working group's checks of deterministic groups, whose rules `tests/adapters/mcp` has as tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.external.support import FOLDER, PATIENCE, ROOT

ADAPTER = FOLDER / "contract" / "adapter.mjs"
CHECKOUT = os.environ.get("TESTS_DISCLOSURE_SOURCE", "")
"""A checkout of modelcontextprotocol/progressive-disclosure-wg."""
RUNNER = f"{CHECKOUT}/experiments/deterministic-groups/conformance/run.mjs"

USE = """
const { createAdapter, serialize } = await import(process.argv[1]);
const adapter = await createAdapter({ fixture: { groups: { one: "One" }, tools: [] }, allowed: [] });
const answer = await adapter.request({ jsonrpc: "2.0", id: 1, method: "tools/describe", params: { names: [] } });
await adapter.close();
console.log(JSON.stringify({ answer, text: await serialize({ b: 1, a: 1e21 }) }));
"""

pytestmark = pytest.mark.spec("DEL-5")


def node(*arguments: str) -> Any:
    """Return what a program of Node prints, which must succeed."""
    env = {**os.environ, "TOOLFOLD_PYTHON": sys.executable}
    ran = subprocess.run(
        ["node", *arguments], cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True, timeout=PATIENCE, check=False
    )
    assert ran.returncode == 0, ran.stdout
    return json.loads(ran.stdout)


def test_the_adapter_answers_as_its_process_does() -> None:
    said = node("--input-type=module", "--eval", USE, ADAPTER.as_uri())
    error = {"code": -32602, "message": "Invalid params", "data": {"reason": "empty"}}
    assert said == {"answer": {"jsonrpc": "2.0", "id": 1, "error": error}, "text": '{"a":1e+21,"b":1}'}


@pytest.mark.skipif(not CHECKOUT, reason="set TESTS_DISCLOSURE_SOURCE to a checkout")
def test_the_working_groups_checks_and_vectors_pass() -> None:
    report = node(RUNNER, str(ADAPTER))
    assert report["contractVersion"] == 1
    assert [result["status"] for result in report["results"]] == ["passed"] * (12 + 4)
