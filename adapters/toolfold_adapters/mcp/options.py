"""The options of `build_server` where they are passed on: by `serve` and `http_app`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypedDict

from toolfold import Profile, Store

from .answers import AnswerForm
from .deliveries import Delivery
from .handles import Handles, Stale
from .server import Extend


class ServerOptions(TypedDict, total=False):
    """All options of `build_server` but `limits`; they are described there."""

    delivery: Delivery
    separator: str
    max_name_length: int
    profile: str | Profile | None
    active: Iterable[str]
    selection: bool
    disclosure: bool
    instructions: str | None
    version: str
    call_tool: str
    legacy_call_tool: bool
    read_tool: bool
    handle_key: str | bytes | Sequence[str | bytes] | None
    handle_lifetime: float
    stale_handles: Stale
    handles: Handles
    answers: AnswerForm
    answer_tokens: int | Callable[[], int]
    extend: Extend | None
    store: Store | None
