"""Engines that are filled and asked by commands of their own: PostgreSQL with pgvector, and Anserini."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anserini_bridge.vectors import json_vector
from lexlip.errors import DataError
from lexlip.other_engines.engine_contract import FIELD, STOP, Document, Made, OtherEngine

MOST_WORDS = 16_000
"""Entries of a `sparsevec` that are not zero."""

_SCHEMA = """\
CREATE EXTENSION IF NOT EXISTS vector;
CREATE TABLE "{target}" (
    key uuid PRIMARY KEY,
    id text NOT NULL,
    model text NOT NULL,
    scheme text NOT NULL,
    {field} sparsevec({words}) NOT NULL
);
"""
_QUERY = """\
SELECT id, -({field} <#> query) AS score
FROM "{target}", (SELECT '{vector}'::sparsevec AS query) AS asked
WHERE {field} <#> query < 0
ORDER BY {field} <#> query
LIMIT {k};
"""


class Pgvector(OtherEngine):
    """pgvector: sparse vectors of float32, exact as long as scores stay below 2^24.

    `<#>` is the negative inner product; every row is looked at.
    """

    name = "pgvector"
    versions = "PostgreSQL 13 and later with pgvector 0.7 and later"
    ending = ".tsv"
    batch = 10_000
    names = "[a-z][a-z0-9_]{0,62}"
    named = "lower-case ASCII letters, digits and '_', 63 at most, the first a letter"
    before = "Set psql's own variables (PGHOST, PGDATABASE, PGUSER, PGPASSWORD)"

    def settings(self, made: Made, target: str) -> dict[str, str]:
        return {"schema.sql": _SCHEMA.format(target=target, field=FIELD, words=len(made.words))}

    def documents(self, documents: Sequence[Document], made: Made, target: str) -> str:
        lines = []
        for document in documents:
            if len(document.numbers) > MOST_WORDS:
                raise DataError(
                    f"{document.id} has {len(document.numbers):,} words, and pgvector takes {MOST_WORDS:,}:"
                    " index with --topk"
                )
            words = _vector(document.numbers, document.weights, made)
            row = document.key, *document.stored(made).values(), words
            lines.append("\t".join(map(_escaped, row)) + "\n")
        return "".join(lines)

    def commands(self, target: str, photos: int) -> list[str]:
        return [
            STOP,
            'ask() { psql --no-psqlrc --set ON_ERROR_STOP=1 "$@" || stop "$*"; }',
            "",
            "ask --file schema.sql",
            "for file in documents-*.tsv; do",
            f"    ask --command \"\\\\copy \\\"{target}\\\" FROM '$file' WITH (ENCODING 'UTF8')\"",
            "done",
            "ask --file query.sql",
            f'echo "{photos} photos were exported, and the server counts:"',
            f"ask --tuples-only --command 'SELECT count(*) FROM \"{target}\"'",
        ]

    def examples(self, query: Mapping[int, int], k: int, made: Made, target: str) -> dict[str, str]:
        vector = _vector(list(query), list(query.values()), made)
        return {"query.sql": _QUERY.format(target=target, field=FIELD, vector=vector, k=k)}


def _vector(numbers: Sequence[int], weights: Sequence[int], made: Made) -> str:
    """Return a vector as text; words are counted from 1 there."""
    pairs = sorted(zip(numbers, weights, strict=True))
    entries = ",".join(f"{number + 1}:{weight}" for number, weight in pairs if weight)
    return f"{{{entries}}}/{len(made.words)}"


def _escaped(text: str) -> str:
    """Return a value as COPY reads it."""
    for character, name in (("\\", "\\"), ("\t", "t"), ("\n", "n"), ("\r", "r")):
        text = text.replace(character, "\\" + name)
    return text


class Anserini(OtherEngine):
    """Anserini: documents of words and weights, as `lexlip index --pseudo-documents` writes them."""

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
