from pathlib import Path

from lexlip.queries.query_tokenizer import words_after
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


def test_what_is_behind_the_last_token() -> None:
    assert words_after("two dogs, in the snow", [(0, 0), (0, 3), (4, 8), (0, 0)]) == "dogs, in the snow"
    assert words_after("two dogs in", [(0, 3), (4, 8)]) == "in"
    assert words_after("two dogs", [(0, 3), (4, 6)]) == "dogs"  # of which one piece was read
    assert words_after("two dogs", [(0, 3), (4, 8)]) == ""


def test_a_sentence_that_is_too_long(tmp_path: Path) -> None:
    saved(tmp_path)
    tokenizer = TextQueries(tmp_path).tokenizer
    assert tokenizer.unread("a dog") == tokenizer.unread("") == ""
    long = "dog " * 100 + "snow"
    unread = tokenizer.unread(long)
    assert unread.endswith("dog snow")
    assert long.endswith(unread)
    read = long.removesuffix(unread)
    assert tokenizer.sentence(read).tolist() == tokenizer.sentence(long).tolist()
    assert tokenizer.unread(read) == ""
