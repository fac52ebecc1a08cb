"""The command `lexlip bench`; `lexlip bench engine` is in bench_engine.py."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lexlip.cli import options
from lexlip.cli.bench_engine import engine, plot
from lexlip.cli.exit_codes import interruptible
from lexlip.words.plain_text import counted

if TYPE_CHECKING:
    from lexlip.models.contract import QueryEncoder

ENCODERS: tuple[QueryEncoder, ...] = ("network", "words")
LOOPS = {"index": "lexlip index", "plain": "plain, as with open_clip"}
PHASES = ("idle", "load", "overload")  # of `lexlip bench serve --endurance`


@click.group()
def bench() -> None:
    """Measure speed and memory on this machine."""


bench.add_command(engine)
bench.add_command(plot)


def _row(*cells: str) -> str:
    """Return cells of figures, to the right."""
    return "".join(f"{cell:>9}" for cell in cells)


# ---- lexlip bench latency ----


@bench.command()
@click.argument("source")
@options.index_option
@options.model_option(None, "Model that encodes queries.  [default: the one that made the index]")
@options.query_topk_option()
@options.count_option("-k", default=10, help="Hits of a query.", metavar="K")
@options.count_option("--queries", default=1000, metavar="N", help="Number of captions.")
@options.count_option(
    "--docs",
    metavar="N",
    help="Search a copy of the index with N documents: each added one mixes two of its own.",
)
@options.count_option(
    "--cold", metavar="N", help="Measure N searches, each from the start of a process to its end, instead."
)
@options.split_option
@options.json_option
def latency(
    source: str,
    index_folder: str,
    queries: int,
    docs: int | None,
    cold: int | None,
    split: str | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Measure searches one by one, from a sentence to ids, on one thread.

    The captions of SOURCE are the queries, with both query encoders. The first ten seconds of each do not
    count. With --cold, each search is a `lexlip search` of its own, in turns with a Python that only imports
    numpy, ONNX Runtime and tokenizers.
    """
    from anserini_bridge import read_metadata
    from lexlip.cli.evaluate import open_captioned

    read_metadata(index_folder)  # fails before the seconds that the rest takes
    photos = open_captioned(source, None, split)

    from tempfile import TemporaryDirectory

    from lexlip.bench.response import grow, measure_cold, measure_latency, some_captions

    with interruptible("nothing was measured"), TemporaryDirectory(prefix="lexlip-bench-") as copy:
        searched = Path(index_folder)
        if docs is not None:
            searched = Path(copy) / "index"
            grow(Path(index_folder), searched, docs)
        captions = some_captions(photos.items, queries)
        if cold is not None:
            report, show = measure_cold(searched, captions, cold, **how), _show_cold
        else:
            report, show = measure_latency(searched, captions, ENCODERS, **how), _show_latency
    click.echo(json.dumps(report)) if as_json else show(report)


def _show_latency(report: dict[str, Any]) -> None:
    c = report["conditions"]
    kept = "all words" if c["query_topk"] is None else f"up to {c['query_topk']} words"
    click.echo(f"{c['documents']:,} documents, {c['queries']:,} queries of {kept}, k = {c['k']}")
    click.echo(f"{c['cpu']}, one thread; milliseconds")
    for encoder, stages in report["encoders"].items():
        click.echo(
            f"{encoder}, {stages['terms']:.1f} words a query".ljust(32) + _row("p50", "p95", "p99", "max")
        )
        for stage, values in stages.items():
            if stage != "terms":
                click.echo(f"  {stage}".ljust(32) + _row(*(f"{value:.2f}" for value in values.values())))


def _show_cold(report: dict[str, Any]) -> None:
    c = report["conditions"]
    click.echo(f"{counted(c['starts'], 'start')} of a process, {counted(c['documents'], 'document')}")
    click.echo(f"{c['cpu']}; seconds".ljust(44) + _row("median", "least", "most"))
    for name, what in (("search", "lexlip search"), ("import", "numpy, ONNX Runtime, tokenizers")):
        click.echo(what.ljust(44) + _row(*(f"{value:.2f}" for value in report[name].values())))
    click.echo("ratio".ljust(44) + _row(f"{report['ratio']:.2f}"))


# ---- lexlip bench encode ----


