"""Makes image.onnx of a model's folder: the graph that encodes photos without torch, without its weights.

A run computes a frozen body's tokens by such a graph too, in less than half of torch's processor time.

ONNX Runtime takes the weights from model.safetensors, so nothing is stored twice. A graph depends on the
encoder and on the size of photos, and not on the weights' values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lexlip.encoders.image import ImageEncoder
from lexlip.errors import ModelError
from lexlip.models.dual_encoder import DualEncoder
from lexlip.models.onnx_format import CONTRIB, declared, model, node, open_session, stored, value

TOLERANCE = 1e-3  # of a logit, relative to the largest


class _Tower(nn.Module):
    """The outputs of the graph, as `LexLIP.raw_image` and `LexiconHead.hidden` have them.

    A `PooledHead` has no hidden states of positions.
    """

    def __init__(self, of: DualEncoder) -> None:
        super().__init__()
        self.image_encoder, self.image_head = of.image_encoder, of.image_head
        self.pooled = of.pooled_image if of.config.joint else None

    def forward(self, pixels: Tensor) -> tuple[Tensor, ...]:
        normalised = (pixels.float() / 255 - self.image_encoder.mean) / self.image_encoder.std
        states = self.image_encoder.deepen(self.image_encoder.body_tokens(normalised))
        if self.pooled is not None:
            return (self.image_head(self.pooled(states)),)
        hidden = self.image_head.hidden(states)
        logits = hidden @ self.image_head.decoder.t()
        return logits.amax(1) + self.image_head.bias, hidden


class _Body(nn.Module):
    def __init__(self, of: ImageEncoder) -> None:
        super().__init__()
        self.image_encoder = of

    def forward(self, pixels: Tensor) -> tuple[Tensor, ...]:
        return (self.image_encoder.tokens(pixels),)


class _Graph:
    """ONNX operators for those of torch; `names` says what torch's values are called."""

    def __init__(self) -> None:
        self.nodes: list[bytes] = []
        self.constants: list[bytes] = []
        self.names: dict[str, str] = {}

    def add(self, operator: str, output: str, *inputs: Any, **attributes: Any) -> None:
        given = [self._named(one) for one in inputs]
        self.nodes.append(node(operator, given, [output], **attributes))
        self.names[output] = output

    def shape(self, sizes: Sequence[Any]) -> str:
        """Return a tensor of sizes, of which some may be torch's values, such as the number of photos."""
        parts = [
            size if isinstance(size, torch.fx.Node) else self.constant([size], "int64") for size in sizes
        ]
        name = f"shape.{len(self.nodes)}"
        self.add("Concat", name, *parts, axis=0)
        return name

    def constant(self, values: Any, kind: str = "float32") -> str:
        name = f"constant.{len(self.constants)}"
        self.constants.append(stored(name, np.array(values, kind)))
        return name

    def _named(self, given: Any) -> str:
        if isinstance(given, torch.fx.Node):
            return self.names[given.name]
        return given if isinstance(given, str) else self.constant(given)


def _conv(graph: _Graph, out: str, x: Any, weight: Any, bias: Any = None, *rest: Any) -> None:
    usual: tuple[Any, ...] = ([1, 1], [0, 0], [1, 1], 1)
    stride, padding, dilation, groups = *rest, *usual[len(rest) :]
    inputs = [x, weight] if bias is None else [x, weight, bias]
    attributes = {"strides": list(stride), "pads": [*padding, *padding], "dilations": list(dilation)}
    graph.add("Conv", out, *inputs, **attributes, group=groups)


def _norm(graph: _Graph, out: str, x: Any, weight: Any, bias: Any, mean: Any, var: Any, *rest: Any) -> None:
    graph.add("BatchNormalization", out, x, weight, bias, mean, var, epsilon=float(rest[-2]))


def _pad(graph: _Graph, out: str, x: Any, pad: list[int], *rest: Any) -> None:
    left, right, top, bottom = pad
    pads = graph.constant([0, 0, top, left, 0, 0, bottom, right], "int64")
    graph.add("Pad", out, x, pads)


