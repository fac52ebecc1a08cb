import re
from pathlib import Path

import numpy as np
import pytest

from lexlip.data import Scenes
from lexlip.errors import MissingPackage
from lexlip.measure.in_language import InLanguage
from lexlip.measure.pool import as_queries, encode_pool
from lexlip.models.language_model import how_to_install
from lexlip.models.lexlip import LexLIP
from lexlip.queries.query_language import Query
from lexlip.queries.text_queries import TextQueries
from tests.queries.saved_models import saved
from tests.queries.tiny_languages import install, write


def test_captions_are_the_queries_of_a_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(tmp_path / "model")
    write(tmp_path / "languages", tmp_path / "model")
    install(monkeypatch, tmp_path / "languages")
    model = LexLIP.from_pretrained(tmp_path / "model")
    german, queries = InLanguage(model, str(tmp_path / "model"), "de"), TextQueries(tmp_path / "model")
    texts = ["ein Hund im Schnee", "Boot", "Katze ohne Hund"]
    for most in (None, 1):
        found = as_queries(german, texts, german.encode_text(texts), most).toarray()
        expected = [queries.vector(Query(text, text, language="de"), most) for text in texts]
        np.testing.assert_array_equal(found, np.stack(expected))
    photos = encode_pool(german, Scenes(3, seed=0), workers=0).images  # all else is the model's
    np.testing.assert_array_equal(
        photos.toarray(), encode_pool(model, Scenes(3, 0), workers=0).images.toarray()
    )


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = saved(tmp_path / "model")
    install(monkeypatch, None)
    with pytest.raises(MissingPackage, match=re.escape(how_to_install())):
        InLanguage(model, str(tmp_path / "model"), "de")
