"""Argument lists as data: how a tool's parameters become the arguments of a program.

A template is a list. Each of its elements is one of these:

    "text"                          a literal argument
    "--level={level}"               an argument with a value in it; omitted without a value; repeated for an array
    {long = "--long"}               elements to add if the parameter is true, or has a value
    {command = {list = "--list"}}   elements to add, by the parameter's value
    "{*args}"                       the items of an array, unchanged, which may be options

A value is always part of one argument, whatever characters it has. A value at the start of an argument may not begin
with "-", so that it can't be mistaken for an option, unless "--" precedes it, after which there are no options.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import define, field

from toolfold import ToolError

Element = Any
_NAME = re.compile(r"\{(\*?)(\w+)\}")


def filled(template: list[Element], values: Mapping[str, Any]) -> list[str]:
    """Return the arguments that a template gives for some values, or raise `ToolError` if one can't be given safely."""
    filling = _Filling(values)
    filling.add(template)
    return filling.arguments


def mentioned(element: Element) -> Iterator[str]:
    """Yield the names of the parameters that a template mentions."""
    match element:
        case str():
            yield from (name for _, name in _NAME.findall(element))
        case list():
            for one in element:
                yield from mentioned(one)
        case _:
            for name, then in element.items():
                yield name
                yield from mentioned(list(then.values()) if isinstance(then, dict) else then)


@define
class _Filling:
    values: Mapping[str, Any]
    arguments: list[str] = field(factory=list[str])
    options_ended: bool = False

    def add(self, element: Element) -> None:
        match element:
            case str():
                self.add_text(element)
            case list():
                for one in element:
                    self.add(one)
            case _:
                for name, then in element.items():
                    self.add_if(self.values.get(name), then)

    def add_if(self, value: Any, then: Element) -> None:
        if isinstance(then, dict):
            self.add(then.get(_text(value), []))
        elif value is not None and value is not False:
            self.add(then)

    def add_text(self, text: str) -> None:
        found = {name: self.values.get(name) for _, name in _NAME.findall(text)}
        if None in found.values():
            return
        arrays = {name: value for name, value in found.items() if isinstance(value, list)}
        if not arrays:
            self.add_argument(text, found)
        for name, items in arrays.items():
            for item in items:
                self.add_argument(text, {**found, name: item})

    def add_argument(self, text: str, values: Mapping[str, Any]) -> None:
        argument = _NAME.sub(lambda name: _text(values[name[2]]), text)
        _check(argument, values)
        begins = _NAME.match(text)
        if begins and not begins[1] and not self.options_ended and argument.startswith("-"):
            raise ToolError(
                f"{begins[2]} can't begin with '-', since {argument!r} would be taken for an option. "
                "If it is a path, write ./ before it."
            )
        self.options_ended = self.options_ended or text == "--"
        self.arguments.append(argument)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check(argument: str, values: Mapping[str, Any]) -> None:
    """Refuse characters that can't be part of an argument."""
    if "\0" in argument or any("\ud800" <= character <= "\udfff" for character in argument):
        raise ToolError(f"{', '.join(values)} has a NUL or a surrogate, which arguments of programs can't contain.")
