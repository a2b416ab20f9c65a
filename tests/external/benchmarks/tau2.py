"""tau2's four domains as one set of tools, on states that its own scorers check; and what their policies forbid.

The user whom the benchmark simulates does what the scripted solutions say, and is told what it is to be told.
"""
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import cache, lru_cache
from importlib import import_module
from importlib.metadata import version
from typing import Any

from inspect_ai.model import ChatMessageAssistant, ChatMessageUser
from inspect_ai.scorer import CORRECT, Target
from inspect_ai.tool import Tool, ToolCall, ToolDef
from inspect_ai.util import store_as
from inspect_evals.tau2 import utils
from inspect_evals.tau2.common.agents import StoredAgentState
from inspect_evals.tau2.data_model.tasks import Task

from .policies import JUDGES, Call, is_of, with_checks
from .sessions import begin_store, definition, finished, made_call

DOMAINS = {
    "airline": ("all_airline_tools", "airline/tasks.json", "AirlineAgent"),
    "retail": ("all_retail_tools", "retail/tasks.json", "RetailAgent"),
    "telecom": ("all_telecom_agent_tools", "telecom/tasks.json.gz", "TelecomAgent"),
    "banking": ("all_banking_agent_tools", "banking_knowledge/tasks.json", "BankingAgent"),
}
"""Each domain: what its module of tools calls them, its file of tasks, and what it calls its agent."""


@cache
def _tools() -> dict[str, Tool]:
    """Return the agent's tools of all domains, by domain and name."""
    found: dict[str, Tool] = {}
    for domain, (attribute, _, _) in DOMAINS.items():
        module = import_module(f"inspect_evals.tau2.{domain}.tools")
        makers = [*getattr(module, attribute), *([module.banking_grep] if domain == "banking" else [])]
        for tool in (make() for make in makers):
            found[f"{domain}.{ToolDef(tool).name.removeprefix('banking_')}"] = tool
    return found


@cache
def _user_tools(domain: str) -> dict[str, Tool]:
    """Return the tools of the user whom the benchmark simulates."""
    if domain not in ("telecom", "banking"):
        return {}
    module = import_module(f"inspect_evals.tau2.{domain}.user_tools")
    makers = next(value for name, value in vars(module).items() if re.fullmatch(r"all_\w+_user_tools", name))
    return {f"{domain}.{ToolDef(tool).name.removeprefix('banking_')}": tool for tool in (make() for make in makers)}


@cache
def _tasks() -> dict[str, tuple[str, Task]]:
    """Return the tasks of the benchmark's base split, by domain and id."""
    found: dict[str, tuple[str, Task]] = {}
    for domain, (_, name, _) in DOMAINS.items():
        file = utils.TAU2_DATA_DIR / "domains" / name
        text = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        split = file.with_name("split_tasks.json")
        base = json.loads(split.read_text(encoding="utf-8"))["base"] if split.exists() else None
        for record in json.loads(text):
            if base is None or record["id"] in base:
                found[f"{domain}/{record['id']}"] = domain, Task.model_validate(record)
    return found


