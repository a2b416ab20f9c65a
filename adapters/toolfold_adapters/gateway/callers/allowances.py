"""What callers may use up in a time: so many calls a minute, so many tokens a day (SPEC GWY-19, SAF-4).

What is used comes back steadily: of 60 calls a minute, one each second. Each process counts by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import define

from toolfold import ToolError, approximate_tokens
from toolfold.spi import Full

from ...mcp.principal import Principal
from ...mcp.request import record_refusal
from ..config.settings import RightsConfig

MINUTE, DAY = 60.0, 24 * 3600.0
MOST = 10_000
"""How many allowances are known; the one that was used longest ago is forgotten."""


@define
class _Allowance:
    left: float
    at: float

    def refill(self, amount: int, seconds: float, now: float) -> None:
        self.left = min(amount, self.left + (now - self.at) * amount / seconds)
        self.at = now


class Allowances:
    """What callers have left.

    Args:
        clock: The time.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._left: dict[tuple[str, str], _Allowance] = {}

    def take(self, principal: Principal, row: RightsConfig) -> None:
        """Count one more call of a caller; raises `ToolError` if its calls or its tokens are used up."""
        if row.tokens_per_day is not None:
            self._need(principal, "tokens a day", row.tokens_per_day, DAY)
        if row.calls_per_minute is not None:
            self._need(principal, "calls a minute", row.calls_per_minute, MINUTE).left -= 1

    def use(self, principal: Principal, row: RightsConfig, answer: Mapping[str, Any]) -> None:
        """Count the tokens of an answer to a caller, which may be more than were left."""
        if row.tokens_per_day is not None:
            self._of(principal, "tokens a day", row.tokens_per_day, DAY).left -= approximate_tokens(answer)

    def _need(self, principal: Principal, what: str, amount: int, seconds: float) -> _Allowance:
        own = self._of(principal, what, amount, seconds)
        if own.left < 1:
            full = Full(what, amount, True, f"principal {principal.key}", (1 - own.left) * seconds / amount)
            record_refusal(full)
            raise ToolError(
                f"Your limit of {amount:,} {what} is reached: try again in {full.retry_after:,} s."
            ) from full
        return own

    def _of(self, principal: Principal, what: str, amount: int, seconds: float) -> _Allowance:
        key, now = (principal.identity, what), self._clock()
        own = self._left.pop(key, None) or _Allowance(amount, now)
        self._left[key] = own  # the one used last
        own.refill(amount, seconds, now)
        if len(self._left) > MOST:
            del self._left[next(iter(self._left))]
        return own
