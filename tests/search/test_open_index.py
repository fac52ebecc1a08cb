import shutil
from contextlib import closing
from pathlib import Path

import pytest

from anserini_bridge import CorruptIndex, IndexNotFound
from lexlip.errors import ModelError
from lexlip.search.open_index import open_index
from lexlip.search.stages.bm25 import BM25Stage
from lexlip.search.stages.dense import DenseStage
from lexlip.search.stages.impact import ImpactStage
from tests.search.indexes import Indexed, change_header


@pytest.mark.parametrize(
    ("kind", "stage"), [("words", ImpactStage), ("dense", DenseStage), ("bm25", BM25Stage)]
)
def test_an_index_is_opened_as_the_kind_that_it_is(indexed: Indexed, kind: str, stage: type) -> None:
    index = getattr(indexed, kind)
    with closing(open_index(str(index))) as opened:
        assert type(opened) is stage
        assert opened.index == index
        assert opened.metadata.documents == 6


def test_options_reach_the_stage(indexed: Indexed, model_folder: Path) -> None:
    with closing(open_index(indexed.words, str(model_folder), "words", 3)) as stage:
        assert isinstance(stage, ImpactStage)
        assert (stage.model, stage.query_topk) == (str(model_folder), 3)
        assert (stage.metadata.kind, stage.metadata.extra["model"]) == ("impact", str(model_folder))
        assert stage.encode("two dogs play").nnz <= 3
    with pytest.raises(ModelError, match="which has no words: use --query-encoder network"):
        open_index(indexed.dense, query_encoder="words")


def test_a_sentence_keeps_24_words_unless_told(indexed: Indexed) -> None:
    with closing(open_index(indexed.words)) as stage:
        assert isinstance(stage, ImpactStage)
        assert stage.query_topk == 24


def test_what_is_no_index(indexed: Indexed, tmp_path: Path) -> None:
    with pytest.raises(IndexNotFound, match="there is no index at"):
        open_index(tmp_path / "nothing")
    shutil.copytree(indexed.dense, tmp_path / "later")
    change_header(tmp_path / "later", kind="later")
    with pytest.raises(
        CorruptIndex, match="holds an index of an unknown kind, 'later': build the index again"
    ):
        open_index(tmp_path / "later")
