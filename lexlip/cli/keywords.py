"""The command `lexlip keywords`."""

from __future__ import annotations

import json

import click

from lexlip.cli import options
from lexlip.cli.exit_codes import interruptible
from lexlip.words.plain_text import counted, readable

SURE = 0.55
"""Of `mini`'s words for COCO's validation photos that are so likely, .80 are in one of the five captions."""


@click.command()
@click.argument("source", metavar="FOLDER")
@click.option("--write", is_flag=True, help="Write the words into XMP files beside the photos.")
@click.option("--remove", is_flag=True, help="Take the words that --write wrote out of them again.")
@click.option(
    "--sure",
    type=click.FloatRange(0, 1),
    default=SURE,
    metavar="P",
    help="Take words that people say of the photo with this probability or more.",
)
@options.patterns_options
@options.model_option(options.DEFAULT_MODEL, "Packaged name or folder of the model.")
@options.workers_option
@options.device_option
@options.json_option
def keywords(
    source: str,
    write: bool,
    remove: bool,
    sure: float,
    exclude: tuple[str, ...],
    include: tuple[str, ...],
    model: str,
    workers: int,
    device: str,
    as_json: bool,
) -> None:
    """Propose keywords for the photos of a FOLDER, and write them beside the photos.

    Shows the words that the model is sure of; with --write they become keywords (dc:subject, digiKam's
    TagsList, Lightroom's hierarchical subjects) in the XMP file beside the photo, NAME.jpg.xmp or a NAME.xmp
    that is there. Photos are never touched, nor is what else the file says. The file also lists which words
    are LexLIP's: a second run changes only those, and they do not count as what a person wrote.

    digiKam, darktable and immich read these files; Lightroom reads them beside RAW files alone.
    """
    from lexlip.cli.index import show_skipped
    from lexlip.data import Given, Skipped, open_library
    from lexlip.data.source import Subset
    from lexlip.errors import DataError, UnreadableImage
    from lexlip.explain.keywords import SideFiles, sure_words
    from lexlip.machine.progress import ProgressBar

    if write and remove:
        raise click.UsageError("--write and --remove exclude each other")
    photos = open_library(Given((source,), exclude=exclude, include=include))
    files = SideFiles(photos)
    number_of = {item.id: number for number, item in enumerate(photos.items)}
    skipped = [*photos.skipped]
    unwritable = files.unwritable() if write else {}
    skipped += [Skipped(photos.items[number].id, why) for number, why in unwritable.items()]
    found: dict[str, dict[str, float]] = {}
    changed: list[str] = []
    unwritten: list[DataError] = []

    def change(id: str, words: dict[str, float]) -> None:
        try:
            if files.change(number_of[id], list(words)):
                changed.append(files.of(number_of[id]))
        except UnreadableImage as error:
            skipped.append(Skipped(files.of(number_of[id]), error.reason))
        except DataError as error:
            unwritten.append(error)
            skipped.append(Skipped(id, str(error)))

    with interruptible("what was written stays, and the same command goes on"):
        if remove:
            for id in ProgressBar(number_of, "photos", unit="photo", delay=2, disable=as_json):
                change(id, {})
            if unwritten and not changed:
                raise DataError(f"no words were taken out beside the photos of {source}: {unwritten[0]}")
        else:
            from lexlip.queries.photo_encoder import open_encoder
            from lexlip.queries.photo_vectors import PhotoVectors

            encoder = open_encoder(model, device)
            fine = [number for number in range(len(photos)) if number not in unwritable]
            some = Subset(photos, fine) if unwritable else photos
            vectors = PhotoVectors(encoder, some, workers=workers, progress=None if as_json else "photos")
            for id, words in sure_words(encoder, vectors, sure):
                found[id] = words
                if write:
                    change(id, words)
            skipped += vectors.skipped
    if as_json:
        plain = [
            {"id": id, "path": photos.path(number_of[id]), "words": words} for id, words in found.items()
        ]
        plain_skipped = [one._asdict() for one in skipped]
        click.echo(json.dumps({"photos": plain, "written": changed, "skipped": plain_skipped}))
        return
    show_skipped(skipped, " (--json lists all)")
    if not write and not remove:
        for id, words in found.items():
            line = "  ".join(f"{word} {chance:.2f}" for word, chance in words.items())
            click.echo(f"{readable(id)}\n    {line or 'no word is sure'}")
    number = sum(map(len, found.values()))
    with_words = sum(map(bool, found.values()))
    of = f"{counted(number, 'word')} for {with_words} of {counted(len(photos.items), 'photo')}"
    if remove:
        click.echo(f"taken out of {counted(len(changed), 'XMP file')}")
    elif write:
        click.echo(f"{of}; {counted(len(changed), 'XMP file')} changed")
    else:
        click.echo(f"{of}; --write puts them into XMP files beside the photos")
