import math
from collections.abc import Callable

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from lexlip.encoders.text import word_tokenizer
from lexlip.errors import ModelError
from lexlip.training.batches import Masking, mask_words
from tests.tiny import CAPTIONS

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
CAPTION = "skateboarders playfully jumping over fences and snowmen in the park"
"""Of words that the three tokenizers below cut in pieces."""


def finished(core: Tokenizer) -> PreTrainedTokenizerFast:
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(s, core.token_to_id(s)) for s in ("[CLS]", "[SEP]")]
    )
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    return PreTrainedTokenizerFast(tokenizer_object=core, **names)


def wordpiece(*more: str) -> PreTrainedTokenizerFast:
    """BERT's kind: "##" goes on with a word."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    pieces = ["skate", "##board", "##ers", "play", "##ful", "##ly", "jump", "##ing", "over", "fence", "##s"]
    pieces += ["and", "snow", "##men", "in", "the", "park", ",", "dog", *more]
    entries = [*SPECIAL, *pieces, *letters, *(f"##{letter}" for letter in letters if letter != "s")]
    core = Tokenizer(models.WordPiece({e: i for i, e in enumerate(entries)}, unk_token="[UNK]"))
    core.normalizer = normalizers.BertNormalizer(lowercase=True)
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return finished(core)


def byte_level() -> PreTrainedTokenizerFast:
    """RoBERTa's kind: "Ġ" begins a word, but for the first of a text."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=330, special_tokens=SPECIAL, show_progress=False, initial_alphabet=alphabet
    )
    core.train_from_iterator(CAPTIONS, trainer)
    return finished(core)


def sentencepiece() -> PreTrainedTokenizerFast:
    """XLM-R's kind: "▁" begins a word."""
    core = Tokenizer(models.Unigram())
    core.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=60, special_tokens=SPECIAL, unk_token="[UNK]", show_progress=False
    )
    core.train_from_iterator([*CAPTIONS, CAPTION], trainer)
    return finished(core)


KINDS: dict[str, Callable[[], PreTrainedTokenizerFast]] = {
    "WordPiece": wordpiece,
    "byte-level BPE": byte_level,
    "SentencePiece": sentencepiece,
}


def masking_of(tokenizer: PreTrainedTokenizerBase, encoder: float = 0.3, decoder: float = 0.5) -> Masking:
    return Masking.of(tokenizer, encoder, decoder)


def encoded(tokenizer: PreTrainedTokenizerBase, caption: str, padded_to: int = 0) -> np.ndarray:
    ids = tokenizer(caption)["input_ids"]
    return np.array(ids + [tokenizer.pad_token_id] * (padded_to - len(ids)))


def words_of(tokenizer: PreTrainedTokenizerBase, caption: str) -> list[list[int]]:
    """Positions of each space-separated word's pieces, told by where they are in the caption."""
    spans = tokenizer(caption, return_offsets_mapping=True)["offset_mapping"]
    words: list[list[int]] = []
    end = 0
    for word in caption.split():
        start = caption.index(word, end)
        end = start + len(word)
        # a piece may be no more than the space before its word
        words.append([p for p, (first, last) in enumerate(spans) if first < last and start <= last <= end])
    return words


@pytest.mark.parametrize("kind", KINDS)
def test_whole_words_are_masked(kind: str) -> None:
    tokenizer = KINDS[kind]()
    ids, words = encoded(tokenizer, CAPTION, padded_to=70), words_of(tokenizer, CAPTION)
    assert len(words) == 10
    assert sum(len(word) > 1 for word in words) >= 3
    masking = masking_of(tokenizer)
    for seed in range(100):
        encoder_ids, encoder, decoder_ids, decoder = mask_words(ids, masking, np.random.default_rng(seed))
        for masked_ids, chosen, count in ((encoder_ids, encoder, 3), (decoder_ids, decoder, 5)):
            masked = [word for word in words if chosen[word].any()]
            assert all(chosen[word].all() for word in masked)
            assert len(masked) == count
            assert chosen.sum() == sum(len(word) for word in masked)  # nothing but words
            assert (masked_ids[~chosen] == ids[~chosen]).all()
            for word in masked:  # whose pieces share a fate
                hidden = (masked_ids[word] == tokenizer.mask_token_id).sum()
                assert hidden in (0, len(word))
            new = set(masked_ids[masked_ids != ids]) - {tokenizer.mask_token_id}
            assert not new & set(tokenizer.all_special_ids)
        assert (decoder >= encoder).all()


def test_punctuation_is_a_word_of_bert_s() -> None:
    tokenizer = wordpiece()
    ids = encoded(tokenizer, "dog, dog, dog")
    masking = masking_of(tokenizer, 0.0, 0.2)  # one of five
    masks = [mask_words(ids, masking, np.random.default_rng(seed))[3] for seed in range(100)]
    assert {tuple(np.flatnonzero(mask)) for mask in masks} == {(1,), (2,), (3,), (4,), (5,)}


def test_letters_of_other_scripts_do_not_make_a_wordpiece_tokenizer_another() -> None:
    """BERT's cased and multilingual vocabularies hold single letters of many alphabets, "Ġ" among them."""
    tokenizer = wordpiece("Ġ", "▁")
    masking = masking_of(tokenizer)
    starts = {entry for entry, id in tokenizer.get_vocab().items() if not masking.continues[id]}
    assert {"skate", "dog", "Ġ", "▁", "a"} <= starts
    assert not any(entry.startswith("##") for entry in starts)


