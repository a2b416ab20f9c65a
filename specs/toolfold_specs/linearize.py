"""Whether a concurrent history is linearizable: the search of Wing and Gong, with memoised configurations."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from math import inf
from typing import Any, TypeVar

S = TypeVar("S", bound=Hashable)


@dataclass(frozen=True)
class Operation:
    """One request, with the times of its call and its return by one counter; `ret` is None if it never returned."""

    client: Hashable
    call: int
    ret: int | None
    request: Any
    answer: Any


def witness(
    initial: S, apply: Callable[[S, Any], tuple[S, Any]], history: Iterable[Operation]
) -> tuple[Operation, ...] | None:
    """Return a sequential order of the operations that explains their answers, or None if there is none.

    Operations that never returned may be in it or not.
    """
    operations = sorted(history, key=lambda operation: operation.call)
    answered = sum(1 << bit for bit, operation in enumerate(operations) if operation.ret is not None)
    seen: set[tuple[int, S]] = {(0, initial)}
    stack: list[tuple[int, S, tuple[int, ...]]] = [(0, initial, ())]
    while stack:
        done, state, order = stack.pop()
        if done & answered == answered:
            return tuple(operations[bit] for bit in order)
        earliest_return: float = inf
        following: list[tuple[int, S, tuple[int, ...]]] = []
        for bit, operation in enumerate(operations):
            if done >> bit & 1:
                continue
            if (
                operation.call > earliest_return
            ):  # it was called after an operation returned that is not in the order yet
                break
            after, answer = apply(state, operation.request)
            if operation.ret is not None:
                earliest_return = min(earliest_return, operation.ret)
                if answer != operation.answer:
                    continue
            configuration = (done | 1 << bit, after)
            if configuration not in seen:
                seen.add(configuration)
                following.append((*configuration, (*order, bit)))
        stack.extend(reversed(following))
    return None


def linearizable(initial: S, apply: Callable[[S, Any], tuple[S, Any]], history: Iterable[Operation]) -> bool:
    """Return whether each operation can have taken effect at one point between its call and its return."""
    return witness(initial, apply, history) is not None
