"""BE, the bi-encoder of "Retrieve Fast, Rerank Smart" (Geigle et al., TACL 2022)."""

from lexlip.models.one_transformer import OneTransformer


class BE(OneTransformer):
    """A twin: the Transformer runs on the caption and on the photo; the means of their states are compared
    by their cosine."""

    kind = "be"
