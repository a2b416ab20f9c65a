"""`toolfold evaluate`: plays tasks, and counts which get done (SPEC EVA-1)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

import click
from anyio import current_time, move_on_after
from attrs import evolve

from toolfold import Catalog, ConfigError, __version__
from toolfold_adapters.tokens import plural
from toolfold_adapters.transport.signals import stdout_reserved

from .failures import Failed, run
from .options import (
    COMMAND,
    FILE,
    FOLDER,
    Integer,
    Number,
    OneOf,
    chosen_target,
    parse_names,
    target_command,
)
from .printing import show, table
from .runs import show_progress
from .targets import GatewayOptions, Target, open_target

if TYPE_CHECKING:
    from toolfold_adapters.evaluation import AnswerOptions, Choice, Plan, Player, Record, Suggested, Task, World

    Line = TypeVar("Line", Choice, Record)

SIZES = (20, 100, 500, 1_000)
OWN_OPTIONS = ("players", "models", "host", "replay", "arms", "sizes", "seed", "sample", "price")
SUGGESTED, SUGGESTED_ARMS = 20, ("everything", "search", "groups", "groups+search")
"""How many suggested tasks are played unless --sample is given, and against which arms unless --arm is."""
SUGGESTING = 600
"""How many seconds models have for suggested tasks."""
NO_MODEL = "no model"
ASKED = ("base_url", "max_tokens", "temperature", "context", "timeout")
"""The options that say how models are asked."""
_NAMES = partial(click.option, metavar="NAMES", multiple=True, callback=parse_names)


def _price(ctx: click.Context, parameter: click.Parameter, value: str | None) -> tuple[float, float] | None:
    if value is None:
        return None
    if not re.fullmatch(r"\d+(\.\d+)?/\d+(\.\d+)?", value):
        raise click.BadParameter(f"{value!r} is not READ/WRITTEN, such as 3/15.", ctx, parameter)
    read, written = map(float, value.split("/"))
    return read, written


def _asked(ctx: click.Context, given: Mapping[str, Any], models: Sequence[str]) -> Mapping[str, Any]:
    """Return the options of models that have a value; they are for models alone."""
    source = click.core.ParameterSource.DEFAULT
    chosen = {name: value for name, value in given.items() if ctx.get_parameter_source(name) is not source}
    if chosen and not models:
        raise click.UsageError(f"--{next(iter(chosen)).replace('_', '-')} is for models: give a --model.", ctx)
    return {name: value for name, value in given.items() if value is not None}


@target_command(
    "evaluate",
    "toolfold evaluate                                           the built-in tasks, by a perfect chooser",
    "toolfold evaluate --player hosts --size 100 --report hosts.html",
    "toolfold evaluate shop:tools --suggest                      what do groups do for these tools?",
    "toolfold evaluate shop:tools --suggest --tasks tasks.toml   the same; the tasks are kept",
    "toolfold evaluate shop:tools --tasks tasks.toml",
    "toolfold evaluate shop:tools --tasks tasks.toml --model anthropic:claude-sonnet-4-5 -o runs.jsonl",
    "toolfold evaluate --model qwen3:4b --base-url http://127.0.0.1:11434/v1 --context 8192 --sample 10",
    "toolfold evaluate shop:tools --tasks tasks.toml --replay runs.jsonl --require 95",
)
@click.option("--tasks", "file", type=FILE, metavar="FILE", help="A .toml file of tasks for the tools of TARGET.")
@click.option(
    "--live-mcp-bench",
    "bench",
    type=FOLDER,
    metavar="DIR",
    help="Play the tasks of LiveMCPBench, from its repository.",
)
@click.option(
    "--suggest",
    is_flag=True,
    help="Make tasks of the tools themselves, into the --tasks FILE if given; models write requests, and choose.",
)
@_NAMES("--player", "players", help="Scripted players, all, or hosts; perfect unless given.")
@click.option("--model", "models", metavar="NAME", multiple=True, help="A model as pydantic-ai names it, by its key.")
@click.option("--base-url", metavar="URL", help="Where the models are: an API with OpenAI's chat completions.")
@click.option("--max-tokens", type=Integer(1), metavar="N", help="How much a model may write in one request.")
@click.option("--temperature", type=Number(min=0), metavar="T", help="The temperature of models.")
@click.option("--context", type=Integer(1), metavar="N", help="How many tokens a model can read; no more are sent.")
@click.option(
    "--timeout",
    type=Number(min=0, min_open=True),
    metavar="SECONDS",
    default=600,
    show_default=True,
    help="How long a model may take for one task.",
)
@click.option("--host", metavar="NAME", help="The host whose view the models have; they read everything otherwise.")
@click.option("--replay", type=FILE, metavar="FILE", help="Make the calls again that a file of records has.")
@_NAMES("--arm", "arms", help="Ways to offer the tools: all unless given.")
@_NAMES("--size", "sizes", help="Numbers of tools, with fillers, or all, which is without.")
@click.option(
    "--answers",
    type=OneOf(["auto", "definitions", "signatures", "names"]),
    help="How servers answer the opening of a group, as for serve.",
)
@click.option("--answer-tokens", type=Integer(1), metavar="N", help="How long such an answer may be, as for serve.")
@click.option("--sample", type=Integer(1), metavar="N", help="Play so many of the tasks, chosen by the seed.")
@click.option("--choices", "choosing", is_flag=True, help="Have models choose names alone, beside what a search finds.")
@click.option("--seed", type=int, default=0, show_default=True, help="The seed of fillers, and of models.")
@click.option("--price", metavar="READ/WRITTEN", callback=_price, help="Dollars for a million tokens, such as 3/15.")
@click.option("-o", "--output", type=FILE, metavar="FILE", help="Record as JSON lines; a run that was ended goes on.")
@click.option("--report", type=FILE, metavar="FILE", help="Write an HTML page that compares.")
@click.option(
    "--require",
    type=Number(min=0, max=100),
    metavar="PERCENT",
    help="Fail, with status 1, if a player does fewer of the tasks with any arm and size.",
)
def evaluate_command(
    ctx: click.Context,
    /,
    targets: tuple[str, ...],
    file: Path | None,
    bench: Path | None,
    suggest: bool,
    choosing: bool,
    output: Path | None,
    report: Path | None,
    require: float | None,
    app_dir: Path | None,
    **given: Any,
) -> None:
    """Play tasks with simulated tools against ways to offer them, and count which get done, and what is read for it.

    Without a TARGET they are the built-in tasks. No handler of a TARGET runs: its tools answer as the tasks say.
    """
    own = {name: given.pop(name) for name in OWN_OPTIONS}
    own["asked"] = _asked(ctx, {name: given.pop(name) for name in ASKED}, own["models"])
    own["options"] = {name: given.pop(name) for name in ("answers", "answer_tokens")}
    has_target = bool(targets or COMMAND in ctx.meta)
    if bench is not None and (has_target or file is not None):
        raise click.UsageError("--live-mcp-bench has tools and tasks of its own: leave out TARGET and --tasks.", ctx)
    if has_target and file is None and not suggest:
        raise click.UsageError("Give the --tasks for these tools; --suggest makes some of the tools themselves.", ctx)
    if suggest and choosing:
        raise click.UsageError("--suggest has models choose anyway: leave out --choices.", ctx)
    if suggest and (bench is not None or own["replay"] is not None):
        raise click.UsageError("--suggest makes tasks of its own: leave out --live-mcp-bench and --replay.", ctx)
    target = chosen_target(ctx, targets, app_dir=app_dir, **given) if has_target else None
    if report is not None and not report.parent.is_dir():
        raise Failed(f"{report} can't be written: there is no folder {report.parent}.")
    if choosing:
        run(partial(_chosen, target, file, bench, output, own))
        return
    if suggest:
        if file is not None and file.exists():
            raise Failed(f"{file} exists already: leave out --suggest to play its tasks, or name another file.")
        records: list[Record] = run(partial(_suggested, target, file, output, report, own))
    else:
        records = run(partial(_evaluated, target, file, bench, output, own))
        _show(records, report)
    if require is not None:
        _check(records, require)


async def _catalog(chosen: tuple[Target, GatewayOptions] | None) -> Catalog:
    """Return the catalog of a target, or the built-in one."""
    from toolfold_adapters.evaluation import OWN
    from toolfold_adapters.manifests.catalogs import load_catalog

    if chosen is None:
        return load_catalog(OWN / "catalog.toml").catalog
    with stdout_reserved():
        async with open_target(*chosen) as opened:
            return opened.tools.catalog


async def _suggested(
    target: tuple[Target, GatewayOptions] | None,
    file: Path | None,
    output: Path | None,
    report: Path | None,
    given: dict[str, Any],
) -> list[Record]:
    """Make tasks of the tools, show what a script reads for them, and what is chosen; return the script's records."""
    from toolfold_adapters.evaluation import Suggested, World, check_groups, rewritten, suggested

    catalog, until = await _catalog(target), current_time() + SUGGESTING
    world, models = World(catalog, given.pop("seed")), given.pop("models")
    check_groups(world.own())
    by_rule = suggested(catalog)
    asked, sample, arms = given.pop("asked"), given.pop("sample") or SUGGESTED, given.pop("arms") or SUGGESTED_ARMS
    given |= {"models": (), "host": None, "asked": {}}
    plan = _plan(world, by_rule.tasks, False, sample=sample, arms=arms, **given)
    made = Suggested(tasks=tuple(plan.chosen()), without=by_rule.without)
    if models:
        from toolfold_adapters.evaluation.models import Settings, model_of, writer_of

        settings = dict(asked)
        writer = writer_of(model_of(models[0], settings.pop("base_url", None)), world.seed, Settings(**settings))
        third = current_time() + SUGGESTING / 3
        with show_progress(SUGGESTING / 3) as progress:

            async def write(about: str) -> str | None:
                progress(f"{models[0]} writes requests")
                with move_on_after(third - current_time()):
                    return await writer(about)
                return None

            made = await rewritten(made, catalog, write)
    if file is not None:
        _write(file, made.toml())
    plan = evolve(plan, tasks=made.tasks, sample=None)
    show(f"{plural(len(made.tasks), 'task')}, of {plural(len(world.own()), 'tool')}: {_writers(made, models)}")
    if made.without:
        show(f"  without a description that a request can be made of: {', '.join(made.without)}")
    show("")
    records = await _played(plan, None)
    _show(records, report)
    await _choices(plan, models, asked, output, seconds=max(until - current_time(), 1))
    return records


