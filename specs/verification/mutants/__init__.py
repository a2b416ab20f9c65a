"""Mutation tests of the kit (SPEC CNF-5): implementations with one fault, each of which it must catch.

`engine.py` is a correct, naive implementation; a mutant replaces one of its decisions and names the clause that this
breaks. `MUTANTS` are visible in process, `wire.MUTANTS` only over a protocol.

engine, rules                  the naive implementation, a method for each decision
driver, server                 it or a mutant, in process and over MCP
mutant                         what a mutant is, and how one is declared
names, registration            mutants of names and of registration while sessions are open
transitions, hooks, sessions   mutants of transitions, hooks, notifications and persistence
offers, wire                   mutants of lists and calls, and those that only a protocol shows
isolation                      servers in which a client learns of another
tags                           servers with definition tags, right ones and wrong ones
"""

from . import hooks, names, offers, registration, sessions, transitions
from .mutant import Mutant

__all__ = ["MUTANTS", "Mutant"]

MUTANTS: dict[str, Mutant] = {
    mutant.name: mutant
    for module in (registration, names, transitions, hooks, offers, sessions)
    for mutant in module.MUTANTS
}
"""All mutants of the engine, by name, in the order of the specification's sections."""
