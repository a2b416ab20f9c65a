"""A second look at findings: whether a client that shares no code with the kit is answered in the same way."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import reduce
from typing import Any

from attrs import evolve

from . import children
from .exchange import Exchange, Message, RequestKey
from .render.script import handles_in, script
from .render.trace import brevity
from .report import Result, Violation

PATIENCE = 20.0
"""Seconds that a script may take; a server may need some of them to start."""

NOTICES = frozenset({"NTF-1", "NTF-2", "NTF-3", "NTF-4", "DEL-1"})
"""The clauses about notices. To a finding of another clause one may come later than the kit has looked."""


class Confirming:
    """Has findings of one setting confirmed, one after the other, in a thread of its own: checks can go on meanwhile.

    That is only of servers that are started for it: what another client asks of a running one may change its state.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "confirming")
        self._looks = dict[str, tuple[Violation, Future[Violation]]]()
        """The briefest finding of each clause."""
        self._process: subprocess.Popen[str] | None = None
        self._over = False

    def found(self, result: Result) -> None:
        """Begin with the findings of a check that has ended, if others may follow."""
        self._begin(one for one in result.violations if one.exchange and not isinstance(one.exchange.address, str))

    def confirmed(self, results: Iterable[Result]) -> list[Result]:
        """Return the results; the finding of each clause says whether another client is answered alike."""
        results = list(results)
        if self._over:
            return results
        self._begin(found for result in results for found in result.violations)
        looked_at = {id(violation): look.result() for violation, look in self._looks.values()}
        return [
            evolve(result, violations=tuple(looked_at.get(id(found), found) for found in result.violations))
            for result in results
        ]

    def close(self) -> None:
        """End, early if need be."""
        self._over = True
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._process is not None:
            children.end(self._process, 0)

    def _begin(self, violations: Iterable[Violation]) -> None:
        for violation in () if self._over else violations:
            before, look = self._looks.get(violation.clause, (None, None))
            if before is None or brevity(violation) < brevity(before):
                if look is not None:
                    look.cancel()
                self._looks[violation.clause] = violation, self._pool.submit(self._looked_at, violation)

    def _looked_at(self, violation: Violation) -> Violation:
        """Return a finding with the messages that show it to another client as well: as few as possible."""
        exchange = violation.exchange
        if exchange is None or exchange.overlaps():
            return violation
        tries = (one for one in (exchange.essential(), exchange) if not self._over)
        about_notices = violation.clause in NOTICES
        shown = next((tried for tried in tries if self._is_answered_alike(tried, about_notices)), None)
        found = evolve(exchange, is_confirmed=False) if shown is None else evolve(shown, is_confirmed=True)
        return evolve(violation, exchange=found)

    def _is_answered_alike(self, exchange: Exchange, about_notices: bool) -> bool:
        """Return whether the script's client gets the same answers where they matter, and as many notices if asked."""
        again = evolve(exchange, messages=[*self._said_by(script(exchange))])
        if about_notices and _notices(again) != _notices(exchange):
            return False
        return _answers(again) == _answers(exchange)

    def _said_by(self, program: str) -> Iterator[Message]:
        """Yield the messages that a script prints until it ends, or for as long as it may take."""
        pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        with children.start([sys.executable, "-c", program], encoding="utf-8", **pipes) as process:
            self._process = process
            try:
                printed, _ = process.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:  # perhaps there is a request that nobody is answered
                children.end(process, 0)
                printed, _ = process.communicate()
            finally:
                self._process = None
                children.end(process, 0)
        for line in printed.splitlines():
            client, arrow, text = line.split(" ", 2)
            yield Message(int(client), arrow == "->", json.loads(text))


def _answers(exchange: Exchange) -> Mapping[RequestKey, str]:
    """Return the answers that matter, without the handles in them, which differ each time."""
    texts = {
        one.place: json.dumps(one.content, sort_keys=True)
        for one in exchange.messages
        if not one.is_sent and one.place is not None and one.place in exchange.evidence
    }
    handles = {value for one in exchange.messages for value, _ in handles_in(one.content)}
    return {
        place: reduce(lambda text, value: text.replace(value, "HANDLE"), handles, text) for place, text in texts.items()
    }


def _notices(exchange: Exchange) -> Mapping[Any, int]:
    return Counter(one.content.get("method") for one in exchange.messages if not one.is_sent and one.place is None)
