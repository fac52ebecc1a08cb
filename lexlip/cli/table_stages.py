"""lexlip table stages, lightningdot-1 ... retrieve-9: tables of first stages and rerankers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from lexlip.cli import options
from lexlip.cli.evaluate import open_captioned
from lexlip.cli.failures import interruptible
from lexlip.cli.table_options import FUSIONS, Command, options_of
from lexlip.errors import ConfigError

if TYPE_CHECKING:
    from lexlip.evaluation.stages.rows import Plan

RETRIEVE = "of Retrieve Fast, Rerank Smart"
HELP = """{title}

MODEL is a first stage: a run's folder (its best checkpoint), a checkpoint, a packaged name, a CLIP by folder
or hub name, or bm25. All search the same photos, which each encodes once: words in Lucene, dense vectors in
Faiss."""


COMMANDS = {
    "stages": Command(
        "Compare stages: recall, response, index and training, alone and reranked.", response=True
    ),
    "lightningdot-1": Command("LightningDOT's Table 1: recalls and their mean (AR)."),
    "lightningdot-2": Command("LightningDOT's Table 2: recalls in a larger pool (--pool).", pool="must"),
    "lightningdot-3": Command(
        "LightningDOT's Table 3: seconds a query, and how many times as long the cross-encoder takes.",
        recall=False,
        response=True,
        pairs=True,
        reranks="must",
        pool="may",
    ),
    "vldeformer-4": Command(
        "VLDeformer's Figure 5 and Table 4: the response to single queries, and memory.",
        recall=False,
        response=True,
        plot=True,
    ),
    "vldeformer-5": Command(
        "VLDeformer's Table 5: what runs leave out of its method, and recalls.", reranks="never"
    ),
    "retrieve-1": Command(
        f"Table 1 {RETRIEVE}: recalls of first stages, of the cross-encoder, and of both.",
        pairs=True,
        alone=True,
        reranks="must",
    ),
    "retrieve-3": Command(
        f"Table 3 {RETRIEVE}: milliseconds a query in pools of several sizes.",
        recall=False,
        response=True,
        pairs=True,
        reranks="must",
        sizes=(50_000, 1_000_000),
    ),
    "retrieve-5": Command(f"Table 5 {RETRIEVE}: recalls in a larger pool (--pool).", pool="must"),
    "retrieve-8": Command(
        f"Table 8 {RETRIEVE}: recalls by the number of candidates.", reranks="must", ks=(10, 20, 50)
    ),
    "retrieve-9": Command(
        f"Table 9 {RETRIEVE}: recalls by what becomes of the two scores.", reranks="must", fusions=FUSIONS
    ),
}


def commands() -> list[click.Command]:
    """The commands of `lexlip table`."""
    return [_command(name, command) for name, command in COMMANDS.items()]


def _command(name: str, command: Command) -> click.Command:
    def table(**arguments: Any) -> None:
        _print_table(name, command, **arguments)

    function: Callable[..., None] = table
    for option in reversed(options_of(command)):
        function = option(function)
    return click.command(name, help=HELP.format(title=command.title))(function)


def _print_table(
    name: str,
    command: Command,
    models: tuple[str, ...],
    source: str,
    images: str | None,
    split: str | None,
    pairs: int | None,
    captions: int | None,
    markdown: bool,
    as_json: bool,
    pools: tuple[str, ...] = (),
    plot: str | None = None,
    **arguments: Any,
) -> None:
    """Measures and prints one of the tables."""
    options.one_format(markdown, as_json)
    if source in pools:
        raise click.UsageError(f"--pool {source}: the photos of --source are in the pool already.")

    from lexlip.data import open_source

    with interruptible("nothing was measured"):
        photos = open_captioned(source, images, split)
        others = [open_source(pool) for pool in pools]

        from lexlip.evaluation.stages.plot import check_picture, draw_response
        from lexlip.evaluation.stages.questions import make_questions
        from lexlip.evaluation.stages.views import VIEWS, cells, notes, rows_of

        view, plan = VIEWS[name], _plan(command, models, progress=not as_json, **arguments)
        questions = make_questions(photos, others, pairs, captions, alone=command.alone)
        _check(command, plan, captions)
        if plot is not None:
            check_picture(plot)
        rows = rows_of(view, plan, questions)

    from lexlip.cli.index import show_skipped
    from lexlip.evaluation.tables import as_markdown, as_text

    show_skipped(next((row.skipped for row in rows if row.skipped), []))
    said = notes(view, plan, questions, rows, f"{source} ({split})" if split else source)
    if as_json:
        plain = [row.to_dict() for row in rows]
        click.echo(json.dumps({"table": name, "rows": plain, "notes": said}))
    else:
        lines = cells(view, rows)
        click.echo(as_markdown(lines) if markdown else as_text(lines))
        click.echo("\n" + "\n".join(said))
    if plot is not None:
        draw_response(rows, plot)


def _plan(
    command: Command,
    models: tuple[str, ...],
    topks: tuple[str | int, ...],
    query_topk: int | None,
    quantization: Any,
    workers: int,
    progress: bool,
    ann: Any,
    rerank: str | None = None,
    ks: tuple[int, ...] = (20,),
    fusions: tuple[Any, ...] = ("none",),
    weight: float = 0.5,
    queries: int = 200,
    sizes: tuple[int, ...] = (),
) -> Plan:
    from lexlip.evaluation.first_stages import Settings
    from lexlip.evaluation.stages.rows import Plan

    return Plan(
        models=list(dict.fromkeys(models)),
        reranker=rerank,
        reranks=command.reranks != "never",
        ks=list(dict.fromkeys(ks)),
        fusions=list(dict.fromkeys(fusions)),
        weight=weight,
        recall=command.recall,
        response=command.response,
        pairs=command.pairs,
        sizes=list(dict.fromkeys(sizes)) or (None,),
        queries=queries,
        settings=Settings(
            topks=[None if isinstance(topk, str) else topk for topk in dict.fromkeys(topks or (32,))],
            engine=ann,
            scheme=quantization,
            query_topk=query_topk,
            workers=workers,
            progress=progress,
        ),
    )


def _check(command: Command, plan: Plan, captions: int | None) -> None:
    """What the options say must make sense together.

    Raises:
        ConfigError: it does not.
        ModelError: see `Plan.check`.
    """
    plan.check()
    if command.reranks == "must" and not any(map(plan.reranker_of, plan.models)):
        raise ConfigError("this table is about reranking: name a ce or a joint model with --rerank")
    if "bm25" in plan.models and captions == 1:
        raise ConfigError("bm25 needs a second caption of a photo to ask with: leave out --captions 1")
