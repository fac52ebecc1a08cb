from dataclasses import replace
from typing import Any

import numpy as np
import torch

from lexlip.config import Config, ObjectiveConfig
from lexlip.training.augmentation import Key, Sample
from lexlip.training.batches import NOT_MASKED, Batch, MaskedTokens, Masking, mask_words
from tests.tiny import CAPTIONS, TINY, tiny_collate, tiny_photos, tiny_stage
from tests.training.augmented import AUGMENTED, TOKENIZER, VOCABULARY, captions_of, collate_of

SHARES = AUGMENTED.objective.mask_encoder, AUGMENTED.objective.mask_decoder
PIXELS = tiny_photos(3)
SAMPLES = [
    Sample(Key(0, 4, 32), PIXELS[0], None, [1, 0], tuple(CAPTIONS[:3])),
    Sample(Key(0, 2, 32), PIXELS[1], None, [1], tuple(CAPTIONS[4:])),
    Sample(
        Key(1, 9, 32),
        PIXELS[2],
        None,
        [0, 1],
        (CAPTIONS[1], "dogs and a brown dog and two dogs play football on green grass, near the blue sea"),
    ),
]


def collate(samples: list[Sample | str], config: Config = AUGMENTED) -> Batch:
    return collate_of(config)(samples)


def masked(samples: list[Sample | str], config: Config = AUGMENTED) -> MaskedTokens:
    batch = collate(samples, config)
    assert batch.masked is not None
    return batch.masked


def tensors(batch: Batch) -> list[torch.Tensor]:
    """Everything that has a row for each caption."""
    assert batch.masked is not None
    return [*vars(batch.captions).values(), *vars(batch.masked).values()]


def test_masks_are_those_of_seed_epoch_photo_and_caption() -> None:
    batch, masking = collate(SAMPLES), Masking.of(TOKENIZER, *SHARES)
    assert batch.masked is not None
    row = 0
    for sample in SAMPLES:
        for caption in sample.drawn:
            rng = np.random.default_rng((3, sample.key.epoch, sample.key.photo, caption))
            ids, kept = TOKENIZER(sample.captions[caption])["input_ids"], batch.captions.ids[row]
            assert kept.tolist() == ids + [0] * (len(kept) - len(ids))
            words = TOKENIZER.convert_ids_to_tokens(kept.tolist())
            parts = mask_words(kept.numpy(), masking, rng)
            for part, (expected, chosen) in {"encoder": parts[:2], "decoder": parts[2:]}.items():
                assert getattr(batch.masked, f"{part}_ids")[row].tolist() == expected.tolist()
                assert getattr(batch.masked, f"{part}_labels")[row].tolist() == [
                    VOCABULARY.words.index(w) if c and w in VOCABULARY.words else NOT_MASKED
                    for w, c in zip(words, chosen, strict=True)
                ]
            row += 1
    assert row == len(batch.captions.ids)
    assert (batch.masked.encoder_labels >= 0).any()
    assert {name for name in TOKENIZER.get_vocab() if name not in VOCABULARY.words} > {"the", "in"}


def test_a_mask_does_not_depend_on_the_rest_of_the_batch() -> None:
    together = collate(SAMPLES)
    start = 0
    for sample in SAMPLES:
        alone = collate(["c.jpg: truncated", sample])
        texts, length = len(sample.drawn), alone.captions.ids.shape[1]
        for whole, part in zip(tensors(together), tensors(alone), strict=True):
            assert torch.equal(whole[start : start + texts, :length], part)
        start += texts


def test_masks_change_with_seed_epoch_photo_and_caption() -> None:
    sample = SAMPLES[2]
    first = masked([sample]).decoder_labels
    for other, config in (
        (sample, replace(AUGMENTED, seed=8)),
        (sample._replace(key=sample.key._replace(epoch=5)), AUGMENTED),
        (sample._replace(key=sample.key._replace(photo=6)), AUGMENTED),
    ):
        assert not torch.equal(masked([other], config).decoder_labels, first)
    same_text_twice = masked([sample._replace(captions=(sample.captions[1],) * 2)]).decoder_ids
    assert not torch.equal(same_text_twice[0], same_text_twice[1])


def test_captions_are_masked_for_losses_of_masked_words_alone() -> None:
    batch = collate(SAMPLES, replace(AUGMENTED, objective=ObjectiveConfig()))
    assert batch.masked is batch.words is batch.others is batch.composed is None
    for name in ("mlm", "image_to_text", "text_to_text"):
        objective = ObjectiveConfig(**{name: 0.5})
        assert (masked(SAMPLES, replace(AUGMENTED, objective=objective)).decoder_labels >= 0).any()


