"""Networks that ONNX Runtime runs, and the ONNX format, in which one is written here without the package `onnx`.

A model in that format is a message of Protocol Buffers: fields with a number, each an integer, a float or bytes.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

from toolfold.spi import extras_named, frozen

Array: TypeAlias = Any
Shape: TypeAlias = Sequence[int | str]

EXTRA = "meaning"
CONTRIBUTED = "com.microsoft"
"""The operators that are ONNX Runtime's own."""

_VERSIONS = {"": 17, CONTRIBUTED: 1}
_FORMAT = 9
_FLOAT, _BYTE, _INT, _LONG = 1, 2, 6, 7
_KINDS = {"f4": _FLOAT, "u1": _BYTE, "i4": _INT, "i8": _LONG}
_ERRORS_ALONE = 3


def runtime_that_reports_nothing() -> Any:
    """Return the package `onnxruntime`, which tells its maker of no use of it unless the environment says otherwise.

    From its import on it keeps an id of the machine in a file, and asks for the address of the host that it reports to;
    so it is told before. What it offers for that itself, which can be called once it is imported, is told, too.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    runtime = import_module("onnxruntime")
    runtime.disable_telemetry_events()
    return runtime


def started(network: bytes) -> Any:
    """Return the session of ONNX Runtime that runs a network: on one core, and without an arena that keeps its memory.

    Raises:
        MissingExtra: ONNX Runtime is missing.
    """
    with extras_named(EXTRA):
        runtime = runtime_that_reports_nothing()
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    options.log_severity_level = _ERRORS_ALONE
    return runtime.InferenceSession(network, options, providers=["CPUExecutionProvider"])


class Network:
    """A network while it is made: each operator and constant returns the name of what it gives."""

    def __init__(self) -> None:
        self._nodes: list[bytes] = []
        self._constants: list[bytes] = []

    def constant(self, values: Array) -> str:
        """Add an array of numbers."""
        name = f"c{len(self._constants)}"
        kind = _KINDS[values.dtype.str[1:]]
        shape = b"".join(_field(1, size) for size in values.shape)
        self._constants.append(_field(5, shape + _field(2, kind) + _field(8, name) + _field(9, values.tobytes())))
        return name

    def apply(
        self, kind: str, *inputs: str, outputs: int = 1, own: bool = True, settings: Mapping[str, float] | None = None
    ) -> list[str]:
        """Add an operator with some settings, one of ONNX Runtime's own unless `own` is false."""
        names = [f"v{len(self._nodes)}_{place}" for place in range(outputs)]
        given = b"".join(_field(1, name) for name in inputs) + b"".join(_field(2, name) for name in names)
        node = given + _field(4, kind) + b"".join(_setting(*one) for one in (settings or {}).items())
        self._nodes.append(_field(1, node + (_field(7, CONTRIBUTED) if own else b"")))
        return names

    def written(
        self, inputs: Mapping[str, tuple[str, Sequence[int | str]]], output: str, shape: Sequence[Any]
    ) -> bytes:
        """Return the network in the format; `inputs` have their kind of number and their shape."""
        named = b"".join(_field(11, _value(name, _KINDS[kind], sizes)) for name, (kind, sizes) in inputs.items())
        body = [*self._nodes, _field(2, "network"), *self._constants, named, _field(12, _value(output, _FLOAT, shape))]
        versions = b"".join(_field(8, _field(1, name) + _field(2, number)) for name, number in _VERSIONS.items())
        return _field(1, _FORMAT) + versions + _field(7, b"".join(body))


@frozen(eq=False)
class Stored:
    """What is in a file in the format: its constants, and the operators as their kind, inputs and outputs."""

    constants: Mapping[str, Array]
    operators: Sequence[tuple[str, Sequence[str], Sequence[str]]]

    @classmethod
    def read(cls, numpy: Any, file: Path) -> Stored:
        """Return what a file has; its numbers are read from there as they are needed."""
        data = memoryview(numpy.memmap(file, dtype="u1", mode="r"))
        (graph,) = (value for number, value in _fields(data) if number == _GRAPH)
        constants: dict[str, Array] = {}
        operators: list[tuple[str, Sequence[str], Sequence[str]]] = []
        for number, value in _fields(graph):
            if number == _NODE:
                operators.append(_operator(value))
            elif number == _CONSTANT:
                name, values = _constant(numpy, value)
                constants[name] = values
        return cls(constants, operators)


_GRAPH, _NODE, _CONSTANT = 7, 1, 5
_FIXED = {1: 8, 5: 4}
_STORED = {1: "<f4", 3: "i1", 7: "<i8"}


def _operator(data: memoryview) -> tuple[str, Sequence[str], Sequence[str]]:
    texts: dict[int, list[str]] = {1: [], 2: [], 4: []}
    for number, value in _fields(data):
        if number in texts:
            texts[number].append(bytes(value).decode())
    return texts[4][0], texts[1], texts[2]


def _constant(numpy: Any, data: memoryview) -> tuple[str, Array]:
    shape: list[int] = []
    found: dict[int, Any] = {}
    for number, value in _fields(data):
        if number == 1:
            shape.append(value)
        else:
            found[number] = value
    values = found.get(9, b"")
    kind = _STORED.get(found[2], "u1")
    return bytes(found[8]).decode(), numpy.frombuffer(values, kind).reshape(shape if kind != "u1" else -1)


def _fields(data: memoryview) -> Iterator[tuple[int, Any]]:
    """Yield the fields of a message: numbers, and what has a length."""
    place = 0

    def whole() -> int:
        nonlocal place
        found = shift = 0
        more = True
        while more:
            found |= (data[place] & 127) << shift
            more = data[place] > 127
            place += 1
            shift += 7
        return found

    while place < len(data):
        key = whole()
        form = key & 7
        if form == 0:
            yield key >> 3, whole()
        else:
            length = _FIXED.get(form) or whole()
            yield key >> 3, data[place : place + length]
            place += length


def _setting(name: str, value: float) -> bytes:
    number = _field(3, value) + _field(20, 2) if isinstance(value, int) else _field(2, value) + _field(20, 1)
    return _field(5, _field(1, name) + number)


def _value(name: str, kind: int, shape: Shape) -> bytes:
    sizes = b"".join(_field(1, _field(1 if isinstance(size, int) else 2, size)) for size in shape)
    return _field(1, name) + _field(2, _field(1, _field(1, kind) + _field(2, sizes)))


def _field(number: int, value: float | str | bytes) -> bytes:
    """Return a field of a message; whole numbers are never negative here."""
    if isinstance(value, float):
        return _whole(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return _whole(number << 3) + _whole(value)
    content = value.encode() if isinstance(value, str) else value
    return _whole(number << 3 | 2) + _whole(len(content)) + content


def _whole(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])