def _writers(made: Suggested, models: Sequence[str]) -> str:
    """Return who wrote the requests of tasks, and what that means for figures."""
    count = len(made.by_model)
    if count == len(made.tasks):
        return f"the requests are written by {models[0]}."
    verb = "is" if count == 1 else "are"
    by_model = f"{plural(count, 'request')} {verb} written by {models[0]}, and the others" if count else "the requests"
    return f"{by_model} are sentences of descriptions, which a search finds more easily than what people say."


async def _chosen(
    target: tuple[Target, GatewayOptions] | None,
    file: Path | None,
    bench: Path | None,
    output: Path | None,
    given: Mapping[str, Any],
) -> None:
    """Print how often each model, and a search without one, chooses the tool that a request needs."""
    from toolfold_adapters.evaluation import OWN, Plan, World, bench_tasks, load_tasks

    catalog = await _catalog(target) if bench is None else bench_tasks(bench)[0]
    tasks = load_tasks(file or OWN / "tasks.toml", catalog) if bench is None else bench_tasks(bench)[1]
    world, built_in = World(catalog, given["seed"]), target is None and bench is None
    sizes = tuple(map(_size, given["sizes"])) or ((100,) if built_in else (None,))
    plan = Plan(world=world, tasks=tasks, players=(), sample=given["sample"], sizes=sizes)
    await _choices(plan, given["models"], given["asked"], output)


