"""Why something can or can't be seen and called, and what would change that (SPEC EXP-1).

`explain` is the only place that says why; refusals, search and reports put what it returns into words of their own.
What it tells an operator is more than a caller may know: `refusal` says what is left for a caller (SPEC CALL-1, ERR-2).
It uses the caller's own names and names only what the caller can do now: a model that reads of a tool that it does not
have can only guess.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Literal

from attrs import evolve

from .._catalog.components import Component, Kind, words
from .._catalog.rules import Both, Either, GroupActive, Not, Visibility, When, required_groups
from .._limits import MAX_PROBLEMS, enumerated, quoted
from .._names import SEPARATOR, base_name, canonical_key
from .._snapshot import Snapshot
from .._values import frozen
from ..errors import QuotaExceeded, ToolNotFound, similar
from ..machine import TransitionRequest, bits
from .listing import listed
from .search import findable
from .visibility import RequestView, available, holds, is_hidden, is_listed, only_listed

Why = Literal[
    "listed",
    "open",
    "hidden",
    "group",
    "ancestor",
    "excluded",
    "predicate",
    "profile",
    "quota",
    "quarantined",
    "starting",
    "failed",
    "unknown",
]
"""What a reason can be: two for what can be called, the others for what can't."""


@frozen(kw_only=True)
class Reason:
    """The one reason why something can or can't be seen and called in a snapshot.

    SPEC EXP-1.

    Attributes:
        kind: What it is, or was asked for as.
        name: Its name, as it was asked for.
        why: `"listed"` or `"hidden"`: it can be called, and lists have it or leave it out. `"open"`: it is a group that
            is. `"group"`: its group is closed; `"ancestor"`: one that its group is in is; `"excluded"`: a group that is
            open excludes it; `"predicate"`: its rule does not hold; `"profile"`: the profile leaves it out; `"quota"`:
            no more groups may be open; `"quarantined"`: it changed and is not approved; `"starting"` and `"failed"`:
            its server is or has; `"unknown"`: there is no such thing.
        text: What that means, in a sentence for an operator.
        group: The closed group that has to open first, if any.
        excluding: The open groups that exclude it, or that would close for it.
        predicates: The predicates in its rule that keep it away, where each stands and what it does, as clauses; also
            beside a closed group.
        how: What opens that group now, as a clause with the caller's names of tools; `None` if nothing does.
        near: Names that the name may stand for.
    """

    kind: Kind | Literal["group"]
    name: str
    why: Why
    text: str
    group: str | None = None
    excluding: tuple[str, ...] = ()
    predicates: tuple[str, ...] = ()
    how: str | None = None
    near: tuple[str, ...] = ()

    @property
    def is_listed(self) -> bool:
        """Whether lists have it."""
        return self.why == "listed"

    @property
    def is_callable(self) -> bool:
        """Whether it can be called."""
        return self.why in ("listed", "hidden")

    def __str__(self) -> str:
        return self.text


def explain(where: Snapshot | RequestView, name: str, kind: Kind = "tool") -> Reason:
    """Return the one reason why something can or can't be seen and called.

    It is total: what does not exist has a reason too. Show it to operators only; callers may know less.

    SPEC EXP-1.

    Args:
        where: A snapshot; or a session's `view()`, where rules ask for the application state or names differ.
        name: The full name, URI or URI template; or the path of a group.
        kind: What it is the name of.
    """
    view = where if isinstance(where, RequestView) else RequestView(where)
    reason = reason_for(name, kind, view)
    if reason.why != "unknown":
        return reason
    if kind == "tool" and name in view.snapshot.catalog.index:
        return _of_group(name, view)
    catalog = view.snapshot.catalog
    near_in_full = (catalog.spoken(one) for one in similar(name, tuple(catalog.components[kind].by_name)))
    near = tuple(dict.fromkeys([*_of_base_name(kind, name, view), *near_in_full]))
    if not near:
        return reason
    return evolve(reason, text=f"{reason.text.removesuffix('.')}; did you mean {enumerated(near)}?", near=near)


def reason_for(name: str, kind: Kind, view: RequestView) -> Reason:
    """Return the reason of what a name stands for, if anything, without names near it: these take time to find."""
    catalog = view.snapshot.catalog
    found = catalog.components[kind].by_name.get(name)
    components = [*([found] if found else []), *(one for one, _ in catalog.matching(name) if kind == "resource")]
    reasons = [evolve(reason_of(component, view), kind=kind, name=name) for component in components]
    return next((one for one in reasons if one.is_callable), reasons[0] if reasons else _absent(kind, name, view))


