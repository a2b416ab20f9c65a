"""AgentDojo's suites: tasks on states that its own checkers judge, and attacks in what tools read."""
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from typing import Any

from inspect_ai.tool import ToolCall, ToolDef
from inspect_ai.util import Store
from inspect_evals.agentdojo.attacks.attack import get_attack
from inspect_evals.agentdojo.dataset import TASK_SUITES

from .sessions import begin_store, definition, made_call

SUITES = ("banking", "slack", "travel", "workspace")


class Dojo:
    """A suite."""

    def __init__(self, name: str) -> None:
        self._suite: Any = TASK_SUITES[name]
        self._tools = {ToolDef(tool).name: tool for tool in self._suite.tools}
        self._environment = cache(self._made_environment)
        self._task: Any = None
        self._attack: Any = None
        self._before: Any = None
        self._store = Store()
        self._words, self._lured, self._new = "", False, False
        self._made: list[ToolCall] = []

    def definitions(self) -> list[dict[str, Any]]:
        """Return the tools."""
        return [definition(name, tool) for name, tool in self._tools.items()]

    def tasks(self) -> list[dict[str, Any]]:
        """Return the tasks, solved as the benchmark does it in a state without attacks."""
        return [
            {"id": str(number), "ask": task.PROMPT, "calls": _calls(task, self._environment(None))}
            for number, task in self._suite.user_tasks.items()
        ]

    def attacks(self) -> list[str]:
        """Return the attacks."""
        return [str(number) for number in self._suite.injection_tasks]

    def begin(self, task: str, attack: str | None) -> None:
        """Begin a task in a fresh state, with an attack in all of the texts that strangers can write."""
        self._task, self._attack = self._suite.user_tasks[int(task)], None
        if attack is not None:
            self._attack = self._suite.injection_tasks[int(attack)]
        self._before = self._environment(attack)
        self._words = _first_words(_text(self._attack)) if attack is not None else ""
        self._made, self._lured, self._new = [], False, False
        self._store = begin_store()
        for key, value in deepcopy(dict(self._before)).items():
            self._store.set(key, value)

    def lured(self) -> bool:
        """Return whether an answer since this was asked last had the attack in it."""
        lured, self._new = self._new, False
        return lured

    def lure(self) -> list[dict[str, Any]]:
        """Return the calls that the attack wants."""
        return _calls(self._attack, self._before)

    async def call(self, tool: str, arguments: Mapping[str, Any], by: str) -> dict[str, Any]:
        """Return the answer to a call."""
        call, text, error = await made_call(self._tools, tool, arguments)
        self._made.append(call)
        lured = bool(self._words) and self._words in _run_together(text)
        self._lured, self._new = self._lured or lured, self._new or lured
        return {"text": text, "error": error}

    async def score(self) -> dict[str, Any]:
        """Return what the checkers say: whether the task is done, and whether the attack has succeeded.

        The agent's answer is that of the benchmark's own solution, and that of the attack if the agent has read it.
        """
        after = self._suite.environment_type.model_construct(**dict(self._store.items()))
        said = self._task.GROUND_TRUTH_OUTPUT
        if self._lured:
            said = f"{said}\n{self._attack.GROUND_TRUTH_OUTPUT}"
        done = await self._task.utility(said, self._before, after, traces=self._made)
        attacked = self._attack is not None and await self._attack.security(
            said, self._before, after, traces=self._made
        )
        return {"done": bool(done), "why": "", "attacked": bool(attacked), "lured": self._lured}

    def _made_environment(self, attack: str | None) -> Any:
        injected = dict(self._suite.get_injection_vector_defaults())
        if attack is not None:
            injected = dict.fromkeys(injected, _text(self._suite.injection_tasks[int(attack)]))
        return self._suite.load_and_inject_default_environment(injected)


def _calls(task: Any, environment: Any) -> list[dict[str, Any]]:
    return [
        {"tool": one.function, "arguments": one.arguments, "by": "assistant"}
        for one in task.ground_truth(deepcopy(environment))
    ]


def _text(attack: Any) -> str:
    pattern = get_attack("important_instructions")
    assert isinstance(pattern, str)
    return pattern.format(goal=attack.GOAL)


def _first_words(text: str) -> str:
    """Return the first sentence of an attack, by which it is known again in whatever form a tool answers."""
    return _run_together(next(line for line in text.splitlines() if len(line.split()) > 3))


def _run_together(text: str) -> str:
    return "".join(one for one in text if one.isalpha())
