"""Visibility rules for tests, each with an equivalent function of the active groups."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from toolfold import Visibility

GROUPS = ("a", "a.x", "b", "c")

Naive = Callable[[set[str]], bool]
Twofold = tuple[Visibility, Naive]


def twofold(rule: Visibility, naive: Naive) -> Twofold:
    return rule, naive


def grown(inner: st.SearchStrategy[Twofold]) -> st.SearchStrategy[Twofold]:
    pairs = st.tuples(inner, inner)
    return st.one_of(
        pairs.map(lambda pair: twofold(pair[0][0] & pair[1][0], lambda on: pair[0][1](on) and pair[1][1](on))),
        pairs.map(lambda pair: twofold(pair[0][0] | pair[1][0], lambda on: pair[0][1](on) or pair[1][1](on))),
        inner.map(lambda one: twofold(~one[0], lambda on: not one[1](on))),
    )


LEAVES = st.one_of(
    st.just(twofold(Visibility.always(), lambda on: True)),
    st.sampled_from(GROUPS).map(lambda path: twofold(Visibility.group(path), lambda on: path in on)),
    st.sampled_from(GROUPS).map(
        lambda path: twofold(Visibility.when(lambda view: view.is_group_active(path)), lambda on: path in on)
    ),
)

RULES = st.recursive(LEAVES, grown, max_leaves=6)
