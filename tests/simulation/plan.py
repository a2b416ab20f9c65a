"""What happens in a world, drawn from its seed: requests and faults as data.

Each has a number. A plan without some of them is a smaller one, in which the others are the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Self

from attrs import evolve, frozen

from tests.simulation.desk import PATHS
from tests.simulation.disk import Weather
from tests.simulation.judging import BAD, PLAIN, A, Request, X

ERAS = ("legacy", "modern")
GATEWAY = 1
"""Of the seeds, those whose remainder by four is this have a gateway."""
WIRED = 7
"""Of the others, those whose remainder by eight is this have clients on a network."""
ALWAYS = ("echo", "tell", "ask")
"""What a server behind a gateway always offers: it answers at once, after progress, and after a question."""
SOMETIMES = ("t0", "t1", "t2")
"""What it offers at times, and not always with the same definition."""


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
        intrudes: Whether it comes from somebody else, who knows by what the session is found.
    """

    session: int
    client: int
    replica: int
    pause: float
    request: Request
    cancelled: tuple[int, ...] = ()
    scope: bool = False
    intrudes: bool = False


@frozen
class Fault:
    """What goes wrong, at a time, or at an await of a process.

    Attributes:
        kind: `kill` or `stop` a replica; have the store go `away`, or `lose` its last writes; change the `catalog`.
            Behind a gateway, a server may `end`, answer with a `lag`, or `offer` something else. Where there is a
            `network`, it may be bad.
        when: Seconds from the beginning.
        replica: Which one, also of servers.
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
class Use:
    """What a client asks of a gateway, after a pause.

    Attributes:
        client: The number of the client.
        pause: Seconds before it.
        kind: `open` the group of a server, `list` the tools, or `call` one.
        upstream: The number of the server.
        tool: What is called.
        number: Its number among all.
        patience: Seconds after which the client gives it up; 0 for never.
    """

    client: int
    pause: float
    kind: str
    upstream: int
    tool: str
    number: int
    patience: float = 0.0


@frozen(kw_only=True)
class Plan:
    """What happens in a world.

    Attributes:
        seed: What else is drawn from.
        unfair: How likely the order of tasks is another than that in which they got ready.
        items: The requests and the faults, by number.
        turns: The draws, by number, that change the order of tasks; `None` for all.
    """

    seed: int
    unfair: float
    items: tuple[tuple[int, Ask | Use | Fault], ...]
    turns: frozenset[int] | None = None

    @property
    def faults(self) -> list[Fault]:
        """The faults."""
        return [item for _, item in self.items if isinstance(item, Fault)]

    @property
    def numbers(self) -> frozenset[int]:
        """The numbers of what is in it."""
        return frozenset(number for number, _ in self.items)

    def without(self, numbers: Iterable[int]) -> Self:
        """Return the plan without some items."""
        left_out = frozenset(numbers)
        return evolve(self, items=tuple(item for item in self.items if item[0] not in left_out))

    def random(self, what: object) -> Random:
        """Return what is drawn for one purpose."""
        return Random(f"{self.seed} {what}")


@frozen(kw_only=True)
class StorePlan(Plan):
    """What happens to replicas that share a store.

    Attributes:
        replicas: How many processes serve.
        weather: How well the store works.
        pause: Seconds that a hook takes at most.
        sessions: How many sessions there are.
        expires: Whether they are left to expire at the end.
        era: In which era of MCP the sessions are served over HTTP; `None` for those of programs.
        network: Seconds that a part of a message takes at most, where clients are on a network.
        starts: The groups that are selected for all sessions: one of the modern era inherits them.
    """

    replicas: int
    weather: Weather
    pause: float
    sessions: int
    expires: bool
    era: str | None
    network: float | None = None
    starts: tuple[int, ...] = ()

    @property
    def asks(self) -> list[Ask]:
        """The requests."""
        return [item for _, item in self.items if isinstance(item, Ask)]


@frozen(kw_only=True)
class GatewayPlan(Plan):
    """What happens to a gateway.

    Attributes:
        clients: The era and the caller of each client.
        slow: Seconds that a message takes at most.
        mode: How the gateway agrees with its servers on a version.
        shared: Whether one connection to a server is for all clients.
        idle: Seconds without use after which a connection ends.
        connections: How many connections to a server each caller may have.
        calls: How many requests of each caller may be in progress.
        quarantine: Whether what has changed is withheld.
        rushes: Whether clients call what a server has changed while it is slow to list it.
    """

    clients: tuple[tuple[str, str], ...]
    slow: float
    mode: str
    shared: bool
    idle: float
    connections: int
    calls: int
    quarantine: bool
    rushes: bool

    @property
    def uses(self) -> list[Use]:
        """What the clients ask."""
        return [item for _, item in self.items if isinstance(item, Use)]


def drawn(seed: int) -> Plan:
    """Return the plan of a seed: every fourth world has a gateway, and every eighth clients on a network."""
    return _gateway(seed) if seed % 4 == GATEWAY else _store(seed)


def _store(seed: int) -> StorePlan:
    random, network = Random(f"{seed} plan"), Random(f"{seed} network") if seed % 8 == WIRED else None
    era = Random(f"{seed} era").choice(ERAS if network else (None, None, None, None, None, None, *ERAS))
    sessions = random.choice((1, 1, 2, 3)) if era is None or network else 1
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
    if network is not None:
        asks = [evolve(ask, intrudes=network.random() < 0.1) for ask in asks]
        faults += [_bad_network(network, lasting) for _ in range(network.choice((0, 1, 2, 3)))]
    items: tuple[Ask | Fault, ...] = (*asks, *faults)
    return StorePlan(
        seed=seed,
        replicas=random.randint(2, 3),
        weather=weather,
        unfair=random.choice((0.0, 0.1, 0.5)),
        pause=random.choice((0.0, 0.02, 0.02, 0.5, 3.0)),
        sessions=sessions,
        expires=random.random() < 0.2,
        era=era,
        network=None if network is None else network.choice((0.001, 0.01, 0.1)),
        starts=() if network is None else network.choice(((), (A,))),
        items=tuple(enumerate(items)),
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


def _bad_network(random: Random, lasting: float) -> Fault:
    return Fault("network", random.random() * lasting, seconds=random.choice((0.05, 0.5, 5.0)))


# -- gateways ---------------------------------------------------------------------------------------------------------


def _gateway(seed: int) -> GatewayPlan:
    random = Random(f"{seed} gateway")
    callers = ("ada", "ada", "bob", "eve")[: random.randint(2, 4)]
    clients = tuple((random.choice(ERAS), caller) for caller in callers)
    pace = random.choice((0.1, 1.0, 10.0))
    uses = [one for client in range(len(clients)) for one in _uses(random, client, pace)]
    faults = [_trouble(random, pace * 8) for _ in range(random.choice((0, 1, 2, 4, 6)))]
    items: tuple[Use | Fault, ...] = (*uses, *faults)
    return GatewayPlan(
        seed=seed,
        unfair=random.choice((0.0, 0.1, 0.5)),
        items=tuple(enumerate(items)),
        clients=clients,
        slow=random.choice((0.001, 0.01, 0.1)),
        mode=random.choice(("legacy", "auto")),
        shared=random.random() < 0.3,
        idle=random.choice((5.0, 600.0)),
        connections=random.choice((1, 2, 50)),
        calls=random.choice((1, 4, 100)),
        quarantine=random.random() < 0.4,
        rushes=Random(f"{seed} rush").random() < 0.75,
    )


def _uses(random: Random, client: int, pace: float) -> Iterable[Use]:
    for number in range(random.randint(2, 8)):
        kind = random.choice(("open", "list", "call", "call", "call"))
        tool = random.choice((*ALWAYS, *SOMETIMES)) if kind == "call" else ""
        patience = random.choice((0.05, 1.0)) if kind == "call" and random.random() < 0.15 else 0.0
        yield Use(client, random.random() * pace, kind, random.randrange(2), tool, number, patience)


def _trouble(random: Random, lasting: float) -> Fault:
    kind = random.choice(("end", "lag", "offer", "offer", "offer", "network"))
    when, seconds = random.random() * lasting, random.choice((0.05, 0.5, 5.0))
    return Fault(kind, when, random.randrange(2), random.randrange(30), seconds, random.randrange(30))
