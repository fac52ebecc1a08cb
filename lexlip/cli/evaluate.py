"""lexlip evaluate"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal

import click
from click.core import ParameterSource

from lexlip.cli import options

if TYPE_CHECKING:
    from lexlip.data import Source
    from lexlip.evaluation.evaluate import EngineOf, Report
    from lexlip.models.dual_encoder import DualEncoder, QueryEncoder
    from lexlip.sparse.quantize import Scheme

EngineName = Literal["lucene", "exact"]

engine_option = click.option(
    "--engine",
    type=click.Choice(["lucene", "exact"]),
    default="lucene",
    show_default=True,
    help="The Lucene index with whole weights, as a user gets it, or brute force over float vectors.",
)


@click.command()
@click.argument("source")
@options.topk_option
@options.model_option(options.DEFAULT_MODEL, "Packaged name or folder of the model.")
@engine_option
@options.quantization_option
@options.query_encoder_option
@options.query_topk_option("all")
@click.option("--run-files", metavar="DIR", help="Write the first 100 hits and the qrels for trec_eval too.")
@options.images_option
@options.split_option
@options.workers_option
@options.json_option
def evaluate(
    source: str,
    topk: int,
    model: str,
    engine: EngineName,
    quantization: Scheme,
    query_encoder: QueryEncoder,
    query_topk: int | None,
    run_files: str | None,
    images: str | None,
    split: str | None,
    workers: int,
    as_json: bool,
) -> None:
    """Measure retrieval on photos with captions, both ways.

    SOURCE is as for `lexlip index`, with captions; of a Karpathy JSON, --split test. All photos are one
    pool: the 5,000 of COCO's test split too, which older papers cut into folds of 1,000. Recalls are in
    percent; words@10 is the share of an image's ten heaviest words that its captions hold.
    """
    from lexlip.cli.index import show_skipped

    photos = open_captioned(source, images, split)

    from lexlip.evaluation.evaluate import evaluate as measure
    from lexlip.evaluation.trec import DEPTH, check_run_folder, write_run_files
    from lexlip.models.kinds import load_model

    if run_files is not None:
        check_run_folder(run_files)
    encoder = load_model(model)
    engine_of = make_engine_of(encoder, engine, quantization, query_topk)
    asked = click.get_current_context().get_parameter_source("topk") is not ParameterSource.DEFAULT
    kept = topk if asked or encoder.vocabulary is not None else None  # a dense model has no words to keep
    report = measure(
        encoder,
        photos,
        engine_of,
        kept,
        query_encoder,
        workers,
        progress=not as_json,
        depth=10 if run_files is None else DEPTH,
    )
    show_skipped(report.skipped)
    if run_files is not None:
        write_run_files(run_files, report.rankings, encoder.name, progress=not as_json)
    if as_json:
        click.echo(json.dumps(report.to_dict()))
    else:
        show(report, engine, kept)
        if run_files is not None:
            click.echo(f"run files in {run_files}: trec_eval -c -m success.1,5,10 WAY.qrels WAY.run")


def open_captioned(source: str, images: str | None, split: str | None) -> Source:
    """`open_source`, for measuring: what is missing is known now, not after all photos are encoded.

    Raises:
        DataError: there are no photos, or none with a caption.
    """
    from lexlip.data import open_source
    from lexlip.errors import DataError

    photos = open_source(source, images, split)
    if not any(item.captions for item in photos.items):
        raise DataError(f"no photo of {source} has a caption: there is nothing to measure with")
    return photos


def make_engine_of(
    encoder: DualEncoder, engine: EngineName, quantization: Scheme, query_topk: int | None = None
) -> EngineOf:
    """The engine that --engine names.

    Raises:
        ModelError: it, or --query-topk, needs words, and a dense model has none.
    """
    from functools import partial

    from lexlip.errors import ModelError
    from lexlip.search.engines import exact_engine, temporary_lucene_engine, words_of

    if engine == "lucene":
        words = words_of(encoder)
        return partial(
            temporary_lucene_engine, words=words, scheme=quantization, query_topk=query_topk, threads=2
        )
    if query_topk is not None and encoder.vocabulary is None:
        raise ModelError(f"the {encoder.kind} model '{encoder.name}' has no words; leave out --query-topk")
    return partial(exact_engine, query_topk=query_topk)


def show(report: Report, engine: str, topk: int | None) -> None:
    """A report as text."""
    kept = "whole vectors" if topk is None else f"top-{topk}"
    click.echo(f"{report.images} images, {report.captions} captions, {engine} engine, {kept}")
    for name, recalls in (("text to image", report.t2i), ("image to text", report.i2t)):
        click.echo(f"  {name}   " + "   ".join(f"{k} {value:5.1f}" for k, value in recalls.items()))
    click.echo(f"  mean recall {report.mean_recall:.1f}")
    if report.words_at_10 is not None:
        click.echo(
            f"  terms an image {report.terms_image:.1f}, a text {report.terms_text:.1f} (before top-K)"
        )
        click.echo(f"  words@10 {report.words_at_10:.3f}")
