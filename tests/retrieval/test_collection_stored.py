import re
from pathlib import Path
from typing import Any

import pytest

from anserini_bridge import CorruptIndex, IndexHeader, IndexMetadata
from lexlip.retrieval.collection import check_stored

EXTRA = {
    "model": "mini",
    "listed": 1.5,
    "source": "photos",
    "root": "photos/",
    "relative": False,
    "given": {"sources": [["/p", "../p", ""], ["*.tar"]], "images": None, "split": None, "exclude": ["a"]},
    "photos": "photos-1.sqlite",
    "captions": {"folder": "captions-1", "language": "en", "documents": 6},
    "kept": {"share": 1.5},
    "mounts": {"disk": "/p/disk"},
}


def header(extra: dict[str, Any]) -> IndexHeader:
    return IndexHeader(kind="x", directory="data-1", documents=1, encoder="e", extra=extra)


@pytest.mark.parametrize("extra", [EXTRA, {}, {"paths": {"a": "/p/a"}}, {"model": None, "later": [1]}])
def test_what_indexes_store(extra: dict[str, Any]) -> None:
    check_stored(Path("ix"), header(extra))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"model": 3}, "extra.model is 3"),
        ({"listed": "x"}, "extra.listed is 'x'"),
        ({"root": 1}, "extra.root is 1"),
        ({"relative": None}, "extra.relative is None"),
        ({"given": {}}, "extra.given is {}"),
        ({"given": {**EXTRA["given"], "sources": [["a", "b"]]}}, "extra.given.sources[0] is ['a', 'b']"),  # type: ignore[dict-item]
        ({"photos": "../../x"}, "'../../x' is no name of a file"),
        ({"captions": {**EXTRA["captions"], "folder": ".."}}, "'..' is no name of a file"),  # type: ignore[dict-item]
        ({"captions": []}, "extra.captions is []"),
        ({"paths": {"a": 1}}, "extra.paths['a'] is 1"),
        ({"kept": {"share": "x"}}, "extra.kept['share'] is 'x'"),
        ({"mounts": ["disk"]}, "extra.mounts is ['disk']"),
        ({"mounts": {"disk": 1}}, "extra.mounts['disk'] is 1"),
    ],
)
def test_what_no_index_stores(changed: dict[str, Any], why: str) -> None:
    message = f"^ix/index.json is damaged ({why}): build the index again$"
    with pytest.raises(CorruptIndex, match=re.escape(message).replace(r"\^", "^").replace(r"\$", "$")):
        check_stored(Path("ix"), header({**EXTRA, **changed}))


def test_quantization_of_words() -> None:
    about: dict[str, Any] = {"directory": "data-1", "documents": 1, "encoder": "e", "lucene_version": "1"}
    about |= {"vocabulary": "v", "vocabulary_size": 1, "topk": None, "normalize": True, "postings": 1}
    check_stored(Path("ix"), IndexMetadata(**about, quantization={"scheme": "unit", "scale": 1000}))
    with pytest.raises(CorruptIndex, match="quantization"):
        check_stored(Path("ix"), IndexMetadata(**about, quantization={"scheme": "unit"}))