def _clip(graph: _Graph, out: str, x: Any, low: float, high: float) -> None:
    graph.add("Clip", out, x, float(low), float(high))


def _linear(graph: _Graph, out: str, x: Any, weight: Any, bias: Any = None) -> None:
    graph.add("Transpose", f"{out}.t", weight, perm=[1, 0])
    if bias is None:
        graph.add("MatMul", out, x, f"{out}.t")
        return
    graph.add("MatMul", f"{out}.product", x, f"{out}.t")
    graph.add("Add", out, f"{out}.product", bias)


def _gelu(graph: _Graph, out: str, x: Any, approximate: str = "none") -> None:
    if approximate == "tanh":
        graph.add("FastGelu", out, x, domain=CONTRIB)
        return
    graph.add("Div", f"{out}.scaled", x, 2**0.5)
    graph.add("Erf", f"{out}.erf", f"{out}.scaled")
    graph.add("Add", f"{out}.sum", f"{out}.erf", 1.0)
    graph.add("Mul", f"{out}.twice", x, f"{out}.sum")
    graph.add("Mul", out, f"{out}.twice", 0.5)


def _layer_norm(graph: _Graph, out: str, x: Any, shape: Any, weight: Any, bias: Any, *rest: Any) -> None:
    graph.add("LayerNormalization", out, x, weight, bias, axis=-1, epsilon=float((*rest, 1e-5)[0]))


def _flatten(graph: _Graph, out: str, x: Any, start: int, *rest: Any) -> None:
    if start != 2:
        raise KeyError("flatten of other dimensions")
    graph.add("Reshape", out, x, graph.constant([0, 0, -1], "int64"))


def _resample(graph: _Graph, out: str, x: Any, size: list[int], *rest: Any) -> None:
    if list(x.meta["val"].shape[2:]) != size:
        raise KeyError("positions of another grid")
    graph.add("Identity", out, x)


def _size(graph: _Graph, out: str, x: Any, dimension: int) -> None:
    graph.add("Shape", out, x, start=dimension, end=dimension + 1)


def _reshape(graph: _Graph, out: str, x: Any, sizes: list[Any]) -> None:
    graph.add("Reshape", out, x, graph.shape(sizes))


def _expand(graph: _Graph, out: str, x: Any, sizes: list[Any]) -> None:
    graph.add("Expand", out, x, graph.shape([1 if size == -1 else size for size in sizes]))


def _expand_as(graph: _Graph, out: str, x: Any, like: Any) -> None:
    graph.add("Shape", f"{out}.shape", like)
    graph.add("Expand", out, x, f"{out}.shape")


def _slice(graph: _Graph, out: str, x: Any, dimension: int, start: int, end: int) -> None:
    graph.add("Slice", out, x, *(graph.constant([one], "int64") for one in (start, end, dimension)))


def _select(graph: _Graph, out: str, x: Any, dimension: int, index: int) -> None:
    graph.add("Gather", out, x, graph.constant(index, "int64"), axis=dimension)


def _mean(graph: _Graph, out: str, x: Any, axes: list[int], keep: bool = False) -> None:
    graph.add("ReduceMean", out, x, axes=list(axes), keepdims=int(keep))


def _length(graph: _Graph, out: str, x: Any, order: float, axes: list[int], keep: bool) -> None:
    if order != 2:
        raise KeyError("a norm of another order")
    graph.add("ReduceL2", out, x, axes=list(axes), keepdims=int(keep))


def _getitem(graph: _Graph, out: str, parts: Any, index: int) -> None:
    """Take one of the parts that unbind makes along the first dimension."""
    graph.add("Gather", out, parts, graph.constant(index, "int64"), axis=0)


def _unbind(graph: _Graph, out: str, x: Any, dimension: int = 0) -> None:
    if dimension != 0:
        raise KeyError("unbind along another dimension")
    graph.add("Identity", out, x)


