import json
import shutil
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from anserini_bridge import (
    BridgeError,
    CorruptIndex,
    IndexMetadata,
    IndexNotFound,
    VocabularyMismatch,
    read_header,
    read_metadata,
)
from lexlip.errors import ModelError
from lexlip.models.model_folder import write_checksums
from lexlip.queries.query_language import QueryError
from lexlip.search.stages.bm25 import BM25Stage
from lexlip.search.stages.dense import DenseStage
from lexlip.search.stages.impact import ImpactStage
from lexlip.search.stages.index_model import (
    check_no_model,
    load_dense_encoder,
    load_encoder,
    load_queries,
    open_index,
)
from tests.search.indexes import Indexed, change_header, index_dense
from tests.tiny import CAPTIONS
from tests.tiny_clip import write_clip


@pytest.fixture(scope="module")
def words(indexed: Indexed) -> IndexMetadata:
    return read_metadata(indexed.words)


def identity(model: Path) -> str:
    return str(json.loads((model / "config.json").read_text())["identity"])


def test_the_model_is_the_one_that_the_index_names(
    indexed: Indexed, words: IndexMetadata, model_folder: Path
) -> None:
    assert load_encoder(indexed.words, words, None).identity == identity(model_folder)
    assert load_queries(indexed.words, words, None, "network").identity == identity(model_folder)
    dense = load_dense_encoder(indexed.dense, read_header(indexed.dense), None)
    assert dense.identity == identity(indexed.dense_model)


