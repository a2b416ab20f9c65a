"""The events of a page, and a simulated visitor who causes them: reproducible by its seed, and without a browser."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Literal

from attrs import frozen

HOME = "/shop"
PATHS = (HOME, "/shop/mugs", "/shop/cart")
CALLS = (("GET", "/api/items"), ("GET", "/api/cart"), ("POST", "/api/cart"), ("GET", "/api/prices"))
BUTTONS = ("#search", "#add-to-cart", "#checkout")
SOCKET = "wss://shop.test/prices"
PAGE = """
<html><head><title>Shop</title></head><body>
  <form><input id="search" aria-label="Search"/><input id="coupon"/></form>
  <img src="/mug.png"/><img src="/logo.png" alt="Shop"/>
  <button id="add-to-cart">Add to cart</button><button id="checkout"></button>
</body></html>
"""
"""The document that live queries search; an audit finds three faults in it."""


@frozen
class Console:
    """A line in the console."""

    at: int
    level: Literal["error", "warning", "info"]
    text: str


@frozen
class Request:
    """A request of the page, with its answer."""

    at: int
    method: str
    path: str
    status: int
    milliseconds: int


@frozen
class Socket:
    """A WebSocket opened or closed."""

    at: int
    url: str
    state: Literal["open", "closed"]


@frozen
class Frame:
    """A message on a WebSocket."""

    at: int
    url: str
    direction: Literal["in", "out"]
    data: str


@frozen
class Action:
    """Something that the visitor did."""

    at: int
    kind: Literal["navigate", "click", "type"]
    target: str
    value: str = ""


@frozen
class Vitals:
    """A snapshot of the page's performance: two times in milliseconds, and how much the layout has shifted."""

    at: int
    largest_paint: int
    next_paint: int
    layout_shift: float


Event = Console | Request | Socket | Frame | Action | Vitals


def visit(seed: int) -> Iterator[Event]:
    """Yield the endless events of a visit to the shop; times are milliseconds since its start."""
    random, at = Random(seed), 0
    yield Action(at, "navigate", HOME)
    while True:
        at += random.randint(20, 400)
        (make,) = random.choices(list(MAKERS), list(MAKERS.values()))
        yield make(random, at)


def _console(random: Random, at: int) -> Event:
    if random.random() < 0.3:
        return Console(at, "error", random.choice(["price is undefined", "failed to load mug.png"]))
    return Console(at, random.choice(["warning", "info"]), "rendered the list of items")


def _request(random: Random, at: int) -> Event:
    method, path = random.choice(CALLS)
    return Request(at, method, path, random.choice([200, 200, 200, 404, 500]), random.randint(5, 900))


def _socket(random: Random, at: int) -> Event:
    return Socket(at, SOCKET, random.choice(["open", "closed"]))


def _frame(random: Random, at: int) -> Event:
    return Frame(at, SOCKET, random.choice(["in", "out"]), f'{{"mug": {random.randint(5, 20)}}}')


def _action(random: Random, at: int) -> Event:
    match random.choice(["navigate", "click", "type"]):
        case "navigate":
            return Action(at, "navigate", random.choice(PATHS))
        case "click":
            return Action(at, "click", random.choice(BUTTONS))
        case _:
            return Action(at, "type", "#search", random.choice(["mug", "blue mug", "tea"]))


def _vitals(random: Random, at: int) -> Event:
    return Vitals(at, random.randint(600, 4000), random.randint(20, 400), round(random.random() / 4, 3))


MAKERS: dict[Callable[[Random, int], Event], int] = {
    _console: 6,
    _request: 8,
    _frame: 4,
    _action: 5,
    _vitals: 2,
    _socket: 1,
}
"""The kinds of events, each with its relative frequency."""
