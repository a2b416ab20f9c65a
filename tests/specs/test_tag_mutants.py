"""The kit takes each of the four choices of a server with definition tags, and catches what is wrong with one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import count
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.specs.test_wire_mutants import ENOUGH, violated
from toolfold_adapters.mcp.extensions.tags import Choice, definition_tags
from toolfold_specs.checks import run_checks
from toolfold_specs.drivers.fixture import FixtureDriver
from toolfold_specs.drivers.link import Link
from toolfold_specs.kit import check
from toolfold_specs.layers.tags import CHECKS, CLAUSE, KEYS
from toolfold_specs.report import Report, Status, Verdict
from verification.library import server as fixture_server
from verification.mutants.server import Fixture
from verification.mutants.tags import Honouring, Ignoring, NeverOfOpening, Rejecting, Tagging
from verification.verdicts import over_mcp

pytestmark = pytest.mark.spec("NXT-1", "CNF-5")

LISTS = [*KEYS]


def checked(server: type[Fixture]) -> Report:
    return check(partial(over_mcp, server, "modern"), checks=CHECKS, budget=ENOUGH)


def verdict(report: Report) -> Verdict:
    (row,) = (row for row in report.rows if row.clause.id == CLAUSE)
    return row.verdict


@pytest.mark.parametrize("server", [Ignoring, Honouring, Tagging, Rejecting])
def test_each_choice_is_right(server: type[Tagging]) -> None:
    report = checked(server)
    assert (violated(report), verdict(report)) == (set(), Verdict.HELD)


@pytest.mark.parametrize("choice", ["ignore", "honour", "signal", "reject"])
def test_our_server_is_right_in_each_choice(choice: Choice) -> None:
    server = fixture_server.Fixture(call_tool=True, extend=definition_tags(choice)).server
    results = run_checks(CHECKS, lambda: FixtureDriver(Link(server, "modern")))
    assert [violation for result in results for violation in result.violations] == []
    assert {result.check for result in results if result.status is Status.PASSED} == {one.name for one in CHECKS}


def test_a_server_without_tags_is_not_judged() -> None:
    report = checked(Fixture)
    assert (violated(report), verdict(report)) == (set(), Verdict.NOT_APPLICABLE)


class OfPages(Tagging):
    async def tag(self, ctx: Any, method: str, plain: Any, page: Any = None) -> str:
        given = page or await plain(ctx)
        return (
            self.digest(method, given.get("tools"))
            if method == "tools/list"
            else await super().tag(ctx, method, plain, page)
        )


class Numbered(Tagging):
    def __init__(self) -> None:
        super().__init__()
        self.numbers = count()

    def digest(self, method: str, content: Any) -> str:
        return str(next(self.numbers))


class Constant(Tagging):
    def digest(self, method: str, content: Any) -> str:
        return method


class Empty(Tagging):
    def digest(self, method: str, content: Any) -> str:
        return ""


class NamesAll(Tagging):
    def signalled(self, answer: dict[str, Any], stale: list[str]) -> dict[str, Any]:
        return super().signalled(answer, LISTS if stale else [])


class FailsWithoutNames(Rejecting):
    def reject(self, stale: list[str]) -> None:
        raise MCPError(-31001, "List again.")


class ForgetsHandles(Tagging):
    async def stale(self, ctx: Any, known: Mapping[str, str], plain: Any) -> list[str]:
        now = {"tools/list": self.first} if hasattr(self, "first") else {}
        found = await super().stale(ctx, known, plain)
        return [
            *found,
            *(
                method
                for method, tag in now.items()
                if method in known and known[method] != tag and method not in found
            ),
        ]

    async def tag(self, ctx: Any, method: str, plain: Any, page: Any = None) -> str:
        tag = await super().tag(ctx, method, plain, page)
        if method == "tools/list" and not hasattr(self, "first"):
            self.first = tag
        return tag


class LooksFirst(Rejecting):
    async def answered(self, ctx: Any, plain: Any) -> dict[str, Any]:
        if ctx.method == "tools/call":
            await plain(ctx)
        return await super().answered(ctx, plain)


class TakesNumbers(Rejecting):
    def known(self, ctx: Any) -> dict[str, Any]:
        given = (ctx.meta or {}).get("io.modelcontextprotocol/knownTags")
        return {key: one for key, one in given.items() if key in KEYS} if isinstance(given, dict) else {}


class TakesMethods(Rejecting):
    def known(self, ctx: Any) -> dict[str, Any]:
        given = (ctx.meta or {}).get("io.modelcontextprotocol/knownTags")
        unknown = {"tools/list": "x"} if isinstance(given, dict) and "no/such" in given else {}
        return {**super().known(ctx), **unknown}


WRONG = [
    OfPages, Numbered, Constant, Empty, NamesAll, FailsWithoutNames, NeverOfOpening, ForgetsHandles, LooksFirst,
    TakesNumbers, TakesMethods,
]  # fmt: skip


@pytest.mark.parametrize("server", WRONG)
def test_what_is_wrong_with_tags_is_caught(server: type[Tagging]) -> None:
    assert violated(checked(server)) == {CLAUSE}


def of(method: str, wrong: str) -> type[Tagging]:
    """Return a server that is wrong about one list, in one of the choices."""

    class StaysStale(Tagging):
        """It calls the present list stale."""

        async def stale(self, ctx: Any, known: Mapping[str, str], plain: Any) -> list[str]:
            return [*{*await super().stale(ctx, known, plain), *({method} & known.keys())}]

    class NamesIt(Tagging):
        """It names the list whichever is stale."""

        def signalled(self, answer: dict[str, Any], stale: list[str]) -> dict[str, Any]:
            return super().signalled(answer, [*stale, method] if stale else [])

    class RejectsAll(Rejecting):
        """It rejects calls that do not depend on it, or those that do without its name."""

        def relevant(self, called: str, stale: list[str]) -> list[str]:
            return [method] if method in stale else super().relevant(called, stale)

        def reject(self, stale: list[str]) -> None:
            raise MCPError(-31001, "List again.", {"staleTags": ["skills/list"] if method in stale else stale})

    class Breaks(Tagging):
        """It fails a call whose client knows another list, and says nothing of that."""

        def signalled(self, answer: dict[str, Any], stale: list[str]) -> dict[str, Any]:
            if method in stale:
                raise MCPError(-32602, "Unknown")
            return answer

    return {"honour": StaysStale, "signal": NamesIt, "reject": RejectsAll, "ignore": Breaks}[wrong]


@pytest.mark.parametrize("method", LISTS)
@pytest.mark.parametrize("choice", ["ignore", "honour", "signal", "reject"])
def test_what_is_wrong_with_a_choice_is_caught_of_each_list(choice: str, method: str) -> None:
    report = checked(of(method, choice))
    assert violated(report) == {CLAUSE}
    failed = {result.check for result in report.results if result.violations}
    assert f"a client's tag of {method} is answered" in failed
