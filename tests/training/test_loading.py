import itertools
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from lexlip.config import DataConfig, OptimConfig
from lexlip.data import Scenes, open_source
from lexlip.errors import DataError
from lexlip.training.batches import Batch
from lexlip.training.loading import PATIENCE, Order, _watched
from tests.training.augmented import (
    AUGMENTED,
    batches_of,
    captions_of,
    collate_of,
    seen,
)

COLOURS = ("red", "blue", "green")
WORDS = ("cat", "dogs", "bike", "boat", "man", "woman")


def test_a_run_does_not_depend_on_workers() -> None:
    source = Scenes(11, seed=0)
    alone = seen(AUGMENTED, source)
    assert len(alone) == 5  # 2.5 epochs of 2 whole batches
    config = replace(AUGMENTED, data=replace(AUGMENTED.data, workers=2))
    assert seen(config, source) == alone


def test_a_resumed_run_sees_the_rest() -> None:
    source = Scenes(11, seed=0)
    whole = seen(AUGMENTED, source)
    for first in range(6):
        assert seen(AUGMENTED, source, first) == whole[first:]


def test_another_seed_sees_something_else() -> None:
    source = Scenes(11, seed=0)
    first, second = seen(AUGMENTED, source), seen(replace(AUGMENTED, seed=4), source)
    assert all(a[0] != b[0] for a, b in zip(first, second, strict=True))


def test_torch_s_own_generator_is_left_alone() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    seen(AUGMENTED, Scenes(8, seed=0))
    assert torch.equal(torch.get_rng_state(), before)


def test_order_is_a_permutation_an_epoch() -> None:
    photos = [3, 5, 8, 13, 21, 34, 55]
    order = list(Order(photos, batch=2, steps=9, first=0, seed=1, sizes=[32]))
    assert [len(batch) for batch in order] == [2] * 9
    for epoch in range(3):
        keys = [key for batch in order[3 * epoch : 3 * epoch + 3] for key in batch]
        assert {key.epoch for key in keys} == {epoch}
        indices = [key.photo for key in keys]
        assert len(set(indices)) == 6
        assert set(indices) <= set(photos)
    assert [key.photo for key in order[0]] != [key.photo for key in order[3]]
    assert len(Order(photos, 2, 9, 4, 1, [32])) == 5
    assert list(Order(photos, 2, 9, 4, 1, [32])) == order[4:]


def test_a_size_is_drawn_for_each_step() -> None:
    photos, sizes = list(range(12)), [32, 48, 64]
    order = list(Order(photos, batch=4, steps=300, first=0, seed=1, sizes=sizes))
    drawn = [{key.size for key in batch} for batch in order]
    assert all(len(of_step) == 1 for of_step in drawn)
    for size in sizes:
        assert 70 < drawn.count({size}) < 130
    assert list(Order(photos, 4, 300, 100, 1, sizes)) == order[100:]
    assert [{k.size for k in batch} for batch in Order(photos, 4, 300, 0, 2, sizes)] != drawn
    plain = [[key.photo for key in batch] for batch in Order(photos, 4, 300, 0, 1, [32])]
    assert [[key.photo for key in batch] for batch in order] == plain  # sizes leave the order alone


@pytest.mark.parametrize("cuts", [[3], [1, 4], [2, 2]])
def test_the_parts_of_the_processes_are_the_batch(cuts: list[int]) -> None:
    photos, sizes = list(range(23)), [32, 48]
    whole = list(Order(photos, batch=6, steps=20, first=3, seed=1, sizes=sizes))
    bounds = [0, *cuts, 6]
    parts = [
        list(Order(photos, 6, 20, 3, 1, sizes, lambda rows, a=first, b=last: slice(a, b)))
        for first, last in itertools.pairwise(bounds)
    ]
    assert [list(itertools.chain(*batches)) for batches in zip(*parts, strict=True)] == whole


def test_an_epoch_of_pairs_has_each_caption_once() -> None:
    photos, captions = [4, 7, 9, 12], [3, 1, 4, 2]
    order = list(Order(photos, 5, 6, 0, 1, [32], captions=np.array(captions)))
    for epoch in range(3):
        keys = [key for batch in order[2 * epoch : 2 * epoch + 2] for key in batch]
        pairs = [(key.photo, caption) for key in keys for caption in key.captions]
        assert {key.epoch for key in keys} == {epoch}
        expected = [(p, n) for p, number in zip(photos, captions, strict=True) for n in range(number)]
        assert sorted(pairs) == expected
    for batch in order:  # a photo is in a batch once, with all captions that are drawn with it
        assert len({key.photo for key in batch}) == len(batch)
        assert sum(len(key.captions) for key in batch) == 5
    assert list(Order(photos, 5, 6, 2, 1, [32], captions=np.array(captions))) == order[2:]


