"""Runs: each task against each arm, with each number of tools, by each player; recorded line by line (SPEC EVA-1).

A record says what it was measured with: the player, the seed, the versions, the prices, and which tasks and tools. A
run that continues a file plays only what the file has not, for the same of all of these.
"""

from __future__ import annotations

import platform
import random
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, TypeVar

from attrs import field
from pydantic import BaseModel, ConfigDict, ValidationError

from toolfold import ConfigError, Ranker, __version__
from toolfold.spi import frozen
from toolfold_adapters.search import bm25, by_meaning

from .players import SCRIPTS, Script, Scripted, replay
from .surfaces import ARMS, EVERYTHING, PROGRAM, AnswerOptions, Exchange, Offers, Played, Surface, Why
from .tasks import Task, judge
from .world import World

Line = TypeVar("Line", bound=BaseModel)
UNREACHABLE = 3
"""After so many tasks in a row for which a model was not reached, a run ends."""


@frozen
class Case:
    """What is played: a task against an arm, with so many tools; `None` is as many as the catalog has."""

    task: str
    arm: str
    size: int | None


@frozen(kw_only=True)
class Player:
    """Who plays.

    Attributes:
        name: Its name.
        kind: What kind of player it is, as is said at each figure.
        host: Which host's view it has.
        play: Plays a task on a surface.
        plays: Whether it plays a case.
        packages: Packages whose versions matter to it.
        settings: How it is asked, for its records.
    """

    name: str
    kind: str
    play: Callable[[Surface, Case], Awaitable[Played]]
    host: str = EVERYTHING
    plays: Callable[[Case], bool] = lambda _: True
    packages: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(factory=dict[str, Any])


class Record(BaseModel):
    """One task played once: a line of the file.

    A model has `exchanges`, one for each request that it answered: the tokens sent by our count, and those read and
    written as its provider says; `sent_tokens` counts all requests. `malformed` has a tool, arguments and a problem
    each.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: str
    arm: str
    size: int | None
    player: str
    kind: str
    host: str
    seed: int
    tasks: str
    versions: Mapping[str, str]
    price: tuple[float, float] | None
    options: Mapping[str, Any] = {}
    done: bool = False
    problems: tuple[str, ...] = ()
    tried: Mapping[str, int] = {}
    reached: Mapping[str, int] = {}
    requests: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    context: int = 0
    sent_tokens: int | None = None
    exchanges: tuple[tuple[int, int, int], ...] = ()
    why: Why | None = None
    texts: tuple[str, ...] = ()
    malformed: tuple[tuple[str, str, str], ...] = ()
    seconds: float = 0
    cost: float | None = None
    transcript: tuple[tuple[str, Mapping[str, Any]], ...] = ()

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells it from other records: the same is not played twice."""
        given = (self.task, self.arm, self.size, self.player, self.host, self.seed, self.tasks, self.price)
        return (*given, *sorted(self.versions.items()), *sorted(self.options.items()))


@frozen(kw_only=True)
class Plan:
    """What a run plays.

    Attributes:
        price: What a million tokens cost that are read, and that are written, in dollars.
        options: How servers answer the opening of a group, where that differs from the default.
        sample: How many of the tasks are played, chosen by the seed; by default all.
        search: What searches rank by: words, or meaning too, by the models that are installed.
    """

    world: World
    tasks: Sequence[Task]
    players: Sequence[Player]
    arms: Sequence[str] = tuple(ARMS)
    sizes: Sequence[int | None] = (None,)
    price: tuple[float, float] | None = None
    options: AnswerOptions = field(factory=AnswerOptions)
    sample: int | None = None
    search: Literal["bm25", "embeddings"] = "bm25"

    def ranker(self) -> Ranker:
        """Return what searches rank by; an index is complete before the first search is answered.

        Raises:
            ConfigError: No model is installed.
        """
        return bm25 if self.search == "bm25" else by_meaning(in_the_background=False)

    def chosen(self) -> list[Task]:
        """Return the tasks that are played, in their order; a larger sample has those of a smaller one."""
        mixed = random.Random(self.world.seed).sample(range(len(self.tasks)), len(self.tasks))
        return [self.tasks[number] for number in sorted(mixed[: self.sample])]

    def cases(self) -> list[tuple[Player, Task, Case]]:
        """Return what is played, in order; no host stands between a conversation in process and its model."""
        return [
            (player, task, case)
            for size in self.sizes
            for arm in self.arms
            for player in self.players
            for task in self.chosen()
            if not (ARMS[arm].native and player.host != EVERYTHING) and player.plays(case := Case(task.id, arm, size))
        ]


def scripted(name: str) -> Player:
    """Return a scripted player by its name."""
    script = SCRIPTS[name]
    kind = "script" if script.host == EVERYTHING else "script, with a host's view"
    return Player(name=name, kind=kind, host=script.host, play=partial(_script, script))


async def _script(script: Script, surface: Surface, case: Case) -> Played:
    await Scripted(surface, script).play()
    return Played()


def model(
    name: str, seed: int, host: str = EVERYTHING, given: Any = None, base_url: str | None = None, **asked: Any
) -> Player:
    """Return a model by its name, or `given` under this name; `asked` are those of `models.Settings`.

    Raises:
        ConfigError: It can't be used.
    """
    from .models import Settings, model_of, play

    used, settings = given or model_of(name, base_url), Settings(**asked)

    async def played(surface: Surface, case: Case) -> Played:
        return await play(used, surface, seed, settings)

    given_settings = {"base_url": base_url, **asked}
    return Player(
        name=name,
        kind="model",
        host=host,
        play=played,
        packages=("pydantic-ai-slim", "genai-prices"),
        settings={key: value for key, value in given_settings.items() if value is not None},
    )