def _attention(graph: _Graph, out: str, query: Any, key: Any, value: Any) -> None:
    """Attend from all positions to all, as scaled_dot_product_attention does without further arguments."""
    graph.add("Transpose", f"{out}.keys", key, perm=[0, 1, 3, 2])
    graph.add("Mul", f"{out}.query", query, query.meta["val"].shape[-1] ** -0.5)
    graph.add("MatMul", f"{out}.scores", f"{out}.query", f"{out}.keys")
    graph.add("Softmax", f"{out}.shares", f"{out}.scores", axis=-1)
    graph.add("MatMul", out, f"{out}.shares", value)


def _transpose(graph: _Graph, out: str, x: Any, first: int, second: int) -> None:
    order = list(range(x.meta["val"].ndim))
    order[first], order[second] = order[second], order[first]
    graph.add("Transpose", out, x, perm=order)


OPERATORS: dict[str, Callable[..., None]] = {
    "conv2d": _conv,
    "batch_norm": _norm,
    "pad": _pad,
    "hardtanh": _clip,
    "hardtanh_": _clip,
    "relu_": lambda graph, out, x: graph.add("Relu", out, x),
    "relu6": lambda graph, out, x: _clip(graph, out, x, 0, 6),
    "relu6_": lambda graph, out, x: _clip(graph, out, x, 0, 6),
    "linear": _linear,
    "gelu": _gelu,
    "layer_norm": _layer_norm,
    "flatten": _flatten,
    "transpose": _transpose,
    "permute": lambda graph, out, x, order: graph.add("Transpose", out, x, perm=list(order)),
    "sym_size": _size,
    "reshape": _reshape,
    "view": _reshape,
    "expand": _expand,
    "expand_as": _expand_as,
    "slice": _slice,
    "select": _select,
    "cat": lambda graph, out, parts, axis=0: graph.add("Concat", out, *parts, axis=axis),
    "unbind": _unbind,
    "getitem": _getitem,
    "scaled_dot_product_attention": _attention,
    "_upsample_bicubic2d_aa": _resample,
    "mean": _mean,
    "linalg_vector_norm": _length,
    "clamp_min": lambda graph, out, x, low: graph.add("Max", out, x, float(low)),
    "sigmoid": lambda graph, out, x: graph.add("Sigmoid", out, x),
    "mul": lambda graph, out, x, y: graph.add("Mul", out, x, y),
    "t": lambda graph, out, x: graph.add("Transpose", out, x, perm=[1, 0]),
    "add": lambda graph, out, x, y: graph.add("Add", out, x, y),
    "add_": lambda graph, out, x, y: graph.add("Add", out, x, y),
    "sub": lambda graph, out, x, y: graph.add("Sub", out, x, y),
    "div": lambda graph, out, x, y: graph.add("Div", out, x, y),
    "matmul": lambda graph, out, x, y: graph.add("MatMul", out, x, y),
    "amax": lambda graph, out, x, axes: graph.add("ReduceMax", out, x, axes=list(axes), keepdims=0),
    "to": lambda graph, out, x, *rest: graph.add("Cast", out, x, to=1),
    "contiguous": lambda graph, out, x, *rest, **more: graph.add("Identity", out, x),
    "alias": lambda graph, out, x: graph.add("Identity", out, x),
    "dropout": lambda graph, out, x, *rest: graph.add("Identity", out, x),
}
"""What each operator of torch becomes; a model with others needs torch."""


def image_graph(of: DualEncoder) -> bytes:
    """Return the graph: "pixels", uint8 [B, 3, S, S], to "logits" [B, V] and "hidden" [B, P, D].

    With a `PooledHead` there is no "hidden".

    It is tried on two pictures of noise. ModelError: the image encoder pools in another way, has an operator
    that is not known here, or the graph computes something else than torch.
    """
    if of.image_encoder.prefix_tokens and not of.config.joint:
        raise ModelError(f"'{of.name}' pools in another way: its photos need torch")
    shapes: dict[str, list[int | str]] = {"logits": ["B", of.dimensions]}
    if not of.config.joint:
        shapes["hidden"] = ["B", "P", of.text_encoder.width]
    training = of.training
    try:
        graph, _ = _tried(_Tower(of).eval(), of.image_encoder, shapes)
    finally:
        of.train(training)
    return graph


