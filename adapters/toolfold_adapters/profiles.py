"""Profiles that are within one another, as files name them (SPEC GWY-16)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from toolfold import ConfigError, Profile


def in_their_parents(
    parents: Mapping[str, str | None], made: Callable[[str, Profile | None], Profile]
) -> tuple[Profile, ...]:
    """Return profiles, each made with the profile of its parent.

    SPEC GWY-16.

    Args:
        parents: What each is within, by its name; `None` for those that have no parent.
        made: Makes one, of its name and the profile of its parent.

    Raises:
        ConfigError: A parent does not exist, or is within its child.
    """
    found: dict[str, Profile] = {}

    def of(name: str, children: tuple[str, ...]) -> Profile:
        parent = parents[name]
        if parent is not None and parent not in parents:
            known = ", ".join(sorted({*parents} - {name})) or "none"
            raise ConfigError(f"The profile {name!r} is within {parent!r}, which does not exist; there are: {known}.")
        if parent in (name, *children):
            raise ConfigError(f"The profile {name!r} is within {parent!r}, which is within it: leave one `within` out.")
        if name not in found:
            found[name] = made(name, None if parent is None else of(parent, (name, *children)))
        return found[name]

    return tuple(of(name, ()) for name in parents)
