"""Gives a dense dual encoder words: lexicon heads in closed form, from captions alone.

A caption's words are a linear function of its vector, by ridge regression. Photos get the same function, as
they lie in the same space. There the two modalities lie apart; the mean of photos, which removes that gap,
needs some photos without captions.

Shapes: N captions, V words, D entries of a dense vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from torch import Tensor, nn

from lexlip.config import ModelConfig, TextEncoderConfig, VocabularyConfig
from lexlip.data import Source, spread
from lexlip.encoders.lexicon import sparse_vector
from lexlip.errors import DataError, ModelError
from lexlip.machine.device import pick_device
from lexlip.models.clip import Clip
from lexlip.models.dense import Dense
from lexlip.models.dual_encoder import to_rows
from lexlip.models.lexlip import LexLIP
from lexlip.models.load import load_model
from lexlip.models.model_folder import kind_of
from lexlip.queries.photo_vectors import PhotoVectors, encode_captions
from lexlip.registry import MODELS
from lexlip.sparse.balance import NEAREST
from lexlip.training.head_fits import caption_matrix, inverse_document_frequency
from lexlip.training.packaging import CAPTIONS, balance_of
from lexlip.words.vocabulary import Vocabulary

LEAST_CAPTIONS = 1_000  # some ten thousands are better
MOST_CAPTIONS = 100_000  # enough for a regression onto D entries
MOST_PHOTOS = 1_000  # enough for a mean
MIN_COUNT = 4  # how often a word must occur, as in the configs of training
RIDGE = 1.0  # relative to the mean variance of a vector's entries
TEXT_WORDS, PHOTO_WORDS = 64, 128  # that vectors have on average
SAMPLE = 2_000  # captions whose words are counted for that
TIMM = "vit_base_patch32_clip_224"  # of any other size by its options
_NAMES = {  # of transformers and of timm; the three matrices of an attention become one
    "embeddings.patch_embedding.": "patch_embed.proj.",
    "pre_layrnorm.": "norm_pre.",
    "post_layernorm.": "norm.",
    "encoder.layers.": "blocks.",
    "self_attn.out_proj.": "attn.proj.",
    "layer_norm": "norm",
}

Floats = NDArray[np.float32]


def load_towers(name: str | Path, device: str = "cpu") -> Clip | Dense:
    """Load a CLIP or dense model onto a device; ModelError: it is none. ConfigError: no such device."""
    kind = kind_of(name)
    if kind not in ("clip", "dense", "open_clip"):
        words = kind in MODELS and MODELS[kind].words
        why = f"is of kind {kind}" + (", which has words already" if words else "")
        raise ModelError(f"'{name}' {why}: give a CLIP model or one of kind dense")
    if kind == "open_clip":
        from lexlip.models.open_clip import OpenClip, as_clip

        place, original = pick_device(device), load_model(name)
        assert isinstance(original, OpenClip)
        return as_clip(original).to(place)
    model = load_model(name, device)
    assert isinstance(model, Clip | Dense)
    return model


def make_lexicon(
    dense: Clip | Dense, captions: Sequence[str], photos: Source | None, name: str, progress: bool = False
) -> LexLIP:
    """Return a LexLIP, called `name`, with the encoders of a dense model and fitted words.

    Of more than MOST_CAPTIONS captions, evenly spread ones are taken, and of more than MOST_PHOTOS photos
    too. Photos give the mean of photos' vectors, and balance documents (see `lexlip.sparse.balance`); None
    takes the mean of captions' vectors in its place.

    DataError: there are fewer than LEAST_CAPTIONS captions, or too few photos can be read. ModelError: no
    word occurs often enough, or the encoders cannot be used.
    """
    if len(captions) < LEAST_CAPTIONS:
        raise DataError(
            f"{len(captions):,} captions are too few to fit words to: give at least {LEAST_CAPTIONS:,},"
            " better some ten thousand"
        )
    captions = [captions[row] for row in spread(len(captions), MOST_CAPTIONS)]
    vocabulary = Vocabulary.build(VocabularyConfig("words", MIN_COUNT), dense.tokenizer, captions)
    model = lexlip_of(dense, vocabulary, name)
    seen = None if photos is None else _photo_vectors(dense, photos, progress)
    vectors = unit(encode_captions(dense, captions, progress="captions" if progress else None).toarray())
    mean = vectors.mean(axis=0)
    decoder, text_bias, photo_bias = fit_words(
        vectors - mean, caption_matrix(vocabulary, dense.tokenizer, captions)
    )
    means = mean, mean if seen is None else seen.mean(axis=0)
    with torch.no_grad():
        heads: list[Any] = [model.text_head, model.image_head]
        for head, center, bias in zip(heads, means, (text_bias, photo_bias), strict=True):
            for parameter, values in ((head.mean, center), (head.decoder, decoder), (head.bias, bias)):
                parameter.copy_(torch.from_numpy(values))
        model.bag_of_words.set_weights(inverse_document_frequency(model, captions))
        if seen is not None:
            some = vectors[list(spread(len(vectors), CAPTIONS))]
            rows = [
                to_rows(sparse_vector(head.logits(torch.from_numpy(joint))))
                for head, joint in zip(heads, (some, seen), strict=True)
            ]
            model.balance = balance_of(*rows)
    return model


def fit_words(vectors: Floats, words: csr_matrix) -> tuple[Floats, Floats, Floats]:
    """Fit the words of captions, Y [N, V], 1 where one has a word, to vectors X [N, D] minus their mean.

    With the share p_w of captions that have word w, the ridge regression is B = (XᵀX + λI)⁻¹ XᵀY. The
    estimate that w belongs to vector x, p_w + B_w · x, is divided by √p_w: rare words say more, but are
    estimated less well. A logit is that less a threshold, scaled as in `lexlip.encoders.lexicon.PooledHead`.

    Returns the decoder [V, D]; the biases [V] with which captions have TEXT_WORDS words on average, and with
    which they would have PHOTO_WORDS.
    """
    gram = (vectors.T @ vectors).astype(np.float64)
    gram += RIDGE * gram.trace() / len(gram) * np.eye(len(gram))
    share = np.maximum(np.asarray(words.mean(axis=0), dtype=np.float64).ravel(), 1 / len(vectors))
    solution = np.linalg.solve(gram, (words.T @ vectors).T.astype(np.float64))  # B, [D, V]
    decoder = (solution.T / np.sqrt(share)[:, None]).astype(np.float32)
    raw = vectors[list(spread(len(vectors), SAMPLE))] @ decoder.T
    scale = np.sqrt(len(share)) / np.maximum(np.linalg.norm(raw, axis=1, keepdims=True), 1e-12)
    prior = np.sqrt(share) * scale.mean()
    logits = raw * scale + prior
    thresholds = (np.quantile(logits, max(0.0, 1 - kept / len(share))) for kept in (TEXT_WORDS, PHOTO_WORDS))
    text_bias, photo_bias = ((prior - threshold).astype(np.float32) for threshold in thresholds)
    return decoder, text_bias, photo_bias


def unit(vectors: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.maximum(lengths, 1e-12)).astype(np.float32)


def _photo_vectors(dense: Clip | Dense, photos: Source, progress: bool) -> Floats:
    bar = "photos" if progress else None
    some = PhotoVectors(dense, photos, progress=bar, indices=spread(len(photos), MOST_PHOTOS))
    vectors = [unit(rows.toarray()) for _, rows in some]
    if not vectors:
        raise some.none_read()
    seen = np.concatenate(vectors)
    if len(seen) < NEAREST:
        raise DataError(
            f"{len(seen)} photos in {photos.name} are too few to show where the model has photos:"
            f" give at least {NEAREST}, better a hundred"
        )
    return seen


# ---- a LexLIP with the encoders of a dense model ----


def lexlip_of(dense: Clip | Dense, vocabulary: Vocabulary, name: str) -> LexLIP:
    """Return a LexLIP on the CPU with a dense model's encoders and random words; ModelError: timm cannot."""
    model = (
        _of_clip(dense, vocabulary, name) if isinstance(dense, Clip) else _of_dense(dense, vocabulary, name)
    )
    return model.eval()


