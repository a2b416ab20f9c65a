"""What was released goes on working: a program written against the last release, and each of its public names."""

from __future__ import annotations

import sys
import warnings
from types import ModuleType

import pytest

from tests.released import broken, names, program, recorded


async def test_a_program_for_the_last_release_works() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("default", DeprecationWarning)
        printed = await program()
    assert printed == [
        "database.write",
        "1",
        *("database.deactivate", "database.write.deactivate", "database.write.insert", "vault.activate"),
    ]


def test_the_names_of_the_last_release_are_kept_or_name_the_new_one() -> None:
    assert broken(recorded()) == []
    assert broken(names()) == []


class Renamed(ModuleType):
    """A module in which `Old` has become `New`."""

    __all__ = ("New",)
    New = 1
    warning = "Old is New now, and goes with the next release"

    def __getattr__(self, name: str) -> int:
        if name != "Old":
            raise AttributeError(name)
        if self.warning:
            warnings.warn(self.warning, DeprecationWarning, stacklevel=2)
        return self.New


@pytest.mark.parametrize(
    ("warning", "kept"), [(Renamed.warning, True), ("Old goes with the next release", False), ("", False)]
)
def test_an_old_name_has_to_warn_with_the_new_one(monkeypatch: pytest.MonkeyPatch, warning: str, kept: bool) -> None:
    module = Renamed("renamed")
    module.warning = warning
    monkeypatch.setitem(sys.modules, "renamed", module)
    assert broken({"renamed": ["New", "Old", "Gone"]}) == [*([] if kept else ["renamed.Old"]), "renamed.Gone"]
