import json
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from anserini_bridge import BadVectors, write_json_vectors


def test_the_export_line_by_line(tmp_path: Path) -> None:
    words = ["|", "##ing", "日本", '"']
    write_json_vectors(tmp_path / "a.jsonl", ["x", "ü"], csr_matrix([[0, 2, 1, 3], [0, 0, 0, 0]]), words)
    lines = (tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [
        {"id": "x", "contents": "", "vector": {"##ing": 2, "日本": 1, '"': 3}},
        {"id": "ü", "contents": "", "vector": {}},
    ]


def test_no_documents(tmp_path: Path) -> None:
    write_json_vectors(tmp_path / "a.jsonl", [], csr_matrix((0, 2), dtype=int), ["a", "b"])
    assert (tmp_path / "a.jsonl").read_bytes() == b""


@pytest.mark.parametrize(
    ("ids", "words", "weight", "message"),
    [
        (["x"], ["a", "b"], 1, "there are 1 ids for 2 vectors: give one id per row"),
        (["x", "y"], ["a", "a"], 1, "the word 'a' occurs twice in the vocabulary"),
        (["x", "y"], ["a", "b"], 0.5, r"the weight 0\.5 in row 0, column 0 is not a whole number"),
    ],
)
def test_a_bad_export_leaves_no_file(
    tmp_path: Path, ids: list[str], words: list[str], weight: float, message: str
) -> None:
    with pytest.raises(BadVectors, match=f"^{message}"):
        write_json_vectors(tmp_path / "a.jsonl", ids, csr_matrix(np.eye(2) * weight), words)
    assert list(tmp_path.iterdir()) == []
