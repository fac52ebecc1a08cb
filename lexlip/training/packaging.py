"""Makes of a trained model one to use: small, balanced, and without torch where its encoders allow it.

- Its matrices are int8, a quarter of the size (`lexlip.models.model_folder`).
- Captions and photos of the training data, equally many of each source, make the bank by which it balances
  its documents; the bank of the model that training started from joins them, so that other photos are
  balanced, too. A model that compares by dot product gets no bank, so that its index ranks as it does. All
  photos say what a word asks for that stands alone, unless the model that training started from knows that
  of more photos, and how likely people are to name it.
- A convolutional image encoder, or one with pooled heads, gets a graph for ONNX Runtime
  (`lexlip.models.image_graph`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.sparse import csc_matrix, csr_matrix, vstack

from anserini_bridge.storage import folder_megabytes
from lexlip.data import Source, open_source, open_sources
from lexlip.errors import DataError, ModelError
from lexlip.machine.device import autocast, pick_device, pick_precision
from lexlip.machine.progress import ProgressBar
from lexlip.models.compression import compress, expand
from lexlip.models.dual_encoder import DualEncoder, to_rows
from lexlip.models.lexlip import LexLIP
from lexlip.models.model_folder import GRAPH, check_model
from lexlip.queries.photo_vectors import PhotoPixels, PhotoVectors, encode_captions
from lexlip.registry import Metric
from lexlip.sparse import SENTENCE_TOPK
from lexlip.sparse.balance import NEAREST, Balance, make_bank
from lexlip.sparse.rows import unit_length
from lexlip.sparse.top_words import topk
from lexlip.sparse.word_chances import LikelyWords, scaled
from lexlip.training.head_fits import caption_matrix
from lexlip.training.run_folder import check_place, find_run, lineage, read_config, save_whole
from lexlip.words.vocabulary import Vocabulary, other_number


@dataclass(frozen=True)
class Package:
    identity: str  # the model's
    words: int  # V
    megabytes: float  # of its folder, 10^6 bytes
    captions: int  # of the bank, as are photos; 0 if documents are not balanced
    photos: int
    needs_torch: bool  # whether photos are encoded by torch
    metric: Metric = "cosine"  # how the model compares vectors


def package(name: str | Path, folder: Path, sources: Sequence[str] = (), device: str = "auto") -> Package:
    """Save a model for use, under the name of its new folder, as a whole or not at all.

    `name` is a run (its best checkpoint) or a folder; `folder` is made, or replaces a saved model. `sources`
    are photos with captions of the training data; without any those of the run, with the bank of the model
    that it started from and what its words ask for, unless the model has a bank already. They are encoded on
    `device`.

    ModelError: there is no such model, it is damaged, or of another kind. DataError: the folder cannot be
    written, or the photos cannot be used. ConfigError: there is no such device, or the run's config cannot be
    read.
    """
    check_place(folder, may_replace=True)
    place = pick_device(device)
    check_model(name)
    model = LexLIP.from_pretrained(name)
    opened, before = [open_source(source) for source in sources], None
    if not opened and not (model.balance or model.likely):
        opened, before = _sources_of_run(Path(name)), _model_before(Path(name), model.vocabulary)
    model.name = folder.name
    if opened:
        _draw(model, opened, before, place)
    save_whole(model, folder, small=True)
    bank = model.balance
    return Package(
        model.identity,
        len(model.vocabulary),
        folder_megabytes(folder),
        0 if bank is None else bank.photos.queries.shape[0],
        0 if bank is None else bank.captions.queries.shape[0],
        not (folder / GRAPH).is_file(),
        model.metric,
    )


def _sources_of_run(place: Path) -> list[Source]:
    """Return the training data of the run that a folder is or belongs to; nothing if there is none."""
    run = find_run(place)
    if run is None:
        return []
    try:
        return [open_sources([one]) for one in read_config(run).data.train]
    except DataError as error:
        raise DataError(f"the photos that {run} was trained on: {error}; name some as SOURCE") from error


def _model_before(place: Path, vocabulary: Vocabulary) -> LexLIP | None:
    """Return the model that a run started from, if that is here, and has the first of these words."""
    run = find_run(place)
    origin = None if run is None else lineage(run).origin
    if origin is None:
        return None
    try:
        model = LexLIP.from_pretrained(origin)
    except ModelError:  # it is no longer there, or has no words
        return None
    words = model.vocabulary.words
    return model if words == vocabulary.words[: len(words)] else None


def _draw(model: LexLIP, sources: Sequence[Source], before: LexLIP | None, place: torch.device) -> None:
    """Give a model what depends on its weights, once they are rounded to int8."""
    weights = {name: weight.cpu().contiguous().numpy() for name, weight in model.state_dict().items()}
    rounded = expand(compress(weights))
    model.load_state_dict({name: torch.from_numpy(weight) for name, weight in rounded.items()})
    model.to(place)
    try:
        if model.metric == "cosine":
            model.balance = draw_balance(model, sources, before=None if before is None else before.balance)
        photos = encode_captioned(model, sources)
    except ValueError as error:
        raise DataError(f"{error}: name more photos with captions as SOURCE") from error
    documents = _documents(photos.vectors, model.balance)
    words = model.vocabulary.words
    keywords = fit_keywords(documents, photos.said, model.encode_text(words, "words"), words)
    if before is not None and before.keywords is not None:
        known = _widened(before.keywords, len(words))
        keywords = vstack([known, keywords[known.shape[0] :]], format="csr")
    model.keywords = keywords
    model.likely = fit_likely(*photos)
    model.honest_end = None  # it was measured with another bank


def _documents(photos: csr_matrix, balance: Balance | None) -> csr_matrix:
    """Return photos as an index has them, but about as long as 1."""
    if balance is not None:
        return balance.photos.documents(photos, KEPT)
    whole = topk(photos, KEPT)
    lengths = np.sqrt(whole.multiply(whole).sum(axis=1)).A1
    return csr_matrix(whole / max(float(lengths.mean()), 1e-12))


# ---- what is fitted ----


# ---- balance, see lexlip.sparse.balance ----

CAPTIONS, PHOTOS = 8_000, 1_500  # of all sources together
QUERY_TOPK = 64  # words that a photo keeps as a query


def draw_balance(
    model: DualEncoder,
    sources: Sequence[Source],
    seed: int = 0,
    workers: int = 2,
    before: Balance | None = None,
) -> Balance:
    """Encode captions, and photos they are not of, as many of each source; ValueError: there are too few.

    For `before` see `balance_of`.
    """
    rng = np.random.default_rng(seed)
    captions: list[str] = []
    photos: list[csr_matrix] = []
    what = "photos of the bank"
    for source in sources:
        rows = rng.permutation(source.captioned())
        of_photos = rows[: min(PHOTOS // len(sources), len(rows) // 2)]
        of_captions = rows[len(of_photos) :][: CAPTIONS // len(sources)]
        indices = np.sort(of_photos).tolist()
        encoded = PhotoVectors(model, source, workers=workers, progress=what, indices=indices)
        photos += [vectors for _, vectors in encoded]
        captions += [str(rng.choice(source.items[row].captions)) for row in of_captions.tolist()]
    number = sum(vectors.shape[0] for vectors in photos)
    if min(len(captions), number) < NEAREST:
        raise ValueError(f"a bank needs {NEAREST} photos and as many captions of other photos")
    texts = encode_captions(model, captions, progress="captions of the bank")
    return balance_of(texts, vstack(photos, format="csr"), before)


def balance_of(texts: csr_matrix, images: csr_matrix, before: Balance | None = None) -> Balance:
    """Return what the vectors of captions [n, V] and of other photos [m, V] balance by; n, m >= NEAREST.

    What `before` balances by, with the first of the V words, joins them.
    """
    queries = [topk(texts, SENTENCE_TOPK), topk(images, QUERY_TOPK)]
    if before is not None:
        width = texts.shape[1]
        queries = [vstack([_widened(bank.units, width), q]) for bank, q in zip(before, queries, strict=True)]
    return Balance(photos=make_bank(queries[0], images), captions=make_bank(queries[1], texts))


def _widened(rows: csr_matrix, width: int) -> csr_matrix:
    return csr_matrix((rows.data, rows.indices, rows.indptr), shape=(rows.shape[0], width))


# ---- photos with what people say of them ----


class Captioned(NamedTuple):
    """Photos of the training data that have captions."""

    vectors: csr_matrix  # float32 [n, V]
    said: csr_matrix  # which words their captions contain, [n, V]
    weights: NDArray[np.float64]  # how many captions each has, [n]


def encode_captioned(model: LexLIP, sources: Sequence[Source], workers: int = 2) -> Captioned:
    """Encode the photos of the training data that have captions; ValueError: none can be read.

    Photos are encoded without their mirror images, and in bf16 where the processor has it: they are many, and
    what is fitted to them does not need more.
    """
    model.eval()
    precision = autocast(pick_precision("auto", model.device), model.device)
    parts: list[csr_matrix] = []
    said: list[csr_matrix] = []
    counts: list[int] = []
    what = "photos and their words"
    for source in sources:
        captions = {item.id: item.captions for item in source.items}
        indices, image = source.captioned().tolist(), model.config.image
        photos = PhotoPixels(image, source, workers=workers, progress=what, indices=indices)
        for ids, pixels in photos.pixels():
            with torch.inference_mode(), precision:
                parts.append(to_rows(model.vectors(model.raw_image(pixels.to(model.device)))))
            for id in ids:
                held = caption_matrix(model.vocabulary, model.tokenizer, captions[id])
                said.append(csr_matrix(held.max(axis=0)))
            counts += [len(captions[id]) for id in ids]
    if not parts:
        raise ValueError("no photo with captions can be read")
    return Captioned(vstack(parts, format="csr"), vstack(said, format="csr"), np.array(counts, float))


# ---- keywords: what each word asks for that stands alone, see lexlip.sparse.typed_words ----

KEPT = 32  # words of a document, as an index has it
TRIED = 64  # words that a query is chosen from
RIDGE = 2e-3  # added to the variance of each word in documents, which are about as long as 1
DOUBT = 10  # photos with the word that weigh as much as the word's own weights


def fit_keywords(
    documents: csr_matrix, said: csr_matrix, of_words: csr_matrix, words: Sequence[str]
) -> csr_matrix:
    """Return the query of each word, unit vectors, float32 [V, V].

    It is Fisher's linear discriminant between the photos whose captions have the word, in the singular or the
    plural, and all photos: the least squares of (C + RIDGE) q = mean of these - mean of all, where C is the
    covariance in documents, and q is not negative. The fewer photos have the word, the more its own weights
    count.

    `documents` are photos as an index has them, float32 [n, V]; `said`, [n, V], which words their captions
    contain; `of_words`, [V, V], each word as the model encodes it without a network.
    """
    columns, mean = csc_matrix(documents), np.asarray(documents.mean(axis=0)).ravel()
    captioned, own = csc_matrix(said), unit_length(of_words)
    column_of = {word: column for column, word in enumerate(words)}
    rows = []
    for column, word in enumerate(ProgressBar(words, "words that stand alone", unit="word", delay=2)):
        forms = [column_of[form] for form in (word, other_number(word)) if form in column_of]
        photos = np.unique(captioned[:, forms].indices)
        query = own[column]
        if len(photos):
            share = len(photos) / (len(photos) + DOUBT)
            query = share * _discriminant(documents[photos], columns, mean, column) + (1 - share) * query
        rows.append(topk(query, SENTENCE_TOPK))
    return unit_length(vstack(rows, format="csr"))


def _discriminant(
    photos: csr_matrix, columns: csc_matrix, mean: NDArray[np.float32], column: int
) -> csr_matrix:
    """Return what tells photos [m, V] from all [n, V], with their mean [V], as a unit vector [1, V].

    Chosen from the words that they have most more of than others, and the word in `column`.
    """
    more = np.asarray(photos.mean(axis=0)).ravel() - mean
    tried = np.union1d(np.argsort(-more, kind="stable")[:TRIED], [column])
    some = columns[:, tried]
    covariance = (some.T @ some).toarray() / some.shape[0] - np.outer(mean[tried], mean[tried])
    root = np.linalg.cholesky(covariance + RIDGE * np.eye(len(tried)))
    weights, _ = nnls(root.T, np.linalg.solve(root, more[tried]))
    query = np.zeros(len(mean), np.float32)
    query[tried] = weights
    return unit_length(csr_matrix(query))


# ---- how likely people are to say a photo's words, see lexlip.sparse.word_chances ----

SUMS, STEPS, BATCH, RATE, PENALTY = 32, 800, 256, 0.02, 3e-3


def fit_likely(
    vectors: csr_matrix, said: csr_matrix, weights: NDArray[np.float64], seed: int = 0
) -> LikelyWords:
    """Return the regressions with the smallest cross-entropy, by Adam, with a penalty on the sums' weights.

    `vectors` are photos, float32 [n, V]; `said`, [n, V], which words their captions contain; `weights`, [n],
    of the photos, such as how many captions each has. `seed` draws the photos of each step, and the start.
    """
    generator = torch.Generator().manual_seed(seed)
    number, width = vectors.shape
    share = np.clip(np.asarray(said.astype(bool).mean(axis=0)).ravel(), 1e-5, 1 - 1e-5)
    scale = torch.full((width,), 2.0, requires_grad=True)
    bias = torch.logit(torch.from_numpy(share).float()).requires_grad_()
    inputs = (0.02 * torch.randn(width, SUMS, generator=generator)).requires_grad_()
    outputs = torch.zeros(SUMS, width, requires_grad=True)
    optimizer = torch.optim.Adam([scale, bias, inputs, outputs], RATE)
    rows = scaled(vectors)
    drawn = np.random.default_rng(seed).choice(number, (STEPS, BATCH), p=weights / weights.sum())
    for step, batch in enumerate(ProgressBar(drawn, "words that people say", unit="step", delay=2)):
        for group in optimizer.param_groups:
            group["lr"] = RATE * (1 - step / STEPS)
        x = torch.from_numpy(rows[batch].toarray())
        goal = torch.from_numpy(said[batch].toarray().astype(np.float32)).clamp(max=1)
        odds = scale * x + (x @ inputs) @ outputs + bias
        loss = F.binary_cross_entropy_with_logits(odds, goal, reduction="sum") / BATCH
        loss = loss + PENALTY * (inputs.square().sum() + outputs.square().sum())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return LikelyWords(*(value.detach().numpy() for value in (scale, bias, inputs, outputs)))