async def _choices(
    plan: Plan, models: Sequence[str], asked: Mapping[str, Any], output: Path | None, seconds: float = math.inf
) -> None:
    """Print a table for each model, or one without, also if it is ended before all is asked.

    Raises:
        Failed: A model has answered nothing.
    """
    unanswered: list[str] = []
    with move_on_after(seconds) as limit:
        for name in models or (None,):
            await _choices_of(name, plan, asked, output, unanswered)
    if limit.cancelled_caught:
        show(f"{SUGGESTING // 60} minutes are over: a smaller --sample leaves time for all, as -o and a second run do.")
    if unanswered:
        raise Failed("\n".join(unanswered))


async def _choices_of(
    name: str | None, plan: Plan, asked: Mapping[str, Any], output: Path | None, unanswered: list[str]
) -> None:
    """Print the table of a model, or the one without; where it has answered nothing `unanswered` gets why."""
    from toolfold_adapters.evaluation import CHOICE_COLUMNS, Choice, choices, choose

    chooser, options = None, {"search": plan.search} if plan.search != "bm25" else {}
    if name is not None:
        from toolfold_adapters.evaluation.models import Settings, chooser_of, model_of

        settings, options = dict(asked), {**options, **asked}
        chooser = chooser_of(model_of(name, settings.pop("base_url", None)), plan.world.seed, Settings(**settings))
    made: list[Choice] = []
    total = sum(len(task.calls) for task in plan.chosen()) * len(plan.sizes)
    try:
        with _recorded(output, Choice) as (before, write), show_progress() as progress:
            if not any(one.answered for one in before if one.player == name):
                before = [one for one in before if one.player != name]
            known = {one.key for one in before}
            async for choice in choose(plan, chooser, name or NO_MODEL, options, before):
                made.append(choice)
                if choice.key not in known:
                    write(choice.model_dump_json())
                asked_of = len({(one.task, one.number, one.size) for one in made})
                progress(f"{asked_of:,} of {total:,} requests: {name or NO_MODEL} chooses")
    finally:
        fingerprint = plan.world.fingerprint(plan.tasks)
        about = f"choices; seed {plan.world.seed}; tasks {fingerprint}; toolfold {__version__}"
        said = "".join(f"; {key} {value}" for key, value in options.items())
        show(f"{name or NO_MODEL} ({about}{said})")
        lines = table(*CHOICE_COLUMNS, numbers=CHOICE_COLUMNS[1:])
        for row in choices(made):
            lines.add_row(*row.cells())
        show(lines)
        for remark in filter(None, (row.remark for row in choices(made))):
            show(f"  {remark}")
        _show_problems({one.task: one.problem for one in made if one.problem}, "-o records all")
        if name is not None and total and not any(one.answered for one in made):
            why = next((one.problem for one in made if one.problem), "it has answered nothing until now")
            at = f" at {asked['base_url']}" if "base_url" in asked else ""
            unanswered.append(f"The model {name!r}{at} can't be used: {why}")


