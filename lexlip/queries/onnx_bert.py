"""A saved BERT and its lexicon head in ONNX Runtime: integer products, one sentence at a time.

The graph is built in memory from the weights in model.safetensors when a model is opened, so nothing is
stored twice and nothing has to be exported. Shapes: L tokens, P pooled positions, V words, D width.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from lexlip.models.onnx_format import CONTRIB, declared, model, node, open_session, stored, value
from lexlip.queries.saved_model import Encode, QueryTokenizer, SavedWeights, Vector

_BODY, _HEAD = "text_encoder.body", "text_head"
_HEAD_EPSILON = 1e-5  # of torch's LayerNorm, when none is given


def network(
    folder: Path, description: dict[str, Any], weights: SavedWeights, tokenizer: QueryTokenizer
) -> Encode:
    """Return what encodes sentences with the text encoder: here, or in torch if it is of another kind.

    Folder, description (see `lexlip.models.model_folder.read_description`) and the rest are the model's.
    """
    architecture = description["text_architecture"]
    if not is_supported(architecture) or description["model"].get("joint"):
        from lexlip.models.lexlip import LexLIP

        lexlip = LexLIP.from_pretrained(folder)
        return lambda text: lexlip.encode_text([text]).toarray()[0]
    session = BertSession(architecture, weights)
    pools_all = description["model"]["special_positions"]

    def encode(text: str) -> Vector:
        ids = tokenizer.sentence(text)
        pooled = np.flatnonzero(pools_all | ~np.isin(ids, tokenizer.special))
        if not len(pooled):
            return np.zeros(session.words, np.float32)
        vector: Vector = np.log1p(np.maximum(session.logits(ids, pooled), 0))
        return vector

    return encode


def is_supported(architecture: dict[str, Any]) -> bool:
    """Return whether `BertSession` can run a text encoder, given by its transformers config."""
    return (
        architecture["model_type"] == "bert"
        and architecture["hidden_act"] == "gelu"
        and architecture.get("position_embedding_type", "absolute") == "absolute"
    )


class BertSession:
    """Computes the logits of token ids as `LexLIP` does, up to the rounding of integer products.

    Weights are multiplied in int8, and states in 8 bits. In the feed-forward networks, where tokens differ
    most in magnitude, each token has its own scale: the mean cosine with the vectors of
    `LexLIP.encode_text` is 0.999, and would be 0.006 lower with one scale for all.

    Args:
        architecture: the text encoder's transformers config.
        weights: the saved model's; they are read now.
    """

    def __init__(self, architecture: dict[str, Any], weights: SavedWeights) -> None:
        positions, scales = weights.matrix(f"{_BODY}.embeddings.position_embeddings.weight")
        types, type_scales = weights.matrix(f"{_BODY}.embeddings.token_type_embeddings.weight")
        self.embeddings, self.scales = weights.matrix(f"{_BODY}.embeddings.word_embeddings.weight")
        self.positions = positions * scales[:, None] + types[0] * type_scales[0]  # of the first segment
        graph = _Graph(weights)
        self.output = _bert(graph, architecture)
        self.words = len(graph.weights[f"{_HEAD}.bias"])
        self.session = graph.session(self.output)

    def logits(self, ids: NDArray[np.int64], pooled: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the largest of each word's logits at positions [P], P > 0, of token ids [L]: float32 [V]."""
        embedded = self.embeddings[ids] * self.scales[ids, None] + self.positions[: len(ids)]
        (logits,) = self.session.run([self.output], {"embedded": embedded[None], "pooled": pooled})
        largest: NDArray[np.float32] = logits[0].max(axis=0)
        return largest


def _bert(graph: _Graph, architecture: dict[str, Any]) -> str:
    """Add a BERT and its head to a graph; return the name of the logits, [1, P, V], of embedded [1, L, D]."""
    heads, epsilon = architecture["num_attention_heads"], architecture["layer_norm_eps"]
    states = graph.norm("embedded", f"{_BODY}.embeddings.LayerNorm", epsilon)
    for number in range(architecture["num_hidden_layers"]):
        layer = f"{_BODY}.encoder.layer.{number}"
        attended = graph.attention(states, f"{layer}.attention.self", heads)
        mixed = graph.linear(attended, f"{layer}.attention.output.dense.weight")
        states = graph.residual(mixed, f"{layer}.attention.output.dense.bias", states)
        states = graph.norm(states, f"{layer}.attention.output.LayerNorm", epsilon)
        inner = graph.linear(states, f"{layer}.intermediate.dense.weight", by_token=True)
        inner = graph.gelu(inner, f"{layer}.intermediate.dense.bias")
        mixed = graph.linear(inner, f"{layer}.output.dense.weight", by_token=True)
        states = graph.residual(mixed, f"{layer}.output.dense.bias", states)
        states = graph.norm(states, f"{layer}.output.LayerNorm", epsilon)
    states = graph.add("Gather", states, "pooled", axis=1)
    hidden = graph.gelu(graph.linear(states, f"{_HEAD}.dense.weight"), f"{_HEAD}.dense.bias")
    hidden = graph.norm(hidden, f"{_HEAD}.norm", _HEAD_EPSILON)
    return graph.add("Add", graph.linear(hidden, f"{_HEAD}.decoder"), graph.vector(f"{_HEAD}.bias"))


