"""A saved text encoder, such as a BERT or a CLIP's, and its lexicon head in ONNX Runtime.

It encodes one sentence at a time.

The graph is built in memory from the weights in model.safetensors when a model is opened, so nothing is
stored twice and nothing has to be exported. Shapes: L tokens, P pooled positions, V words, D width.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from lexlip.machine.resources import in_thread
from lexlip.models.onnx_format import CONTRIB, declared, model, node, open_session, stored, value
from lexlip.queries.saved_model import Encode, QueryTokenizer, SavedWeights, Vector
from lexlip.registry import CLIP_TEXT, SIGLIP_TEXT

Ids = NDArray[np.int64]
Embed = Callable[[Ids], NDArray[np.float32]]  # token ids [L] to the first layer's input, [L, D]

_BODY, _HEAD = "text_encoder.body", "text_head"
_HEAD_EPSILON = 1e-5  # of torch's LayerNorm, when none is given


def begin_network(
    folder: Path, description: dict[str, Any], weights: SavedWeights
) -> Callable[[QueryTokenizer], Encode]:
    """Begin to open a text encoder in a thread; return what waits for it.

    Given the model's tokenizer, which may be read meanwhile, that returns what encodes sentences: here, or in
    torch if the encoder is of another kind. Folder, description (see
    `lexlip.models.model_folder.read_description`) and weights are the model's.
    """
    architecture, config = description["text_architecture"], description["model"]
    joint = bool(config.get("joint"))
    if not is_supported(architecture, joint):
        from lexlip.models.lexlip import LexLIP

        lexlip = LexLIP.from_pretrained(folder)
        return lambda _: lambda text: lexlip.encode_text([text]).toarray()[0]
    session = TextSession(architecture, weights, joint, bool(config.get("mean_position")))
    fills_up = architecture["model_type"] == SIGLIP_TEXT  # see `lexlip.encoders.text.TextEncoder`
    most, filling = (config["text"]["max_tokens"], architecture["pad_token_id"]) if fills_up else (0, 0)

    def pooled(ids: Ids, special: Ids) -> Ids:
        if joint and config["pooling"] != "mean":
            ends = {"end": len(ids) - 1, "last": most - 1}
            return np.array([ends.get(config["pooling"], 0)])
        return np.flatnonzero(joint | config["special_positions"] | ~np.isin(ids, special))

    def encode(tokenizer: QueryTokenizer, text: str) -> Vector:
        ids = tokenizer.sentence(text)
        positions = pooled(ids, tokenizer.special)
        if not len(positions):
            return np.zeros(session.words, np.float32)
        filled = np.pad(ids, (0, max(0, most - len(ids))), constant_values=filling)
        vector: Vector = np.log1p(np.maximum(session.logits(filled, positions), 0))
        return vector

    def opened(tokenizer: QueryTokenizer) -> Encode:
        session.wait()
        return partial(encode, tokenizer)

    return opened


def is_supported(architecture: dict[str, Any], joint: bool) -> bool:
    """Return whether `TextSession` can run a text encoder, given by its transformers config."""
    kind, activation = architecture["model_type"], architecture.get("hidden_act")
    if kind in (CLIP_TEXT, SIGLIP_TEXT):
        return joint and activation in _ACTIVATIONS
    absolute = architecture.get("position_embedding_type", "absolute") == "absolute"
    return kind == "bert" and activation == "gelu" and absolute


class TextSession:
    """Computes the logits of token ids as `LexLIP` does, once it is opened, which `wait` waits for.

    With a `LexiconHead`, weights are multiplied in int8, and states in 8 bits. In the feed-forward networks,
    where tokens differ most in magnitude, each token has its own scale: the mean cosine with the vectors of
    `LexLIP.encode_text` is 0.999, and would be 0.006 lower with one scale for all. A `PooledHead` enlarges
    differences from the mean of all texts, and with them what rounding does: it gets float32 throughout.

    Args:
        architecture: the text encoder's transformers config.
        weights: the saved model's; they are read now.
        joint: whether the head is a `PooledHead`, and takes the mean of the pooled positions.
        mean_position: whether a `LexiconHead` takes their mean as a further position.
    """

    def __init__(
        self,
        architecture: dict[str, Any],
        weights: SavedWeights,
        joint: bool,
        mean_position: bool = False,
    ) -> None:
        graph = _Graph(weights, rounds=not joint)
        encoder = _bert if architecture["model_type"] == "bert" else _clip
        self.embed, states = encoder(graph, architecture)
        states = graph.add("Gather", states, "pooled", axis=1)
        if mean_position:
            mean = graph.add("ReduceMean", states, axes=[1], keepdims=1)
            states = graph.add("Concat", states, mean, axis=1)
        self.output = _pooled_head(graph, states) if joint else _lexicon_head(graph, states)
        self.words = len(graph.weights[f"{_HEAD}.bias"])
        self._opened = in_thread(graph.session, self.output)

    def wait(self) -> None:
        """Wait until it is opened, or raise the error."""
        self._session = self._opened()

    def logits(self, ids: Ids, pooled: Ids) -> NDArray[np.float32]:
        """Return the largest of each word's logits at positions [P], P > 0, of token ids [L]: float32 [V]."""
        given = {"embedded": self.embed(ids)[None], "pooled": pooled}
        (logits,) = self._session.run([self.output], given)
        largest: NDArray[np.float32] = logits[0].max(axis=0)
        return largest


