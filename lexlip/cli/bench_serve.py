"""The command `lexlip bench serve`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from lexlip.cli import options
from lexlip.cli.bench_latency import row
from lexlip.cli.exit_codes import interruptible

PHASES = ("idle", "load", "overload")  # of --endurance


@click.command()
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
    click.echo(json.dumps(report)) if as_json else show(report)


def _endure(minutes: float, clients: int, as_json: bool) -> None:
    from lexlip.bench.endurance import measure_endurance

    with interruptible("nothing was measured"):
        report = measure_endurance(minutes, clients)
    click.echo(json.dumps(report)) if as_json else show_endurance(report)
    restart = report["restart"]
    if any(report[phase]["faults"] for phase in PHASES) or restart["documents"] != restart["expected"]:
        raise click.exceptions.Exit(1)


def show_endurance(report: dict[str, Any]) -> None:
    """Print the phases as a table, and what was wrong."""
    c = report["conditions"]
    click.echo(
        f"{c['photos']:,} drawn photos, {c['coming']} of them come and go; {c['cpu']}, {c['cores']} cores,"
    )
    click.echo(f"clients included, which get {report['capacity']:.0f} answers per second; seed {c['seed']}")
    click.echo("searches, milliseconds".ljust(40) + row("p50", "p99", "max", "requests", "refused", "wrong"))
    said = ("idle", f"half of that, {c['minutes']:g} minutes", "four times as much")
    for phase, what in zip(PHASES, said, strict=True):
        values = report[phase]
        times = (f"{values[name]:.1f}" for name in ("p50", "p99", "max"))
        counts = f"{values['requests']:,}", f"{values['refused']:.2%}", str(values["faults"])
        click.echo(what.ljust(40) + row(*times, *counts))
    click.echo("clients that hold it up, seconds".ljust(40) + row("opened", "closed", "refused", "longest"))
    for kind, held in report["held"].items():
        cells = (f"{held[name]:,}" for name in ("opened", "closed", "refused"))
        click.echo(kind.replace("_", " ").ljust(40) + row(*cells, f"{held['longest']:.1f}"))
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


def show(report: dict[str, Any]) -> None:
    """Print milliseconds as a table."""
    c = report["conditions"]
    click.echo(f"{c['documents']:,} photos, k = {c['k']}; {c['cpu']}, {c['cores']} cores, clients included")
    if "start_s" in report:
        memory = "" if report["memory_mb"] is None else f", memory {report['memory_mb']:.0f} MB"
        first = f"start {report['start_s']:.2f} s, first search {report['first_ms']:.0f} ms"
        click.echo(first + memory)
    click.echo("milliseconds".ljust(40) + row("p50", "p95", "p99", "max", "per s", "errors"))
    for what in ("searches", "thumbnails"):
        for load, said in (("closed", f"{c['clients']} clients"), ("open", f"{c['rate']:g} per second")):
            values = report[what][load]
            times = (f"{values[name]:.1f}" for name in ("p50", "p95", "p99", "max"))
            errors = str(sum(values["errors"].values()))
            click.echo(f"{what}, {said}".ljust(40) + row(*times, f"{values['rate']:.0f}", errors))
