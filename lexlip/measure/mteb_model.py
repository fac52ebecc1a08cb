"""A model as mteb measures one, `mteb.evaluate(MtebModel("mini"), tasks)`: its documents are in an index.

A retrieval task asks `index` and `search`, so a vector of words never becomes a row with an entry for each
word of the vocabulary; the other tasks ask `encode`, which returns such rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np
from mteb.models.model_meta import ModelMeta
from mteb.types import PromptType
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack

from lexlip.errors import ConfigError, DataError
from lexlip.machine.progress import ProgressBar
from lexlip.measure.evaluate import search_all
from lexlip.measure.pool import as_queries
from lexlip.models.load import load_model
from lexlip.retrieval.first_stage import Engine
from lexlip.search.engines.exact import engine_for
from lexlip.sparse.balance import as_documents, usual_scheme
from lexlip.sparse.rows import unit_length

if TYPE_CHECKING:
    from mteb.abstasks.task_metadata import TaskMetadata

    from lexlip.models.contract import QueryEncoder
    from lexlip.sparse.balance import Bank

BATCH = 64
"""Photos or texts that are encoded at a time."""


class MtebModel:
    """A model of words, or a dense one, for mteb's tasks of photos and texts.

    Args:
        name: of the model: packaged name, folder or hub name, as for `lexlip evaluate`.
        topk: words that a document keeps in the index; None keeps all, and a dense model has none.
        query_encoder: how texts become vectors, "network" or "words".
        device: see `lexlip.machine.device.pick_device`.

    Raises:
        ModelError: there is no such model, or its files are damaged.
        ConfigError: there is no such device.
    """

    def __init__(
        self,
        name: str = "mini",
        topk: int | None = 32,
        query_encoder: QueryEncoder = "network",
        device: str = "auto",
    ) -> None:
        self.model = load_model(name, device).fold_batch_norms()
        self.topk = None if self.model.vocabulary is None else topk
        self.query_encoder: QueryEncoder = query_encoder
        self.scheme = usual_scheme(self.model.balance, self.model.metric)
        self._open = ExitStack()
        self._engine: Engine | None = None

    @property
    def mteb_model_meta(self) -> ModelMeta:
        """What mteb stores with the results: the model's name, and what is known of it here."""
        name, _, revision = self.model.identity.rpartition("@")
        known = {
            "name": f"lexlip/{name}",
            "revision": revision,
            "embed_dim": self.model.dimensions,
            "modalities": ["image", "text"],
            "model_type": ["dense" if self.model.vocabulary is None else "sparse"],
            "experiment_kwargs": {"topk": self.topk, "query_encoder": self.query_encoder},
        }
        return ModelMeta.create_empty(overwrites=known)

    # ---- retrieval ----

    def index(
        self,
        corpus: Any,
        *,
        task_metadata: TaskMetadata,
        encode_kwargs: Mapping[str, Any],
        **others: object,
    ) -> None:
        """Put a task's documents, photos or texts, into an index in place of those before.

        Args:
            corpus: a data set with the columns id and image, or id, text and perhaps title.
            task_metadata: says which of both they are.
            encode_kwargs: `show_progress_bar` shows one.
            others: make no difference.

        Raises:
            DataError: documents are a photo and a text at the same time, or neither.
        """
        modality = _modality(task_metadata, PromptType.document)
        vectors = self._encode_rows(corpus, modality, encode_kwargs, "documents")
        documents = as_documents(vectors, self.topk, self.scheme, self._bank(modality))
        _, engine_of = engine_for(self.model, scheme=self.scheme)
        self.close()
        self._engine = self._open.enter_context(engine_of(list(corpus["id"]), documents))

    def search(
        self,
        queries: Any,
        *,
        task_metadata: TaskMetadata,
        top_k: int,
        encode_kwargs: Mapping[str, Any],
        top_ranked: Mapping[str, Sequence[str]] | None = None,
        **others: object,
    ) -> dict[str, dict[str, float]]:
        """Return the best documents of each query: {query id: {document id: score}}.

        Args:
            queries: a data set with the columns id and image, or id and text.
            top_k: documents of each query.
            top_ranked: given by tasks of reranking, which an index is not made for.
            task_metadata, encode_kwargs, others: see `index`.

        Raises:
            ConfigError: `top_ranked` is given, or nothing was indexed.
            DataError: queries are a photo and a text at the same time, or neither.
        """
        if top_ranked is not None:
            raise ConfigError("an index searches all documents, and this task ranks given ones: leave it out")
        modality = _modality(task_metadata, PromptType.query)
        if self._engine is None:
            raise ConfigError("nothing is indexed yet: call index first")
        vectors = self._encode_rows(queries, modality, encode_kwargs, "queries")
        if modality == "text":
            vectors = as_queries(self.model, queries["text"], vectors)
        bar = "searching" if encode_kwargs.get("show_progress_bar") else None
        ids, scores = search_all(self._engine.search, vectors, top_k, bar)
        found = (dict(zip(row, map(float, of), strict=True)) for row, of in zip(ids, scores, strict=True))
        return dict(zip(queries["id"], found, strict=True))

    def close(self) -> None:
        """Delete the index."""
        self._engine = None
        self._open.close()

    # ---- other tasks ----

    def encode(
        self,
        inputs: Iterable[Mapping[str, Any]],
        *,
        task_metadata: TaskMetadata,
        prompt_type: PromptType | None = None,
        **others: object,
    ) -> NDArray[np.float32]:
        """Return vectors, float32 [n, dimensions], of photos or texts; of unit length if compared by cosine.

        Args:
            inputs: batches with an entry image or text.
            task_metadata: says which of both they are, if a batch has both.
            prompt_type: document or query, where a task tells them apart.
            others: make no difference.

        Raises:
            DataError: a batch has neither photos nor texts, or both and the task does not say which.
        """
        rows = [self._encode_batch(batch, task_metadata, prompt_type) for batch in inputs]
        vectors = vstack(rows, format="csr")
        vectors = unit_length(vectors) if self.model.metric == "cosine" else vectors
        dense: NDArray[np.float32] = vectors.toarray()
        return dense

    def similarity(self, some: Any, others: Any) -> Any:
        """Return the products of vectors [n, dimensions] with vectors [m, dimensions], a tensor [n, m]."""
        return _tensor(some) @ _tensor(others).T

    def similarity_pairwise(self, some: Any, others: Any) -> Any:
        """Return the products of vectors [n, dimensions] with as many others, a tensor [n]."""
        return (_tensor(some) * _tensor(others)).sum(dim=1)

    # ---- vectors ----

    def _encode_rows(
        self, rows: Any, modality: str, encode_kwargs: Mapping[str, Any], what: str
    ) -> csr_matrix:
        """Encode a data set that is read a few rows at a time, as its photos may not fit into memory."""
        hidden = not encode_kwargs.get("show_progress_bar")
        with ProgressBar(total=len(rows), unit="row", desc=what, disable=hidden, delay=2) as bar:
            parts = []
            for start in range(0, len(rows), BATCH):
                part = rows[start : start + BATCH]
                parts.append(self._encode(part[modality], modality, part.get("title")))
                bar.update(len(part[modality]))
        return vstack(parts, format="csr")

    def _encode_batch(
        self, batch: Mapping[str, Any], task_metadata: TaskMetadata, prompt_type: PromptType | None
    ) -> csr_matrix:
        held = [name for name in ("image", "text") if name in batch]
        modality = held[0] if len(held) == 1 else _modality(task_metadata, prompt_type)
        return self._encode(batch[modality], modality)

    def _encode(
        self, items: Sequence[Any], modality: str, titles: Sequence[str | None] | None = None
    ) -> csr_matrix:
        if modality == "image":
            return self.model.encode_image([item.convert("RGB") for item in items])
        titled = zip(titles or [None] * len(items), items, strict=True)
        texts = [f"{title or ''} {text}".strip() for title, text in titled]
        return self.model.encode_text(texts, self.query_encoder)

    def _bank(self, modality: str) -> Bank | None:
        if self.model.balance is None:
            return None
        return self.model.balance.photos if modality == "image" else self.model.balance.captions


def _modality(task_metadata: TaskMetadata, prompt_type: PromptType | None) -> str:
    """Return "image" or "text"; DataError if a task has both in one document or query, or neither."""
    found = sorted(task_metadata.get_modalities(prompt_type))
    if len(found) != 1 or found[0] not in ("image", "text"):
        raise DataError(
            f"the task {task_metadata.name} has {' and '.join(found)} in one place, and LexLIP encodes a"
            " photo or a text: take another task"
        )
    return found[0]


def _tensor(rows: Any) -> Any:
    import torch

    return torch.as_tensor(np.asarray(rows))
