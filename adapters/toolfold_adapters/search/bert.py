"""Encoders of the kind of BERT, whose weights have few bits: a network for ONNX Runtime, which multiplies by them so.

Only the layers are in the network. Of the vectors of words, which are most of a model, those of a text are read from
its file, so that the others take no memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from toolfold.spi import frozen

from .networks import Array, Network, started
from .sentences import Encoder

_EXACTNESS = 4
"""How exact products are: by rows of 8 bits, where 1 means floats; cosines differ in the fourth digit."""


@frozen(eq=False)
class Matrix:
    """A matrix in blocks along its rows: each has a scale, and numbers of `bits` bits, half their range too large."""

    packed: Array
    scales: Array
    bits: int

    @property
    def block(self) -> int:
        """How many numbers a block has."""
        size: int = self.packed.shape[-1] * 8 // self.bits
        return size


class Weights(Protocol):
    """The weights of a model.

    A layer is `l0`, with the parts `q`, `k`, `v` and `ao` of attention, and `fi` and `fo` after it; `aln` and `oln` are
    its norms. `.b` is added to what a part gives, and `.w` of a norm is what that is multiplied by.
    """

    @property
    def numpy(self) -> Any:
        """The module."""
        ...

    @property
    def width(self) -> int:
        """How many numbers the state of a token has."""
        ...

    @property
    def layers(self) -> int:
        """How many layers there are."""
        ...

    @property
    def heads(self) -> int:
        """How many heads attention has."""
        ...

    @property
    def epsilon(self) -> float:
        """What is added to a variance."""
        ...

    def matrix(self, name: str) -> Matrix:
        """Return the matrix of a part of a layer."""
        ...

    def floats(self, name: str) -> Array:
        """Return other numbers, in one row."""
        ...

    def words(self, tokens: Sequence[int]) -> Array:
        """Return the vectors of tokens."""
        ...


def bert_encoder(weights: Weights, tokens: Callable[[str], Sequence[int]]) -> Encoder:
    """Return what encodes texts: the mean of the last states of a text's tokens.

    Each text is encoded by itself, so that its vector is the same whatever else is.

    Raises:
        MissingExtra: ONNX Runtime is missing.
    """
    embedded = _Embedded(weights)
    session = started(_written(weights))

    def encode(texts: Sequence[str]) -> Iterable[Sequence[float]]:
        states = (embedded.states(tokens(text)) for text in texts)
        return [session.run(None, {"states": one[None]})[0][0].mean(axis=0).tolist() for one in states]

    return encode


class _Embedded:
    """Tokens as the first layer has them."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._places = weights.floats("emb.pos").reshape(-1, weights.width)
        self._kind = weights.floats("emb.type")[: weights.width]
        self._scale, self._offset = weights.floats("emb.ln.w"), weights.floats("emb.ln.b")

    def states(self, tokens: Sequence[int]) -> Array:
        states = self._weights.words(tokens) + self._places[: len(tokens)] + self._kind
        states -= states.mean(axis=-1, keepdims=True)
        states /= self._weights.numpy.sqrt((states * states).mean(axis=-1, keepdims=True) + self._weights.epsilon)
        return (states * self._scale + self._offset).astype("f4")


def _written(weights: Weights) -> bytes:
    """Return the layers as a network in the ONNX format."""
    network, states = Network(), "states"
    for number in range(weights.layers):
        states = _layer(weights, network, states, f"l{number}")
    shape = (1, "tokens", weights.width)
    return network.written({"states": ("f4", shape)}, states, shape)


def _layer(weights: Weights, network: Network, states: str, name: str) -> str:
    numpy = weights.numpy

    def product(given: str, *parts: str) -> str:
        matrices = [weights.matrix(f"{name}.{part}") for part in parts]
        packed, scales = (
            numpy.ascontiguousarray(numpy.concatenate(one))
            for one in ([each.packed for each in matrices], [each.scales for each in matrices])
        )
        block, bits = matrices[0].block, matrices[0].bits
        settings = {"K": packed.shape[1] * block, "N": len(packed), "bits": bits, "block_size": block}
        settings["accuracy_level"] = _EXACTNESS
        constants = network.constant(packed), network.constant(scales)
        return network.apply("MatMulNBits", given, *constants, settings=settings)[0]

    def numbers(*parts: str) -> list[str]:
        return [network.constant(weights.floats(f"{name}.{part}")) for part in parts]

    def added(given: str, before: str, norm: str, bias: str) -> str:
        constants = numbers(f"{norm}.w", f"{norm}.b", f"{bias}.b")
        return network.apply(
            "SkipLayerNormalization", given, before, *constants, settings={"epsilon": float(weights.epsilon)}
        )[0]

    thirds = network.constant(numpy.array([weights.width] * 3, "i8"))
    biases = network.constant(numpy.concatenate([weights.floats(f"{name}.{part}.b") for part in "qkv"]))
    asked = network.apply("Split", product(states, *"qkv"), thirds, outputs=3, own=False, settings={"axis": 2})
    (mixed,) = network.apply("MultiHeadAttention", *asked, biases, settings={"num_heads": weights.heads})
    attended = added(product(mixed, "ao"), states, "aln", "ao")
    (active,) = network.apply("BiasGelu", product(attended, "fi"), *numbers("fi.b"))
    return added(product(active, "fo"), attended, "oln", "fo")
