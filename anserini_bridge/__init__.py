"""The Lucene half of LexLIP: impact indexes of sparse vectors, from Python.

It depends on Lucene, numpy and scipy, and on nothing of neural networks. Vectors are
`scipy.sparse.csr_matrix` [n, V] of whole weights; V is the size of the vocabulary. Java starts with the
first writer or searcher.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anserini_bridge.errors import (
        BadVectors,
        BridgeError,
        CorruptIndex,
        FixableError,
        IndexLocked,
        IndexMismatch,
        IndexNotFound,
        IndexVersion,
        JVMConflict,
        NoJar,
        NoJava,
        UnknownId,
        VocabularyMismatch,
    )
    from anserini_bridge.flat import FLAT_POSTINGS, FlatSearcher, has_flat, needs_java, open_searcher
    from anserini_bridge.integrity import Damaged, find_damage
    from anserini_bridge.jvm import JavaHome, find_anserini, find_jar, find_java, lucene_version, start_jvm
    from anserini_bridge.metadata import (
        FORMAT_VERSION,
        IndexHeader,
        IndexMetadata,
        check_file,
        check_same_vocabulary,
        read_header,
        read_metadata,
        read_metadata_as,
        replace_index,
        restore_words,
        vocabulary_hash,
        with_checksums,
        write_metadata,
    )
    from anserini_bridge.searcher import AllowedDocuments, ImpactSearcher
    from anserini_bridge.storage import folder_megabytes
    from anserini_bridge.vectors import write_json_vectors
    from anserini_bridge.writer import ImpactWriter, update_index

__all__ = [
    "FLAT_POSTINGS",
    "FORMAT_VERSION",
    "AllowedDocuments",
    "BadVectors",
    "BridgeError",
    "CorruptIndex",
    "Damaged",
    "FixableError",
    "FlatSearcher",
    "ImpactSearcher",
    "ImpactWriter",
    "IndexHeader",
    "IndexLocked",
    "IndexMetadata",
    "IndexMismatch",
    "IndexNotFound",
    "IndexVersion",
    "JVMConflict",
    "JavaHome",
    "NoJar",
    "NoJava",
    "UnknownId",
    "VocabularyMismatch",
    "check_file",
    "check_same_vocabulary",
    "find_anserini",
    "find_damage",
    "find_jar",
    "find_java",
    "folder_megabytes",
    "has_flat",
    "lucene_version",
    "needs_java",
    "open_searcher",
    "read_header",
    "read_metadata",
    "read_metadata_as",
    "replace_index",
    "restore_words",
    "start_jvm",
    "update_index",
    "vocabulary_hash",
    "with_checksums",
    "write_json_vectors",
    "write_metadata",
]

# the lightest first: errors alone load no scipy
_MODULES = ("errors", "storage", "metadata", "flat", "jvm", "integrity", "vectors", "searcher", "writer")


def __getattr__(name: str) -> object:
    """Load what is exported when it is asked for, from the first of the modules that has it."""
    if name in __all__:
        for module in _MODULES:
            loaded = import_module(f"anserini_bridge.{module}")
            if hasattr(loaded, name):
                return getattr(loaded, name)
    raise AttributeError(f"module 'anserini_bridge' has no attribute '{name}'")


def __dir__() -> list[str]:
    """Name what is exported, too, though it is not loaded yet."""
    return sorted({*globals(), *__all__})
