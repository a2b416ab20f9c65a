"""The parts of visibility: the view's one reading of the state, and what is derived from a rule."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.rules import GROUPS, RULES, Twofold
from toolfold import Component, Mode, Modes, Snapshot, ToolSet, TransitionRequest, View, Visibility
from toolfold._catalog.rules import groups_of, is_static, required_groups
from toolfold._view.visibility import RequestView, holds

A, B, C = (Visibility.group(path) for path in "abc")
WHEN = Visibility.when(lambda view: True)
WHAT = {"type": "object", "properties": {"what": {"type": "string", "enum": ["on", "off"]}}}


def desk() -> ToolSet:
    tools = ToolSet("desk", control="none")
    tools.register_group("a")
    tools.register("t", lambda: "done")
    return tools


def test_without_a_supplier_there_is_no_application_state() -> None:
    assert RequestView(Snapshot.of(desk().catalog)).seen.state is None


@pytest.mark.spec("VIS-3", "MOD-3")
def test_a_reading_that_fails_is_not_repeated_and_raises_the_same_error_each_time() -> None:
    failures: list[OSError] = []

    def read() -> int:
        failures.append(OSError("no database"))
        raise failures[-1]

    view = RequestView(Snapshot.of(desk().catalog), read)
    for one in (view, view, view.of(view.snapshot)):
        with pytest.raises(OSError, match="no database") as caught:
            _ = one.seen.state
        assert caught.value is failures[0]
    assert len(failures) == 1


@pytest.mark.spec("VIS-3", "VIS-4", "MOD-3")
def test_views_of_one_request_share_its_reading_and_its_report_but_not_the_snapshot() -> None:
    readings: list[object] = []

    def read() -> object:
        readings.append(object())
        return readings[-1]

    received: list[tuple[Component, BaseException]] = []
    tools = desk()

    def report(spec: Component, error: BaseException, *_: object) -> None:
        received.append((spec, error))

    before = RequestView(Snapshot.of(tools.catalog), read, report)
    after = before.of(Snapshot.of(tools.catalog).after(TransitionRequest("a")))
    assert (before.seen.active, after.seen.active) == ((), ("a",))
    assert after.seen.state is before.seen.state is readings[0]
    assert len(readings) == 1
    component, error = tools.catalog.tools["t"], RuntimeError("broken")

    def fail() -> bool:
        raise error

    assert after.ask(component, fail, otherwise=True)
    assert received == [(component, error)]


@pytest.mark.spec("MOD-1", "MOD-3")
def test_modes_are_decided_once_for_each_view() -> None:
    asked: list[View] = []

    def there(view: View) -> bool:
        asked.append(view)
        return True

    tools = desk()
    modes = Modes("what", {"on": Mode(available=there), "off": Mode(available=lambda view: False)})
    tools.register("observe", lambda arguments: "done", input_schema=WHAT, modes=modes)
    view = RequestView(Snapshot.of(tools.catalog))
    spec = tools.catalog.tools["observe"]
    assert view.modes_of(spec) == view.modes_of(spec) == ("on",)
    assert asked == [view.seen]
    assert view.modes_of(tools.catalog.tools["t"]) == ()


@pytest.mark.spec("LST-5")
@pytest.mark.parametrize(
    ("rule", "needed", "mentioned"),
    [
        (Visibility.always(), "", ""),
        (WHEN, "", ""),
        (A, "a", "a"),
        (~A, "", "a"),
        (A & B, "ab", "ab"),
        (A & WHEN & C, "ac", "ac"),
        (A | B, "", "ab"),
        (A | WHEN, "", "a"),
        ((A & B) | (B & C), "b", "abc"),
        ((A & B) | ~C, "", "abc"),
        ((A | B) & C, "c", "abc"),
        (A & ~B, "a", "ab"),
        (~(~A | ~B), "ab", "ab"),
        (~~(A & B), "ab", "ab"),
        (~(~A & ~B), "", "ab"),
        (~(~A & (~A | B)), "a", "ab"),
    ],
)
def test_the_groups_that_a_rule_requires_and_mentions(rule: Visibility, needed: str, mentioned: str) -> None:
    assert required_groups(rule) == set(needed)
    assert groups_of(rule) == set(mentioned)


@pytest.mark.spec("LST-5")
@given(rule=RULES, active=st.sets(st.sampled_from(GROUPS)))
def test_no_rule_holds_without_the_groups_that_it_requires(rule: Twofold, active: set[str]) -> None:
    assert required_groups(rule[0]) <= active or not rule[1](active)


@pytest.mark.spec("LST-5")
@pytest.mark.parametrize("rule", [WHEN, ~WHEN, A & WHEN, WHEN | B, ~(A & ~WHEN)])
def test_a_rule_with_a_predicate_anywhere_is_not_static(rule: Visibility) -> None:
    assert not is_static(rule)
    assert is_static(~(A & B | ~C) & Visibility.always())


@pytest.mark.spec("VIS-1")
@pytest.mark.parametrize("rule", [5, None, Visibility()])
def test_what_is_no_rule_can_not_be_evaluated(rule: Any) -> None:
    with pytest.raises(TypeError) as caught:
        holds(rule, RequestView(Snapshot.of(desk().catalog)))
    assert str(caught.value) == f"{rule!r} is not a visibility rule"
