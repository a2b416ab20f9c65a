"""SPEC EXP-1: everything has one reason, which agrees with list and call in every state of every small system."""

from __future__ import annotations

from functools import partial

import pytest

from tests.core.support import FAMILIES, answer, snapshot_of, tool_set, with_groups
from toolfold import (
    Mode,
    Modes,
    Profile,
    Reason,
    Session,
    Snapshot,
    ToolNotFound,
    ToolSet,
    TransitionRequest,
    View,
    Visibility,
    explain,
)
from toolfold_specs.reference import System
from verification.systems import reachable


def is_unlocked(view: View) -> bool:
    return bool(view.state == "unlocked")


LINE = is_unlocked.__code__.co_firstlineno


def fail(view: View) -> bool:
    raise RuntimeError("no state")


def is_locked(state: str, view: View) -> bool:
    return bool(view.state != state)


CALLABLE = {"listed", "hidden"}


def with_rules(system: System) -> ToolSet:
    """Return a system with tools under rules of every form."""
    tools, paths = tool_set(system), system.paths()
    first, last = map(Visibility.group, (paths[0], paths[-1]))
    no, fails = Visibility.when(lambda view: False), Visibility.when(lambda view: 1 / 0 > 0)
    for name, rule in {
        "root": Visibility.always(),
        "never": ~Visibility.always(),
        "no": no,
        "fails": ~fails | first,
        "without": ~first,
        "both": first & last,
        "either": first | last,
        "neither": ~(first | last),
        "not_both": ~(first & last),
        "predicate": first & no,
        "fact": last | Visibility.when(lambda view: "unlocked" in view.facts),
    }.items():
        tools.register(name, answer, visibility=rule)
        tools.register(f"hidden_{name}", answer, visibility=rule, hidden=True)
    return tools


async def can_call(session: Session, name: str) -> bool:
    """Return whether a session calls a tool if it is asked to."""
    try:
        return not (await session.call(name)).is_error
    except ToolNotFound:
        return False


@pytest.mark.spec("EXP-1", "VIS-7")
@pytest.mark.parametrize("family", ["pairs-1", "pairs-2", "pairs-3"])
async def test_a_reason_agrees_with_the_list_and_the_call_in_every_state_of_every_small_system(family: str) -> None:
    for system in FAMILIES[family]:
        tools = with_rules(system)
        for state in reachable(system):
            active = [system.paths()[group] for group in system.canonical(state)]
            async with tools.open_session(active=active) as session:
                reasons = {name: explain(session.snapshot, name) for name in [*tools.catalog.tools, "unknown"]}
                assert {name for name, why in reasons.items() if why.is_listed} == {*session.list_tools().names}
                for name, why in reasons.items():
                    assert why.is_callable == await can_call(session, name), (system, active, why)
                    assert (why.why in CALLABLE) is why.is_callable
                    assert why.text.endswith((".", "?"))


@pytest.mark.spec("EXP-1")
@pytest.mark.parametrize("family", ["pairs-1", "pairs-2", "pairs-3", "wide-3"])
def test_what_would_change_it_does(family: str) -> None:
    for system in FAMILIES[family]:
        tools, paths = tool_set(system), system.paths()
        for state in reachable(system):
            snapshot = snapshot_of(tools.catalog, [paths[group] for group in system.canonical(state)])
            for path in paths:
                why = explain(snapshot, f"{path}.t")
                assert not [one for one in why.excluding if not snapshot.is_active(one)]
                assert opened_by_and_by(snapshot, f"{path}.t").why == "listed"


def opened_by_and_by(snapshot: Snapshot, name: str) -> Reason:
    """Return the reason of a tool after opening what each reason says has to open first."""
    why = explain(snapshot, name)
    for _ in range(len(snapshot.catalog.groups)):
        if why.group is None:
            break
        snapshot = snapshot.after(TransitionRequest(activate=[why.group]))
        why = explain(snapshot, name)
    return why


