"""Anserini: documents of words and weights, as `lexlip index --pseudo-documents` writes them."""

from __future__ import annotations

from collections.abc import Sequence

from anserini_bridge.pseudo_documents import json_vector
from lexlip.other_engines.engine_contract import Document, Made, OtherEngine


class Anserini(OtherEngine):
    """Anserini: indexed and searched with its own commands."""

    name = "anserini"
    versions = "Anserini 0.21 and later, Pyserini 0.21 and later"
    bits = 31
    ending, folder = ".jsonl", "documents"
    batch = 100_000

    def settings(self, made: Made, target: str) -> dict[str, str]:
        return {}

    def documents(self, documents: Sequence[Document], made: Made, target: str) -> str:
        return "".join(
            json_vector(document.id, document.numbers, document.weights, made.words) for document in documents
        )

    def commands(self, target: str, host: str) -> list[str]:
        return [
            "python -m pyserini.index.lucene --collection JsonVectorCollection --input documents"
            f" --index {target} --generator DefaultLuceneDocumentGenerator --impact --pretokenized"
        ]
