"""lexlip evaluate"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from lexlip.cli import options

if TYPE_CHECKING:
    from lexlip.models.lexlip import QueryEncoder
    from lexlip.sparse.quantize import Scheme


@click.command()
@click.argument("source")
@options.topk_option
@options.model_option(options.DEFAULT_MODEL, "Packaged name or folder of the model.")
@click.option(
    "--engine",
    type=click.Choice(["lucene", "exact"]),
    default="lucene",
    show_default=True,
    help="The Lucene index with whole weights, as a user gets it, or brute force over float vectors.",
)
@options.quantization_option
@options.query_encoder_option
@options.query_topk_option
@options.images_option
@options.split_option
@options.workers_option
@options.json_option
def evaluate(
    source: str,
    topk: int,
    model: str,
    engine: str,
    quantization: Scheme,
    query_encoder: QueryEncoder,
    query_topk: int | None,
    images: str | None,
    split: str | None,
    workers: int,
    as_json: bool,
) -> None:
    """Measure retrieval on photos with captions, both ways.

    SOURCE is as for `lexlip index`, with captions. Recalls are in percent; words@10 is the share of an
    image's ten heaviest words that its captions hold.
    """
    from functools import partial

    from lexlip.cli.index import show_skipped
    from lexlip.data import open_source
    from lexlip.errors import DataError

    photos = open_source(source, images, split)
    if not any(item.captions for item in photos.items):  # known now, not after all photos are encoded
        raise DataError(f"no photo of {source} has a caption: there is nothing to measure with")

    from lexlip.evaluation.evaluate import evaluate as measure
    from lexlip.models.lexlip import LexLIP
    from lexlip.search.engines import exact_engine, temporary_lucene_engine

    encoder = LexLIP.from_pretrained(model)
    engine_of = (
        partial(exact_engine, query_topk=query_topk)
        if engine == "exact"
        else partial(
            temporary_lucene_engine,
            words=encoder.vocabulary.words,
            scheme=quantization,
            query_topk=query_topk,
            threads=2,
        )
    )
    report = measure(encoder, photos, engine_of, topk, query_encoder, workers, progress=not as_json)
    show_skipped(report.skipped)
    if as_json:
        click.echo(json.dumps(report.to_dict()))
        return
    click.echo(f"{report.images} images, {report.captions} captions, {engine} engine, top-{topk}")
    for name, recalls in (("text to image", report.t2i), ("image to text", report.i2t)):
        click.echo(f"  {name}   " + "   ".join(f"{k} {value:5.1f}" for k, value in recalls.items()))
    click.echo(f"  terms an image {report.terms_image:.1f}, a text {report.terms_text:.1f} (before top-K)")
    click.echo(f"  words@10 {report.words_at_10:.3f}")