@bench.command()
@click.argument("source")
@options.model_option(options.DEFAULT_MODEL, "Packaged name or folder of the model.")
@options.count_option(
    "--photos", default=500, metavar="N", help="Number of photos to encode, evenly spread over SOURCE."
)
@options.count_option(
    "--rounds", default=3, help="Rounds, in each of which both loops run; figures are medians."
)
@options.images_option
@options.split_option
@options.workers_option
@options.device_option
@options.json_option
def encode(source: str, model: str, images: str | None, split: str | None, as_json: bool, **how: Any) -> None:
    """Measure photos per second, with decoding and resizing, beside a plain loop.

    The loop of `lexlip index` and one that users of open_clip write (its evaluation transform, a DataLoader,
    the model in evaluation mode, in batches of 32) encode the same photos of SOURCE with the same model.
    Workers are threads in the first loop and processes in the second.
    """
    from lexlip.data import open_source
    from lexlip.models.model_folder import model_folder

    with interruptible("nothing was measured"):
        folder = str(model_folder(model))  # fails before the seconds that loading torch takes
        source_photos = open_source(source, images, split)

        from lexlip.bench.encoding import measure_encoding

        report = measure_encoding(folder, source_photos, progress=not as_json, **how)
    report["conditions"]["model"] = model
    click.echo(json.dumps(report)) if as_json else _show_encoding(report)


def _show_encoding(report: dict[str, Any]) -> None:
    c = report["conditions"]
    click.echo(
        f"{c['photos']:,} photos of {c['photo_width']} x {c['photo_height']} pixels ({c['photo_kb']:g} kB)"
        + (f", {c['unreadable']:,} more cannot be read" if c["unreadable"] else "")
    )
    click.echo(
        f"{c['model']}: {c['encoder']} at {c['pixels']} pixels on {c['device']}, batches of {c['batch']}"
    )
    click.echo(
        f"{c['cpu']}, {c['cores']} cores, threads: {c['threads']}, workers: {c['workers']},"
        f" rounds: {c['rounds']}, torch {c['torch']}"
    )
    click.echo(f"{'':26}{'photos/s':>10}{'least':>10}{'most':>10}{'cores busy':>12}")
    for loop, row in report["loops"].items():
        click.echo(f"{LOOPS[loop]:26}{_cells(row['photos_per_s'], '.1f')}{row['busy']:12.0%}")
    click.echo(f"{'ratio':26}{_cells(report['ratio'], '.2f')}")


def _cells(spread: dict[str, float], form: str) -> str:
    return "".join(f"{value:10{form}}" for value in spread.values())


# ---- lexlip bench train ----


@bench.command()
@click.option(
    "--size",
    type=click.Choice(["mini", "base"]),
    default="mini",
    help="Encoders of the packaged model's size, or ViT-B/16 and BERT-base; with random weights.",
)
@options.count_option("--batch", default=32, help="Photos per step.", least=2)
@options.count_option("--captions", default=2, help="Captions per photo.")
@options.count_option("--terms", default=128, help="Number of words of a vector.")
@click.option(
    "--precision",
    type=click.Choice(["auto", "bf16", "fp16", "fp32"]),
    default="auto",
    help="Precision of the step; auto is bf16 if the device supports it.",
)
@options.device_option
@options.count_option("--threads", help="CPU threads.  [default: torch's]")
@options.count_option(
    "--rounds", default=5, help="Rounds, in each of which every kind of step runs; times are medians."
)
@click.option(
    "--compile", "compiled", is_flag=True, help="One more row: with encoders compiled by torch.compile."
)
@click.option(
    "--source",
    metavar="SOURCE",
    help="Also measure how many photos of SOURCE a core decodes, and how many cores the step needs.",
)
@click.option(
    "--config",
    metavar="CONFIG",
    help="With --source: augment photos as this config says.  [default: RandAugment, two operations of"
    " magnitude 9]",
)
@options.json_option
def train(
    size: str,
    threads: int | None,
    rounds: int,
    compiled: bool,
    source: str | None,
    config: str | None,
    as_json: bool,
    **of_step: Any,
) -> None:
    """Measure a training step beside one of the bare encoders.

    A step is forward and backward of both encoders with the contrastive loss. It is measured with the
    encoders alone (averaged states), with a lexicon head that follows its equation to the letter, and with
    the lean head that training uses. Memory is what a step needs beyond the model.

    With --source, photos are read, decoded and augmented at 224 and 384 pixels as workers of training do,
    and compared with what the lean step eats.
    """
    if config is not None and source is None:
        raise click.UsageError("--config needs --source")
    import torch

    from lexlip.bench.training_step import SIZES, StepSettings, measure

    settings = StepSettings(SIZES[size], threads=threads or torch.get_num_threads(), **of_step)
    with interruptible("nothing was measured"):
        decoding = None if source is None else _decoding(source, config, progress=not as_json)
        report = measure(settings, rounds, compiled, progress=not as_json)
    report["conditions"] = {"size": size, **report["conditions"]}
    if decoding is not None:
        eaten, rates = report["variants"]["lean"]["samples_per_s"], decoding["photos_per_s_and_core"]
        decoding["cores"] = {pixels: math.ceil(eaten / rate) for pixels, rate in rates.items()}
        report["decoding"] = decoding
    click.echo(json.dumps(report)) if as_json else _show_training(report)