def reason_of(component: Component, view: RequestView) -> Reason:
    """Return the reason of something that the view's catalog has; see `explain`."""
    reason = Reason(kind=component.kind, name=component.name, why="listed", text="It is listed and can be called.")
    if available(component, view):
        if not is_hidden(component, view):
            return reason
        return evolve(reason, why="hidden", text="It can be called, but it is hidden: no list has it.")
    failing = [*_failing(component.rule, True, component, view)]
    closed = [one.path for one in failing if isinstance(one, GroupActive) and not view.snapshot.is_active(one.path)]
    reason = evolve(reason, predicates=_of_predicates(failing, component, view))
    about = " and ".join(f"its predicate {one}" for one in reason.predicates)
    about = f"{about[:1].upper()}{about[1:]} now." if about else ""
    if closed:
        needed = required_groups(component.rule).intersection(closed)
        possible = [path for path in closed if path in view.snapshot.catalog.index]
        why = _closed(reason, sorted(needed or possible or closed, key=canonical_key), view)
        return evolve(why, text=f"{why.text} {about}") if about else why
    if excluding := tuple(sorted({one.path for one in failing if isinstance(one, GroupActive)}, key=canonical_key)):
        text = f"It is not there while {_open(excluding)}."
        return evolve(reason, why="excluded", text=text, excluding=excluding)
    what = "Its rule does not hold now." if failing else "None of its modes is available now."
    return evolve(reason, why="predicate", text=about or what)


def _failing(rule: Visibility, wanted: bool, component: Component, view: RequestView) -> Iterator[Visibility]:
    """Yield the groups and predicates in a component's rule that keep the rule from being `wanted`."""
    if view.ask(component, lambda: holds(rule, view), otherwise=None) is wanted:
        return
    match rule:
        case Not(inner):
            yield from _failing(inner, not wanted, component, view)
        case Both(left, right) | Either(left, right):
            yield from _failing(left, wanted, component, view)
            yield from _failing(right, wanted, component, view)
        case _:
            yield rule


def _of_predicates(failing: Iterable[Visibility], component: Component, view: RequestView) -> tuple[str, ...]:
    """Return a clause for each predicate among what keeps a rule from holding: its name, where it stands, and why."""
    said: list[str] = []
    for rule in failing:
        if isinstance(rule, When):
            answer = view.ask(component, partial(holds, rule, view), otherwise=None)
            what = "fails" if answer is None else "holds, which rules it out" if answer else "does not hold"
            said.append(f"{_place_of(rule.predicate)} {what}")
    return tuple(dict.fromkeys(said))


def _place_of(predicate: Callable[..., Any]) -> str:
    """Return the name of a predicate with the file and the line that it stands at, as far as they are known."""
    function: Any = predicate
    while isinstance(function, partial):
        function = function.func
    name = getattr(function, "__qualname__", type(function).__qualname__).rpartition("<locals>.")[2]
    code = getattr(function, "__code__", getattr(type(function).__call__, "__code__", None))
    return name if code is None else f"{name} ({code.co_filename}:{code.co_firstlineno})"


def _of_group(path: str, view: RequestView) -> Reason:
    """Return whether a group is open, or else what keeps it closed and what opens it."""
    reason = Reason(kind="group", name=path, why="open", text="It is a group, which is open.")
    if view.snapshot.is_active(path):
        return reason
    closed = _closed(reason, [path], view)
    text = closed.text.replace(f"It needs the group {path}", "It is a group", 1)
    return evolve(closed, text=text.replace(" first", "", 1) if closed.group == path else text)


def _closed(reason: Reason, paths: Sequence[str], view: RequestView) -> Reason:
    """Return why something is not there whose rule needs groups that are closed, of which the first opens first."""
    catalog, active = view.snapshot.catalog, view.snapshot.configuration.active
    for path in paths:
        if path not in catalog.index:
            return evolve(reason, why="profile", text=f"It needs the group {path}, which the profile leaves out.")
    forest, number = catalog.forest, catalog.index[paths[0]]
    missing = forest.ancestors[number] & ~active | 1 << number
    first, displaced = forest.paths[bits(missing)[0]], 0
    for one in bits(missing):
        displaced |= forest.displaces[one] & active
    is_tool = reason.kind == "tool" and reason.name in catalog.tools
    excluding, how = forest.named(displaced), opener(first, view, reason.name if is_tool else None)
    if how and excluding:
        now = forest.displaces[catalog.index[first]] & active == displaced
        how += f", {'which' if now else f'and {paths[0]} then'} closes {', '.join(excluding)}"
    reason = evolve(reason, group=first, excluding=excluding, how=how)
    about = f"It needs the group {paths[0]}, which is closed"
    if excluding:
        text = f"It needs the group {paths[0]}, which can't be open while {_open(excluding)}{_then(how)}."
        return evolve(reason, why="excluded", text=text)
    try:
        view.snapshot.after(TransitionRequest(activate=forest.named(missing)))
    except QuotaExceeded as error:
        return evolve(reason, why="quota", text=f"{about}. {error}")
    if first != paths[0]:
        return evolve(reason, why="ancestor", text=f"{about} as long as {first} is{_then(how)}.")
    return evolve(reason, why="group", text=f"{about}{_then(how)}.")


def _absent(kind: Kind, name: str, view: RequestView) -> Reason:
    """Return why a catalog does not have something of a name, which has no names near it yet."""
    catalog = view.snapshot.catalog
    there_is = f"There is no {words(kind)} {quoted(repr(name))}."
    reason = Reason(kind=kind, name=name, why="unknown", text=there_is)
    if catalog.whole is not None and name in catalog.whole.components[kind].by_name:
        return evolve(reason, why="profile", text="The profile leaves it out.")
    if kind == "tool" and (withheld := catalog.why_withheld(name)) is not None:
        return evolve(reason, why=withheld[0], text=withheld[1])
    return reason


