"""Searches an index that Anserini made, of words with their weights as term frequencies.

It is what `IndexCollection -collection JsonVectorCollection -impact -pretokenized` writes: Lucene's files
alone, of documents with the fields `id` and `contents`. It says neither which model its words are of nor how
their weights were made whole.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from anserini_bridge.errors import IndexNotFound, VocabularyMismatch
from anserini_bridge.jvm import lucene_version
from anserini_bridge.metadata import (
    ANSERINI,
    LUCENE_COMMIT,
    IndexMetadata,
    is_of_anserini,
    vocabulary_hash,
)
from anserini_bridge.searcher import ImpactSearcher

_COMMIT = re.compile(f"{LUCENE_COMMIT}[0-9a-z]+")


class AnseriniSearcher(ImpactSearcher):
    """Searches an index that Anserini made, as `ImpactSearcher` does its own.

    Scores are sums of products of whole weights, as Pyserini's LuceneImpactSearcher computes them. Equal ones
    come in the order of Lucene's documents.

    Args:
        path: the folder with Lucene's files.
        vocabulary: the words of the model that made the documents.
        encoder: identity of that model.
        quantization: how its weights were made whole, see `IndexMetadata`.

    Raises:
        IndexNotFound: there is no such index.
        VocabularyMismatch: it holds other words, or none.
        IndexVersion, CorruptIndex: it cannot be read.
        NoJava, NoJar, JVMConflict: see `start_jvm`.
    """

    _lucene = ""

    def __init__(
        self, path: str | Path, vocabulary: Sequence[str], encoder: str, quantization: Mapping[str, Any]
    ) -> None:
        if not is_of_anserini(path):
            raise IndexNotFound(f"{path} holds no index of Lucene's alone: give the folder of one")
        self._all_words = tuple(vocabulary)
        self._told = IndexMetadata(
            kind=ANSERINI,
            directory=".",
            documents=0,
            encoder=encoder,
            lucene_version=lucene_version(),
            vocabulary=vocabulary_hash(vocabulary),
            vocabulary_size=len(vocabulary),
            quantization=dict(quantization),
            topk=None,
            normalize=False,
            postings=0,
        )
        super().__init__(path)
        if not self.metadata.postings:
            self.close()
            raise VocabularyMismatch(f"the documents of the index at {path} have no words: index them anew")
        known = int(self.frequencies().sum())
        if known < self.metadata.postings:
            self.close()
            raise VocabularyMismatch(
                f"{self.metadata.postings - known} of the {self.metadata.postings} words of documents in the"
                f" index at {path} are not among those of {encoder}: name the model that made them"
            )

    def _read(self) -> IndexMetadata:
        """Return what was told of the index, with its newest commit."""
        commits = [name for file in self.path.iterdir() if _COMMIT.fullmatch(name := file.name)]
        newest = max(commits, key=lambda name: int(name.removeprefix(LUCENE_COMMIT), 36), default="")
        return replace(self._told, commit=newest)

    def _words(self, metadata: IndexMetadata) -> tuple[str, ...]:
        return self._all_words
