"""The command `lexlip compare`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from lexlip.cli import options
from lexlip.errors import ConfigError, DataError
from lexlip.words.plain_text import readable

if TYPE_CHECKING:
    from lexlip.measure.comparison import Comparison, Qrels, Query, Run, Test
    from lexlip.measure.trec import Names
    from lexlip.search.contact_sheet import Compared

SHOWN = 5
"""Hits of each run on the page, and in --json."""


@click.command()
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@click.argument("qrels", metavar="QRELS")
@click.option(
    "--measure",
    "measures",
    multiple=True,
    metavar="NAME",
    help="R@5, Success@5, P@5, RR, nDCG@10, AP and the like, as ir_measures names them; may be repeated. The"
    " last one orders the queries.  [default: Success@1, Success@5, Success@10, RR, nDCG@10]",
)
@click.option(
    "--test",
    type=click.Choice(["t-test", "randomization"]),
    default="t-test",
    help="Both are paired and two-sided.",
)
@click.option("--source", metavar="SOURCE", help="What the runs search: it has the texts and the photos.")
@click.option(
    "--html", metavar="FILE", help="Also write a page: what both runs found, side by side; for --source."
)
@options.images_option
@options.split_option
@options.json_option
@click.pass_context
def compare(
    context: click.Context,
    first: str,
    second: str,
    qrels: str,
    measures: tuple[str, ...],
    test: Test,
    source: str | None,
    html: str | None,
    images: str | None,
    split: str | None,
    as_json: bool,
) -> None:
    """Compare run files: is B better than A, and by more than chance?

    `lexlip evaluate SOURCE --run-files DIR` writes runs, and the QRELS that say what is right; those of other
    programs will do, too. For each measure: the mean of A and of B, the mean difference B - A with its 95%
    confidence interval, the p-value of a paired test, and at how many queries B won, lost and tied. Then come
    the ten queries that differ most.

    Success@k is what `lexlip evaluate` calls R@k: whether something right is among the first k hits.
    """
    from lexlip.data import open_source
    from lexlip.machine.output_files import check_output
    from lexlip.measure.comparison import MEASURES
    from lexlip.measure.comparison import compare as compare_runs
    from lexlip.measure.trec import Names, read_qrels, read_run

    if source is None:
        options.refuse(context, ["images", "split"], "is for --source")
        if html is not None:
            raise ConfigError("--html shows photos: give their --source, too")
    if html is not None:
        check_output(html, "the page ")
    runs = read_run(first), read_run(second)
    right = read_qrels(qrels)
    names = None if source is None else Names(open_source(source, images, split))
    if names is not None and not any(query in names for query in right):
        raise DataError(f"no query of {qrels} is of {source}: give what `lexlip evaluate` measured")
    found = compare_runs(*runs, right, measures or MEASURES, test)
    queries = [_described(query, runs, right, names) for query in found.most_different]
    if html is not None and names is not None:
        from lexlip.search.contact_sheet import write_comparison_sheet

        titles = (f"A: {first}", f"B: {second}")
        measure = list(found.differences)[-1]
        sheet = [_section(query, titles, measure, names) for query in queries]
        write_comparison_sheet(html, sheet)
    if as_json:
        files = {"first": first, "second": second, "qrels": qrels}
        click.echo(json.dumps({**files, **found.to_dict(), "most_different": queries}))
        return
    _show(found, queries)
    if html is not None:
        click.echo(f"\npage: {html}")


def _described(query: Query, runs: tuple[Run, Run], qrels: Qrels, names: Names | None) -> dict[str, Any]:
    """Return a query as --json shows it, with what it should find and what both runs found first."""
    from lexlip.measure.comparison import hits

    asking = None if names is None else names.found(query.id)
    return {
        "query": query.id,
        "text": None if asking is None else asking.text,
        "first": query.first,
        "second": query.second,
        "first_rank": query.first_rank,
        "second_rank": query.second_rank,
        "right": [id for id, relevance in qrels[query.id].items() if relevance > 0],
        "first_hits": hits(runs[0], query.id)[:SHOWN],
        "second_hits": hits(runs[1], query.id)[:SHOWN],
    }


def _section(query: dict[str, Any], titles: tuple[str, str], measure: str, names: Names) -> Compared:
    from lexlip.search.contact_sheet import Compared

    sides = [("right", [names.found(id) for id in query["right"][:SHOWN]])]
    for title, hits in zip(titles, (query["first_hits"], query["second_hits"]), strict=True):
        sides.append((title, [names.found(id, id in query["right"]) for id in hits]))
    return Compared(names.found(query["query"]), f"{measure} {_change(query)}", sides)


def _change(query: dict[str, Any]) -> str:
    ranks = " → ".join(str(query[key] or "–") for key in ("first_rank", "second_rank"))
    return f"{query['first']:.3f} → {query['second']:.3f}, rank {ranks}"


def _show(found: Comparison, queries: list[dict[str, Any]]) -> None:
    number = "1 query" if found.queries == 1 else f"{found.queries:,} queries"
    click.echo(f"{number}, B - A with its 95% confidence interval, p of a {found.test}")
    for run, missing in zip("AB", found.missing, strict=True):
        if missing:
            click.echo(f"  {run} has no line for {missing:,} of them, which count as finding nothing")
    click.echo("")
    width = max(map(len, ["measure", *found.differences]))
    heads = f"  {'measure':{width}}       A       B    B - A   interval            "
    click.echo(f"{heads}  p         won    lost    tied")
    for name, row in found.differences.items():
        interval = "–" if row.low is None or row.high is None else f"{row.low:+.4f} … {row.high:+.4f}"
        click.echo(
            f"  {name:{width}}  {row.first:.4f}  {row.second:.4f}  {row.difference:+.4f}   {interval:19}"
            f"  {_p(row.p):6}  {row.won:6,}  {row.lost:6,}  {row.tied:6,}"
        )
    if not queries:
        return
    click.echo(f"\nmost different by {list(found.differences)[-1]}, A → B:")
    for query in queries:
        click.echo(f"  {_change(query):38}  {readable(query['text'] or query['query'])}")


def _p(p: float | None) -> str:
    return "–" if p is None else "<0.0001" if p < 0.0001 else f"{p:.4f}"
