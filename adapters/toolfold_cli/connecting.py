"""The relay as a command, for a host that waits for its first answer: this imports the standard library alone."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from toolfold_adapters.runtime.place import Misplaced
from toolfold_adapters.runtime.relay import parsed, relay

from . import INTERRUPTED, WAITING


def relayed(arguments: list[str]) -> bool:
    """Be the relay that the arguments of `toolfold connect` ask for, if they do; return whether they did."""
    said = parsed(arguments)
    if said is None:
        return False
    be_relay(said)
    return True


def say_what_is_awaited() -> None:
    """Say to whoever starts this in a terminal that it waits for a client, and how to end it."""
    if sys.stdin is not None and sys.stdin.isatty():
        sys.stderr.write(f"toolfold: {WAITING}\n")
        sys.stderr.flush()


def be_relay(said: Mapping[str, Any]) -> None:
    """Be a relay until its host leaves."""
    say_what_is_awaited()
    try:
        relay(said)
    except Misplaced as error:
        sys.stderr.write(f"toolfold: {error}\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
