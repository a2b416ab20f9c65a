"""All small systems: every forest with its exclusion sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, combinations, permutations, product
from typing import TypeAlias, TypeVar

from .reference import Parents, State, System, legal_exclusion

Shape: TypeAlias = tuple["Shape", ...]

T = TypeVar("T")


def subsets(items: Iterable[T]) -> Iterator[tuple[T, ...]]:
    """Every subset, the smallest first."""
    pool = tuple(items)
    return chain.from_iterable(combinations(pool, size) for size in range(len(pool) + 1))


def numbered_forests(n: int) -> Iterator[Parents]:
    """Every way to give n groups parents of smaller numbers: n! of them, isomorphic ones included."""
    return product(*((None, *range(group)) for group in range(n)))


def shape(parents: Parents, root: int | None = None) -> Shape:
    """The shape of the forest below a group, equal for isomorphic forests."""
    return tuple(sorted(shape(parents, child) for child, parent in enumerate(parents) if parent == root))


def forests(n: int) -> Iterator[Parents]:
    """One forest of n groups per isomorphism class, the first in the order of numbered_forests."""
    seen: set[Shape] = set()
    for parents in numbered_forests(n):
        if (form := shape(parents)) not in seen:
            seen.add(form)
            yield parents


def legal_sets(parents: Parents, sizes: Iterable[int]) -> tuple[frozenset[int], ...]:
    """All legal exclusion sets of the given sizes on a forest."""
    chosen = (frozenset(members) for size in sizes for members in combinations(range(len(parents)), size))
    return tuple(members for members in chosen if legal_exclusion(parents, members))


def systems(n: int) -> Iterator[System]:
    """Every forest of n groups with every graph of legal pairs on it."""
    for parents in forests(n):
        for pairs in subsets(legal_sets(parents, (2,))):
            yield System(parents, pairs)


def symmetries(parents: Parents) -> tuple[tuple[int, ...], ...]:
    """The renumberings of the groups that preserve the forest."""
    groups = range(len(parents))

    def preserves(image: tuple[int, ...]) -> bool:
        moved = [None if parent is None else image[parent] for parent in parents]
        return all(parents[image[group]] == moved[group] for group in groups)

    return tuple(image for image in permutations(groups) if preserves(image))


def distinct_systems(n: int) -> Iterator[System]:
    """The first of each isomorphism class of systems, in the order of systems(n)."""
    seen: set[tuple[Parents, frozenset[State]]] = set()
    images: dict[Parents, tuple[tuple[int, ...], ...]] = {parents: symmetries(parents) for parents in forests(n)}
    for system in systems(n):
        if (system.parents, frozenset(system.exclusions)) in seen:
            continue
        yield system
        for image in images[system.parents]:
            moved = frozenset(frozenset(image[member] for member in pair) for pair in system.exclusions)
            seen.add((system.parents, moved))
