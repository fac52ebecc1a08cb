"""`load_model` opens a saved model of any kind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from lexlip.config import ModelConfig
from lexlip.errors import ModelError
from lexlip.models.be import BE
from lexlip.models.ce import CE
from lexlip.models.clip import Clip
from lexlip.models.dense import Dense
from lexlip.models.dual_encoder import DualEncoder
from lexlip.models.encoder import Encoder
from lexlip.models.folder import BM25, is_hub_name, kind_of, model_folder, read_description
from lexlip.models.joint import Joint
from lexlip.models.lexlip import LexLIP
from lexlip.models.lightningdot import LightningDOT
from lexlip.models.one_transformer import OneTransformer
from lexlip.models.vldeformer import VLDeformer

KINDS: dict[str, type[DualEncoder]] = {
    model.kind: model for model in (LexLIP, Dense, LightningDOT, VLDeformer, BE, CE, Joint)
}


def load_start(name: str | Path, config: ModelConfig) -> DualEncoder:
    """A model of `config.kind` to train, with the weights of a saved one.

    All of them where that is of the same kind or a relative; for kinds without words also the two encoders of
    any other, under new heads.

    Raises:
        ModelError: there is no such model, its files are damaged, or it is of another kind.
    """
    model, folder = KINDS[config.kind], model_folder(name)
    saved = read_description(folder)["kind"]
    if saved not in KINDS or saved in (model.kind, *model.relatives) or model.has_words:
        return model.from_pretrained(folder, or_relative=True)
    other = KINDS[saved].from_pretrained(folder)
    encoders = replace(config, image=other.config.image, text=other.config.text)
    started = model(encoders, other.tokenizer, None, other.text_encoder.architecture)
    started.image_encoder.load_state_dict(other.image_encoder.state_dict())
    started.text_encoder.load_state_dict(other.text_encoder.state_dict())
    return started.eval()


def load_model(name: str | Path) -> Encoder:
    """A model of vectors: the name of a packaged one ("mini"), a folder, or a CLIP's name at the hub.

    Raises:
        ModelError: there is no such model, its files are damaged, of a kind or version unknown here, or it
            has no vectors.
    """
    check_first_stage(name)
    kind = kind_of(name)
    return Clip.from_pretrained(name) if kind == Clip.kind else KINDS[kind].from_pretrained(name)


def load_reranker(name: str | Path) -> OneTransformer:
    """A saved model that compares pairs, by folder.

    Raises:
        ModelError: there is no such model, its files are damaged, or it compares no pairs.
    """
    check_reranker(name)
    model = KINDS[kind_of(name)].from_pretrained(name).fold_batch_norms()
    assert isinstance(model, OneTransformer)
    return model


def check_first_stage(name: str | Path) -> None:
    """Raises ModelError unless a model, or "bm25", finds photos."""
    kind = kind_of(name)
    if kind in (BM25, Clip.kind):
        return
    if kind not in KINDS:
        known = ", ".join([*KINDS, Clip.kind])
        raise ModelError(f"{model_folder(name)} holds a model of kind {kind!r}; known: {known}")
    if not KINDS[kind].has_vectors:
        raise ModelError(
            f"{name} is a {kind} model, which has no vectors to find photos by; it reranks what a first stage"
            " has found (--rerank)"
        )


def check_reranker(name: str | Path) -> None:
    """Raises ModelError unless a model compares pairs."""
    if is_hub_name(name):
        model_folder(name)
    if not compares_pairs(name):
        pairs = " or ".join(kind for kind, model in KINDS.items() if model.has_pairs)
        raise ModelError(f"{name} is a first stage and cannot rerank; that takes a {pairs} model")


def compares_pairs(name: str | Path) -> bool:
    """Whether a model tells if a caption is of a photo."""
    kind = kind_of(name)
    return kind in KINDS and KINDS[kind].has_pairs
