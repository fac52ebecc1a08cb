"""The command `lexlip evaluate`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from lexlip.cli import options
from lexlip.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lexlip.data import Source
    from lexlip.measure.recalls import Report
    from lexlip.models.contract import Encoder, QueryEncoder
    from lexlip.retrieval.first_stage import EngineName
    from lexlip.search.hybrid import Fusion, Hybrid
    from lexlip.sparse.quantize import Scheme

OF_MODELS = ("topk", "quantization", "engine", "query_encoder", "query_topk")  # that have vectors
GROUPS = {
    "agreed_words": "agreed words",
    "all_words": "all words",
    "pairs": "pairs of words",
    "captions": "short captions",
}  # of short queries
FIGURES = {
    "queries": "{:5,}",
    "P@5": "P@5 {:.3f}",
    "P@10": "P@10 {:.3f}",
    "missing": "own words missing {}",
    "silent": "silent {:.1%}",
    **{f"R@{k}": f"R@{k} {{:5.1f}}" for k in (1, 5, 10)},
}


@click.command()
@click.argument("source")
@options.topk_option(all_words=True)
@options.model_option(options.DEFAULT_MODEL, options.FIRST_STAGES)
@options.engine_option
@options.quantization_option
@options.query_encoder_option
@options.query_topk_option("all")
@options.second_stage_options("MODEL", "A second first stage")
@click.option("--run-files", metavar="DIR", help="Also write the first 100 hits and the qrels for trec_eval.")
@click.option(
    "--language",
    metavar="CODE",
    callback=options.language_code,
    help="Language of the captions: en, de, fr, ja. With a model of words others than English need"
    " lexlip[languages]; with bm25 it decides stop words and stems (en, de, fr or cs).  [default: en]",
)
@options.regions_option
@click.option(
    "--pool",
    "pools",
    multiple=True,
    metavar="SOURCE",
    help="Further photos to search among, whose captions do not count; may be repeated.",
)
@options.reading_options
@click.pass_context
def evaluate(
    context: click.Context,
    source: str,
    model: str,
    rerank: str | None,
    rerank_k: int,
    rerank_fusion: Fusion,
    rerank_weight: float,
    also: str | None,
    hybrid: Hybrid,
    hybrid_weight: float,
    run_files: str | None,
    regions: str | None,
    pools: tuple[str, ...],
    images: str | None,
    split: str | None,
    workers: int,
    device: str,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Measure retrieval on photos with captions, both ways.

    SOURCE is as for `lexlip index`, with captions; for a Karpathy JSON, give --split test. All photos are one
    pool: also the 5,000 of COCO's test split, which older papers cut into folds of 1,000. Recalls are in
    percent; words@10 is the share of an image's ten first words, as `lexlip words` shows them, that occur in
    its captions. Words and pairs of words of the captions are searched for, too: docs/measure.md says which.

    As in the paper, a caption keeps all of its words as a query. `lexlip search` keeps the 24 heaviest:
    --query-topk 24 measures that.

    Photos of --pool make a small SOURCE harder to search: they are found, and search for nothing. One that is
    also in SOURCE, byte for byte, is left out.

    With --model bm25 one caption of each photo, drawn at random (seed 0), is its document, and the others are
    queries. Image to text, that one caption is the query, and the others are documents. A cross-encoder as
    --model scores all pairs, which takes long.
    """
    from lexlip.cli.index import show_skipped
    from lexlip.registry import BM25, MODELS

    options.check_second_stage(context)
    from lexlip.models.load import check_first_stage, check_regions, load_reranker

    check_regions(regions, [model, *filter(None, [also, rerank])])
    progress = not as_json
    if model == BM25:
        options.refuse(context, ["pools"], "is for models: bm25 takes photos with captions")
    photos = open_captioned(source, images, split, regions, pools, progress)

    from lexlip.measure.trec import DEPTH, check_run_folder, write_run_files
    from lexlip.models.model_folder import kind_of

    if run_files is not None:
        check_run_folder(run_files)
    if also is not None:
        check_first_stage(also)
        if (also == BM25) != (model == BM25):
            why = f"cannot be {also} beside {model}: bm25 has fewer captions for queries than models have"
            options.refuse(context, ["also"], why)
        if model != BM25:
            options.refuse(context, ["language"], "is for one first stage, not for --also")
    reranker = None if rerank is None else load_reranker(rerank, device)  # before the work
    kind = kind_of(model)
    if kind in MODELS and not MODELS[kind].vectors:
        why = f"is for first stages, and '{model}' compares pairs"
        options.refuse(context, [*OF_MODELS, "language", "rerank", "also", "run_files"], why)
        report, name = _all_pairs(model, photos, workers, device, progress)
        how = "all pairs"
    else:
        wanted = [10, *([DEPTH] if run_files or also else []), *([rerank_k] if rerank else [])]
        settings = Measurement(photos, workers, device, progress, max(wanted), short=not pools)
        report, name, how = _first_stage(model, settings, context, **chosen)
        if also is not None:
            usual: dict[str, Any] = {"engine": None, "query_encoder": "network", "query_topk": None}
            second, _, other = _first_stage(also, settings, None, **{**chosen, **usual})
            report = report.fused_with(second, hybrid, hybrid_weight, settings.depth)
            how += f", and {also} ({other}), fused by {hybrid}"
        if reranker is not None:
            from lexlip.measure.pairs import rerank as reorder
            from lexlip.measure.pool import embed_pool

            embedded = embed_pool(reranker, photos, workers, progress)
            report = reorder(reranker, embedded, report, rerank_k, rerank_fusion, rerank_weight, progress)
            how += f", the first {rerank_k} reranked by {rerank}"
    show_skipped([*photos.skipped, *report.skipped])
    if run_files is not None:
        write_run_files(run_files, report.rankings, name, progress=progress)
    if as_json:
        click.echo(json.dumps(report.to_dict()))
    else:
        show(report, how)
        if run_files is not None:
            click.echo(f"run files in {run_files}: trec_eval -c -m success.1,5,10 WAY.qrels WAY.run")


