"""VLDeformer: a cross-encoder decomposed into two encoders (Zhang et al., Knowledge-Based Systems 2022)."""

import torch
from torch import Tensor

from lexlip.models.one_transformer import OneTransformer


class VLDeformer(OneTransformer):
    """The Transformer of a trained cross-encoder (`init` of a CE) runs on caption and photo apart; the tanh
    of the means of their states are compared by their cosine."""

    kind = "vldeformer"

    @staticmethod
    def vectors(raw: Tensor) -> Tensor:
        return torch.tanh(raw)
