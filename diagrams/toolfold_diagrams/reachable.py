"""The graph of reachable states: sets of active groups, and the requests that lead from one to another (SPEC DIA-1).

It is found by `Snapshot.plan` itself, breadth first, with requests in canonical order. What is refused and what changes
nothing is not drawn: from a state, a group without an arrow that activates it is refused there or active already.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from attrs import frozen

from toolfold import Catalog, ConfigError, Plan, RegionState, Snapshot, ToolfoldError, TransitionRequest

from .diagram import Diagram, Source, described, snapshot_of
from .dot import Dot, Value, chip
from .palette import FONT, GROUND, INK, LINE, LOOKS
from .text import drawable, mermaid_lines, plural, wrapped

EMPTY = "nothing open"
MOST_LINES = 12
"""The lines of a label; longer ones are unreadable."""


def reachable(source: Source, *, limit: int = 64) -> Diagram:
    """Return the graph of all states that activations and deactivations of single groups reach.

    It begins where nothing is active; the state of a session or a snapshot is highlighted. An arrow with two heads
    stands for an activation and the deactivation that undoes it. The Mermaid form is left out where the graph is larger
    than what Mermaid draws.

    SPEC DIA-1, DIA-3.

    Args:
        source: The groups; for a session under a profile, only those that the profile admits.
        limit: The greatest number of states to draw.

    Raises:
        ConfigError: There are more states; the search ends as soon as that is known.
    """
    snapshot = snapshot_of(source)
    graph = explore(snapshot.catalog, limit)
    here = graph.number(snapshot)
    mermaid_text = drawable(_mermaid(graph, here), 1 + len(list(_arrows(graph))))  # one points to the initial state
    about = f"{plural(len(graph.states), 'state')}. {described(snapshot)}"
    return Diagram(f"{snapshot.catalog.name}: reachable states", _dot(graph, here), mermaid_text, description=about)


@frozen
class Move:
    """A request that leads from one state to another: its group, and the groups that are deactivated because of it."""

    tail: int
    head: int
    activates: bool
    group: str
    displaced: tuple[str, ...] = ()
    evicted: tuple[str, ...] = ()
    below: tuple[str, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether only the group itself changes, so that the opposite request may lead back."""
        return not (self.displaced or self.evicted or self.below)

    @property
    def effects(self) -> tuple[str, ...]:
        """The other effects, in words."""
        named = {"displaces": self.displaced, "evicts": self.evicted, "closes": self.below}
        return tuple(f"{verb} {', '.join(paths)}" for verb, paths in named.items() if paths)


@frozen
class Graph:
    """The reachable states of a catalog in the order in which they are found, and the moves between them."""

    states: tuple[Snapshot, ...]
    moves: tuple[Move, ...]

    def number(self, snapshot: Snapshot) -> int | None:
        """Return the number of a state, facts aside; `None` for a snapshot made by hand that can't be reached."""
        return next((number for number, state in enumerate(self.states) if _key(state) == _key(snapshot)), None)


def explore(catalog: Catalog, limit: int) -> Graph:
    """Return what can be reached from the state in which nothing is active, or raise `ConfigError`; see `reachable`."""
    states = [Snapshot.of(catalog)]
    numbers = {_key(states[0]): 0}
    moves: list[Move] = []
    unseen = deque(states)
    while unseen:
        before = unseen.popleft()
        for group, activates, planned in _changes(before):
            after = before.at(planned.after)
            if _key(after) not in numbers:
                if len(states) >= limit:
                    raise _too_many(catalog, limit)
                numbers[_key(after)] = len(states)
                states.append(after)
                unseen.append(after)
            moves.append(_move(numbers[_key(before)], numbers[_key(after)], group, activates, planned))
    return Graph(tuple(states), tuple(moves))


def _key(snapshot: Snapshot) -> tuple[int, tuple[int, ...]]:
    """Return what distinguishes states: the active groups and, where a quota evicts the oldest, their order."""
    return snapshot.configuration.active, snapshot.configuration.order


def _changes(before: Snapshot) -> Iterator[tuple[int, bool, Plan]]:
    for number, group in enumerate(before.catalog.groups):
        activates = not before.configuration.active >> number & 1
        try:
            request = TransitionRequest(group.path) if activates else TransitionRequest((), group.path)
            planned = before.plan(request)
        except ToolfoldError:
            continue
        yield number, activates, planned