class _Graph:
    """Operators and their weights; each method adds some, and returns the name of their output."""

    def __init__(self, saved: SavedWeights) -> None:
        self.saved = saved
        self.nodes: list[bytes] = []
        self.weights: dict[str, NDArray[Any]] = {}

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        return self.add_several(1, operator, *inputs, **attributes)[0]

    def add_several(
        self, outputs: int, operator: str, *inputs: str, domain: str = "", **attributes: Any
    ) -> list[str]:
        names = [f"{operator}.{len(self.nodes)}.{number}" for number in range(outputs)]
        self.nodes.append(node(operator, inputs, names, domain, **attributes))
        return names

    def constant(self, name: str, values: NDArray[Any]) -> str:
        self.weights[name] = np.ascontiguousarray(values)
        return name

    def vector(self, name: str) -> str:
        return self.constant(name, self.saved.vector(name))

    def linear(self, states: str, *names: str, by_token: bool = False) -> str:
        """Multiply states [1, L, m] with matrices [n, m], one below another, without a bias: [1, L, n].

        States are rounded to 8 bits relative to the largest of all entries, or of each token's own. Where a
        processor's int8 products saturate, the weights are moved into uint8, with 128 as their zero.
        """
        parts = [self.saved.matrix(name) for name in names]
        matrix = np.concatenate([rows for rows, _ in parts]).T
        scale = self.constant(f"{names[0]}.scale", np.concatenate([scale for _, scale in parts]))
        if _int8_products_saturate():
            offset = self.constant("offset", np.array(128, np.uint8))
            unsigned = matrix.view(np.uint8) + np.uint8(128)  # wraps around: -127 becomes 1
            weight = [self.constant(names[0], unsigned), scale, offset]
        else:
            weight = [self.constant(names[0], matrix), scale]
        if not by_token:
            return self.add("DynamicQuantizeMatMul", states, *weight, domain=CONTRIB)
        tiny = self.constant("tiny", np.array(1e-12, np.float32))
        largest = self.add("ReduceMax", self.add("Abs", states), axes=[-1], keepdims=1)
        largest = self.add("Max", largest, tiny)
        unit = self.add("Div", states, largest)
        product = self.add("DynamicQuantizeMatMul", unit, *weight, domain=CONTRIB)
        return self.add("Mul", product, largest)

    def attention(self, states: str, name: str, heads: int) -> str:
        parts = ("query", "key", "value")
        mixed = self.linear(states, *(f"{name}.{part}.weight" for part in parts))
        biases = [self.saved.vector(f"{name}.{part}.bias") for part in parts]
        bias = self.constant(f"{name}.bias", np.concatenate(biases))
        three = self.add_several(3, "Split", mixed, axis=-1)
        return self.add("MultiHeadAttention", *three, bias, domain=CONTRIB, num_heads=heads)

    def gelu(self, states: str, bias: str) -> str:
        return self.add("BiasGelu", states, self.vector(bias), domain=CONTRIB)

    def norm(self, states: str, name: str, epsilon: float) -> str:
        weights = self.vector(f"{name}.weight"), self.vector(f"{name}.bias")
        return self.add("LayerNormalization", states, *weights, axis=-1, epsilon=epsilon)

    def residual(self, mixed: str, bias: str, states: str) -> str:
        return self.add("Add", self.add("Add", mixed, self.vector(bias)), states)

    def session(self, output: str) -> onnxruntime.InferenceSession:
        """Return what computes `output`, on one thread."""
        weights = [declared(name, values.dtype.name, values.shape) for name, values in self.weights.items()]
        inputs = [value("embedded", "float32", [1, "L", "D"]), value("pooled", "int64", ["P"])]
        graph = model(self.nodes, weights, inputs, [value(output, "float32", [1, "P", "V"])])
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        # higher levels join Add and LayerNormalization, which is slower
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        return open_session(graph, self.weights, options)


@cache
def _int8_products_saturate() -> bool:
    """Return whether this processor adds products of uint8 and int8 in 16 bits, where large ones are cut.

    x86 without VNNI does so; products of uint8 and uint8 are exact everywhere, and slower where VNNI is.
    """
    states, weight = np.full((1, 64), 255, np.uint8), np.full((64, 1), 127, np.int8)
    graph = model(
        [node("MatMulInteger", ["states", "weight"], ["product"])],
        [stored("weight", weight)],
        [value("states", "uint8", states.shape)],
        [value("product", "int32", [1, 1])],
    )
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    (product,) = session.run(None, {"states": states})
    return int(product.item()) != 64 * 255 * 127
