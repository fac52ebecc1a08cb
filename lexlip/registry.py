"""The kinds of models and of indexes by name: where each is implemented, and what it can do.

Nothing is imported until `load_class` is called, so a command can refuse a model or an index before
torch or Java starts.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal, NamedTuple

Metric = Literal["cosine", "dot"]
"""How two vectors are compared."""

BM25 = "bm25"
"""The name that stands for a model when photos are searched by the words of their captions."""


class ModelKind(NamedTuple):
    """A kind of model, implemented by "module:Class"."""

    implementation: str
    trained_here: bool = True  # `lexlip pretrain` can train it
    words: bool = False  # the entries of its vectors are words of a vocabulary
    vectors: bool = True  # it encodes photos and captions separately, so its vectors can be indexed
    pairs: bool = False  # it scores whether a caption describes a photo, so it can rerank
    token_vectors: bool = False  # every token contributes to its vectors, not [CLS] alone
    photo_tokens: bool = False  # photo tokens run through the text encoder
    state_vectors: bool = False  # its vectors can be added to token states (LightningDOT's VMLM and SMRM)
    metric: Metric = "cosine"  # by which its vectors are compared, unless model.metric says otherwise
    either_metric: bool = False  # model.metric may say so
    relatives: tuple[str, ...] = ()  # kinds with the same weights, from which it can start

    @property
    def cosines(self) -> bool:
        """Whether its vectors are compared by their cosine, unless model.metric says otherwise."""
        return self.vectors and self.metric == "cosine"


_ONE_TRANSFORMER: dict[str, Any] = {
    "photo_tokens": True,
    "relatives": ("be", "ce", "joint", "vldeformer"),
}

MODELS = {
    "lexlip": ModelKind(
        implementation="lexlip.models.lexlip:LexLIP", words=True, token_vectors=True, either_metric=True
    ),
    "dense": ModelKind(implementation="lexlip.models.dense:Dense", either_metric=True),
    "lightningdot": ModelKind(
        implementation="lexlip.models.dense:LightningDOT", metric="dot", state_vectors=True
    ),
    "vldeformer": ModelKind(
        implementation="lexlip.models.one_transformer:VLDeformer", token_vectors=True, **_ONE_TRANSFORMER
    ),
    "be": ModelKind(
        implementation="lexlip.models.one_transformer:BE", token_vectors=True, **_ONE_TRANSFORMER
    ),
    "ce": ModelKind(
        implementation="lexlip.models.one_transformer:CE", vectors=False, pairs=True, **_ONE_TRANSFORMER
    ),
    "joint": ModelKind(
        implementation="lexlip.models.one_transformer:Joint",
        token_vectors=True,
        pairs=True,
        **_ONE_TRANSFORMER,
    ),
    "clip": ModelKind(implementation="lexlip.models.clip:Clip", trained_here=False),
    "siglip": ModelKind(implementation="lexlip.models.siglip:SigLIP", trained_here=False),
    "open_clip": ModelKind(implementation="lexlip.models.open_clip:OpenClip", trained_here=False),
}

INDEXES = {
    "impact": "lexlip.search.stages.impact:ImpactStage",
    "sharded": "lexlip.search.stages.impact:ShardedStage",
    "dense": "lexlip.search.stages.dense:DenseStage",
    "bm25": "lexlip.search.stages.bm25:BM25Stage",
    "anserini": "lexlip.search.stages.anserini:AnseriniStage",
}
"""Kinds of indexes (`kind` in index.json, which Anserini's have not) and what searches each."""

WITH_WORDS = ("impact", "sharded", "anserini")
"""Kinds of indexes that know the words of photos."""

CLIP_TEXT, SIGLIP_TEXT = "clip_text_model", "siglip_text_model"
"""Text encoders, as transformers calls them: a CLIP's, whose tokens see those before them, and a SigLIP's.

A SigLIP's tokens see all positions, also those that are filled up: it has no mask.
"""

LANGUAGE = "[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*"
"""What the code of a language looks like: de, zh-Hant."""


def load_class(implementation: str) -> Any:
    """Import what "module:Class" names."""
    module, name = implementation.split(":")
    return getattr(import_module(module), name)
