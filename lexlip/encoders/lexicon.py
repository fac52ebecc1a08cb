"""The lexicon head, which turns token states into a sparse vector over the vocabulary by max pooling.

Shapes: B batch, P positions (image tokens or text tokens), V vocabulary, D width.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lexlip.encoders.chunked_logits import max_pooled_logits
from lexlip.words.vocabulary import Vocabulary


class WordPieces(nn.Module):
    """Averages what a tokenizer's entries have over the pieces of each word."""

    pieces: Tensor
    starts: Tensor

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__()
        for name, values in zip(("pieces", "starts"), vocabulary.pieces, strict=True):
            self.register_buffer(name, torch.from_numpy(values), persistent=False)

    def forward(self, entries: Tensor) -> Tensor:
        """Return [V, D], given [entries of the tokenizer, D], such as word embeddings."""
        return F.embedding_bag(self.pieces, entries, self.starts, mode="mean")


class LexiconHead(nn.Module):
    """BERT's masked-language-model head, max-pooled over positions (Eq. 2-3, 5-6).

    project D_in -> D (if the widths differ), dense D -> D, GELU, LayerNorm, decoder D -> V + bias. The
    decoder starts as the word embeddings [V, D].
    """

    def __init__(self, width_in: int, embeddings: Tensor) -> None:
        super().__init__()
        vocabulary_size, width = embeddings.shape
        self.project = nn.Identity() if width_in == width else nn.Linear(width_in, width)
        self.dense = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.decoder = nn.Parameter(embeddings.detach().clone())  # [V, D]
        self.bias = nn.Parameter(torch.zeros(vocabulary_size))

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """Return raw logits, float32 [B, V], of states [B, P, D_in], max-pooled over positions.

        Those where `mask`, bool [B, P], is true; a row without any, such as an empty text, gets -inf: no
        words. `sparse_vector` of the logits is p of Eq. 3 and 6.
        """
        return max_pooled_logits(self.hidden(states), self.decoder, mask) + self.bias.float()

    def at_positions(self, states: Tensor, columns: Tensor) -> Tensor:
        """Return raw logits of words int64 [W] at positions [B, P, D_in], whose maximum `forward` gives."""
        return self.hidden(states) @ self.decoder[columns].t() + self.bias[columns].float()

    @torch.no_grad()
    def copy_mlm_head(self, trained: dict[str, Tensor] | None, pieces: WordPieces) -> bool:
        """Copy a `load_mlm_head` without its decoder; return whether there was one of this width."""
        if trained is None or trained["dense.weight"].shape != self.dense.weight.shape:
            return False
        self.load_state_dict({**trained, "bias": pieces(trained["bias"][:, None])[:, 0]}, strict=False)
        return True

    def hidden(self, states: Tensor) -> Tensor:
        """Return the decoder's input, [..., D], of states [..., D_in]."""
        normed: Tensor = self.norm(F.gelu(self.dense(self.project(states))))
        return normed


class PooledHead(nn.Module):
    """A lexicon head on one vector of a photo or a text, as a dense dual encoder has it.

    logits = √V unit(decoder · (unit(project · state) - mean)) + bias, where unit(x) is x / |x|. The mean is
    that of all photos or of all texts, which lie apart in the space that they share, of D = `joint` entries.
    The logits of all vectors have the same length, so that their distance from the mean does not matter.
    """

    def __init__(self, width_in: int, joint: int, vocabulary_size: int) -> None:
        super().__init__()
        self.project = nn.Linear(width_in, joint)
        self.mean = nn.Parameter(torch.zeros(joint))
        self.decoder = nn.Parameter(torch.randn(vocabulary_size, joint) / math.sqrt(joint))
        self.bias = nn.Parameter(torch.zeros(vocabulary_size))

    def forward(self, state: Tensor) -> Tensor:
        """Return raw logits, float32 [B, V], of pooled states [B, D_in]."""
        return self.logits(self.joint(state))

    def joint(self, state: Tensor) -> Tensor:
        """Return unit vectors of the shared space, [B, D], of pooled states [B, D_in]."""
        return F.normalize(self.project(state), dim=1)

    def logits(self, joint: Tensor) -> Tensor:
        """Return the same of unit vectors of the shared space, [B, D]."""
        raw = F.normalize((joint - self.mean) @ self.decoder.t(), dim=1)
        return (math.sqrt(len(self.decoder)) * raw + self.bias).float()


def sparse_vector(logits: Tensor) -> Tensor:
    """Return p = log(1 + relu(logits)), [B, V] >= 0, of max-pooled logits (Eq. 3, 6).

    Both functions are monotone, so pooling before them gives the same vector.
    """
    return torch.log1p(F.relu(logits))


class BagOfWords(nn.Module):
    """A query encoder without a network: a learned weight for each word and for its companions.

    p_v is the sum of softplus(weight_v), if the text contains v, and of relu(values_wj) for each word w that
    it contains whose j-th companion is v; it has m of them. At first every word has weight 1, and companions
    add nothing.
    """

    columns: Tensor

    def __init__(self, vocabulary_size: int, companions: int = 0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary_size))
        self.set_weights(torch.ones(vocabulary_size))
        self.companions = companions
        if companions:
            shape = vocabulary_size, companions
            self.register_buffer("columns", torch.zeros(shape, dtype=torch.int32))
            self.values = nn.Parameter(torch.zeros(shape))

    @torch.no_grad()
    def set_weights(self, weights: Tensor, columns: Tensor | None = None) -> None:
        """Set the weights of the words, [V] > 0, such as inverse document frequencies.

        With `columns`, int [V, m], the companions of each word start with a twentieth of its weight.
        """
        weights = weights.float().clamp(min=1e-3)
        self.weight.copy_(weights + torch.log(-torch.expm1(-weights)))  # the inverse of softplus
        if columns is not None:
            self.columns.copy_(columns)
            self.values.copy_(0.05 * weights[:, None].expand_as(self.values))

    def forward(self, present: Tensor) -> Tensor:
        """Return the vectors of texts, [T, V], given which words each contains, bool [T, V]."""
        own = present * F.softplus(self.weight)
        if not self.companions:
            return own
        texts, words = present.nonzero(as_tuple=True)
        places = texts[:, None] * present.shape[1] + self.columns[words].long()  # [n, m] in [T * V]
        brought = F.relu(self.values[words])
        return own.flatten().index_add(0, places.flatten(), brought.flatten()).view_as(own)