def _of_dense(dense: Dense, vocabulary: Vocabulary, name: str) -> LexLIP:
    config = replace(
        dense.config, kind="lexlip", metric=None, head="auto", companions=0, joint=dense.dimensions
    )
    model = LexLIP(config, dense.tokenizer, vocabulary, dense.text_encoder.architecture, name)
    model.image_encoder.load_state_dict(dense.image_encoder.state_dict())
    model.text_encoder.load_state_dict(dense.text_encoder.state_dict())
    _load_projections(model, dense.text_projection, dense.image_projection)
    return model


def _of_clip(clip: Clip, vocabulary: Vocabulary, name: str) -> LexLIP:
    sizes: Any = clip.model.config
    vision = sizes.vision_config
    options = {
        "patch_size": vision.patch_size,
        "embed_dim": vision.hidden_size,
        "depth": vision.num_hidden_layers,
        "num_heads": vision.num_attention_heads,
        "mlp_ratio": vision.intermediate_size / vision.hidden_size,
        "act_layer": vision.hidden_act,
    }
    if vision.image_size != clip.config.image.size:
        raise ModelError(
            f"the CLIP model '{clip.name}' takes photos of {vision.image_size} pixels, and its processor"
            f" makes them {clip.config.image.size}"
        )
    image = replace(clip.config.image, name=TIMM, options=options)
    text = TextEncoderConfig(max_tokens=clip.config.text.max_tokens)
    config = ModelConfig("lexlip", image, text, pooling="end", joint=clip.dimensions)
    architecture = {**sizes.text_config.to_dict(), "model_type": "clip_text_model"}
    model = LexLIP(config, clip.tokenizer, vocabulary, architecture, name)
    model.image_encoder.body.load_state_dict(_timm_weights(clip.model.vision_model.state_dict()))
    _load_text(model.text_encoder.body, clip.model.text_model.state_dict())
    _load_projections(model, clip.model.text_projection, clip.model.visual_projection)
    return model