def test_words_of_captions_and_of_photos() -> None:
    """Of a photo's captions all count, not only those that were drawn; a caption holds a word once."""
    batch = collate(SAMPLES)

    def named(pairs: torch.Tensor) -> list[tuple[int, str]]:
        return sorted((row, VOCABULARY.words[column]) for row, column in pairs.t().tolist())

    def known(caption: str) -> set[str]:
        return set(caption.replace(",", "").split()) & set(VOCABULARY.words)

    drawn = [sample.captions[n] for sample in SAMPLES for n in sample.drawn]
    assert named(batch.words.of_captions) == sorted(
        (row, word) for row, caption in enumerate(drawn) for word in known(caption)
    )
    assert named(batch.words.of_photos) == sorted(
        (row, word) for row, sample in enumerate(SAMPLES) for text in sample.captions for word in known(text)
    )
    assert named(batch.words.of_photos).count((2, "dog")) == 2
    assert named(batch.words.of_captions).count((4, "dogs")) == 1
    tagged = collate([sample._replace(words=("grass", "sea, sea")) for sample in SAMPLES])
    assert tagged.words is not None
    assert torch.equal(tagged.words.of_captions, batch.words.of_captions)
    tags = [(row, word) for row in range(len(SAMPLES)) for word in ("grass", "sea")]
    assert named(tagged.words.of_photos) == sorted([*named(batch.words.of_photos), *tags])


def test_split_keeps_photos_and_captions_together() -> None:
    batch = collate([*SAMPLES, "c.jpg: truncated"])
    for images in (1, 2, 3):
        parts = batch.split(images)
        assert [len(part.photos) for part in parts] == [
            min(images, 3 - start) for start in range(0, 3, images)
        ]
        start = 0
        for part in parts:
            size = len(part.photos)
            expected = [owner - start for owner in [0, 0, 1, 2, 2] if start <= owner < start + size]
            assert part.owners.tolist() == expected
            assert part.words is None  # taken of the whole batch
            start += size
        split = zip(
            *([part.photos.pixels, part.photos.indices, *tensors(part)] for part in parts), strict=True
        )
        whole = [batch.photos.pixels, batch.photos.indices, *tensors(batch)]
        for pieces, tensor in zip(split, whole, strict=True):
            assert torch.equal(torch.cat(pieces), tensor)


def test_long_captions_are_cut() -> None:
    config = replace(AUGMENTED, model=replace(TINY, text=replace(TINY.text, max_tokens=5)))
    batch = collate(SAMPLES, config)
    assert batch.captions.ids.shape == batch.masked.decoder_ids.shape == (5, 5)
    assert captions_of(batch)[1] == "two dogs play"


def test_a_batch_of_unreadable_photos_alone() -> None:
    batch = collate(["a.jpg: truncated", "b.jpg: truncated"])
    assert len(batch.photos.pixels) == 0
    assert len(batch.captions.ids) == len(batch.photos.indices) == len(batch.owners) == 0
    assert {tensor.shape for tensor in tensors(batch)} == {batch.captions.ids.shape}
    assert len(batch.unreadable) == 2


def collated(objective: dict[str, Any], photos: int, kind: str = "ce", epoch: int = 0) -> tuple[Any, Any]:
    model = tiny_stage(kind)
    tokenizer = model.text_encoder.tokenizer
    samples = [
        Sample(Key(epoch, row, 32), pixels, None, [0, 1], (CAPTIONS[row], CAPTIONS[row + 1]))
        for row, pixels in enumerate(tiny_photos(photos))
    ]
    batch = tiny_collate(ObjectiveConfig(**objective), model)(samples)

    def texts(ids: Any, mask: Any) -> list[str]:
        return [
            tokenizer.decode(row[kept], skip_special_tokens=True) for row, kept in zip(ids, mask, strict=True)
        ]

    return batch, texts


def test_another_caption_is_of_another_photo_and_drawn_anew_in_each_epoch() -> None:
    seen = set()
    for epoch in range(12):
        batch, texts = collated({"matching": 1.0}, 4, epoch=epoch)
        again, _ = collated({"matching": 1.0}, 4, epoch=epoch)
        assert torch.equal(batch.others.ids, again.others.ids)
        captions = [text.replace(" ,", ",") for text in texts(batch.others.ids, batch.others.mask)]
        for owner, other in zip(batch.owners.tolist(), captions, strict=True):
            of = {row for row in range(4) if other in (CAPTIONS[row], CAPTIONS[row + 1])}
            assert of
            assert owner not in of
            seen.add((owner, other))
    assert len(seen) > 8


def test_composed_captions_go_with_their_batch() -> None:
    batch, texts = collated({"composed_negatives": True}, 3, "vldeformer")
    before = texts(batch.captions.ids, batch.captions.mask)
    after = texts(batch.composed.ids, batch.composed.mask)
    assert all(b != a and len(b.split()) == len(a.split()) for b, a in zip(before, after, strict=True))