def transcripts(records: Iterable[Record]) -> list[Player]:
    """Return a player for each one in records of an earlier run, which makes the calls again that it made."""
    players: dict[tuple[str, str], dict[Case, Record]] = {}
    for record in records:
        players.setdefault((record.player, record.host), {})[Case(record.task, record.arm, record.size)] = record

    def player(name: str, host: str, made: Mapping[Case, Record]) -> Player:
        async def play(surface: Surface, case: Case) -> Played:
            await replay(surface, made[case].transcript)
            return Played()

        plays = made.__contains__
        return Player(name=f"{name}, again", kind="transcript", host=host, play=play, plays=plays)

    return [player(name, host, made) for (name, host), made in players.items()]


async def run(
    plan: Plan, before: Iterable[Record] = (), begin: Callable[[Record], None] = lambda _: None
) -> AsyncGenerator[Record]:
    """Yield a record for each case of a plan, in order; those that `before` has already are not played.

    A case for which a model could not be reached is played again. `begin` is called with what is known of a case before
    it is played.

    Raises:
        ConfigError: A model could not be reached for the first case, or for some in a row.
    """
    known = {record.key: record for record in before if record.why != "unreachable"}
    offers = Offers(plan.world, plan.options, plan.ranker())
    tasks = plan.world.fingerprint(plan.tasks)
    missed = {id(player): UNREACHABLE - 1 for player in plan.players}
    for player, task, case in plan.cases():
        record = _unplayed(plan, tasks, player, case)
        if record.key in known:
            yield known[record.key]
            continue
        begin(record)
        played = await _played(plan, offers, record, player, task, case)
        missed[id(player)] = missed[id(player)] + 1 if played.why == "unreachable" else 0
        if missed[id(player)] >= UNREACHABLE:
            address = f" at {player.settings['base_url']}" if "base_url" in player.settings else ""
            raise ConfigError(f"The model {player.name!r}{address} can't be used: {played.problems[0]}")
        yield played


async def _played(plan: Plan, offers: Offers, record: Record, player: Player, task: Task, case: Case) -> Record:
    begun = time.perf_counter()
    async with offers.surface(case.arm, task, case.size, player.host) as surface:
        played = await player.play(surface, case)
    verdict = judge(task, surface.calls)
    tokens, cost = _tokens(surface, played.exchanges), played.cost
    if plan.price is not None:
        cost = (tokens["input_tokens"] * plan.price[0] + tokens["output_tokens"] * plan.price[1]) / 1e6
    found = {
        "done": verdict.done and played.stopped is None,
        "problems": (*([played.stopped] if played.stopped else ()), *verdict.problems),
        "tried": Counter(plan.world.rule(task, call.tool) for call in verdict.tried),
        "reached": Counter(plan.world.rule(task, call.tool) for call in verdict.tried if call.reached),
        "requests": surface.requests,
        "calls": sum(name != PROGRAM for name, _ in surface.recorded),
        **tokens,
        "why": played.why,
        "texts": played.texts,
        "malformed": tuple((one.tool, one.arguments, one.problem) for one in played.malformed),
        "seconds": round(time.perf_counter() - begun, 4),
        "cost": cost,
        "transcript": tuple(surface.recorded),
    }
    return record.model_copy(update=found)


def _tokens(surface: Surface, exchanges: Sequence[Exchange] | None) -> dict[str, Any]:
    """Return what was read and written: as we count it, or as a model's provider says, with what was sent beside."""
    if exchanges is None:
        return {
            "input_tokens": surface.input_tokens,
            "output_tokens": surface.output_tokens,
            "context": surface.context,
        }
    return {
        "input_tokens": sum(one.read for one in exchanges),
        "output_tokens": sum(one.written for one in exchanges),
        "context": exchanges[-1].read if exchanges else 0,
        "sent_tokens": surface.input_tokens,
        "exchanges": tuple((one.sent, one.read, one.written) for one in exchanges),
    }


def _unplayed(plan: Plan, tasks: str, player: Player, case: Case) -> Record:
    return Record(
        task=case.task,
        arm=case.arm,
        size=case.size,
        player=player.name,
        kind=player.kind,
        host=player.host,
        seed=plan.world.seed,
        tasks=tasks,
        versions=versions_of(player.packages),
        price=plan.price,
        options={**plan.options, **player.settings, **({} if plan.search == "bm25" else {"search": plan.search})},
    )


def versions_of(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of Python, the library, the SDK and of those of some packages that are installed."""
    versions = {"toolfold": __version__, "python": platform.python_version()}
    for package in ("mcp", *packages):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def read_records(file: Path) -> list[Record]:
    """Return the tasks played that a file has; raises `ConfigError`, as `read_lines` does."""
    return read_lines(file, Record)


def read_lines(file: Path, kind: type[Line]) -> list[Line]:
    """Return the records of a kind in a file; a last line that was cut off is left out, and no file has none.

    Raises:
        ConfigError: Another line is not such a record.
    """
    if not file.exists():
        return []
    lines = file.read_text(encoding="utf-8").split("\n")[:-1]  # what follows the last line break was cut off
    return [_record(kind, file, number, line) for number, line in enumerate(lines, 1)]


def _record(kind: type[Line], file: Path, number: int, line: str) -> Line:
    try:
        return kind.model_validate_json(line)
    except ValidationError as error:
        place = ".".join(map(str, error.errors()[0]["loc"]))
        raise ConfigError(
            f"{file}, line {number}: this is no record of an evaluation: {place} {error.errors()[0]['msg']}."
        ) from error
