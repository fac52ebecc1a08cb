"""Writes graphs in ONNX's format, as onnx's own helper does, for ONNX Runtime alone to read, and opens them.

The package onnx would be as large as the packaged model. The format is that of protocol buffers; numbers of
fields are those of https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

Shape = Sequence[int | str]
"""Sizes of a tensor; a word stands for any size."""

CONTRIB = "com.microsoft"
"""The domain of ONNX Runtime's own operators."""

KINDS = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7}
_VERSIONS = {"": 17, CONTRIB: 1}
_IR_VERSION = 10
_VARINT, _BYTES, _FLOAT = 0, 2, 5  # how protocol buffers write a value
_OF_FLOAT, _OF_INT, _OF_INTS = 1, 2, 7  # kinds of attributes


def node(
    operator: str,
    inputs: Iterable[str],
    outputs: Iterable[str],
    domain: str = "",
    **attributes: float | Sequence[int],
) -> bytes:
    """Return an operator; attributes are whole numbers, lists of them, or fractions."""
    fields = [_text(1, name) for name in inputs] + [_text(2, name) for name in outputs]
    fields += [_text(4, operator), *(_bytes(5, _attribute(*item)) for item in sorted(attributes.items()))]
    return b"".join(fields) + (_text(7, domain) if domain else b"")


def value(name: str, kind: str, shape: Shape) -> bytes:
    """Return what goes in or out: its name, the kind of its numbers, such as "float32", and its sizes."""
    sizes = [_number(1, size) if isinstance(size, int) else _text(2, size) for size in shape]
    tensor = _number(1, KINDS[kind]) + _bytes(2, b"".join(_bytes(1, size) for size in sizes))
    return _text(1, name) + _bytes(2, _bytes(1, tensor))


def declared(name: str, kind: str, shape: Sequence[int]) -> bytes:
    """Return a weight that a session receives separately from the graph."""
    place = _bytes(13, _text(1, "location") + _text(2, "in memory"))
    return _tensor(name, kind, shape) + place + _number(14, 1)


def stored(name: str, values: NDArray) -> bytes:
    """Return a weight that is in the graph."""
    return _tensor(name, values.dtype.name, values.shape) + _bytes(9, np.ascontiguousarray(values).tobytes())


def model(
    nodes: Iterable[bytes], weights: Iterable[bytes], inputs: Iterable[bytes], outputs: Iterable[bytes]
) -> bytes:
    """Return a graph as `onnxruntime.InferenceSession` takes it."""
    parts = ((1, nodes), (5, weights), (11, inputs), (12, outputs))
    graph = _text(2, "graph") + b"".join(_bytes(field, part) for field, some in parts for part in some)
    versions = (_text(1, domain) + _number(2, version) for domain, version in _VERSIONS.items())
    return _number(1, _IR_VERSION) + _bytes(7, graph) + b"".join(_bytes(8, one) for one in versions)


def open_session(
    graph: bytes, weights: Mapping[str, NDArray[Any]], options: onnxruntime.SessionOptions
) -> onnxruntime.InferenceSession:
    """Return what computes a graph on the CPU, with the weights that it declares, each contiguous, by name.

    A graph that is given as bytes has no folder, so ONNX Runtime opens none of the files that it names.
    """
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(values) for values in weights.values()]
    options.add_external_initializers(list(weights), values)
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def _attribute(name: str, given: float | Sequence[int]) -> bytes:
    if isinstance(given, float):
        return _text(1, name) + _key(2, _FLOAT) + struct.pack("<f", given) + _number(20, _OF_FLOAT)
    if isinstance(given, int):
        return _text(1, name) + _number(3, given) + _number(20, _OF_INT)
    return _text(1, name) + b"".join(_number(8, one) for one in given) + _number(20, _OF_INTS)


def _tensor(name: str, kind: str, shape: Sequence[int]) -> bytes:
    return b"".join(_number(1, size) for size in shape) + _number(2, KINDS[kind]) + _text(8, name)


def _text(field: int, text: str) -> bytes:
    return _bytes(field, text.encode())


def _bytes(field: int, content: bytes) -> bytes:
    return _key(field, _BYTES) + _varint(len(content)) + content


def _number(field: int, number: int) -> bytes:
    return _key(field, _VARINT) + _varint(number)


def _key(field: int, kind: int) -> bytes:
    return _varint(field << 3 | kind)


def _varint(number: int) -> bytes:
    """Return a whole number in groups of 7 bits, lowest first; a negative one as if of 64 bits."""
    number &= (1 << 64) - 1
    written = bytearray()
    while number > 127:
        written.append(number & 127 | 128)
        number >>= 7
    return bytes([*written, number])
