"""Whether a concurrent history is linearizable: the search of Wing and Gong, with a memory of where it has been."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from math import inf
from typing import Any, TypeVar

S = TypeVar("S", bound=Hashable)


@dataclass(frozen=True)
class Operation:
    """One request, stamped from one counter when it was made and when its answer came (None: it never came)."""

    client: Hashable
    call: int
    ret: int | None
    request: Any
    answer: Any


def witness(
    initial: S, apply: Callable[[S, Any], tuple[S, Any]], history: Iterable[Operation]
) -> tuple[Operation, ...] | None:
    """An order in which the operations, one after another, give the answers they gave; None when there is none.

    Operations whose answer never came may be in it or not.
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
            if operation.call > earliest_return:  # it began after an operation had ended that is not in the order yet
                break
            after, answer = apply(state, operation.request)
            if operation.ret is not None:
                earliest_return = min(earliest_return, operation.ret)
                if answer != operation.answer:
                    continue
            place = (done | 1 << bit, after)
            if place not in seen:
                seen.add(place)
                following.append((*place, (*order, bit)))
        stack.extend(reversed(following))
    return None


def linearizable(initial: S, apply: Callable[[S, Any], tuple[S, Any]], history: Iterable[Operation]) -> bool:
    """Whether the operations can have taken effect one at a time, each between its call and its return."""
    return witness(initial, apply, history) is not None
