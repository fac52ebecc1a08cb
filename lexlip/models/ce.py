"""CE, the cross-encoder of "Retrieve Fast, Rerank Smart" (Geigle et al., TACL 2022)."""

from lexlip.models.one_transformer import OneTransformer


class CE(OneTransformer):
    """The Transformer runs on a caption and a photo together; [CLS] says how probable it is that they belong
    together. There is no vector to index: it reranks what another model has found."""

    kind, has_vectors, has_pairs = "ce", False, True
