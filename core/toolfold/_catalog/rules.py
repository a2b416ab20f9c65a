"""Visibility rules and their algebra: values that say when something is available (SPEC VIS-1, VIS-2).

What a rule depends on is computed here, once for each catalog, so that lists cost what they return (SPEC LST-5):
`required_groups(rule)`, groups without which the rule can't hold, and `is_static(rule)`, whether it depends on the
active groups only. Whether a rule holds is for `_view.visibility` to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, NoReturn

from .._names import is_text
from .._usercode import guarded, is_async
from .._values import frozen
from ..errors import InvalidDefinition
from ..machine import Configuration

StateReader = Callable[[], Any]


@frozen(eq=False)
class View:
    """What predicates and counts see: one state, and one reading of the application state.

    `snapshot` is the `Snapshot` that everything in this request is a function of, and `facts` are the session's facts
    (SPEC SES-5).

    SPEC VIS-3, MOD-3.
    """

    snapshot: Any
    facts: Mapping[str, Any]
    _configuration: Configuration
    _read_state: StateReader | None

    @property
    def active(self) -> tuple[str, ...]:
        """The active groups, in canonical order."""
        return self._configuration.paths

    def is_group_active(self, name: str) -> bool:
        """Return whether the group is active; an unknown one is not."""
        return self._configuration.is_active(name)

    @property
    def state(self) -> Any:
        """The application state, read at most once for this request; `None` without a supplier."""
        value, failure = self._reading
        if failure is not None:
            raise failure
        return value

    @cached_property
    def _reading(self) -> tuple[Any, BaseException | None]:
        read = self._read_state
        return guarded(lambda: (read() if read else None, None), lambda error: (None, error))


Predicate = Callable[[View], bool]


class Visibility:
    """A rule that says when something is available; combine rules with `&`, `|` and `~`.

    What is in a group is available while the group is active. A rule of predicates alone restricts that: the group must
    be active and the predicates true. A rule that names groups, or `always`, replaces it:

        tools.register_group("refunds", on_activate=connect)

        @tools.tool(group="refunds", visibility=Visibility.when(is_boss))  # while it is active, for the boss
        def refund(order: int) -> str: ...

        @tools.tool(group="refunds", visibility=Visibility.always())  # always
        def rates() -> str: ...

        @tools.tool(group="refunds", visibility=Visibility.always() & Visibility.when(is_boss))  # always, for the boss
        def audit() -> str: ...

    SPEC VIS-1, VIS-2.
    """

    __slots__ = ()

    @staticmethod
    def always() -> Visibility:
        """Return the rule that always holds."""
        return Always()

    @staticmethod
    def group(path: str) -> Visibility:
        """Return the rule that holds while the group is active.

        SPEC VIS-2.
        """
        return GroupActive(path)

    @staticmethod
    def when(predicate: Predicate) -> Visibility:
        """Return the rule that holds while `predicate(view)` is true; given in a group, while that is active, too.

        The predicate must be fast, free of side effects, and not async (`InvalidDefinition`, SPEC VIS-4).
        """
        return When(predicate)

    def form(self) -> tuple[Any, ...]:
        """Return the rule as nested tuples, such as `("both", ("group", "a"), ("not", ("when",)))`.

        The other forms are `("always",)` and `("either", left, right)`. Nothing is said of a predicate.
        """
        match self:
            case GroupActive(path):
                return "group", path
            case Both(left, right) | Either(left, right):
                return type(self).__name__.lower(), left.form(), right.form()
            case Not(inner):
                return "not", inner.form()
            case _:
                return (type(self).__name__.lower(),)

    def __and__(self, other: Visibility) -> Visibility:
        return Both(self, other)

    def __or__(self, other: Visibility) -> Visibility:
        return Either(self, other)

    def __invert__(self) -> Visibility:
        return Not(self)

    def __bool__(self) -> NoReturn:
        """Raise `TypeError`: `rule and other` would be one of the two, and never both."""
        raise TypeError("A visibility rule is neither true nor false: combine rules with &, | and ~, not and, or, not.")


@frozen
class Always(Visibility):
    """Holds in every snapshot."""


@frozen
class GroupActive(Visibility):
    """Holds while the group is active."""

    path: str


@frozen
class When(Visibility):
    """Holds while the predicate is true of the view."""

    predicate: Predicate


@frozen
class Both(Visibility):
    """Holds if both rules do."""

    left: Visibility
    right: Visibility


@frozen
class Either(Visibility):
    """Holds if one of the rules does."""

    left: Visibility
    right: Visibility


@frozen
class Not(Visibility):
    """Holds if the rule does not."""

    rule: Visibility


def leaves(rule: Visibility) -> Iterator[Visibility]:
    """Yield the `Always`, `GroupActive` and `When` rules that `rule` is made of."""
    match rule:
        case Both(left, right) | Either(left, right):
            yield from leaves(left)
            yield from leaves(right)
        case Not(inner):
            yield from leaves(inner)
        case _:
            yield rule


def within(group: str, rule: Visibility | None) -> Visibility:
    """Return the rule of what is in a group and is given `rule`: one of predicates alone restricts the group's (VIS-2).

    A closed group's hooks have not run, so nothing in it is callable unless its rule says so: by `Always` or by groups.
    """
    own = GroupActive(group)
    if rule is None:
        return own
    return own & rule if all(isinstance(leaf, When) for leaf in leaves(rule)) else rule


def groups_of(rule: Visibility) -> set[str]:
    """Return the groups that `rule` mentions."""
    return {leaf.path for leaf in leaves(rule) if isinstance(leaf, GroupActive)}


def enabling_groups(rule: Visibility, *, negated: bool = False) -> set[str]:
    """Return the groups each of which may make `rule` hold when it opens: those that it does not mention negated."""
    match rule:
        case GroupActive(path) if not negated:
            return {path}
        case Both(left, right) | Either(left, right):
            return enabling_groups(left, negated=negated) | enabling_groups(right, negated=negated)
        case Not(inner):
            return enabling_groups(inner, negated=not negated)
        case _:
            return set()


def shared(rule: Visibility, own: str | None, path: str) -> Visibility:
    """Return the rule of what is in the group `own` once it is shared with another: its conditions are the same.

    Only a rule that asks for other groups alone holds while the other is open, whatever it asks.
    """
    if own in enabling_groups(rule):
        return _widened(rule, own, path)
    return rule | GroupActive(path) if is_static(rule) else rule & (Always() | GroupActive(path))


def _widened(rule: Visibility, own: str | None, path: str) -> Visibility:
    match rule:
        case GroupActive(group) if group == own:
            return rule | GroupActive(path)
        case Both(left, right):
            return _widened(left, own, path) & _widened(right, own, path)
        case Either(left, right):
            return _widened(left, own, path) | _widened(right, own, path)
        case _:
            return rule


def is_static(rule: Visibility) -> bool:
    """Return whether `rule` depends on the active groups only."""
    return not any(isinstance(leaf, When) for leaf in leaves(rule))


def required_groups(rule: Visibility) -> frozenset[str]:
    """Return groups each of which must be active for `rule` to hold; empty if none is necessary."""
    match rule:
        case GroupActive(path):
            return frozenset({path})
        case Both(left, right):
            return required_groups(left) | required_groups(right)
        case Either(left, right):
            return required_groups(left) & required_groups(right)
        case Not(Not(inner)):
            return required_groups(inner)
        case Not(Both(left, right)):
            return required_groups(Not(left)) & required_groups(Not(right))
        case Not(Either(left, right)):
            return required_groups(Not(left)) | required_groups(Not(right))
        case _:
            return frozenset()


def check_rule(name: str, rule: Any) -> None:
    """Raise `InvalidDefinition` if `rule` is no rule or has an async predicate (SPEC VIS-4)."""
    for leaf in leaves(rule):
        if isinstance(leaf, When):
            if not callable(leaf.predicate):
                raise InvalidDefinition(name, "its visibility predicate is not callable")
            if is_async(leaf.predicate):
                raise InvalidDefinition(name, "its visibility predicate is async; predicates must answer at once")
        elif not isinstance(leaf, Always | GroupActive):
            raise InvalidDefinition(name, f"{leaf!r} is not a visibility rule; use Visibility.always, group or when")
        elif isinstance(leaf, GroupActive) and not is_text(leaf.path):
            raise InvalidDefinition(name, f"its rule is of the group {leaf.path!r}, and a group is named by a text")
