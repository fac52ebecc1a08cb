import itertools
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from lexlip.config import Config, DataConfig, OptimConfig
from lexlip.data import Scenes, open_source
from lexlip.errors import DataError
from lexlip.training.batches import Batch
from lexlip.training.distributed import Processes
from lexlip.training.loading import PATIENCE, Order, _watched
from tests.training.augmented import AUGMENTED, Photos, batches_of, captions_of, collate_of, keys_of, seen
from tests.training.small_run import write_captioned

COLOURS = ("red", "blue", "green")
WORDS = ("cat", "dogs", "bike", "boat", "man", "woman")


@pytest.mark.slow
def test_what_a_run_sees_depends_on_seed_and_step_alone(tmp_path: Path) -> None:
    """Neither on workers nor on where it was resumed; and torch's own generator is left alone."""
    source, before = Scenes(11, seed=0), torch.get_rng_state()
    whole = seen(AUGMENTED, source)
    assert len(whole) == 5  # 2.5 epochs of 2 whole batches
    assert torch.equal(torch.get_rng_state(), before)
    for first in range(6):
        assert seen(AUGMENTED, source, first) == whole[first:]
    other = seen(replace(AUGMENTED, seed=4), source)
    assert all(a[0] != b[0] for a, b in zip(whole, other, strict=True))
    longer = seen(replace(AUGMENTED, optim=replace(AUGMENTED.optim, steps=7)), source)
    assert len(longer) == 7
    assert longer[:5] == whole
    # of several sizes, and with what a worker says of a photo that it cannot read
    photos = open_source(write_captioned(tmp_path, [f"photo {word}" for word in WORDS], broken=[2]))
    alone, with_workers = (
        seen(replace(AUGMENTED, data=replace(AUGMENTED.data, sizes=(16, 48), workers=workers)), photos)
        for workers in (0, 2)
    )
    assert alone == with_workers
    assert "2.jpg: not an image" in str(alone)


def test_order_is_a_permutation_an_epoch() -> None:
    photos = [3, 5, 8, 13, 21, 34, 55]
    order = keys_of(photos, 2, 9)
    assert [len(batch) for batch in order] == [2] * 9
    for epoch in range(3):
        keys = [key for batch in order[3 * epoch : 3 * epoch + 3] for key in batch]
        assert {key.epoch for key in keys} == {epoch}
        indices = [key.photo for key in keys]
        assert len(set(indices)) == 6
        assert set(indices) <= set(photos)
    assert [key.photo for key in order[0]] != [key.photo for key in order[3]]
    assert keys_of(photos, 2, 9, first=4) == order[4:]


def test_a_size_is_drawn_for_each_step() -> None:
    photos, sizes = range(12), (32, 48, 64)
    order = keys_of(photos, 4, 300, sizes=sizes)
    drawn = [{key.size for key in batch} for batch in order]
    assert all(len(of_step) == 1 for of_step in drawn)
    for size in sizes:
        assert 70 < drawn.count({size}) < 130
    assert keys_of(photos, 4, 300, first=100, sizes=sizes) == order[100:]
    assert [{k.size for k in batch} for batch in keys_of(photos, 4, 300, seed=2, sizes=sizes)] != drawn
    plain = [[key.photo for key in batch] for batch in keys_of(photos, 4, 300)]
    assert [[key.photo for key in batch] for batch in order] == plain  # sizes leave the order alone


@pytest.mark.parametrize("captions", [None, [5, 4] * 12], ids=["photos", "pairs"])
@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_the_parts_of_the_processes_are_the_batch(world: int, captions: list[int] | None) -> None:
    """On however many nodes; of a batch of pairs, which may have fewer photos, they are the same shares."""
    run = partial(keys_of, range(24), 8, 20, first=3, sizes=(32, 48), captions=captions)
    whole, parts = run(), []
    for rank in range(world):
        processes = Processes("cpu")
        processes.rank, processes.world = rank, world
        parts.append(run(part=processes.part))
    assert [list(itertools.chain(*batches)) for batches in zip(*parts, strict=True)] == whole
    assert any(len(keys) < 8 for keys in whole) == (captions is not None)


def test_an_epoch_of_pairs_has_each_caption_once() -> None:
    photos, captions = [4, 7, 9, 12], [3, 1, 4, 2]
    order = keys_of(photos, 5, 6, captions=captions)
    for epoch in range(3):
        keys = [key for batch in order[2 * epoch : 2 * epoch + 2] for key in batch]
        pairs = [(key.photo, caption) for key in keys for caption in key.captions]
        assert {key.epoch for key in keys} == {epoch}
        expected = [(p, n) for p, number in zip(photos, captions, strict=True) for n in range(number)]
        assert sorted(pairs) == expected
    for batch in order:  # a photo is in a batch once, with all captions that are drawn with it
        assert len({key.photo for key in batch}) == len(batch)
        assert sum(len(key.captions) for key in batch) == 5
    assert keys_of(photos, 5, 6, first=2, captions=captions) == order[2:]