class Measurement(NamedTuple):
    """How first stages are measured."""

    photos: Source
    workers: int
    device: str
    progress: bool
    depth: int
    short: bool


def _first_stage(
    model: str,
    settings: Measurement,
    context: click.Context | None,
    topk: int | None,
    engine: EngineName | None,
    quantization: Scheme | None,
    query_encoder: QueryEncoder,
    query_topk: int | None,
    language: str,
) -> tuple[Report, str, str]:
    """Return a first stage's report, its name, and how it was measured.

    `context` says which options the user gave; None if they are not meant for this stage.
    """
    from lexlip.registry import BM25

    photos, workers, device, progress, depth, short = settings
    if model == BM25:
        from anserini_bridge.bm25 import LANGUAGES
        from lexlip.measure.bm25_recall import evaluate_bm25

        if context is not None:
            unused = [*OF_MODELS, *([] if context.params["rerank"] else ["device"])]
            options.refuse(context, unused, "is for models, and bm25 takes captions as they are")
        if language and language not in LANGUAGES:
            raise ConfigError(f"--language {language}: bm25 knows {', '.join(LANGUAGES)}")
        report = evaluate_bm25(photos, progress=progress, depth=depth, language=language or "en")
        return report, BM25, "bm25 over one caption of each image, the others are queries"
    from lexlip.measure.evaluate import evaluate as measure
    from lexlip.models.load import load_model
    from lexlip.search.engines.exact import engine_for
    from lexlip.sparse.balance import usual_scheme

    encoder = load_model(model, device)
    if language not in ("", "en"):
        encoder = _in_language(encoder, model, language, query_encoder)
    scheme = quantization or usual_scheme(encoder.balance, encoder.metric)
    chosen, engine_of = engine_for(encoder, engine, scheme)
    kept: int | None = topk
    if encoder.vocabulary is None:  # a dense model has no words to keep
        kept = None if context is None else options.given(context, "topk")
    report = measure(
        encoder, photos, engine_of, kept, query_encoder, workers, progress, depth, scheme, query_topk, short
    )
    return report, encoder.name, f"{chosen} engine, {'whole vectors' if kept is None else f'top-{kept}'}"


def _in_language(encoder: Encoder, model: str, language: str, query_encoder: QueryEncoder) -> Any:
    """Return a model that takes captions which are not English; ConfigError, ModelError: it cannot."""
    from lexlip.measure.in_language import InLanguage

    if encoder.vocabulary is None:
        raise ConfigError(f"--language is for models of words and bm25, and '{model}' is dense: leave it out")
    if query_encoder != "network":
        raise ConfigError("--query-encoder words knows English only: leave it or --language out")
    return InLanguage(encoder, model, language)


def _all_pairs(model: str, photos: Source, workers: int, device: str, progress: bool) -> tuple[Report, str]:
    """Return the report of a cross-encoder without a first stage, and its name."""
    from lexlip.measure.pairs import evaluate_pairs
    from lexlip.measure.pool import embed_pool
    from lexlip.models.load import load_reranker

    encoder = load_reranker(model, device)
    return evaluate_pairs(encoder, embed_pool(encoder, photos, workers, progress), progress), encoder.name


def open_captioned(
    source: str,
    images: str | None,
    split: str | None,
    regions: str | None = None,
    pools: Sequence[str] = (),
    progress: bool = False,
) -> Source:
    """Open photos to measure with, as `open_source` does, before the work starts.

    Photos of `pools` are added without their captions, see `lexlip.measure.pool.with_pool`.

    Raises:
        ConfigError: SOURCE is one of the pools, too.
        DataError: there are no photos, or none of SOURCE has a caption.
    """
    from lexlip.data import open_source
    from lexlip.data.region_files import WithRegions
    from lexlip.data.source import no_captions

    if source in pools:
        raise ConfigError(f"--pool {source}: its photos are in the pool already")
    photos = open_source(source, images, split)
    if not any(item.captions for item in photos.items):
        raise no_captions(source)
    if pools:
        from lexlip.measure.pool import with_pool

        photos = with_pool(photos, [open_source(pool) for pool in pools], progress)
    return photos if regions is None else WithRegions(photos, regions)


def show(report: Report, how: str) -> None:
    """Print a report and how it was measured."""
    click.echo(f"{report.images} images, {report.captions} captions, {how}")
    for name, recalls in (("text to image", report.t2i), ("image to text", report.i2t)):
        click.echo(f"  {name}   " + "   ".join(f"{k} {value:5.1f}" for k, value in recalls.items()))
    click.echo(f"  mean recall {report.mean_recall:.1f}")
    if report.words_at_10 is not None:
        click.echo(
            f"  words an image {report.terms_image:.1f}, a text {report.terms_text:.1f} (before --topk)"
        )
        click.echo(f"  words@10 {report.words_in_words}")
    for group, figures in (report.short_queries or {}).items():
        if figures is not None:
            shown = [FIGURES[name].format(value) for name, value in figures.items() if value is not None]
            click.echo(f"  {GROUPS[group]:14}   {'   '.join(shown)}")
