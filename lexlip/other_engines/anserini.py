"""Anserini: documents of words and weights, as `lexlip index --pseudo-documents` writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anserini_bridge.pseudo_documents import json_vector
from lexlip.other_engines.engine_contract import STOP, Document, Made, OtherEngine


class Anserini(OtherEngine):
    """Anserini: indexed and searched with its own commands."""

    name = "anserini"
    versions = "Anserini 0.21 and later, Pyserini 0.21 and later"
    bits = 31
    ending, folder = ".jsonl", "documents"
    batch = 100_000
    before = "Install Pyserini (pip install pyserini), which brings Anserini"

    def settings(self, made: Made, target: str) -> dict[str, str]:
        return {}

    def documents(self, documents: Sequence[Document], made: Made, target: str) -> str:
        return "".join(
            json_vector(document.id, document.numbers, document.weights, made.words) for document in documents
        )

    def commands(self, target: str, photos: int) -> list[str]:
        return [
            STOP,
            "",
            "python -m pyserini.index.lucene --collection JsonVectorCollection --input documents \\",
            f"    --index {target} --generator DefaultLuceneDocumentGenerator --impact --pretokenized"
            ' || stop "the index"',
            "# Pyserini leaves out words that every document has, unless --min-idf is below 0",
            f"python -m pyserini.search.lucene --index {target} --topics topics.tsv --impact --min-idf -1 \\",
            '    --hits 10 --output run.txt || stop "the search"',
            "cat run.txt",
            f'echo "{photos} photos were exported: as many as indexed and empty documents above, together"',
        ]

    def examples(self, query: Mapping[int, int], k: int, made: Made, target: str) -> dict[str, str]:
        words = (word for number, weight in query.items() for word in [made.words[number]] * weight)
        return {"topics.tsv": f"1\t{' '.join(words)}\n"}