async def _evaluated(
    target: tuple[Target, GatewayOptions] | None,
    file: Path | None,
    bench: Path | None,
    output: Path | None,
    given: dict[str, Any],
) -> list[Record]:
    """Return the records of a run of the tasks of a file, of a benchmark or of the built-in ones."""
    from toolfold_adapters.evaluation import OWN, World, bench_tasks, load_tasks

    if bench is not None:
        catalog, tasks = bench_tasks(bench)
    else:
        catalog = await _catalog(target)
        tasks = load_tasks(file or OWN / "tasks.toml", catalog)
    return await _played(
        _plan(World(catalog, given.pop("seed")), tasks, target is None and bench is None, **given), output
    )


async def _played(plan: Plan, output: Path | None) -> list[Record]:
    """Return the records of a plan, each of which is written as soon as it is there."""
    from toolfold_adapters.evaluation import Record
    from toolfold_adapters.evaluation import run as played

    total = len(plan.cases())
    records: list[Record] = []
    with _recorded(output, Record) as (before, write), show_progress() as progress:
        begun = set[tuple[Any, ...]]()

        def begin(record: Record) -> None:
            begun.add(record.key)
            progress(f"{len(records) + 1:,} of {total:,}: {record.player}, {record.arm}, {record.task}")

        async for record in played(plan, before, begin):
            records.append(record)
            if record.key in begun:
                write(record.model_dump_json())
            progress(f"{len(records):,} of {total:,} are played")
    return records


def _plan(
    world: World,
    tasks: Sequence[Task],
    built_in: bool,
    *,
    players: Sequence[str],
    models: Sequence[str],
    host: str | None,
    replay: Path | None,
    arms: Sequence[str],
    sizes: Sequence[str],
    sample: int | None,
    asked: Mapping[str, Any],
    price: tuple[float, float] | None,
    options: Mapping[str, Any],
) -> Plan:
    from toolfold_adapters.evaluation import ARMS, HOSTS, Plan

    for arm in arms:
        _check_name("arm", arm, ARMS)
    if host is not None:
        _check_name("host", host, HOSTS)
        if not models:
            raise ConfigError(f"--host is for models; the script with the view of this host is --player {host}.")
    return Plan(
        world=world,
        tasks=tasks,
        players=_players(players, models, host, replay, world.seed, asked),
        arms=tuple(arms or ARMS),
        sizes=tuple(map(_size, sizes)) or (SIZES if built_in else (None,)),
        price=price,
        sample=sample,
        options=cast("AnswerOptions", {name: one for name, one in options.items() if one is not None}),
    )