def frozen_tokens(encoder: ImageEncoder) -> Callable[[Tensor], Tensor]:
    """Return what computes `encoder.tokens` of photos of its size, uint8 [B, 3, S, S], with today's weights.

    It runs on the CPU, in fp32, and is tried as `image_graph` does. ModelError: as there.
    """
    training = encoder.training
    try:
        shape: list[int | str] = ["B", *encoder.token_shape]
        _, session = _tried(_Body(encoder).eval(), encoder, {"tokens": shape})
    finally:
        encoder.train(training)
    return lambda pixels: torch.from_numpy(session.run(["tokens"], {"pixels": pixels.numpy()})[0])


def _tried(
    tower: nn.Module, encoder: ImageEncoder, shapes: dict[str, list[int | str]]
) -> tuple[bytes, onnxruntime.InferenceSession]:
    """Return a tower's graph, with outputs of these names and shapes, and what computes it; or ModelError."""
    name, size, device = encoder.config.name, encoder.config.size, encoder.mean.device
    try:
        noise = np.random.default_rng(0).integers(0, 256, (2, 3, size, size), np.uint8)
        pixels = torch.from_numpy(noise).to(device)
        graph, weights = _converted(tower, pixels, name, shapes)
        with torch.inference_mode():
            expected = tower(pixels)[0].float().cpu().numpy()
        options = onnxruntime.SessionOptions()
        options.log_severity_level, options.intra_op_num_threads = 3, torch.get_num_threads()
        session = open_session(graph, weights, options)
        (found,) = session.run([next(iter(shapes))], {"pixels": noise})
    except ModelError:
        raise
    except Exception as error:  # torch and ONNX Runtime raise many kinds
        raise ModelError(f"'{name}' has no graph: its photos need torch") from error
    if not np.abs(found - expected).max() <= TOLERANCE * np.abs(expected).max():
        raise ModelError(f"the graph of '{name}' differs from it: its photos need torch")
    return graph, session


def _converted(
    tower: nn.Module, pixels: Tensor, of: str, shapes: dict[str, list[int | str]]
) -> tuple[bytes, dict[str, NDArray[np.float32]]]:
    """Return the graph, and the weights that it declares."""
    batch = torch.export.Dim("batch", min=1, max=1024)
    program = torch.export.export(tower, (pixels,), dynamic_shapes=({0: batch},))
    graph, weights = _Graph(), {}
    saved = tower.state_dict()
    inputs = {spec.arg.name: spec.target for spec in program.graph_signature.input_specs}  # type: ignore[union-attr]
    for step in program.graph.nodes:
        if step.op == "placeholder":
            target = inputs[step.name]
            graph.names[step.name] = target or "pixels"
            if not step.users:
                continue  # such as what only training counts
            if target in saved:
                weights[str(target)] = saved[str(target)].float().cpu().contiguous().numpy()
            elif target is not None:
                buffer = dict(program.named_buffers())[target]
                graph.names[step.name] = graph.constant(buffer.cpu().numpy())
        elif step.op == "call_function":
            name = step.target.__name__.split(".")[0]  # type: ignore[union-attr]
            if name == "_assert_tensor_metadata":
                continue
            if name not in OPERATORS:
                raise ModelError(f"'{of}' has the operator {name}: its photos need torch")
            OPERATORS[name](graph, step.name, *step.args, **step.kwargs)
        elif step.op == "output":
            for output, result in zip(shapes, step.args[0], strict=True):
                graph.add("Identity", output, result)
    outside = [declared(name, "float32", values.shape) for name, values in weights.items()]
    finished = model(
        graph.nodes,
        [*outside, *graph.constants],
        [value("pixels", "uint8", ["B", *pixels.shape[1:]])],
        [value(output, "float32", shape) for output, shape in shapes.items()],
    )
    return finished, weights
