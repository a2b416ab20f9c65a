"""SPEC HOOK-1: what a hook is handed follows from its parameters; what is no hook is refused by name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from toolfold import HookContext, InvalidDefinition, ToolSet, group
from toolfold import HookContext as Renamed

GIVEN: list[Any] = []


def take(*given: Any) -> None:
    GIVEN.append(tuple("context" if isinstance(one, HookContext) else one for one in given))


def nothing() -> None:
    take()


def context_only(context: HookContext) -> None:
    take(context)


def unannotated(anything):  # type: ignore[no-untyped-def]
    take(anything)


def defaulted(number: int = 5) -> None:
    take(number)


def annotated_default(context: HookContext | None = None) -> None:
    take(context)


def annotated_later(number: int = 5, context: HookContext | None = None) -> None:
    take(number, context)


def annotated_keyword(*, number: int = 5, context: Renamed) -> None:
    take(number, context)


def unreadable(number: Missing = 5, context: HookContext | None = None) -> None:  # type: ignore[name-defined]  # noqa: F821
    take(number, context)


def any_number(*given: Any) -> None:
    take(*given)


async def waiting(number: int = 5, *, context: HookContext) -> None:
    take(number, context)


class Callable_:
    def __call__(self, context: HookContext, number: int = 5) -> None:
        take(context, number)


FORMS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (nothing, ()),
    (context_only, ("context",)),
    (unannotated, ("context",)),
    (lambda number=5: take(number), (5,)),
    (lambda context, number=5: take(context, number), ("context", 5)),
    (defaulted, (5,)),
    (annotated_default, ("context",)),
    (annotated_later, (5, "context")),
    (annotated_keyword, (5, "context")),
    (unreadable, (5, "context")),
    (any_number, ("context",)),
    (waiting, (5, "context")),
    (Callable_(), ("context", 5)),
    (functools.partial(take, 1), (1, "context")),
    (functools.partial(annotated_later, 7), (7, "context")),
]


@pytest.mark.spec("HOOK-1", "KIT-8")
@pytest.mark.parametrize(("hook", "given"), FORMS, ids=[str(number) for number in range(len(FORMS))])
async def test_the_context_is_passed_where_it_is_annotated_or_required_and_no_default_is_replaced(
    hook: Callable[..., Any], given: tuple[Any, ...]
) -> None:
    GIVEN.clear()
    tools = ToolSet("t")
    tools.register_group("g", on_activate=hook, on_deactivate=hook)
    await tools.activate_group("g")
    await tools.deactivate_group("g")
    assert [given, given] == GIVEN


def connect(host: str, port: int) -> None: ...


@pytest.mark.spec("HOOK-1", "REG-1", "ERR-2")
@pytest.mark.parametrize("which", ["on_activate", "on_deactivate", "on_rollback"])
@pytest.mark.parametrize(
    ("hook", "problem"),
    [
        (connect, "{which}, connect, needs (host, port), and a hook is given nothing, or its HookContext"),
        (5, "{which} is 5, which can't be called"),
        ("connect", "{which} is 'connect', which can't be called"),
    ],
)
def test_what_is_no_hook_is_refused_naming_group_hook_and_function(which: str, hook: Any, problem: str) -> None:
    tools = ToolSet("t")
    with pytest.raises(InvalidDefinition) as refused:
        tools.register_group("database", **{which: hook})
    assert str(refused.value) == f"'database' can't be registered: its {problem.format(which=which)}."
    assert not tools.catalog.groups


@pytest.mark.spec("HOOK-1", "KIT-7", "ERR-2")
def test_a_method_that_is_no_hook_is_refused_naming_group_hook_and_function() -> None:
    @group(on_activate="connect")
    class Database:
        def connect(self, host: str, port: int) -> None: ...

    tools = ToolSet("t")
    with pytest.raises(InvalidDefinition, match=r"'database'.* its on_activate, connect, needs \(host, port\)"):
        tools.include(Database())
    assert not tools.catalog.groups


@pytest.mark.spec("HOOK-1", "ERR-2")
def test_a_hook_that_was_called_instead_of_given_is_refused_with_what_to_write() -> None:
    async def connect() -> None: ...

    hook: Any = connect()
    with pytest.raises(InvalidDefinition, match=r"what a call of connect\(\) returned: .* on_activate=connect\."):
        ToolSet("t").register_group("g", on_activate=hook)
