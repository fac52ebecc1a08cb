"""Draw the captions of COCO that `lexlip lexicon` takes if it is given none, one a photo.

::

    python -m tools.draw_captions lexlip/captions/coco.txt.gz coco/train-0000.tar coco/more-*.tar \
        --without coco/held_out.txt --unlike coco/val-0000.tar coco/xtd-0000.tar

Photos are divided into as many runs of neighbours as captions are wanted. Each run gives the caption whose
words were seen least before, so that many words occur.
"""

import argparse
import gzip
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from pathlib import Path

import numpy as np

from lexlip.data import Item, open_source
from lexlip.words.plain_text import words_in
from lexlip.words.vocabulary import is_content_word

NUMBER = 10_000
MOST_WORDS = 20  # of a caption: longer ones are stories
RUDE = frozenset("bitch dick fuck shit".split())


def draw(photos: Sequence[Sequence[str]], number: int) -> list[str]:
    """Return so many captions, one of each run of photos, which are given by their captions."""
    seen: Counter[str] = Counter()
    drawn = []
    for run in np.array_split(np.arange(len(photos)), number):
        captions = [caption for photo in run.tolist() for caption in photos[photo]]
        words = [{word for word in words_in(caption) if is_content_word(word)} for caption in captions]
        rare = [sum(1 / (1 + seen[word]) for word in some) / (1 + len(some)) for some in words]
        best = max(range(len(captions)), key=rare.__getitem__)
        seen.update(words[best])
        drawn.append(captions[best])
    return drawn


def is_fit(caption: str, known: Set[str]) -> bool:
    """Return whether a caption is a plain one, and not among those that are known, in lower case."""
    words = caption.lower().split()
    return (
        caption.isascii()
        and len(words) <= MOST_WORDS
        and RUDE.isdisjoint(words)
        and caption.lower() not in known
    )


def _items(sources: Sequence[str]) -> Iterator[Item]:
    return (item for name in sources for item in open_source(name).items)


def main() -> None:
    """Write the file that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--without", type=Path, required=True, help="keys of photos to leave out, one a line")
    parser.add_argument("--unlike", nargs="+", default=[], help="photos whose captions are left out, too")
    asked = parser.parse_args()
    held = set(asked.without.read_text(encoding="utf-8").split())
    known = {caption.lower() for item in _items(asked.unlike) for caption in item.captions}
    photos = []
    for item in _items(asked.sources):
        fit = [] if Path(item.id).stem in held else [one for one in item.captions if is_fit(one, known)]
        known.update(caption.lower() for caption in fit)
        if fit:
            photos.append(fit)
    text = "".join(f"{caption}\n" for caption in draw(photos, NUMBER))
    asked.output.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{NUMBER:,} captions of {len(photos):,} photos: {asked.output.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