def _move(tail: int, head: int, group: int, activates: bool, planned: Plan) -> Move:
    forest = planned.before.forest
    path = forest.paths[group]
    deactivated = [(forest.number(name), name) for name in planned.paths[1]]
    if not activates:
        return Move(tail, head, False, path, below=tuple(name for number, name in deactivated if number != group))
    displaces = forest.displaces[group]
    displaced = tuple(name for number, name in deactivated if displaces >> number & 1)
    return Move(tail, head, True, path, displaced, tuple(name for _, name in deactivated if name not in displaced))


def _too_many(catalog: Catalog, limit: int) -> ConfigError:
    return ConfigError(
        f"{catalog.name!r} has more than {limit} reachable states: at least {limit + 1} were found. Draw fewer groups, "
        "such as those of a session under a profile, raise the limit, or draw the structure, which has no such bound."
    )


# Pictures


@frozen
class _Arrow:
    """One arrow of the picture, for one move, or for two that undo each other."""

    tail: int
    head: int
    lines: tuple[str, ...]
    both_ways: bool


def _arrows(graph: Graph) -> Iterator[_Arrow]:
    plain = {(move.tail, move.head, move.group) for move in graph.moves if move.is_plain}
    for move in graph.moves:
        paired = move.is_plain and (move.head, move.tail, move.group) in plain
        if paired and not move.activates:
            continue
        verb = "open / close" if paired else "open" if move.activates else "close"
        lines = [f"{verb} {move.group}", *(f"/ {effect}" for effect in move.effects)]
        yield _Arrow(move.tail, move.head, tuple(_wrapped(lines, 26)), paired)


def _wrapped(lines: list[str], width: int) -> list[str]:
    return [piece for line in lines for piece in wrapped(line, width, MOST_LINES)]


def _named(state: Snapshot) -> list[str]:
    """Return the label of a state: its groups, where a quota evicts the oldest in the order in which they would go."""
    if not state.active:
        return [EMPTY]
    paths = list(state.configuration.oldest_first)
    if state.catalog.evict_oldest:
        first, *others = paths
        paths = [first, *(f"then {path}" for path in others)]
    shown = [piece for path in paths[:MOST_LINES] for piece in wrapped(path, 26, MOST_LINES)]
    return shown + ([f"and {len(paths) - MOST_LINES} more"] if len(paths) > MOST_LINES else [])


def _dot(graph: Graph, here: int | None) -> str:
    dot = Dot(graph.states[0].catalog.name, bgcolor="transparent", fontname=FONT, nodesep=0.35, ranksep=0.55)
    dot.default("node", shape="box", style="rounded,filled", fillcolor=GROUND, color=LINE, fontcolor=INK)
    dot.default("node", fontname=FONT, fontsize=11, margin="0.14,0.06")
    dot.default("edge", color=LINE, fontcolor=INK, fontname=FONT, fontsize=10, arrowsize=0.7)
    dot.node("initial", "", shape="circle", style="filled", fillcolor=LINE, color=LINE, width=0.16, fixedsize="true")
    active = LOOKS[RegionState.ACTIVE]
    for number, state in enumerate(graph.states):
        look: dict[str, Value] = {}
        if number == here:
            look = {"fillcolor": active.fill, "color": active.border, "penwidth": active.width}
        dot.node(f"state_{number}", "\n".join(_marked(state, number == here)), **look)
    dot.edge("initial", "state_0")
    for arrow in _arrows(graph):
        # Every edge leads from the state found first, however the arrow points: so ranks follow how many are active.
        upper, lower = sorted((arrow.tail, arrow.head))
        way = "both" if arrow.both_ways else "forward" if upper == arrow.tail else "back"
        dot.edge(f"state_{upper}", f"state_{lower}", label=chip(arrow.lines), dir=way)
    return dot.text()


def _marked(state: Snapshot, current: bool) -> list[str]:
    first, *others = _named(state)
    return [f"{LOOKS[RegionState.ACTIVE].mark} {first}" if current else first, *others]


def _mermaid(graph: Graph, here: int | None) -> str:
    active = LOOKS[RegionState.ACTIVE]
    lines = ["flowchart TD", "  initial(( ))"]
    for number, state in enumerate(graph.states):
        lines.append(f'  state_{number}("{mermaid_lines(_marked(state, number == here))}")')
    lines.append("  initial --> state_0")
    for arrow in _arrows(graph):
        line = "<-->" if arrow.both_ways else "-->"
        lines.append(f'  state_{arrow.tail} {line}|"{mermaid_lines(arrow.lines)}"| state_{arrow.head}')
    if here is not None:
        look = f"fill:{active.fill},stroke:{active.border},stroke-width:{active.width}px,color:{INK}"
        lines.append(f"  style state_{here} {look}")
    return "\n".join(lines) + "\n"