def test_the_model_is_recognised_in_another_place(
    indexed: Indexed, words: IndexMetadata, model_folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(model_folder, tmp_path / "moved")
    assert load_queries(indexed.words, words, str(tmp_path / "moved"), "words").identity == words.encoder


def test_another_model(indexed: Indexed, words: IndexMetadata, model_folder: Path, other_model: Path) -> None:
    says = (
        f"the index {indexed.words} was made with {identity(model_folder)}, and {other_model} is"
        f" {identity(other_model)}: give the model that made it (--model), or index again"
    )
    for load in (load_encoder, partial(load_queries, encoder="network")):
        with pytest.raises(ModelError) as caught:
            load(indexed.words, words, str(other_model))
        assert str(caught.value) == says
    with pytest.raises(ModelError, match="not with bm25"):
        load_encoder(indexed.words, words, "bm25")


def test_another_model_that_was_put_in_its_place(
    indexed: Indexed, words: IndexMetadata, other_model: Path
) -> None:
    trained_on = replace(words, extra={**words.extra, "model": str(other_model)})
    with pytest.raises(ModelError, match=r"give the model that made it \(--model\), or index again"):
        load_encoder(indexed.words, trained_on, None)


def test_a_model_that_is_gone(indexed: Indexed, words: IndexMetadata) -> None:
    gone = replace(words, extra={**words.extra, "model": "/gone"})
    with pytest.raises(ModelError) as caught:
        load_queries(indexed.words, gone, None, "network")
    assert str(caught.value).startswith(
        f"the index {indexed.words} was made with {words.encoder}, which cannot be loaded: no model '/gone'"
    )
    assert str(caught.value).endswith("; say with --model where it is, or index again")
    with pytest.raises(ModelError, match=r"^no model '/nowhere'"):  # what the user named is not the index's
        load_queries(indexed.words, gone, "/nowhere", "network")


def test_the_hub_is_not_asked_for_a_name_that_an_index_holds(
    indexed: Indexed, words: IndexMetadata, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.socket.connect", pytest.fail)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    named = replace(words, extra={**words.extra, "model": "attacker/tracker"})
    with pytest.raises(ModelError, match=r"no model 'attacker/tracker' is on this machine.*--model where"):
        load_encoder(indexed.words, named, None)


def test_an_index_that_names_no_model(indexed: Indexed, words: IndexMetadata, model_folder: Path) -> None:
    nameless = replace(words, extra={})
    with pytest.raises(ModelError) as caught:
        load_encoder(indexed.words, nameless, None)
    assert str(caught.value) == (
        f"{indexed.words} does not say where the model is that made it ({words.encoder}):"
        " name it with --model"
    )
    assert load_encoder(indexed.words, nameless, str(model_folder)).identity == words.encoder


def test_other_words_by_the_same_name(
    indexed: Indexed, words: IndexMetadata, model_folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(model_folder, tmp_path / "copy")
    file = tmp_path / "copy" / "vocabulary.txt"
    file.write_text("\n".join(reversed(file.read_text().splitlines())) + "\n")
    write_checksums(tmp_path / "copy", [file.name])
    with pytest.raises(VocabularyMismatch):
        load_encoder(indexed.words, words, str(tmp_path / "copy"))
    with pytest.raises(VocabularyMismatch):
        load_queries(indexed.words, words, str(tmp_path / "copy"), "words")


def test_of_a_clip_only_the_weights_tell(indexed: Indexed, words: IndexMetadata, tmp_path: Path) -> None:
    """Its name is that of its folder, which may have changed."""
    clip = str(write_clip(tmp_path / "clip"))
    header = read_header(indexed.dense)
    with pytest.raises(ModelError, match=f"was made with {header.encoder}, and {clip} is clip@"):
        load_dense_encoder(indexed.dense, header, clip)
    made = load_dense_encoder(indexed.dense, replace(header, encoder=f"other-name@{_weights(clip)}"), clip)
    assert made.identity == f"clip@{_weights(clip)}"
    with pytest.raises(ModelError, match="is a model of another library"):
        load_encoder(indexed.words, words, clip)


def _weights(clip: str) -> str:
    from lexlip.models.clip import Clip

    return Clip.from_pretrained(clip).identity.partition("@")[2]


def test_no_model_is_for_captions(indexed: Indexed, model_folder: Path) -> None:
    header = read_header(indexed.bm25)
    check_no_model(indexed.bm25, header, None)
    check_no_model(indexed.bm25, header, "bm25")
    with pytest.raises(ModelError, match=f"was made with bm25, and {model_folder} is "):
        check_no_model(indexed.bm25, header, str(model_folder))


@pytest.mark.parametrize(
    ("kind", "stage"), [("words", ImpactStage), ("dense", DenseStage), ("bm25", BM25Stage)]
)
def test_an_index_is_opened_as_the_kind_that_it_is(indexed: Indexed, kind: str, stage: type) -> None:
    index = getattr(indexed, kind)
    with closing(open_index(str(index))) as opened:
        assert (type(opened), opened.index, opened.metadata.documents) == (stage, index, 6)


def test_options_reach_the_stage(indexed: Indexed, model_folder: Path) -> None:
    with closing(open_index(indexed.words, str(model_folder), "words", 3)) as stage:
        assert isinstance(stage, ImpactStage)
        assert (stage.model, stage.query_topk) == (str(model_folder), 3)
        assert (stage.metadata.kind, stage.metadata.extra["model"]) == ("impact", str(model_folder))
        assert len(stage.encode("two dogs play").indices) <= 3
    with pytest.raises(ModelError, match="which has no words: use --query-encoder network"):
        open_index(indexed.dense, query_encoder="words")
    with closing(open_index(indexed.words)) as stage:
        assert isinstance(stage, ImpactStage)
        assert stage.query_topk == 24  # unless told


def test_what_is_no_index(indexed: Indexed, tmp_path: Path) -> None:
    with pytest.raises(IndexNotFound, match="there is no index at"):
        open_index(tmp_path / "nothing")
    with pytest.raises(BridgeError, match="is too long for a name: give a shorter one"):
        open_index("x" * 300)
    shutil.copytree(indexed.dense, tmp_path / "later")
    change_header(tmp_path / "later", kind="later")
    with pytest.raises(CorruptIndex, match="index of an unknown kind, 'later': build the index again"):
        open_index(tmp_path / "later")


@pytest.mark.parametrize("kind", ["dense", "hnsw", "bm25"])
def test_without_words_only_allowed_photos_are_found(indexed: Indexed, tmp_path: Path, kind: str) -> None:
    if kind == "hnsw":
        index = index_dense(indexed.dense_model, indexed.photos, tmp_path / "index", ann="hnsw")
    else:
        index = getattr(indexed, kind)
    with closing(open_index(index)) as stage:
        query = stage.encode(" ".join(CAPTIONS))
        (every,), (scores,) = stage.search([query], 6)
        for some in ([every[-1]], every[::2], [], [*every, "unknown"]):
            (ids,), (points,) = stage.search([query], 2, stage.allow(some))
            expected = [(id, score) for id, score in zip(every, scores, strict=True) if id in some][:2]
            assert ids == [id for id, _ in expected]
            assert list(points) == pytest.approx([score for _, score in expected])
        assert stage.allow(None) is None
        with pytest.raises(QueryError, match="leaving out dog is for an index of words"):
            stage.allow(None, ["dog"])