def _bert(graph: _Graph, architecture: dict[str, Any]) -> tuple[Embed, str]:
    """Add a BERT to a graph; return what embeds tokens, and the name of its states, [1, L, D]."""
    parts = ("word", "position", "token_type")
    words, places, types = (graph.rows(f"{_BODY}.embeddings.{part}_embeddings.weight") for part in parts)
    positions = places(np.arange(architecture["max_position_embeddings"])) + types(np.zeros(1, np.int64))
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
    return lambda ids: words(ids) + positions[: len(ids)], states


# names of transformers, and of ONNX Runtime
_ACTIVATIONS = {"quick_gelu": "QuickGelu", "gelu": "Gelu", "gelu_pytorch_tanh": "FastGelu"}


def _clip(graph: _Graph, architecture: dict[str, Any]) -> tuple[Embed, str]:
    """Add the text encoder of a CLIP or a SigLIP; returns what `_bert` does.

    A CLIP's tokens see those before them, and a SigLIP's all.
    """
    inside = f"{_BODY}.text_model"  # as some versions of transformers have it
    body = inside if graph.saved.has(f"{inside}.final_layer_norm.bias") else _BODY
    words = graph.rows(f"{body}.embeddings.token_embedding.weight")
    positions = graph.saved.floats(f"{body}.embeddings.position_embedding.weight")
    heads, epsilon = architecture["num_attention_heads"], architecture["layer_norm_eps"]
    activation = _ACTIVATIONS[architecture["hidden_act"]]
    causal = int(architecture["model_type"] == CLIP_TEXT)
    states = "embedded"
    for number in range(architecture["num_hidden_layers"]):
        layer = f"{body}.encoder.layers.{number}"
        normed = graph.norm(states, f"{layer}.layer_norm1", epsilon)
        three = [graph.layer(normed, f"{layer}.self_attn.{part}_proj") for part in "qkv"]
        attended = graph.contrib("MultiHeadAttention", *three, num_heads=heads, unidirectional=causal)
        states = graph.add("Add", states, graph.layer(attended, f"{layer}.self_attn.out_proj"))
        normed = graph.norm(states, f"{layer}.layer_norm2", epsilon)
        inner = graph.contrib(activation, graph.layer(normed, f"{layer}.mlp.fc1"))
        states = graph.add("Add", states, graph.layer(inner, f"{layer}.mlp.fc2"))
    states = graph.norm(states, f"{body}.final_layer_norm", epsilon)
    return lambda ids: words(ids) + positions[: len(ids)], states


def _lexicon_head(graph: _Graph, states: str) -> str:
    """Add a `LexiconHead`; return the name of the logits, [1, P, V], of states [1, P, D]."""
    hidden = graph.gelu(graph.linear(states, f"{_HEAD}.dense.weight"), f"{_HEAD}.dense.bias")
    hidden = graph.norm(hidden, f"{_HEAD}.norm", _HEAD_EPSILON)
    return graph.add("Add", graph.linear(hidden, f"{_HEAD}.decoder"), graph.vector(f"{_HEAD}.bias"))