def _show_training(report: dict[str, Any]) -> None:
    c = report["conditions"]
    click.echo(f"{c['size']}, {c['batch']} photos x {c['captions']} captions, V = {c['vocabulary']}")
    click.echo(f"{c['terms_image']:.0f} words an image, {c['terms_text']:.0f} a text")
    click.echo(f"{c['precision']} on {c['device']}, threads: {c['threads']}, rounds: {c['rounds']}")
    click.echo(f"{'':10}{'step ms':>10}{'x encoders':>12}{'photos/s':>10}{'peak MB':>10}")
    for name, row in report["variants"].items():
        click.echo(
            f"{name:10}{row['step_ms']:10.1f}{row['ratio']:12.3f}"
            f"{row['samples_per_s']:10.1f}{row['peak_mb']:10.1f}"
        )
    if "decoding" in report:
        _show_decoding(report["decoding"], c)


def _decoding(source: str, config: str | None, progress: bool) -> dict[str, Any]:
    """Measure what a core decodes, with a config's augmentation."""
    from lexlip.bench.encoding import measure_decoding
    from lexlip.config import DataConfig, ImageEncoderConfig
    from lexlip.config_files import load_config
    from lexlip.data import open_source

    data, image = DataConfig(randaugment=(2, 9)), ImageEncoderConfig()
    if config is not None:
        loaded = load_config(config, ["data.train=[any]", "data.val=[any]"])  # it may leave them open
        data, image = loaded.data, loaded.model.image
    return measure_decoding(open_source(source), data, image, progress=progress)


def _show_decoding(decoding: dict[str, Any], conditions: dict[str, Any]) -> None:
    left = f", {decoding['unreadable']} more cannot be read" if decoding["unreadable"] else ""
    click.echo(f"\n{decoding['photos']} photos decoded and augmented{left}")
    for pixels, rate in decoding["photos_per_s_and_core"].items():
        cores = decoding["cores"][pixels]
        click.echo(
            f"at {pixels} pixels a core gives {rate:.0f} photos/s: a step of {conditions['batch']} photos"
            f" needs {cores} core{'s' * (cores > 1)}"
        )
    click.echo(f"(the lean step above, of {conditions['pixels']} pixels)")


# ---- lexlip bench serve ----


@bench.command()
@options.index_option
@click.option("--url", help="Ask a server that runs already, instead of starting one on --index.")
@options.count_option(
    "--clients", default=4, help="Clients that ask one request after another, as fast as they are answered."
)
@click.option(
    "--rate",
    type=options.Number(min=0, min_open=True),
    default=20.0,
    help="Requests in a second at fixed times, whether or not earlier ones are answered.",
)
@click.option(
    "--seconds",
    type=options.Number(min=0, min_open=True),
    default=10.0,
    metavar="SECONDS",
    help="Time of each load.",
)
@options.count_option("-k", default=50, help="Hits of a search.", metavar="K")
@click.option(
    "--endurance",
    type=options.Number(min=0, min_open=True),
    metavar="MINUTES",
    help="Serve drawn photos that come and go for so long, under good and bad requests, at half of what the"
    " server can do; then overload and kill it. Ends with exit code 1 if an answer was wrong.",
)
@options.json_option
@click.pass_context
def serve(
    context: click.Context,
    index_folder: str,
    url: str | None,
    clients: int,
    rate: float,
    seconds: float,
    k: int,
    endurance: float | None,
    as_json: bool,
) -> None:
    """Measure a server under load, as its callers see it.

    Starts `lexlip serve`, and searches and asks for thumbnails: with a few clients that are never idle, then
    at a fixed rate. The clients take a part of the machine's cores.
    """
    if url is not None:
        options.refuse(context, ["index_folder"], "is for a server that is started, and --url names another")
    if endurance is not None:
        options.refuse(context, ["index_folder", "url", "rate", "seconds", "k"], "is not for --endurance")
        _endure(endurance, clients, as_json)
        return
    from lexlip.bench.serving import measure_server

    with interruptible("nothing was measured"):
        report = measure_server(None if url else Path(index_folder), url, seconds, clients, rate, k)
    click.echo(json.dumps(report)) if as_json else _show_load(report)


