"""What happens in a world, drawn from its seed: requests and faults as data.

Each has a number. A plan without some of them is a smaller one, in which the others are the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from attrs import evolve, frozen

from tests.simulation.desk import PATHS
from tests.simulation.disk import Weather
from tests.simulation.judging import BAD, PLAIN, A, Request, X


@frozen
class Ask:
    """A request of a client, after a pause.

    Attributes:
        session: The number of the session.
        client: That of the client who uses it.
        replica: Which replica is asked, among those that serve.
        pause: Seconds before it.
        request: What is asked.
        cancelled: At which of its awaits it is cancelled.
        scope: Whether its scope is cancelled, and not its task.
    """

    session: int
    client: int
    replica: int
    pause: float
    request: Request
    cancelled: tuple[int, ...] = ()
    scope: bool = False


@frozen
class Fault:
    """What goes wrong, at a time, or at an await of a process.

    Attributes:
        kind: `kill` or `stop` a replica; have the store go `away`, or `lose` its last writes; change the `catalog`.
        when: Seconds from the beginning.
        replica: Which one.
        awaits: After how many of its awaits it is killed, from that time on.
        seconds: How long it lasts.
        writes: How many writes are lost.
    """

    kind: str
    when: float
    replica: int = 0
    awaits: int = 0
    seconds: float = 0.0
    writes: int = 0


@frozen
class Plan:
    """What happens in a world.

    Attributes:
        seed: What else is drawn from.
        replicas: How many processes serve.
        weather: How well the store works.
        unfair: How likely the order of tasks is another than that in which they got ready.
        pause: Seconds that a hook takes at most.
        sessions: How many sessions there are.
        expires: Whether they are left to expire at the end.
        era: In which era of MCP the session is served over HTTP; `None` for the sessions of programs.
        items: The requests and the faults, by number.
    """

    seed: int
    replicas: int
    weather: Weather
    unfair: float
    pause: float
    sessions: int
    expires: bool
    era: str | None
    items: tuple[tuple[int, Ask | Fault], ...]

    @property
    def asks(self) -> list[Ask]:
        """The requests."""
        return [item for _, item in self.items if isinstance(item, Ask)]

    @property
    def faults(self) -> list[Fault]:
        """The faults."""
        return [item for _, item in self.items if isinstance(item, Fault)]

    @property
    def numbers(self) -> frozenset[int]:
        """The numbers of what is in it."""
        return frozenset(number for number, _ in self.items)

    def without(self, numbers: Iterable[int]) -> Plan:
        """Return the plan without some items."""
        left_out = frozenset(numbers)
        return evolve(self, items=tuple(item for item in self.items if item[0] not in left_out))

    def random(self, what: object) -> Random:
        """Return what is drawn for one purpose."""
        return Random(f"{self.seed} {what}")


def drawn(seed: int) -> Plan:
    """Return the plan of a seed."""
    random = Random(f"{seed} plan")
    era = Random(f"{seed} era").choice((None, None, None, None, None, None, "legacy", "modern"))
    sessions = random.choice((1, 1, 2, 3)) if era is None else 1
    loses = random.random() < 0.1 and era is None  # over MCP, a session may be lost whole
    weather = Weather(
        slow=random.choice((0.001, 0.01, 0.1)),
        lost=random.choice((0.0, 0.0, 0.0, 0.02, 0.1)),
        engine="sqlite" if not loses and random.random() < 0.1 else "memory",
    )
    pace = random.choice((0.01, 0.1, 1.0))
    asks = [
        one
        for session in range(sessions)
        for client in range(random.randint(1, 3))
        for one in _asks(random, session, client, pace)
    ]
    lasting = pace * 6
    faults = [_fault(random, lasting, loses) for _ in range(random.choice((0, 0, 1, 2, 3)))]
    items: tuple[Ask | Fault, ...] = (*asks, *faults)
    return Plan(
        seed,
        random.randint(2, 3),
        weather,
        random.choice((0.0, 0.1, 0.5)),
        random.choice((0.0, 0.02, 0.02, 0.5, 3.0)),
        sessions,
        random.random() < 0.2,
        era,
        tuple(enumerate(items)),
    )


def _asks(random: Random, session: int, client: int, pace: float) -> Iterable[Ask]:
    for place in range(random.randint(1, 6)):
        request = drawn_request(random, 100 * session + 10 * client + place)
        cancelled: tuple[int, ...] = ()
        if random.random() < 0.1:
            first = random.randint(1, 20)
            cancelled = (first,) if random.random() < 0.5 else (first, first + random.randint(1, 6))
        yield Ask(
            session, client, random.randrange(3), random.random() * pace, request, cancelled, random.random() < 0.5
        )


def drawn_request(random: Random, number: int) -> Request:
    """Return a request of a number, as clients make them."""
    match random.choice(("step", "step", "step", "control", "control", "note", "look", "list")):
        case "step":
            groups = [group for group in range(len(PATHS)) if group != BAD or random.random() < 0.2]
            activate = tuple(random.sample(groups, random.randint(0, 2)))
            return Request(number, "step", activate, tuple(random.sample(groups, random.randint(0, 1))))
        case "control":
            one = (random.choice((A, PLAIN, X)),)
            return Request(number, "control", *((one, ()) if random.random() < 0.6 else ((), one)))
        case "note":
            return Request(number, "note", fact=(random.choice("pq"), number))
        case kind:
            return Request(number, kind)


def _fault(random: Random, lasting: float, loses: bool) -> Fault:
    kinds = ("kill", "kill", "kill", "stop", "away", "catalog")
    kind = "lose" if loses and random.random() < 0.5 else random.choice(kinds)
    when, seconds = random.random() * lasting, random.choice((0.05, 0.5, 5.0))
    return Fault(kind, when, random.randrange(3), random.randint(1, 30), seconds, random.randint(1, 10))