class Tau2:
    """The four domains."""

    def __init__(self) -> None:
        # Each task and each scorer reads the files of states anew, which are read once here. What states are made of
        # has no part that they share, but for the tables of the banking domain.
        read = lru_cache(utils.load_file)
        database: Any = import_module("inspect_evals.tau2.environment.db")
        database.load_file = lambda path: deepcopy(read(path)) if "banking" in path else read(path)
        self._domain, self._task = "", next(iter(_tasks().values()))[1]
        self._made: set[str] = set()
        self._said: list[ToolCall] = []
        self._users: list[ToolCall] = []
        self._broke = False

    def versions(self) -> dict[str, str]:
        """Return the versions of what is played here."""
        return {name: version(name) for name in ("inspect_evals", "inspect_ai")}

    def definitions(self) -> list[dict[str, Any]]:
        """Return the tools."""
        return [definition(name, tool) for name, tool in _tools().items()]

    def tasks(self) -> list[dict[str, Any]]:
        """Return the tasks, solved as the benchmark does it, with what the policies ask to be looked up before."""
        return [
            {"id": name, "ask": _asked(task), "calls": [*with_checks(domain, _actions(domain, task))]}
            for name, (domain, task) in _tasks().items()
        ]

    def begin(self, task: str, attack: str | None) -> None:
        """Begin a task in a fresh state."""
        self._domain, self._task = _tasks()[task]
        self._made, self._said, self._users, self._broke = set(), [], [], False
        begin_store()
        begun = deepcopy(self._task.initial_state)  # what is put into a state is changed there
        if self._domain == "banking":
            environment = import_module("inspect_evals.tau2.banking.environment")
            environment.initialize_environment()
            pair = environment.get_agent_tools(), environment.get_user_tools()
            environment.apply_initial_state(*pair, begun)
        if self._domain == "telecom":
            environment = import_module("inspect_evals.tau2.telecom.environment").get_environment()
            perform = import_module("inspect_evals.tau2.telecom.solver").perform_action
            for action in (begun and begun.initialization_actions) or []:
                perform(environment, action)

    async def call(self, tool: str, arguments: Mapping[str, Any], by: str) -> dict[str, Any]:
        """Return the answer to a call of the agent, or of the user whom the benchmark simulates."""
        if by == "user" and self._domain == "banking":
            return self._by_bank_customer(tool, arguments)
        tools = _tools() if by == "assistant" else _user_tools(self._domain)
        self._broke |= by == "assistant" and any(is_of(one, tool, arguments) for one in self._forbidden())
        call, text, error = await made_call(tools, tool, arguments)
        (self._said if by == "assistant" else self._users).append(call)
        if by == "assistant" and not error:
            self._made.add(tool.partition(".")[2])
        return {"text": text, "error": error}

    def _by_bank_customer(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Do what a bank's customer does as the scorer does it: as a tool it makes other types of some arguments."""
        customer = import_module("inspect_evals.tau2.banking.environment").get_user_tools()
        name = tool.partition(".")[2]
        self._users.append(ToolCall(id="1", function=name, arguments=dict(arguments)))
        return {"text": getattr(customer, name)(**arguments), "error": False}

    async def score(self) -> dict[str, Any]:
        """Return what the domain's scorer says, and whether a call broke the policy.

        The agent has told the user what the task wants to be told.
        """
        scorer = getattr(import_module(f"inspect_evals.tau2.{self._domain}.scorer"), f"{self._domain}_scorer")()
        instance = DOMAINS[self._domain][2]
        store_as(StoredAgentState, instance).messages = [ChatMessageAssistant(content="", tool_calls=self._said)]
        told = ". ".join((self._task.evaluation_criteria and self._task.evaluation_criteria.communicate_info) or [])
        messages = [ChatMessageUser(content=told), ChatMessageAssistant(content="", tool_calls=self._users)]
        metadata = {"instance": instance, "task": self._task.model_dump()}
        score = await scorer(finished(metadata, messages, told), Target(""))
        assert score is not None
        return {"done": score.value == CORRECT, "why": score.explanation, "broke": self._broke}

    # -- what the policy forbids now ----------------------------------------------------------------------------------

    def forbidden(self) -> list[Call]:
        """Return calls that the policy of the domain forbids in the state as it is, one for each rule at most."""
        found: dict[str, Call] = {}
        for attempt in self._forbidden():
            found.setdefault(attempt["rule"], attempt)
        return [*found.values()]

    def _forbidden(self) -> Iterator[Call]:
        calls = [*_actions(self._domain, self._task), {"tool": "", "arguments": {"said": _asked(self._task)}}]
        return JUDGES[self._domain](calls, self._made)


def _asked(task: Task) -> str:
    said: Any = task.user_scenario.instructions
    return said if isinstance(said, str) else "\n".join(filter(None, (said.reason_for_call, said.known_info)))


def _actions(domain: str, task: Task) -> list[Call]:
    actions = (task.evaluation_criteria and task.evaluation_criteria.actions) or []
    return [{"tool": f"{domain}.{one.name}", "arguments": one.arguments, "by": one.requestor} for one in actions]
