from pathlib import Path

from lexlip.queries.text_queries import TextQueries
from tests.queries.saved_models import SENTENCES, saved


def test_the_tokens_are_those_of_transformers(tmp_path: Path) -> None:
    model = saved(tmp_path)
    model.text_encoder.tokenize(SENTENCES)  # leaves padding and truncation in the tokenizer
    model.save(tmp_path)
    tokenizer = TextQueries(tmp_path).tokenizer
    for sentence in SENTENCES:
        ids, _ = model.text_encoder.tokenize([sentence])
        assert tokenizer.sentence(sentence).tolist() == ids[0].tolist()
    special = set(model.text_encoder.tokenizer.all_special_ids) - {model.text_encoder.tokenizer.mask_token_id}
    assert set(tokenizer.special.tolist()) == special
