import re
import shutil
import zlib
from pathlib import Path

import pytest
from bridge_corpus import SETTINGS, change_metadata, literal

from anserini_bridge import (
    CorruptIndex,
    ImpactSearcher,
    ImpactWriter,
    IndexNotFound,
    IndexVersion,
    lucene_version,
    read_metadata,
)


def test_a_missing_folder(tmp_path: Path) -> None:
    nowhere = literal(tmp_path / "none")
    message = f"^there is no index at {nowhere}: make one with `lexlip index FOLDER`, or give"
    with pytest.raises(IndexNotFound, match=message):
        ImpactSearcher(tmp_path / "none")


def test_a_folder_of_other_files(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    message = f"^{literal(tmp_path)} holds no index: make one with `lexlip index FOLDER`, or give the folder"
    with pytest.raises(IndexNotFound, match=message):
        ImpactSearcher(tmp_path)
    with pytest.raises(IndexNotFound, match=r"is a file, not an index: give the folder of an index$"):
        ImpactSearcher(tmp_path / "notes.txt")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("garbage", "index.json is not JSON"),
        ("\udcff", "index.json is not JSON"),
        ("[]", "index.json has no format_version"),
        ('{"format_version": "1"}', "index.json has no format_version"),
        ('{"format_version": 2}', "index.json lacks directory, documents, encoder"),
    ],
)
def test_a_damaged_index_json(small: Path, text: str, message: str) -> None:
    (small / "index.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(CorruptIndex, match=message):
        ImpactSearcher(small)


def test_index_json_cannot_point_elsewhere(small: Path) -> None:
    change_metadata(small, directory="../other")
    with pytest.raises(CorruptIndex, match=r"points to '\.\./other', which is not a data folder: build"):
        read_metadata(small)


@pytest.mark.parametrize(
    ("version", "way_out"), [(3, "install a newer lexlip"), (1, "build the index again")]
)
def test_an_unknown_format(small: Path, version: int, way_out: str) -> None:
    change_metadata(small, format_version=version)
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
    message = f"Lucene {lucene_version()} cannot read the index at {literal(small)}"
    with pytest.raises(IndexVersion, match=message):
        ImpactSearcher(small)


def test_truncated_or_missing_lucene_files(small: Path) -> None:
    postings = next((small / "data-1" / "lucene").glob("*.doc"))
    postings.write_bytes(postings.read_bytes()[:10])
    message = f"^the index at {literal(small)} is damaged .*, or build it again$"
    with pytest.raises(CorruptIndex, match=message):
        ImpactSearcher(small)
    unchanged = f"^the index at {literal(small)} is damaged, and nothing was changed "
    with pytest.raises(CorruptIndex, match=unchanged):
        ImpactWriter(small, ["a", "b", "c"], mode="update", **SETTINGS).__enter__()
    postings.unlink()
    with pytest.raises(CorruptIndex, match=message):
        ImpactSearcher(small)
    shutil.rmtree(small / "data-1" / "lucene")
    of_the_system = "No such file or directory|The system cannot find the (file|path) specified"
    with pytest.raises(CorruptIndex, match=rf"lucene: ({of_the_system})\): build it again$"):
        ImpactSearcher(small)


def test_a_changed_or_missing_vocabulary(small: Path) -> None:
    (small / "data-1" / "vocabulary.txt").write_text("a\nb\nz\n")
    with pytest.raises(CorruptIndex, match=r"vocabulary\.txt was changed after the index was built"):
        ImpactSearcher(small)
    shutil.rmtree(small / "data-1")
    with pytest.raises(CorruptIndex, match=r"vocabulary\.txt cannot be read"):
        ImpactSearcher(small)
