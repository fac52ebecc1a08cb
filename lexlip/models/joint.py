"""Joint+Coop of "Retrieve Fast, Rerank Smart" (Geigle et al., TACL 2022)."""

from lexlip.models.one_transformer import OneTransformer


class Joint(OneTransformer):
    """BE and CE in one set of weights: it retrieves, and reranks what it has found."""

    kind, has_pairs = "joint", True
