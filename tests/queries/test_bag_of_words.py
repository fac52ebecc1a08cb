from pathlib import Path

import numpy as np
import pytest
import torch

from lexlip.models.lexlip import LexLIP
from lexlip.queries.text_queries import TextQueries
from tests.queries.saved_models import SENTENCES
from tests.tiny import tiny_model


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("companions", [0, 3])
def test_words_vectors_are_those_of_the_model(tmp_path: Path, companions: int, small: bool) -> None:
    model = tiny_model(companions=companions)
    size = len(model.vocabulary)
    generator = torch.Generator().manual_seed(0)
    columns = torch.randint(size, (size, 3), generator=generator) if companions else None
    model.bag_of_words.set_weights(torch.linspace(0.1, 3, size), columns)
    if companions:
        model.bag_of_words.values.data = torch.randn(size, 3, generator=generator)
    model.save(tmp_path, small)
    model = LexLIP.from_pretrained(tmp_path)
    queries = TextQueries(tmp_path, "words")
    found = np.concatenate([queries.encode(sentence).toarray() for sentence in SENTENCES])
    np.testing.assert_allclose(found, model.encode_text(SENTENCES, "words").toarray(), rtol=1e-5)
