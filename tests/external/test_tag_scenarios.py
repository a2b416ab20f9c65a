"""Scenarios of ours for the official conformance suite, run by its runner: we pass, and each fault is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.external.conformance import desks
from tests.external.conformance.desks import Desk, on_a_port
from tests.external.support import FOLDER, over_http, run
from tests.external.test_conformance import SUITE, node, saved
from toolfold_adapters.mcp.extensions.tags import Choice

__all__ = ["node"]

pytestmark = pytest.mark.spec("NXT-1")

REGISTER = (FOLDER / "conformance" / "register.mjs").as_uri()
TOOLS = "tests.external.conformance.tagged:make_tools"
EVERY = ("lists", "hints", "stale", "honor", "open")
SKIPPED_UNLESS_REJECTED = {"definition-tags-rejected-without-effect", "definition-tags-rejected-first"}


async def scenario(node: str, name: str, url: str, results: Path) -> tuple[int, str, dict[str, dict[str, Any]]]:
    """Run one; return the status of the runner, what it printed, and the checks by id."""
    options = [
        "--url",
        url,
        "--scenario",
        f"definition-tags-{name}",
        "--spec-version",
        "2026-07-28",
        "-o",
        str(results),
    ]
    status, printed = await run(node, "--import", REGISTER, SUITE, "server", *options)
    (checks,) = saved(results).values()
    return status, printed, {check["id"]: check for check in checks}


@pytest.mark.parametrize(
    ("choice", "name"), [*(("honour", name) for name in EVERY), ("reject", "stale"), ("reject", "open")]
)
async def test_our_server_passes(node: str, choice: Choice, name: str, tmp_path: Path) -> None:
    async with over_http(TOOLS, "--draft", f"tags={choice}") as url:
        status, _, checks = await scenario(node, name, url, tmp_path)
    skipped = SKIPPED_UNLESS_REJECTED & checks.keys() if choice == "honour" else set[str]()
    assert {each: check["status"] for each, check in checks.items()} == {
        each: "SKIPPED" if each in skipped else "SUCCESS" for each in checks
    }
    assert status == 0


@pytest.mark.parametrize(
    ("desk", "name"), [(desks.Ignores, "stale"), (desks.Rejects, "stale"), (Desk, "open"), (desks.Honours, "honor")]
)
async def test_a_server_whose_tags_are_not_ours_passes(node: str, desk: type[Desk], name: str, tmp_path: Path) -> None:
    async with on_a_port(desk()) as url:
        status, _, checks = await scenario(node, name, url, tmp_path)
    assert {check["status"] for check in checks.values()} <= {"SUCCESS", "SKIPPED"}
    assert status == 0


WRONG: list[tuple[type[Desk], str, str, str]] = [
    (desks.NumbersPrompts, "lists", "are-strings", "prompts/list has the tag 7"),
    (desks.SameForAll, "lists", "change-with-definitions", "two lists have the tag tools/list: of "),
    (desks.OtherEachTime, "lists", "deterministic", "the same list had the tags "),
    (desks.TagsPages, "lists", "of-the-collection", "the pages of tools/list have the tags "),
    (desks.SharesPages, "lists", "hints-of-the-collection", 'cacheScope is ["private","public"]'),
    (desks.StaysStale, "hints", "current", "a call with the present tags was answered with "),
    (desks.RejectsNumbers, "hints", "malformed", '{"tools/list":7} got error -31001'),
    (desks.RejectsForPrompts, "hints", "irrelevant", "a call with another tag of prompts/list was answered with error"),
    (desks.NamesByTag, "stale", "stale-named", 'staleTags {"tools/list":"its tag"}'),
    (desks.CallsFirst, "stale", "rejected-without-effect", "count ran although the call was rejected"),
    (desks.LooksForTools, "stale", "rejected-first", "a tool that does not exist was answered with error -32602"),
    (desks.CallsWhatIsGone, "honor", "honored-tag-decides", "under the present tag was answered with a result with"),
    (desks.HoldsNothing, "honor", "honored", "under the tag of the list that has it was answered with error -32602"),
    (desks.SaysNothing, "honor", "honored-signaled", "a call under an older tag has staleTags absent"),
    (desks.TakesAnyTag, "honor", "honored-unknown-rejected", "a call under an unknown tag was answered with a result"),
    (desks.OpensSilently, "open", "open-signaled", "the result of test_definition_tags_change has staleTags absent"),
    (desks.StaleUnderHandles, "open", "open-called", 'with the text "added", staleTags ["tools/list"]'),
]
ADVICE = {"rejected-first", "honored-signaled"}
"""What the draft says with SHOULD, of which the runner warns."""


@pytest.mark.parametrize(("desk", "name", "check", "says"), WRONG, ids=[desk.__name__ for desk, *_ in WRONG])
async def test_what_is_wrong_is_found(
    node: str, desk: type[Desk], name: str, check: str, says: str, tmp_path: Path
) -> None:
    async with on_a_port(desk()) as url:
        status, printed, checks = await scenario(node, name, url, tmp_path)
    found = checks[f"definition-tags-{check}"]
    assert found["status"] == ("WARNING" if check in ADVICE else "FAILURE")
    assert says in found["errorMessage"]
    assert (status == 1) == (check not in ADVICE) == (f"Error: {found['errorMessage']}" in printed)
