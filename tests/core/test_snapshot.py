"""The snapshot as a value, and its state restored in another catalog (SPEC PER-2)."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from itertools import permutations

import pytest
from attrs.exceptions import FrozenInstanceError

from tests.core.support import FAMILIES, desk, snapshot_of, subsets, world
from toolfold import Catalog, ToolSet
from toolfold._snapshot import Snapshot
from toolfold.machine import Configuration, restore
from toolfold_specs import reference as model
from toolfold_specs.reference import System

# The value


@pytest.mark.spec("INV-5", "SES-5")
def test_equal_values_are_one_snapshot_and_different_ones_are_not() -> None:
    catalog, other, ordered = desk().catalog, desk().catalog, desk(max_active=3, evict="oldest").catalog
    made = [
        Snapshot.of(catalog),
        snapshot_of(catalog, ["a"]),
        snapshot_of(other, ["a"]),
        snapshot_of(ordered, ["a", "c"]),
        snapshot_of(ordered, ["c", "a"]),
        *(snapshot_of(catalog, ["a"], {"f": value}) for value in (True, 1, 1.0, "1", None, (1,), ("1",), ())),
        snapshot_of(catalog, ["a"], {"f": 1, "g": 2}),
        snapshot_of(catalog, ["a"], {"f": 2, "g": 1}),
    ]
    assert len({id(snapshot) for snapshot in made}) == len(made)
    assert snapshot_of(catalog, ["a"]) is made[1]
    assert snapshot_of(ordered, ["c", "a"]) is made[4]
    assert snapshot_of(catalog, ["a"], {"g": 2, "f": 1}) is made[-2]


@pytest.mark.spec("SES-5")
def test_a_snapshot_can_not_be_changed() -> None:
    facts = {"f": 1}
    snapshot = snapshot_of(desk().catalog, ["a"], facts)
    with pytest.raises(FrozenInstanceError):
        snapshot.configuration = Configuration.initial(snapshot.catalog.forest)  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        snapshot.configuration.active = 2  # type: ignore[misc]
    with pytest.raises(TypeError):
        snapshot.facts["f"] = 2  # type: ignore[index]
    facts["f"] = 2
    assert snapshot.facts == {"f": 1}
    assert snapshot_of(snapshot.catalog, ["a"], {"f": 1}) is snapshot


def test_snapshots_without_references_are_collected() -> None:
    catalog = desk().catalog
    held = snapshot_of(catalog, ["a"])
    snapshot_of(catalog, ["a", "a.y"])
    gc.collect()
    assert list(catalog.interned.values()) == [held]
    assert list(catalog.forest.interned.values()) == [held.configuration]


def test_the_order_is_stored_only_where_a_quota_needs_it() -> None:
    ordered = desk(max_active=3, evict="oldest")
    for tools, order in ((desk(), ()), (desk(max_active=3), ()), (ordered, (5, 0))):
        assert snapshot_of(tools.catalog, ["c", "a"]).configuration.order == order


# Restoring


def normalise(catalog: Catalog, paths: Iterable[str]) -> tuple[list[str], list[str]]:
    """The groups of a stored state that are active again, and those that are not, in the order given."""
    asked = list(dict.fromkeys(paths))
    after = restore(catalog.forest, asked).after
    return [path for path in asked if after.is_active(path)], [path for path in asked if not after.is_active(path)]


@pytest.mark.spec("PER-2")
def test_unknown_groups_are_discarded_then_those_without_parents_then_all_but_the_first_of_an_exclusion_set() -> None:
    catalog = desk().catalog
    assert normalise(catalog, ["a", "gone", "a.x", "gone.child"]) == (["a", "a.x"], ["gone", "gone.child"])
    assert normalise(catalog, ["a.x", "c", "b.z"]) == (["c"], ["a.x", "b.z"])
    assert normalise(catalog, ["b", "b.z", "a", "a.y"]) == (["a", "a.y"], ["b", "b.z"])
    assert normalise(catalog, []) == ([], [])


@pytest.mark.spec("PER-2")
@pytest.mark.parametrize("family", ["pairs-3", "pairs-4", "wide-3"])
def test_every_set_of_groups_is_restored_to_the_same_legal_state_in_whatever_order_it_is_given(family: str) -> None:
    for system in FAMILIES[family]:
        here = world(system)
        for some in subsets(system.groups, len(system.groups)):
            restored, discarded = normalise(here.catalog, here.named(some))
            assert sorted([*restored, *discarded]) == sorted(here.named(some))
            assert model.legal(system, frozenset(here.paths.index(path) for path in restored))
            assert set(here.named(naive(system, frozenset(some)))) == set(restored)
            if len(some) < 4:
                for order in permutations(some):
                    assert set(normalise(here.catalog, here.named(order))[0]) == set(restored)


def naive(system: System, active: frozenset[int]) -> frozenset[int]:
    """SPEC PER-2 in sets: discard groups without parents, then, in canonical order, what an earlier one excludes."""
    rooted = frozenset(group for group in active if active.issuperset(system.ancestors(group)))
    for group in system.canonical(rooted):
        if group in rooted:
            rooted = rooted.difference(*(system.subtree(other) for other in system.excluded(group)))
    return rooted


@pytest.mark.spec("PER-2", "REG-7")
def test_a_snapshot_moves_to_a_changed_catalog_with_its_facts_and_its_order() -> None:
    tools = desk(max_active=5, evict="oldest")
    catalog = tools.catalog
    snapshot = snapshot_of(catalog, ["c", "a", "a.x"], {"f": 1})
    assert snapshot.moved_to(catalog) is snapshot
    tools.register_group("A")
    moved = snapshot.moved_to(tools.catalog)
    assert (moved.catalog, moved.active, moved.facts) == (tools.catalog, ("a", "a.x", "c"), {"f": 1})
    assert moved.configuration.oldest_first == ("c", "a", "a.x")
    smaller = ToolSet("smaller", max_active=5, evict="oldest")
    for path in ("c", "a"):
        smaller.register_group(path)
    smaller.register_exclusion("a", "c")
    assert moved.moved_to(smaller.catalog).active == ("a",)
    assert moved.moved_to(smaller.catalog).configuration.order == (0,)