@pytest.mark.parametrize(
    ("words", "encoder", "decoder"),
    [(1, 1, 1), (2, 1, 1), (3, 1, 2), (4, 1, 2), (6, 2, 3), (8, 2, 4), (10, 3, 5), (20, 6, 10)],
)
def test_number_of_words_masked(words: int, encoder: int, decoder: int) -> None:
    """30 % and 50 %, to the nearest whole number, and at least one."""
    tokenizer = wordpiece()
    ids = encoded(tokenizer, " ".join(["skateboarders"] * words), padded_to=70)
    _, for_encoder, _, for_decoder = mask_words(ids, masking_of(tokenizer), np.random.default_rng(words))
    assert (for_encoder.sum(), for_decoder.sum()) == (3 * encoder, 3 * decoder)


def test_a_share_of_nothing_masks_nothing() -> None:
    tokenizer = wordpiece()
    ids = encoded(tokenizer, CAPTION)
    masking, rng = masking_of(tokenizer, 0.0, 1.0), np.random.default_rng(0)
    encoder_ids, encoder, _, decoder = mask_words(ids, masking, rng)
    assert (encoder_ids == ids).all()
    assert not encoder.any()
    assert decoder.sum() == len(ids) - 2  # all but [CLS] and [SEP]


@pytest.mark.parametrize("caption", ["", "%", "% %"])
def test_a_caption_without_words(caption: str) -> None:
    tokenizer = wordpiece()
    ids = encoded(tokenizer, caption, padded_to=9)  # specials, what is unknown, padding
    masking = masking_of(tokenizer)
    encoder_ids, encoder, decoder_ids, decoder = mask_words(ids, masking, np.random.default_rng(0))
    assert (encoder_ids == ids).all()
    assert (decoder_ids == ids).all()
    assert not (encoder | decoder).any()


def within(found: int, trials: int, share: float) -> bool:
    """Whether a binomial count lies within five standard deviations."""
    return abs(found - trials * share) <= 5 * math.sqrt(trials * share * (1 - share)) + 1e-9


def test_in_the_long_run() -> None:
    """Each word is masked as often as any; 80 % become [MASK], 10 % another token, 10 % stay."""
    tokenizer = word_tokenizer([*CAPTIONS, CAPTION])
    ids, masking, trials = encoded(tokenizer, CAPTION, padded_to=14), masking_of(tokenizer), 1000
    others = len(tokenizer) - len(SPECIAL)
    masked, fates, drawn = np.zeros((2, len(ids))), np.zeros((2, 3)), [set(), set()]
    for seed in range(trials):
        encoder_ids, encoder, decoder_ids, decoder = mask_words(ids, masking, np.random.default_rng(seed))
        for which, (new, chosen) in enumerate(((encoder_ids, encoder), (decoder_ids, decoder))):
            masked[which] += chosen
            hidden, same = new == tokenizer.mask_token_id, new == ids
            random = chosen & ~hidden & ~same
            fates[which] += [hidden.sum(), random.sum(), (same & chosen).sum()]
            drawn[which] |= set(new[random])
    for which, share in enumerate((0.3, 0.5)):
        assert all(within(count, trials, share) for count in masked[which, 1:11])
        assert masked[which, [0, 11, 12, 13]].sum() == 0  # [CLS], [SEP], padding
        words = round(share * 10) * trials
        assert fates[which].sum() == words
        by_chance = 0.1 / others  # a token drawn at random is the word itself
        for count, expected in zip(fates[which], (0.8, 0.1 - by_chance, 0.1 + by_chance), strict=True):
            assert within(count, words, expected)
        assert drawn[which] == set(range(len(tokenizer))) - set(tokenizer.all_special_ids)


def test_the_decoders_fates_are_drawn_for_themselves() -> None:
    tokenizer = word_tokenizer([CAPTION])
    ids, masking = encoded(tokenizer, CAPTION), masking_of(tokenizer, 0.5, 0.5)
    differ = 0
    for seed in range(200):
        encoder_ids, encoder, decoder_ids, decoder = mask_words(ids, masking, np.random.default_rng(seed))
        assert (encoder == decoder).all()
        differ += (encoder_ids != decoder_ids).any()
    assert differ > 100


def test_padding_changes_nothing_and_the_caption_stays_as_it_was() -> None:
    tokenizer = wordpiece()
    masking, ids, padded = masking_of(tokenizer), encoded(tokenizer, CAPTION), encoded(tokenizer, CAPTION, 60)
    narrow, wide = (mask_words(given, masking, np.random.default_rng(5)) for given in (ids, padded))
    for one, other in zip(narrow, wide, strict=True):
        assert (one == other[: len(ids)]).all()
    assert (ids == encoded(tokenizer, CAPTION)).all()


def test_a_tokenizer_without_a_mask_token() -> None:
    core = Tokenizer(models.WordLevel({"[UNK]": 0, "dog": 1}, unk_token="[UNK]"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, unk_token="[UNK]")
    with pytest.raises(ModelError, match=r"no mask token, which objective\.mlm") as caught:
        Masking.of(tokenizer, 0.3, 0.5)
    assert "\n" not in str(caught.value)
