from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from lexlip.models.onnx_format import CONTRIB, declared, model, node, open_session, stored, value


def test_a_graph_is_that_of_onnx() -> None:
    weight = np.arange(-3, 3, dtype=np.int64).reshape(2, 3)
    written = model(
        [
            node("Split", ["in"], ["a", "b"], axis=-1),
            node("Pool", ["a"], ["c"], CONTRIB, epsilon=1e-5, pads=[0, 300], num_heads=12),
        ],
        [declared("w", "int8", [3, 500]), stored("x", weight)],
        [value("in", "uint8", ["B", 3, 224])],
        [value("c", "float32", [1, "P"])],
    )
    outside = TensorProto(name="w", dims=[3, 500], data_type=TensorProto.INT8)
    outside.data_location = TensorProto.EXTERNAL
    outside.external_data.add(key="location", value="in memory")
    graph = helper.make_graph(
        [
            helper.make_node("Split", ["in"], ["a", "b"], axis=-1),
            helper.make_node("Pool", ["a"], ["c"], domain=CONTRIB, epsilon=1e-5, pads=[0, 300], num_heads=12),
        ],
        "graph",
        [helper.make_tensor_value_info("in", TensorProto.UINT8, ["B", 3, 224])],
        [helper.make_tensor_value_info("c", TensorProto.FLOAT, [1, "P"])],
        [outside, numpy_helper.from_array(weight, "x")],
    )
    operators = [helper.make_opsetid("", 17), helper.make_opsetid(CONTRIB, 1)]
    expected = helper.make_model(graph, opset_imports=operators, ir_version=10)
    assert onnx.load_from_string(written) == expected


@pytest.mark.parametrize("kind", ["inside", "above", "absolute", "link"])
def test_a_graph_reads_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path / "folder")
    for file in (Path("inside"), tmp_path / "outside"):
        file.write_bytes(np.arange(4, dtype=np.float32).tobytes())
    Path("link").symlink_to("../outside")
    place = {"above": "../outside", "absolute": str(tmp_path / "outside")}.get(kind, kind)
    inputs, outputs = ([value(name, "float32", [4])] for name in ("x", "y"))
    graph = onnx.load_from_string(
        model([node("Add", ["x", "w"], ["y"])], [declared("w", "float32", [4])], inputs, outputs)
    )
    graph.graph.initializer[0].external_data[0].value = place
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    with pytest.raises(Exception, match=r"model_path|External data path|external"):
        open_session(graph.SerializeToString(), {}, options)