def _pooled_head(graph: _Graph, states: str) -> str:
    """Add a `PooledHead`; return the name of the logits, [1, 1, V], of states [1, P, D]."""
    pooled = graph.add("ReduceMean", states, axes=[1], keepdims=1)
    joint = graph.unit(graph.layer(pooled, f"{_HEAD}.project"))
    centred = graph.add("Sub", joint, graph.vector(f"{_HEAD}.mean"))
    raw = graph.unit(graph.linear(centred, f"{_HEAD}.decoder"))
    bias = graph.vector(f"{_HEAD}.bias")
    length = graph.constant("length", np.sqrt(graph.weights[bias].size, dtype=np.float32))
    return graph.add("Add", graph.add("Mul", raw, length), bias)


class _Graph:
    """Operators and their weights; each method adds some, and returns the name of their output."""

    def __init__(self, saved: SavedWeights, rounds: bool) -> None:
        self.saved, self.rounds = saved, rounds
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

    def contrib(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add an operator of ONNX Runtime's own."""
        return self.add_several(1, operator, *inputs, domain=CONTRIB, **attributes)[0]

    def constant(self, name: str, values: NDArray[Any]) -> str:
        self.weights[name] = np.ascontiguousarray(values)
        return name

    def vector(self, name: str) -> str:
        return self.constant(name, self.saved.vector(name))

    def rows(self, name: str) -> Embed:
        """Return what gives rows of a matrix."""
        if not self.rounds:
            floats = self.saved.floats(name)
            return lambda ids: floats[ids]
        return self.saved.rows(name)

    def columns(self, name: str, rows: NDArray[Any]) -> str:
        """Add a matrix [m, n], given by its columns [n, m]; ONNX Runtime turns it once."""
        return self.add("Transpose", self.constant(name, rows), perm=[1, 0])

    def layer(self, states: str, name: str) -> str:
        """Add a linear layer with its bias."""
        return self.add("Add", self.linear(states, f"{name}.weight"), self.vector(f"{name}.bias"))

    def unit(self, states: str) -> str:
        """Bring vectors to length 1."""
        length = self.add("ReduceL2", states, axes=[-1], keepdims=1)
        return self.add("Div", states, self.add("Max", length, self.tiny()))

    def tiny(self) -> str:
        """Return what keeps lengths above 0."""
        return self.constant("tiny", np.array(1e-12, np.float32))

    def linear(self, states: str, *names: str, by_token: bool = False) -> str:
        """Multiply states [1, L, m] with matrices [n, m], one below another, without a bias: [1, L, n].

        If the graph rounds, states have 8 bits relative to the largest of all entries, or of each token's
        own. Where a processor's int8 products saturate, the weights are moved into uint8, with 128 as zero.
        """
        if not self.rounds:
            rows = np.concatenate([self.saved.floats(name) for name in names])
            return self.contrib("FusedMatMul", states, self.constant(names[0], rows), transB=1)
        parts = [self.saved.matrix(name) for name in names]
        rows, scales = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
        scale = self.constant(f"{names[0]}.scale", scales)
        if _int8_products_saturate():
            offset = self.constant("offset", np.array(128, np.uint8))
            unsigned = rows.view(np.uint8)
            unsigned += np.uint8(128)  # wraps around: -127 becomes 1
            weight = [self.columns(names[0], unsigned), scale, offset]
        else:
            weight = [self.columns(names[0], rows), scale]
        if not by_token:
            return self.contrib("DynamicQuantizeMatMul", states, *weight)
        largest = self.add("ReduceMax", self.add("Abs", states), axes=[-1], keepdims=1)
        largest = self.add("Max", largest, self.tiny())
        unit = self.add("Div", states, largest)
        product = self.contrib("DynamicQuantizeMatMul", unit, *weight)
        return self.add("Mul", product, largest)

    def attention(self, states: str, name: str, heads: int) -> str:
        parts = ("query", "key", "value")
        mixed = self.linear(states, *(f"{name}.{part}.weight" for part in parts))
        biases = [self.saved.vector(f"{name}.{part}.bias") for part in parts]
        bias = self.constant(f"{name}.bias", np.concatenate(biases))
        three = self.add_several(3, "Split", mixed, axis=-1)
        return self.contrib("MultiHeadAttention", *three, bias, num_heads=heads)

    def gelu(self, states: str, bias: str) -> str:
        return self.contrib("BiasGelu", states, self.vector(bias))

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