@pytest.mark.spec("EXP-1")
@pytest.mark.parametrize(
    ("active", "name", "why", "text"),
    [
        (("a",), "a.t", "listed", "It is listed and can be called."),
        ((), "secret", "hidden", "It can be called, but it is hidden: no list has it."),
        (("a",), "a.b.t", "group", "It needs the group a.b, which is closed: call a.b.activate first."),
        ((), "a.b.t", "ancestor", "It needs the group a.b, which is closed as long as a is: call a.activate first."),
        (
            ("c",),
            "a.t",
            "excluded",
            "It needs the group a, which can't be open while c is open: call a.activate first, which closes c.",
        ),
        (("a",), "calm", "excluded", "It is not there while a is open."),
        (("a", "a.b"), "calm", "excluded", "It is not there while a and a.b are open."),
        ((), "unlocked", "predicate", f"Its predicate is_unlocked ({__file__}:{LINE}) does not hold now."),
        ((), "locked", "listed", "It is listed and can be called."),
        ((), "never", "predicate", "Its rule does not hold now."),
        (
            (),
            "a.unlocked",
            "group",
            "It needs the group a, which is closed: call a.activate first. "
            f"Its predicate is_unlocked ({__file__}:{LINE}) does not hold now.",
        ),
        (("a",), "a.unlocked", "predicate", f"Its predicate is_unlocked ({__file__}:{LINE}) does not hold now."),
        (
            (),
            "neither",
            "predicate",
            f"Its predicate is_unlocked ({__file__}:{LINE}) does not hold "
            f"and its predicate fail ({__file__}:{LINE + 7}) fails now.",
        ),
        ((), "not", "predicate", f"Its predicate is_locked ({__file__}:{LINE + 11}) holds, which rules it out now."),
        ((), "moded", "predicate", "None of its modes is available now."),
        (
            ("a", "a.b"),
            "d.t",
            "quota",
            "It needs the group d, which is closed. The limit of 2 open groups is reached: close a group before "
            "you open 'd'.",
        ),
        ((), "coded.t", "group", "It needs the group coded, which is closed, and no tool opens it now."),
        ((), "t", "unknown", "There is no tool 't'."),
        (("a",), "t", "unknown", "There is no tool 't'; did you mean 'a.t'?"),
        (("a",), "secrets", "unknown", "There is no tool 'secrets'; did you mean 'secret'?"),
    ],
)
def test_each_reason_has_its_sentence(active: tuple[str, ...], name: str, why: str, text: str) -> None:
    tools = with_groups("a", "a.b", "c", "d", max_active=2)
    tools.register_group("coded", controls=False)
    tools.register_exclusion("a", "c")
    for group in ("a", "a.b", "d", "coded"):
        tools.register("t", answer, group=group)
    tools.register("secret", answer, hidden=True)
    a, b = map(Visibility.group, ("a", "a.b"))
    tools.register("calm", answer, visibility=~a & ~b)
    unlocked, locked = Visibility.when(is_unlocked), Visibility.when(partial(is_locked, "unlocked"))
    tools.register("unlocked", answer, visibility=unlocked)
    tools.register("unlocked", answer, group="a", visibility=unlocked)
    tools.register("locked", answer, visibility=locked)
    tools.register("not", answer, visibility=~locked)
    tools.register("neither", answer, visibility=unlocked | Visibility.when(fail))
    tools.register("never", answer, visibility=~Visibility.always())
    tools.register("moded", lambda what: what, modes=Modes("what", {"all": Mode(available=lambda view: False)}))
    reason = explain(snapshot_of(tools.catalog, active), name)
    assert (reason.why, str(reason)) == (why, text)


