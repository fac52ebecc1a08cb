"""The command `lexlip bench latency`."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lexlip.cli import options
from lexlip.cli.exit_codes import interruptible

if TYPE_CHECKING:
    from lexlip.models.contract import QueryEncoder

ENCODERS: tuple[QueryEncoder, ...] = ("network", "words")


@click.command()
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
@options.split_option
@options.json_option
def latency(
    source: str,
    index_folder: str,
    model: str | None,
    query_topk: int | None,
    k: int,
    queries: int,
    docs: int | None,
    split: str | None,
    as_json: bool,
) -> None:
    """Measure searches one by one, from a sentence to ids, on one thread.

    The captions of SOURCE are the queries, with both query encoders. The first ten seconds of each do not
    count.
    """
    from anserini_bridge import read_metadata
    from lexlip.cli.evaluate import open_captioned

    read_metadata(index_folder)  # fails before the seconds that the rest takes
    captions = _captions(open_captioned(source, None, split), queries)

    from lexlip.bench.response import grow, measure_latency

    with interruptible("nothing was measured"), tempfile.TemporaryDirectory(prefix="lexlip-bench-") as copy:
        searched = Path(index_folder)
        if docs is not None:
            searched = Path(copy) / "index"
            grow(Path(index_folder), searched, docs)
        report = measure_latency(searched, captions, ENCODERS, model, query_topk, k)
    click.echo(json.dumps(report)) if as_json else show(report)


def _captions(photos: Any, number: int) -> list[str]:
    """Return so many captions, of photos all over the source."""
    from lexlip.data import spread

    captions = [caption for item in photos.items for caption in item.captions]
    return [captions[row] for row in spread(len(captions), number)]


def show(report: dict[str, Any]) -> None:
    """Print milliseconds as a table."""
    c = report["conditions"]
    kept = "all words" if c["query_topk"] is None else f"up to {c['query_topk']} words"
    click.echo(f"{c['documents']:,} documents, {c['queries']:,} queries of {kept}, k = {c['k']}")
    click.echo(f"{c['cpu']}, one thread; milliseconds")
    for encoder, stages in report["encoders"].items():
        click.echo(
            f"{encoder}, {stages['terms']:.1f} words a query".ljust(32) + row("p50", "p95", "p99", "max")
        )
        for stage, values in stages.items():
            if stage != "terms":
                click.echo(f"  {stage}".ljust(32) + row(*(f"{value:.2f}" for value in values.values())))


def row(*cells: str) -> str:
    """Return cells of figures, to the right."""
    return "".join(f"{cell:>9}" for cell in cells)
