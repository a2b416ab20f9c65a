"""The evaluation: does offering tools in groups help to get tasks done? (SPEC EVA-1, EVA-2).

tasks.py    tasks as data, and the judgement of what was done     data/      the built-in catalog and its tasks
world.py    the tools to choose from, with fillers, and their simulated results
links.py    connections to the tools of an arm            surfaces.py   the arms, and what a player sees there
players.py  scripted policies, and transcripts                    models.py  models that pydantic-ai reaches
runs.py     each task, arm, number of tools and player; records   scores.py  a table of the records
suggesting.py  tasks made of a server's own tools
bench.py    the tasks of LiveMCPBench                             choosing.py  what a model names that only chooses
"""

from .bench import bench_tasks
from .choosing import CHOICE_COLUMNS, Choice, Choices, check_groups, choices, choose
from .players import SCRIPTS
from .runs import Plan, Player, Record, model, read_lines, read_records, run, scripted, transcripts
from .scores import Score, page, remarks, rows, scores
from .suggesting import Suggested, rewritten, suggested
from .surfaces import ARMS, HOSTS, AnswerOptions
from .tasks import OWN, Task, judge, load_tasks
from .world import World

__all__ = [
    "ARMS",
    "CHOICE_COLUMNS",
    "HOSTS",
    "OWN",
    "SCRIPTS",
    "AnswerOptions",
    "Choice",
    "Choices",
    "Plan",
    "Player",
    "Record",
    "Score",
    "Suggested",
    "Task",
    "World",
    "bench_tasks",
    "check_groups",
    "choices",
    "choose",
    "judge",
    "load_tasks",
    "model",
    "page",
    "read_lines",
    "read_records",
    "remarks",
    "rewritten",
    "rows",
    "run",
    "scores",
    "scripted",
    "suggested",
    "transcripts",
]