@pytest.mark.parametrize("captions", [None, [2] * 30])
def test_a_sample_is_the_same_in_every_epoch(captions: list[int] | None) -> None:
    orders = [keys_of(range(30), 4, 9, seed=seed, captions=captions, sample=12) for seed in (1, 1, 2)]
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


@pytest.mark.parametrize("captions", [None, [1, 2, 3] * 10])
def test_the_photos_of_an_epoch(captions: list[int] | None) -> None:
    photos = range(5, 65, 2)
    epoch = "photos" if captions is None else "pairs"
    config = Config(data=DataConfig(epoch=epoch, sample=12), optim=OptimConfig(batch=4, steps=3))
    order = Order(Photos(photos, captions), config)
    assert order.seen.tolist() == sorted({key.photo for batch in order for key in batch})


def test_batches_of_pairs(tmp_path: Path) -> None:
    write_captioned(tmp_path, ["\n".join(f"photo {word} {c}" for word in WORDS[:4]) for c in COLOURS])
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


def test_photos_are_of_the_size_that_was_drawn() -> None:
    data = replace(AUGMENTED.data, sizes=(16, 48), randaugment=(0, 0))
    config = replace(AUGMENTED, data=data, optim=OptimConfig(epochs=6, batch=4))
    batches = batches_of(Scenes(11, seed=0), config)
    order = keys_of(range(11), 4, 12, seed=3, sizes=(16, 48))
    assert [batch.photos.pixels.shape[-1] for batch in batches] == [keys[0].size for keys in order]
    assert {batch.photos.pixels.shape[-1] for batch in batches} == {16, 48}


def test_unreadable_photos_are_reported_and_left_out(tmp_path: Path) -> None:
    source = open_source(write_captioned(tmp_path, [f"photo {word}" for word in WORDS], broken=[2]))
    config = replace(AUGMENTED, data=DataConfig(workers=0), optim=OptimConfig(epochs=1, batch=6))
    [batch] = batches_of(source, config)
    assert len(batch.photos.pixels) == 5
    assert sorted(batch.photos.indices.tolist()) == [0, 1, 3, 4, 5]
    assert captions_of(batch) == [f"photo {WORDS[photo]}" for photo in batch.photos.indices]
    assert batch.owners.tolist() == [0, 1, 2, 3, 4]
    assert batch.unreadable == (f"{tmp_path}/2.jpg: not an image",)


def test_photos_without_captions_are_not_trained_on(tmp_path: Path) -> None:
    write_captioned(tmp_path, [None, "photo dogs", None, "photo boat"])
    config = replace(AUGMENTED, data=DataConfig(workers=0), optim=OptimConfig(epochs=1, batch=2))
    [batch] = batches_of(open_source(tmp_path), config)
    assert sorted(captions_of(batch)) == ["photo boat", "photo dogs"]


def test_fewer_photos_or_pairs_than_a_batch() -> None:
    few = "3 drawn scenes of seed 0 has 3 photos with captions, fewer than a batch"
    with pytest.raises(DataError, match=few):
        batches_of(Scenes(3, seed=0), AUGMENTED)
    data = replace(AUGMENTED.data, epoch="pairs", captions_per_image=1)
    with pytest.raises(DataError, match="captions, fewer than a batch"):
        batches_of(Scenes(4, seed=0), replace(AUGMENTED, data=data, optim=OptimConfig(batch=64)))


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


@pytest.mark.parametrize(
    ("said", "kind", "message"),
    [
        ("DataLoader timed out after 600 seconds", DataError, f"came within {PATIENCE} s; go on with --res"),
        (
            "DataLoader worker (pid 7) exited unexpectedly",
            DataError,
            r"a process that decodes photos died \(.*pid 7.*\); if memory ran out, lower data.workers",
        ),
        ("a bug", RuntimeError, "^a bug$"),
    ],
)
def test_a_reader_that_hangs_or_dies_is_named(said: str, kind: type[Exception], message: str) -> None:
    nothing = collate_of(AUGMENTED)([])

    def loader() -> Iterator[Batch]:
        yield nothing
        raise RuntimeError(said)

    batches = _watched(loader())
    assert next(batches) is nothing
    with pytest.raises(kind, match=message):
        next(batches)


def test_photos_of_a_topic_share_a_batch() -> None:
    topics = np.random.default_rng(1).permutation(np.repeat([0, 1, 2], [13, 9, 2]))
    photos = np.arange(100, 124)
    order = keys_of(photos.tolist(), 8, 6, seed=2, topics=topics, alike=4)
    batches = [[key.photo for key in batch] for batch in order]
    for epoch in (batches[:3], batches[3:]):
        assert sorted(itertools.chain(*epoch)) == photos.tolist()
        groups = [group for batch in epoch for group in (batch[:4], batch[4:])]
        of_one_topic = [len({int(topics[photo - 100]) for photo in group}) == 1 for group in groups]
        assert of_one_topic[:5] == [True] * 5  # 3 groups of topic 0, 2 of topic 1, then what is left over
    assert batches[:3] != batches[3:]
