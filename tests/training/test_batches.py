from dataclasses import replace

import numpy as np
import torch
from PIL import Image

from lexlip.config import Config, DataConfig, ObjectiveConfig
from lexlip.data import Scenes
from lexlip.training.batches import Batch, Collate, Key, Photos, Sample
from lexlip.training.masking import NOT_MASKED, Masking, mask_words
from tests.tiny import CAPTIONS, TINY, tiny_photos
from tests.training.augmented import AUGMENTED, TOKENIZER, VOCABULARY, captions_of

PIXELS = tiny_photos(3)
SAMPLES = [
    Sample(Key(0, 4, 32), PIXELS[0], [1, 0], tuple(CAPTIONS[:3])),
    Sample(Key(0, 2, 32), PIXELS[1], [1], tuple(CAPTIONS[4:])),
    Sample(
        Key(1, 9, 32),
        PIXELS[2],
        [0, 1],
        (CAPTIONS[1], "dogs and a brown dog and two dogs play football on green grass, near the blue sea"),
    ),
]


def collate(samples: list[Sample | str], config: Config = AUGMENTED) -> Batch:
    return Collate(config, TOKENIZER, VOCABULARY)(samples)


def test_masks_are_those_of_seed_epoch_photo_and_caption() -> None:
    batch, masking = collate(SAMPLES), Masking.of(AUGMENTED.objective, TOKENIZER)
    assert masking is not None
    row = 0
    for sample in SAMPLES:
        for caption in sample.chosen:
            numbers = np.random.default_rng((3, sample.key.epoch, sample.key.photo, caption))
            ids = TOKENIZER(sample.captions[caption])["input_ids"]
            assert batch.ids[row].tolist() == ids + [0] * (batch.ids.shape[1] - len(ids))
            parts = mask_words(batch.ids[row].numpy(), masking, numbers)
            for masked_ids, labels, (expected, chosen) in (
                (batch.encoder_ids, batch.encoder_labels, parts[:2]),
                (batch.decoder_ids, batch.decoder_labels, parts[2:]),
            ):
                assert masked_ids[row].tolist() == expected.tolist()
                words = TOKENIZER.convert_ids_to_tokens(batch.ids[row].tolist())
                assert labels[row].tolist() == [
                    VOCABULARY.words.index(w) if c and w in VOCABULARY.words else NOT_MASKED
                    for w, c in zip(words, chosen, strict=True)
                ]
            row += 1
    assert row == len(batch.ids)
    assert (batch.encoder_labels >= 0).any()
    assert {name for name in TOKENIZER.get_vocab() if name not in VOCABULARY.words} > {"the", "in"}


def test_a_mask_does_not_depend_on_the_rest_of_the_batch() -> None:
    together = collate(SAMPLES)
    start = 0
    for sample in SAMPLES:
        alone = collate(["c.jpg: truncated", sample])
        texts, length = len(sample.chosen), alone.ids.shape[1]
        for name in ("ids", "mask", "encoder_ids", "encoder_labels", "decoder_ids", "decoder_labels"):
            part = getattr(together, name)[start : start + texts]
            assert torch.equal(part[:, :length], getattr(alone, name))
        start += texts


def test_masks_change_with_seed_epoch_photo_and_caption() -> None:
    sample = SAMPLES[2]
    first = collate([sample]).decoder_labels
    longer = sample._replace(captions=(sample.captions[1],) * 2)
    for other, config in (
        (sample, replace(AUGMENTED, seed=8)),
        (sample._replace(key=sample.key._replace(epoch=5)), AUGMENTED),
        (sample._replace(key=sample.key._replace(photo=6)), AUGMENTED),
    ):
        assert not torch.equal(collate([other], config).decoder_labels, first)
    same_text_twice = collate([longer]).decoder_ids
    assert not torch.equal(same_text_twice[0], same_text_twice[1])


def test_without_masked_objectives_captions_stay_whole() -> None:
    batch = collate(SAMPLES, replace(AUGMENTED, objective=ObjectiveConfig()))
    assert torch.equal(batch.encoder_ids, batch.ids)
    assert torch.equal(batch.decoder_ids, batch.ids)
    assert (batch.encoder_labels == NOT_MASKED).all()
    assert (batch.decoder_labels == NOT_MASKED).all()
    assert batch.text_words.shape == batch.photo_words.shape == (2, 0)


def test_words_of_captions_and_of_photos() -> None:
    """Of a photo's captions all count, not only those that were drawn; a caption holds a word once."""
    batch = collate(SAMPLES)

    def named(pairs: torch.Tensor) -> list[tuple[int, str]]:
        return sorted((row, VOCABULARY.words[column]) for row, column in pairs.t().tolist())

    known = [
        [w for w in set(c.replace(",", "").split()) if w in VOCABULARY.words]
        for c in (CAPTIONS[1], CAPTIONS[0], CAPTIONS[5], CAPTIONS[1], SAMPLES[2].captions[1])
    ]
    assert named(batch.text_words) == sorted((row, word) for row, words in enumerate(known) for word in words)
    assert named(batch.photo_words) == sorted(
        (row, word)
        for row, sample in enumerate(SAMPLES)
        for caption in sample.captions
        for word in set(caption.replace(",", "").split())
        if word in VOCABULARY.words
    )
    assert named(batch.photo_words).count((2, "dog")) == 2
    assert named(batch.text_words).count((4, "dogs")) == 1


def test_split_keeps_photos_and_captions_together() -> None:
    batch = collate([*SAMPLES, "c.jpg: truncated"])
    for images in (1, 2, 3):
        parts = batch.split(images)
        assert [len(part.pixels) for part in parts] == [
            min(images, 3 - start) for start in range(0, 3, images)
        ]
        start = 0
        for part in parts:
            size = len(part.pixels)
            expected = [owner - start for owner in [0, 0, 1, 2, 2] if start <= owner < start + size]
            assert part.image_of_text.tolist() == expected
            assert part.text_words.shape == part.photo_words.shape == (2, 0)  # taken of the whole batch
            start += size
        for name in ("pixels", "photos", "ids", "mask", "encoder_ids", "encoder_labels") + (
            "decoder_ids",
            "decoder_labels",
        ):
            assert torch.equal(torch.cat([getattr(part, name) for part in parts]), getattr(batch, name))


def test_long_captions_are_cut() -> None:
    config = replace(AUGMENTED, model=replace(TINY, text=replace(TINY.text, max_tokens=5)))
    batch = collate(SAMPLES, config)
    assert batch.ids.shape == batch.decoder_ids.shape == (5, 5)
    assert captions_of(batch)[1] == "two dogs play"


def test_without_augmentation_a_photo_is_what_the_encoder_gets() -> None:
    config = replace(AUGMENTED, data=DataConfig(workers=0))
    source = Scenes(4, seed=0)
    sample = Photos(source, config)[Key(0, 2, 32)]
    assert isinstance(sample, Sample)
    expected = source.image(2).resize((32, 32), Image.Resampling.BICUBIC)
    np.testing.assert_array_equal(sample.pixels.numpy(), np.asarray(expected).transpose(2, 0, 1))


NUMBERS = ("dog", "dogs", "cat", "boat", "sea", "fence")  # words that the tokenizer knows


def test_a_batch_of_unreadable_photos_alone() -> None:
    batch = collate(["a.jpg: truncated", "b.jpg: truncated"])
    assert len(batch.pixels) == 0
    assert len(batch.ids) == len(batch.photos) == len(batch.image_of_text) == 0
    assert batch.encoder_labels.shape == batch.decoder_ids.shape == batch.ids.shape
    assert len(batch.unreadable) == 2