def _players(
    names: Sequence[str],
    models: Sequence[str],
    host: str | None,
    replay: Path | None,
    seed: int,
    asked: Mapping[str, Any],
) -> list[Player]:
    from toolfold_adapters.evaluation import HOSTS, SCRIPTS, model, read_records, scripted, transcripts

    sets = {"all": tuple(SCRIPTS), "hosts": tuple(name for name in SCRIPTS if name in HOSTS)}
    if not (names or models or replay):
        names = ("perfect",)
    chosen = dict.fromkeys(name for given in names for name in sets.get(given, (given,)))
    for name in chosen:
        _check_name("player", name, (*SCRIPTS, *sets))
    if replay is not None and not replay.exists():
        raise ConfigError(f"There is no file {replay} to replay.")
    return [
        *map(scripted, chosen),
        *(model(name, seed, **({"host": host} if host else {}), **asked) for name in models),
        *(transcripts(read_records(replay)) if replay else ()),
    ]


def _check_name(what: str, name: str, known: Iterable[str]) -> None:
    if name not in known:
        raise ConfigError(f"There is no {what} {name!r}; there are {', '.join(known)}.")


def _size(word: str) -> int | None:
    if word == "all":
        return None
    if not word.isdecimal() or not 1 <= int(word) <= SIZES[-1]:
        raise ConfigError(f"--size {word}: it is a number of tools from 1 to {SIZES[-1]:,}, or all.")
    return int(word)


@contextmanager
def _recorded(output: Path | None, kind: type[Line]) -> Generator[tuple[list[Line], Callable[[str], None]]]:
    """Yield the records that a file has, and what adds a line to it; a line that was cut off is removed."""
    if output is None:
        yield [], lambda line: None
        return
    from toolfold_adapters.evaluation import read_lines

    before = read_lines(output, kind)
    try:
        with output.open("a+b") as lines:
            _remove_the_rest(lines)

            def write(line: str) -> None:
                lines.write(f"{line}\n".encode())
                lines.flush()

            yield before, write
    except OSError as error:
        raise ConfigError(f"{output} can't be written: {error.strerror}.") from error


def _remove_the_rest(lines: IO[bytes]) -> None:
    lines.seek(0)
    lines.truncate(lines.read().rfind(b"\n") + 1)


def _show(records: Sequence[Record], report: Path | None) -> None:
    """Print a table for each player, with what it was measured with, and write the page."""
    from toolfold_adapters.evaluation import page, remarks, rows, scores

    scored = scores(records)
    for player, with_what in dict.fromkeys((score.player, score.measured_with) for score in scored):
        show(f"{player} ({with_what})")
        own = [score for score in scored if (score.player, score.measured_with) == (player, with_what)]
        heads, *found = rows(own)
        lines = table(*heads, numbers=heads[1:])
        for row in found:
            lines.add_row(*row)
        show(lines)
        for remark in remarks(own):
            show(f"  {remark}")
        _show_problems({one.task: one.problems[0] for score in own for one in score.missed}, "--report names all")
        show("")
    if report is not None:
        _write(report, page(records))


def _show_problems(problems: Mapping[str, str], all_of_them: str) -> None:
    """Print what went wrong with the first tasks, and how many more there are."""
    for task, problem in list(problems.items())[:5]:
        show(f"  {task}: {problem}")
    if len(problems) > 5:
        show(f"  and {plural(len(problems) - 5, 'task')} more; {all_of_them}")


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Failed(f"{file} can't be written: {error.strerror}.") from error


def _check(records: Sequence[Record], percent: float) -> None:
    from toolfold_adapters.evaluation import scores

    below = [score for score in scores(records) if 100 * score.done < percent * score.tasks]
    if below:
        first = below[0]
        cells = first.cells()
        raise Failed(
            f"{first.player} did {first.done} of {first.tasks} tasks with {first.arm} and {cells[1]} tools; "
            f"{percent:g}% are required. {plural(len(below), 'row')} of the table are below that."
        )