def _load_projections(model: LexLIP, of_texts: nn.Module, of_photos: nn.Module) -> None:
    """Copy the projections into the shared space; those of CLIP have no bias."""
    for head, projection in ((model.text_head, of_texts), (model.image_head, of_photos)):
        zero = {"bias": torch.zeros(model.config.joint)}
        head.project.load_state_dict({**zero, **projection.state_dict()})


def _load_text(body: Any, weights: dict[str, Tensor]) -> None:
    """Load a text encoder; some versions of transformers have its modules one level lower."""
    getattr(body, "text_model", body).load_state_dict(weights)


def _timm_weights(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights of a vision model of transformers under the names of timm."""
    found: dict[str, Tensor] = {}
    for name, weight in weights.items():
        if name == "embeddings.class_embedding":
            found["cls_token"] = weight.view(1, 1, -1)
        elif name == "embeddings.position_embedding.weight":
            found["pos_embed"] = weight[None]
        elif ".q_proj." in name:
            parts = [weights[name.replace(".q_proj.", f".{part}_proj.")] for part in "qkv"]
            found[_renamed(name).replace("self_attn.q_proj.", "attn.qkv.")] = torch.cat(parts)
        elif not any(part in name for part in (".k_proj.", ".v_proj.", "position_ids")):
            found[_renamed(name)] = weight
    return found


def _renamed(name: str) -> str:
    for theirs, ours in _NAMES.items():
        name = name.replace(theirs, ours)
    return name
