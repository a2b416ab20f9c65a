"""The formal machine: groups that are active, inactive or locked, and nothing else (SPEC 4).

Rules
-----
Groups form a forest. Exclusion sets name groups of which at most one may be active; no member contains another.

* A group is activated only while all its ancestors are active; the groups that exclude it are deactivated with all
  below them.
* A group is deactivated with everything below it.
* Nothing else changes. Exclusion is neither transitive nor inherited, and what was deactivated does not come back.

Theory of operation
-------------------
Each group has a region with three states. A request becomes events, and their result a plan from one configuration to
another. All of these are values, and every change of state is such a plan: requests, eviction, closing, restoring.

    table          the rows: state and event give guard, target, effect, and the events that go to other regions
    interpreter    runs an event to completion over the rows, and defines their meaning
    compiled       does the same with bit sets, and is what runs
    forest         the groups, their parents, and what excludes what; a configuration: the states of all regions at
                   one moment
    planner        turns a request into events, and their result into a plan
    step           the life of one plan with its hooks, as rows that run none of them
    statechart     a forest as one hierarchical machine, and its exports

Invariants of every reachable configuration: INV-1 parents of active groups are active, INV-2 no exclusion set has two
active members, INV-3 there is no root with a state, INV-4 every group can be reached by activations, INV-5 a plan is a
function of configuration and request only.

    flags = Forest.of(["search", "search.fuzzy", "light", "dark"], [["light", "dark"]])
    planned = plan(Configuration.initial(flags), TransitionRequest(activate=["search", "dark"]))
    planned.after.paths  # ("dark", "search")
"""

from .compiled import Run
from .forest import Configuration, Forest, bits, paths_of
from .interpreter import Interpreter
from .planner import Plan, TransitionRequest, catch_up, close, plan, restore, use
from .table import TABLE, Effect, Emission, Guard, RegionEvent, RegionState, Relation, Row, rows

__all__ = [
    "TABLE",
    "Configuration",
    "Effect",
    "Emission",
    "Forest",
    "Guard",
    "Interpreter",
    "Plan",
    "RegionEvent",
    "RegionState",
    "Relation",
    "Row",
    "Run",
    "TransitionRequest",
    "bits",
    "catch_up",
    "close",
    "paths_of",
    "plan",
    "restore",
    "rows",
    "use",
]
