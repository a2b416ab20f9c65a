"""What `ToolSet.run` refuses; that it serves is tested in tests/process."""

from __future__ import annotations

from threading import Thread
from typing import Any

import pytest

from toolfold import ConfigError, ToolSet

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"port": 1}, 'port is for HTTP: give transport="http" too'),
    ({"host": "::1", "port": 1}, "host is for HTTP"),
    ({"transport": "sse"}, 'There is no transport \'sse\'; use "stdio" or "http"'),
    ({"profile": "missing"}, "There is no profile 'missing'"),
]


@pytest.mark.spec("ERR-2")
@pytest.mark.parametrize(("options", "problem"), REFUSED, ids=[problem for _, problem in REFUSED])
def test_wrong_settings_are_refused_before_anything_is_served(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        ToolSet("t").run(**options)


@pytest.mark.spec("ERR-2")
async def test_an_event_loop_is_referred_to_the_function_that_can_be_awaited() -> None:
    with pytest.raises(ConfigError, match=r"one is running: call it under if __name__ == .* or await toolfold"):
        ToolSet("t").run()


@pytest.mark.spec("ERR-2")
def test_a_thread_is_referred_to_the_function_that_can_be_awaited() -> None:
    raised: list[BaseException] = []

    def run() -> None:
        try:
            ToolSet("t").run()
        except ConfigError as error:
            raised.append(error)

    thread = Thread(target=run)
    thread.start()
    thread.join()
    assert "only the main thread can; in another, await toolfold_adapters.mcp.serve(tools)" in str(raised[0])
