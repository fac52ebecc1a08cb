"""lexlip table 2"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from lexlip.cli import options
from lexlip.cli.evaluate import open_captioned
from lexlip.cli.failures import interruptible
from lexlip.cli.index import show_skipped

if TYPE_CHECKING:
    from lexlip.sparse.quantize import Scheme

TOPKS = ("all", 64, 32, 16, 12, 8)  # the paper's rows


@click.command("2")
@click.option(
    "--queries", required=True, metavar="SOURCE", help="Photos with captions, which ask for each other."
)
@options.images_option
@options.split_option
@click.option(
    "--pool", "pools", multiple=True, metavar="SOURCE", help="Photos that enlarge the pool; may be repeated."
)
@click.option(
    "--synthetic-distractors",
    "synthetic",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Vectors made up from the real ones that enlarge it further.",
)
@options.model_option(options.DEFAULT_MODEL, "Packaged name or folder of LexLIP's model.")
@click.option("--clip", metavar="NAME", help="A CLIP model of transformers, by folder or hub name.")
@click.option(
    "--topk",
    "topks",
    type=options.TopK(),
    multiple=True,
    metavar="K",
    help="Words that a LexLIP document keeps, or all; once for each row.  [default: all 64 32 16 12 8]",
)
@options.quantization_option
@click.option(
    "--threads", type=click.IntRange(min=1), default=1, show_default=True, help="Of the CPU, while searching."
)
@click.option(
    "--rounds",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Turns of about a second that each system is timed for.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of what is drawn.")
@options.workers_option
@options.markdown_option
@options.json_option
def table2(
    queries: str,
    images: str | None,
    split: str | None,
    pools: tuple[str, ...],
    synthetic: int,
    model: str,
    clip: str | None,
    topks: tuple[str | int, ...],
    quantization: Scheme,
    threads: int,
    rounds: int,
    seed: int,
    workers: int,
    markdown: bool,
    as_json: bool,
) -> None:
    """Compare systems: index size, speed and recall of BM25 on captions, CLIP and LexLIP.

    The photos of --queries are searched for, together with those of --pool, by their captions, and captions
    by photos. CLIP is searched by brute force with Faiss; without --clip random vectors show its size and
    speed. LexLIP and BM25 are searched with Lucene.
    """
    options.one_format(markdown, as_json)
    if queries in pools:
        raise click.UsageError(f"--pool {queries}: the photos of --queries are in the pool already.")

    from anserini_bridge import find_jar, find_java
    from lexlip.data import open_source

    with interruptible("nothing was measured"):
        find_java(), find_jar()  # fail before the work
        asking = open_captioned(queries, images, split)
        others = [open_source(pool) for pool in pools]

        from lexlip.evaluation.systems.system import Settings
        from lexlip.evaluation.table2 import cells
        from lexlip.evaluation.table2 import table2 as measure
        from lexlip.evaluation.tables import as_markdown, as_text
        from lexlip.models.clip import Clip
        from lexlip.models.lexlip import LexLIP

        table = measure(
            LexLIP.from_pretrained(model),
            asking,
            others,
            None if clip is None else Clip.from_pretrained(clip),
            [None if isinstance(topk, str) else topk for topk in dict.fromkeys(topks or TOPKS)],
            Settings(synthetic, threads, quantization, seed, progress=not as_json),
            rounds,
            workers,
        )
    show_skipped(table.skipped)
    if as_json:
        rows = [row.to_dict() for row in table.rows]
        click.echo(json.dumps({"table": 2, "rows": rows, "notes": table.notes}))
        return
    lines = cells(table.rows)
    click.echo(as_markdown(lines) if markdown else as_text(lines))
    click.echo("\n" + "\n".join(table.notes))