@pytest.mark.parametrize("captions", [None, np.array([2] * 30)])
def test_a_sample_is_the_same_in_every_epoch(captions: np.ndarray | None) -> None:
    orders = [list(Order(range(30), 4, 9, 0, seed, [32], captions=captions, sample=12)) for seed in (1, 1, 2)]
    seen = [
        [
            {
                (key.photo, n)
                for batch in order[step : step + 3]
                for key in batch
                for n in key.captions or (0,)
            }
            for step in (0, 3, 6)
        ]
        for order in orders
    ]
    assert all(len(epoch) == 12 for order in seen for epoch in order)
    assert seen[0][0] == seen[0][1] == seen[0][2] == seen[1][0] != seen[2][0]


def test_processes_share_the_photos_of_pairs() -> None:
    counts = np.array([5] * 9)

    def part(rank: int, rows: int) -> slice:
        return slice(rows * rank // 2, rows * (rank + 1) // 2)

    whole = list(Order(range(9), 8, 15, 0, 1, [32], captions=counts))
    parts = [list(Order(range(9), 8, 15, 0, 1, [32], partial(part, rank), counts)) for rank in range(2)]
    assert [first + second for first, second in zip(*parts, strict=True)] == whole
    assert any(len(keys) < 8 for keys in whole)


def test_batches_of_pairs(tmp_path: Path) -> None:
    for number in range(3):
        Image.new("RGB", (40, 30), (40 * number, 0, 0)).save(tmp_path / f"{number}.jpg")
        (tmp_path / f"{number}.txt").write_text(
            "".join(f"photo {word} {COLOURS[number]}\n" for word in WORDS[:4])
        )
    data = replace(AUGMENTED.data, epoch="pairs", captions_per_image=1)
    config = replace(AUGMENTED, data=data, optim=OptimConfig(epochs=2, batch=4))
    batches = batches_of(open_source(tmp_path), config)
    assert len(batches) == 6  # 12 pairs an epoch
    assert [len(batch.captions) for batch in batches] == [4] * 6
    for epoch in (batches[:3], batches[3:]):
        assert sorted(caption for batch in epoch for caption in captions_of(batch)) == sorted(
            f"photo {word} {colour}" for colour in COLOURS for word in WORDS[:4]
        )
    for batch in batches:
        of = [COLOURS[photo] for photo in batch.photos.indices[batch.owners].tolist()]
        assert [caption.split()[-1] for caption in captions_of(batch)] == of


def test_too_few_pairs(tmp_path: Path) -> None:
    data = replace(AUGMENTED.data, epoch="pairs", captions_per_image=1)
    config = replace(AUGMENTED, data=data, optim=OptimConfig(batch=64))
    with pytest.raises(DataError, match="captions, fewer than a batch"):
        batches_of(Scenes(4, seed=0), config)


@pytest.mark.parametrize("workers", [0, 2])
def test_photos_are_of_the_size_that_was_drawn(workers: int) -> None:
    data = replace(AUGMENTED.data, sizes=(16, 48), workers=workers, randaugment=(0, 0))
    config = replace(AUGMENTED, data=data, optim=OptimConfig(epochs=6, batch=4))
    batches = batches_of(Scenes(11, seed=0), config)
    order = Order(range(11), 4, 12, 0, 3, (16, 48))
    assert [batch.photos.pixels.shape[-1] for batch in batches] == [keys[0].size for keys in order]
    assert {batch.photos.pixels.shape[-1] for batch in batches} == {16, 48}


@pytest.mark.parametrize("workers", [0, 1])
def test_unreadable_photos_are_reported_and_left_out(tmp_path: Path, workers: int) -> None:
    lines = []
    for number in range(6):
        Image.new("RGB", (40, 30), (40 * number, 0, 0)).save(tmp_path / f"{number}.jpg")
        lines.append(f"{number}.jpg\tphoto {WORDS[number]}\n")
    (tmp_path / "captions.tsv").write_text("".join(lines))
    source = open_source(tmp_path / "captions.tsv")
    (tmp_path / "2.jpg").write_bytes(b"no photo")
    config = replace(AUGMENTED, data=DataConfig(workers=workers), optim=OptimConfig(epochs=1, batch=6))
    [batch] = batches_of(source, config)
    assert len(batch.photos.pixels) == 5
    assert sorted(batch.photos.indices.tolist()) == [0, 1, 3, 4, 5]
    assert captions_of(batch) == [f"photo {WORDS[photo]}" for photo in batch.photos.indices]
    assert batch.owners.tolist() == [0, 1, 2, 3, 4]
    assert batch.unreadable == (f"{tmp_path}/2.jpg: not an image",)


def test_photos_without_captions_are_not_trained_on(tmp_path: Path) -> None:
    for number in range(4):
        Image.new("RGB", (40, 30)).save(tmp_path / f"{number}.jpg")
    for number in (1, 3):
        (tmp_path / f"{number}.txt").write_text(f"photo {WORDS[number]}\n")
    config = replace(AUGMENTED, data=DataConfig(workers=0), optim=OptimConfig(epochs=1, batch=2))
    [batch] = batches_of(open_source(tmp_path), config)
    assert sorted(captions_of(batch)) == ["photo boat", "photo dogs"]


def test_fewer_photos_than_a_batch() -> None:
    with pytest.raises(
        DataError, match="3 drawn scenes of seed 0 has 3 photos with captions, fewer than a batch"
    ):
        batches_of(Scenes(3, seed=0), AUGMENTED)


def test_each_process_reads_its_part() -> None:
    source, whole = Scenes(11, seed=0), batches_of(Scenes(11, seed=0), AUGMENTED)
    parts = [
        batches_of(source, AUGMENTED, part=lambda rows, at=at: slice(*at)) for at in ((0, 2), (2, 3), (3, 4))
    ]
    for batch, *of_processes in zip(whole, *parts, strict=True):
        photos = [part.photos for part in of_processes]
        assert torch.equal(torch.cat([part.indices for part in photos]), batch.photos.indices)
        assert torch.equal(torch.cat([part.pixels for part in photos]), batch.photos.pixels)
        labels = [row[row >= 0].tolist() for part in of_processes for row in part.masked.decoder_labels]
        assert labels == [row[row >= 0].tolist() for row in batch.masked.decoder_labels]


def test_steps_instead_of_epochs() -> None:
    source = Scenes(11, seed=0)
    config = replace(AUGMENTED, optim=replace(AUGMENTED.optim, steps=7))
    batches = seen(config, source)
    assert len(batches) == 7
    assert batches[:5] == seen(AUGMENTED, source)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ("DataLoader timed out after 600 seconds", f"no batch came within {PATIENCE} s; go on with --resume"),
        (
            "DataLoader worker (pid 7) exited unexpectedly",
            r"a process that decodes photos died \(.*pid 7.*\); if memory ran out, lower data.workers",
        ),
    ],
)
def test_a_reader_that_hangs_or_dies_is_named(error: str, message: str) -> None:
    def loader() -> Iterator[Batch]:
        yield collate_nothing
        raise RuntimeError(error)

    collate_nothing = collate_of(AUGMENTED)([])
    batches = _watched(loader())
    assert next(batches) is collate_nothing
    with pytest.raises(DataError, match=message):
        next(batches)


def test_other_errors_of_a_reader_stay_what_they_are() -> None:
    def loader() -> Iterator[Batch]:
        raise RuntimeError("a bug")
        yield

    with pytest.raises(RuntimeError, match="a bug"):
        next(_watched(loader()))


def test_photos_of_a_topic_share_a_batch() -> None:
    topics = np.repeat([0, 1, 2], [13, 9, 2])
    photos = np.arange(100, 124)
    order = Order(
        photos,
        batch=8,
        steps=6,
        first=0,
        seed=2,
        sizes=[32],
        topics=np.random.default_rng(1).permutation(topics),
        alike=4,
    )
    assert order.topics is not None
    batches = [[key.photo for key in batch] for batch in order]
    for epoch in (batches[:3], batches[3:]):
        assert sorted(itertools.chain(*epoch)) == photos.tolist()
        groups = [group for batch in epoch for group in (batch[:4], batch[4:])]
        of_one_topic = [len({int(order.topics[photo - 100]) for photo in group}) == 1 for group in groups]
        assert of_one_topic[:5] == [True] * 5  # 3 groups of topic 0, 2 of topic 1, then what is left over
    assert batches[:3] != batches[3:]