def refusal(component: Component | None, kind: Kind, name: str, view: RequestView, *, groups: bool) -> ToolNotFound:
    """Return the error of a call of what is not there, with what the caller may know of why (SPEC CALL-1, ERR-2).

    That is what to do instead, if anything.

    Args:
        component: What the name stands for, if anything.
        kind: What was called.
        name: The name that was called.
        view: The view of the call.
        groups: Whether the caller may know which group to open first, and by which tool, and names near a mistyped one.
    """
    reason = reason_of(component, view) if groups and component is not None else None
    if reason is not None and reason.group is not None and not reason.predicates:  # else opening it would not help
        hint = needing(reason.group, reason.how)
    else:
        near = _of_base_name(kind, name, view) or (_near(name, view) if groups and kind == "tool" else ())
        hint = f"did you mean {enumerated(near)}?" if near else ""
    return ToolNotFound(name, hint or None, words(kind))


def needing(path: str, how: str | None) -> str:
    """Return a clause for a caller on the group that has to open first, and how."""
    return f"it needs the group {path}" + (f": {how}" if how else ", which is not open")


def _of_base_name(kind: Kind, name: str, view: RequestView) -> list[str]:
    """Return the names, as the caller knows them, of what is listed under a base name in groups (SPEC CALL-1).

    A tool's full name is one, too, where the caller knows the tool by another.
    """
    known = view.snapshot.catalog.components[kind].by_name.values()
    other = name if kind == "tool" and view.to_wire(name) != name else None
    alike = (one for one in known if one.name == other or one.name.rpartition(SEPARATOR)[2] == name != one.name)
    return [view.to_wire(one.name) for one in only_listed(alike, view)]


def _near(name: str, view: RequestView) -> list[str]:
    """Return the names, as the caller knows them, of tools that a mistyped name may stand for (SPEC GWY-20).

    They are tools that the caller may see: those that are listed, and those of groups that it can open. So a name has
    one answer, whether or not it stands for something (SPEC CALL-1). One that is withheld, or may be of a server of
    which nothing is known yet, is not mistyped.
    """
    if view.snapshot.catalog.why_withheld(name) is not None:
        return []
    seen = [*listed(view, "tool"), *(found.component for found in findable(view))]
    whole = [*dict.fromkeys(view.to_wire(one.name) for one in seen)]
    known = {view.to_wire(one.name): base_name(one.name) for one in seen if one.control is None}
    if prefixed := _without_prefix(name, whole):
        return [prefixed]
    bases = [*dict.fromkeys(known.values())]
    if name in bases:
        return [one for one, base in known.items() if base == name][:MAX_PROBLEMS]
    alike = {*similar(name, bases)} if not (found := similar(name, whole)) else set[str]()
    return [*found] or [one for one, base in known.items() if base in alike][:MAX_PROBLEMS]


def _without_prefix(name: str, known: Iterable[str]) -> str | None:
    """Return the longest known name that a name is with a prefix, as hosts have it: `mcp__server__` before a name."""
    found = (one for one in known if name.endswith((f"_{one}", f".{one}", f"/{one}", f":{one}")))
    return max(found, key=len, default=None)


def opener(path: str, view: RequestView, wanted: str | None = None) -> str | None:
    """Return a clause that says what opens a group now, with the caller's names of tools; `None` if nothing does.

    It names only what lists have: where they lack what opens groups, a search for the tool that is `wanted` opens them.
    """
    catalog = view.snapshot.catalog
    group, loader = catalog.group(path), catalog.loader
    if activator := _offered(f"{path}{SEPARATOR}activate", view):
        return f"call {view.to_wire(activator.name)} first"
    if group.controls and loader is not None and _offered(loader.name, view):
        argument = next(iter(loader.input_schema["properties"]))
        return f"call {view.to_wire(loader.name)} {json.dumps({argument: path})} first"
    if group.opens_on is not None and (event := _offered(group.opens_on, view)):
        return f"it opens when {view.to_wire(event.name)} succeeds"
    if wanted is not None and catalog.openable >> catalog.index[path] & 1 and (finder := catalog.finder) is not None:
        arguments = json.dumps({"query": view.to_wire(wanted), "open": True})
        return f"call {view.to_wire(finder.name)} {arguments} first"
    return None


def _open(paths: Sequence[str]) -> str:
    return f"{paths[0]} is open" if len(paths) == 1 else f"{', '.join(paths[:-1])} and {paths[-1]} are open"


def _then(how: str | None) -> str:
    return f": {how}" if how else ", and no tool opens it now"


def _offered(name: str, view: RequestView) -> Component | None:
    """Return a tool that the caller can call and that is listed; a hint gives away no hidden one (SPEC VIS-6)."""
    component = view.snapshot.catalog.tools.get(name)
    return component if component is not None and is_listed(component, view) else None