@pytest.mark.spec("EXP-1")
@pytest.mark.parametrize(
    ("path", "active", "why", "text"),
    [
        ("a", ["a"], "open", "which is open."),
        ("a", [], "group", "which is closed: call a.activate."),
        ("a.b", [], "ancestor", "which is closed as long as a is: call a.activate first."),
        ("a", ["c"], "excluded", "which can't be open while c is open: call a.activate, which closes c."),
        ("d", [], "group", "which is closed, and no tool opens it now."),
    ],
)
def test_a_group_is_explained_by_its_path(path: str, active: list[str], why: str, text: str) -> None:
    tools = with_groups("a", "a.b", "c")
    tools.register_group("d", controls=False)
    tools.register_exclusion("a", "c")
    snapshot = Snapshot.of(tools.catalog).after(TransitionRequest(activate=active))
    assert explain(snapshot, path) == explain(snapshot, path, "tool")
    reason = explain(snapshot, path)
    assert (reason.kind, reason.why, reason.text) == ("group", why, f"It is a group, {text}")
    assert not reason.is_callable


@pytest.mark.spec("EXP-1", "PRO-1", "ERR-2")
async def test_what_a_profile_leaves_out_is_explained_to_operators_and_not_to_callers() -> None:
    tools = with_groups("a", "b", on_hidden="hint")
    tools.register("t", answer, group="a")
    a, b = map(Visibility.group, ("a", "b"))
    tools.register("either", answer, visibility=a | b)
    tools.register("both", answer, visibility=b & a)
    tools.register_profile(Profile(name="narrow", available=("b",)))
    async with tools.open_session("narrow") as session:
        assert explain(session.snapshot, "a.t") == Reason(
            kind="tool", name="a.t", why="profile", text="The profile leaves it out."
        )
        about = {name: explain(session.snapshot, name) for name in ("either", "both")}
        assert (about["both"].why, about["both"].text) == (
            "profile",
            "It needs the group a, which the profile leaves out.",
        )
        assert (about["either"].why, about["either"].group) == ("group", "b")
        with pytest.raises(ToolNotFound) as caught:
            await session.call("a.t")
        assert caught.value.hint is None


@pytest.mark.spec("EXP-1")
def test_a_reason_of_a_resource_is_that_of_the_template_it_is_an_instance_of() -> None:
    tools = with_groups("a")
    tools.register_resource_template("memo://{name}", lambda name: name, group="a")
    at = partial(snapshot_of, tools.catalog)
    assert [explain(at(active), "memo://x", "resource").why for active in ((), ("a",))] == ["group", "listed"]
    assert explain(at(()), "other://x", "resource").text == "There is no resource 'other://x'."


@pytest.mark.spec("EXP-1", "EXP-3")
async def test_a_refusal_is_logged_and_counted_by_the_reason_that_is_explained(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tools = with_groups("a", "a.b")
    tools.register("t", answer, group="a.b")
    tools.register("no", answer, visibility=Visibility.when(lambda view: False))
    usage = tools.count_usage(lambda: 0.0)
    caplog.set_level("INFO", "toolfold")
    async with tools.open_session() as session:
        for name in ("a.b.t", "no", "nowhere"):
            with pytest.raises(ToolNotFound) as caught:
                await session.call(name)
            assert caught.value.hint is None
            why = explain(session.snapshot, name)
            assert usage.refused[why.why] == 1
            assert why.text in caplog.messages[-1]
            assert caplog.messages[-1].startswith(f"session {session.id}: {name} can't be called: ")


@pytest.mark.spec("EXP-1")
def test_what_opening_an_inner_group_closes_is_not_said_of_the_outer_one() -> None:
    tools = ToolSet("shop", control="open_group")
    for path in ("stock", "stock.count", "orders"):
        tools.register_group(path, path)
    tools.register_exclusion("stock.count", "orders")
    tools.register("add", lambda: 1, group="stock.count")
    snapshot = Snapshot.of(tools.catalog).after(TransitionRequest(activate=["orders"]))
    text = explain(snapshot, "stock.count.add").text
    assert text.endswith('call open_group {"group": "stock"} first, and stock.count then closes orders.')
