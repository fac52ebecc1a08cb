from dataclasses import replace
from pathlib import Path

import numpy as np

from lexlip.queries.text_queries import TextQueries
from tests.queries.saved_models import SENTENCES, saved
from tests.tiny import TINY


def test_another_type_of_text_encoder_runs_in_torch(tmp_path: Path) -> None:
    text = replace(TINY.text, options={**TINY.text.options, "hidden_act": "relu"})
    model = saved(tmp_path, text=text)
    queries = TextQueries(tmp_path)
    for sentence in SENTENCES:
        found, expected = queries.encode(sentence), model.encode_text([sentence])
        np.testing.assert_allclose(found.toarray(), expected.toarray(), rtol=1e-4, atol=1e-5)