def _endure(minutes: float, clients: int, as_json: bool) -> None:
    from lexlip.bench.endurance import measure_endurance

    with interruptible("nothing was measured"):
        report = measure_endurance(minutes, clients)
    click.echo(json.dumps(report)) if as_json else _show_endurance(report)
    restart = report["restart"]
    if any(report[phase]["faults"] for phase in PHASES) or restart["documents"] != restart["expected"]:
        raise click.exceptions.Exit(1)


def _show_endurance(report: dict[str, Any]) -> None:
    c = report["conditions"]
    click.echo(
        f"{c['photos']:,} drawn photos, {c['coming']} of them come and go; {c['cpu']}, {c['cores']} cores,"
    )
    click.echo(f"clients included, which get {report['capacity']:.0f} answers per second; seed {c['seed']}")
    click.echo("searches, milliseconds".ljust(40) + _row("p50", "p99", "max", "requests", "refused", "wrong"))
    said = ("idle", f"half of that, {c['minutes']:g} minutes", "four times as much")
    for phase, what in zip(PHASES, said, strict=True):
        values = report[phase]
        times = (f"{values[name]:.1f}" for name in ("p50", "p99", "max"))
        counts = f"{values['requests']:,}", f"{values['refused']:.2%}", str(values["faults"])
        click.echo(what.ljust(40) + _row(*times, *counts))
    click.echo("clients that hold it up, seconds".ljust(40) + _row("opened", "closed", "refused", "longest"))
    for kind, held in report["held"].items():
        cells = (f"{held[name]:,}" for name in ("opened", "closed", "refused"))
        click.echo(kind.replace("_", " ").ljust(40) + _row(*cells, f"{held['longest']:.1f}"))
    memory, restart = report["memory_mb"], report["restart"]
    click.echo(
        f"{report['updates']} updates seen; memory {memory['early']:.0f} MB after a sixth of the time,"
        f" {memory['end']:.0f} MB at its end"
    )
    click.echo(
        f"as fast as idle {report['recovered_s']:.1f} s after the overload; killed and restarted:"
        f" {restart['documents']} photos of {restart['expected']}"
    )
    for phase in PHASES:
        for sentence in report[phase]["wrong"]:
            click.echo(f"wrong ({phase}): {sentence}", err=True)


def _show_load(report: dict[str, Any]) -> None:
    c = report["conditions"]
    click.echo(f"{c['documents']:,} photos, k = {c['k']}; {c['cpu']}, {c['cores']} cores, clients included")
    if "start_s" in report:
        memory = "" if report["memory_mb"] is None else f", memory {report['memory_mb']:.0f} MB"
        first = f"start {report['start_s']:.2f} s, first search {report['first_ms']:.0f} ms"
        click.echo(first + memory)
    click.echo("milliseconds".ljust(40) + _row("p50", "p95", "p99", "max", "per s", "errors"))
    for what in ("searches", "thumbnails"):
        for load, said in (("closed", f"{c['clients']} clients"), ("open", f"{c['rate']:g} per second")):
            values = report[what][load]
            times = (f"{values[name]:.1f}" for name in ("p50", "p95", "p99", "max"))
            errors = str(sum(values["errors"].values()))
            click.echo(f"{what}, {said}".ljust(40) + _row(*times, f"{values['rate']:.0f}", errors))
