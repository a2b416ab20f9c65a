"""What keeps the kit honest (SPEC CNF-5): implementations with one thing wrong, each of which it is to catch.

`engine.py` is a naive implementation, right in everything; a mutant is that engine with one decision replaced, named by
the clause that it breaks. `MUTANTS` are those that show in process, `wire.MUTANTS` those that only a protocol shows.
"""

from . import hooks, offers, registration, sessions, transitions
from .mutant import Mutant

__all__ = ["MUTANTS", "Mutant"]

MUTANTS: dict[str, Mutant] = {
    mutant.name: mutant for module in (registration, transitions, hooks, offers, sessions) for mutant in module.MUTANTS
}
"""All mutants of the engine, by name, in the order of the specification's sections."""
