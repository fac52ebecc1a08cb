"""The command `lexlip words`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from lexlip.cli import options
from lexlip.cli.exit_codes import interruptible
from lexlip.words.plain_text import readable

if TYPE_CHECKING:
    from lexlip.search.contact_sheet import PhotoWords


@click.command()
@click.argument("source")
@options.count_option("--topk", default=10, metavar="K", help="Number of words shown for a photo.")
@options.count_option(
    "--photos",
    "number",
    metavar="N",
    help="Show N photos, evenly spread over SOURCE.  [default: all]",
)
@options.model_option(options.DEFAULT_MODEL, "Packaged name or folder of the model.")
@click.option("--html", metavar="FILE", help="Also write a contact sheet: one page with thumbnails.")
@options.reading_options
def words(
    source: str,
    topk: int,
    number: int | None,
    model: str,
    html: str | None,
    images: str | None,
    split: str | None,
    workers: int,
    device: str,
    as_json: bool,
) -> None:
    """Show the words that a model finds in photos, the likeliest first.

    How likely people are to say a word is known to models such as mini; others show the heaviest first.

    SOURCE is as for `lexlip index`. Words that occur in a photo's captions are marked with a *.
    Other forms of a word follow it in brackets.
    """
    from lexlip.cli.index import show_skipped
    from lexlip.data import open_source, spread
    from lexlip.machine.output_files import check_output

    if html:
        check_output(html, "the contact sheet ")
    photos = open_source(source, images, split)

    from lexlip.machine.device import pick_device
    from lexlip.measure.words import photo_words
    from lexlip.models.lexlip import LexLIP
    from lexlip.words.plain_text import forms_together

    with interruptible("no page was written"):
        place = pick_device(device)  # before the weights are read
        encoder = LexLIP.from_pretrained(model).to(place).fold_batch_norms()
        indices = spread(len(photos), number)
        found, unreadable = photo_words(encoder, photos, topk, indices, workers, progress=not as_json)
        if html:
            from lexlip.search.contact_sheet import write_word_sheet

            write_word_sheet(html, found)
    skipped = [*photos.skipped, *unreadable]
    if as_json:
        plain = {"photos": [photo.to_dict() for photo in found], "skipped": [s._asdict() for s in skipped]}
        click.echo(json.dumps(plain))
        return
    show_skipped(skipped, " (--json lists all)")
    for photo in found:
        line = " ".join(_line(photo, forms) for forms in forms_together(photo.words))
        click.echo(f"{readable(photo.path)}\n    {line or 'no words'}")
    if html:
        click.echo(f"\ncontact sheet: {html}")


def _line(photo: PhotoWords, forms: list[str]) -> str:
    first, *others = (f"{word}{'*' * (word in photo.held)}:{photo.words[word]:.2f}" for word in forms)
    return f"{first} ({' '.join(others)})" if others else first
