import json
import re
import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest
from bridge_corpus import SETTINGS

from anserini_bridge import (
    CorruptIndex,
    ImpactSearcher,
    ImpactWriter,
    IndexNotFound,
    IndexVersion,
    lucene_version,
    read_metadata,
    vocabulary_hash,
)


def change(path: Path, **fields: Any) -> None:
    found = json.loads((path / "index.json").read_text())
    (path / "index.json").write_text(json.dumps({**found, **fields}))


def test_the_vocabulary_hash_depends_on_words_and_order() -> None:
    assert vocabulary_hash(["a", "é"]).startswith("7ab79b5e89f288f0")
    assert len({vocabulary_hash(words) for words in (["a", "b"], ["b", "a"], ["ab"])}) == 3


def test_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(IndexNotFound, match=f"There is no index at {tmp_path}/none; build one"):
        ImpactSearcher(tmp_path / "none")


def test_a_folder_of_other_files(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(IndexNotFound, match=f"{tmp_path} is not an index: it holds no index.json"):
        ImpactSearcher(tmp_path)
    with pytest.raises(IndexNotFound, match="is a file, not an index"):
        ImpactSearcher(tmp_path / "notes.txt")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("garbage", "index.json is not JSON"),
        ("\udcff", "index.json is not JSON"),
        ("[]", "index.json has no format_version"),
        ('{"format_version": "1"}', "index.json has no format_version"),
        ('{"format_version": 2}', "index.json lacks created, directory, documents, encoder"),
    ],
)
def test_a_damaged_index_json(small: Path, text: str, message: str) -> None:
    (small / "index.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(CorruptIndex, match=message):
        ImpactSearcher(small)


def test_index_json_cannot_point_elsewhere(small: Path) -> None:
    change(small, directory="../other")
    with pytest.raises(CorruptIndex, match=r"points to the folder '\.\./other', which no index has"):
        read_metadata(small)


@pytest.mark.parametrize(
    ("version", "way_out"), [(3, "install a newer lexlip"), (1, "build the index again")]
)
def test_an_unknown_format(small: Path, version: int, way_out: str) -> None:
    change(small, format_version=version)
    with pytest.raises(IndexVersion, match=f"has format version {version}, .* version 2: {way_out}"):
        ImpactSearcher(small)


@pytest.mark.parametrize(
    "newer", [(rb"(Lucene\d+)\d", rb"\g<1>7"), (rb"(?s)(\x011).(..).", rb"\g<1>c\g<2>c")]
)
def test_a_lucene_that_is_newer_than_this_one(small: Path, newer: tuple[bytes, bytes]) -> None:
    """Its codec, or the major version that made the index, is unknown here."""
    for file in (small / "data-1" / "lucene").glob("segments_*"):
        content = re.sub(*newer, file.read_bytes()[:-8])
        file.write_bytes(content + zlib.crc32(content).to_bytes(8, "big"))
    with pytest.raises(IndexVersion, match=f"Lucene {lucene_version()} cannot read the index at {small}"):
        ImpactSearcher(small)


def test_truncated_or_missing_lucene_files(small: Path) -> None:
    postings = next((small / "data-1" / "lucene").glob("*.doc"))
    postings.write_bytes(postings.read_bytes()[:10])
    message = f"The index at {small} is damaged .*: build it again"
    with pytest.raises(CorruptIndex, match=message):
        ImpactSearcher(small)
    with pytest.raises(CorruptIndex, match=message):
        ImpactWriter(small, ["a", "b", "c"], mode="update", **SETTINGS).__enter__()
    postings.unlink()
    with pytest.raises(CorruptIndex, match=message):
        ImpactSearcher(small)
    shutil.rmtree(small / "data-1" / "lucene")
    with pytest.raises(CorruptIndex, match=message):
        ImpactSearcher(small)


def test_a_changed_or_missing_vocabulary(small: Path) -> None:
    (small / "data-1" / "vocabulary.txt").write_text("a\nb\nz\n")
    with pytest.raises(CorruptIndex, match=r"vocabulary\.txt was changed after the index was built"):
        ImpactSearcher(small)
    shutil.rmtree(small / "data-1")
    with pytest.raises(CorruptIndex, match=r"vocabulary\.txt cannot be read"):
        ImpactSearcher(small)
