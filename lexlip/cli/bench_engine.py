"""The commands `lexlip bench engine` and `lexlip bench plot`; the engines to compare with are in a clone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from lexlip.cli import options
from lexlip.cli.exit_codes import Interrupted, interruptible, terminated_as_interrupted

DOCUMENTS = 100_000
BASELINES = ("pyserini", "faiss-flat")


@click.command()
@options.count_option(
    "--docs",
    metavar="N",
    help="Number of documents; those that --source and --captions lack are mixtures of two of theirs, at"
    f" most 20 of each.  [default: {DOCUMENTS} synthetic ones, or all of --source and --captions]",
)
@click.option(
    "--shape",
    type=click.Choice(["wide", "mini"]),
    default="wide",
    help="Shape of synthetic vectors: 30,522 words, or 1,695 as an earlier packaged model used.",
)
@options.topk_option(all_words=False)
@options.count_option("--k", default=10, help="Hits of a query.")
@options.count_option("--threads", default=1, help="Threads that build, and that search in batches.")
@options.count_option("--query-terms", default=12, metavar="K", help="Number of words that a query keeps.")
@options.count_option("--queries", default=2000, help="Number of queries.")
@options.count_option(
    "--rounds", default=3, help="Rounds, in each of which every engine runs its queries; figures are medians."
)
@options.count_option("--seed", default=0, help="Seed of everything drawn.", least=0)
@click.option(
    "--engine",
    "engines",
    multiple=True,
    metavar="NAME",
    help="Measure this engine; may be repeated. A library's name means all its settings.",
)
@click.option(
    "--source",
    metavar="SOURCE",
    help="Photos with captions instead, as for lexlip index; the captions are queries.",
)
@click.option(
    "--captions",
    multiple=True,
    metavar="FILE",
    help="Captions as documents, besides the photos of --source if there are any: a table (.tsv, .csv), or a"
    " text file with one a line; may be repeated. Some of them are queries instead.",
)
@options.model_option(
    options.DEFAULT_MODEL, "Packaged name or folder of the model that encodes --source and --captions."
)
@click.option(
    "--queries-of",
    metavar="SOURCE",
    help="Photos whose captions alone are queries; they are documents too, before those of --source.",
)
@click.option(
    "--dense",
    "dense_model",
    metavar="MODEL",
    help="Packaged name or folder of a dense model: engines for dense vectors get its vectors of --source.",
)
@options.images_option
@options.split_option
@click.option(
    "--work-dir",
    metavar="DIR",
    help="Keep documents, indexes and the report here; another run with the same documents reuses them.",
)
@click.option(
    "--python",
    "pythons",
    multiple=True,
    metavar="LIBRARY=PATH",
    help="Another Python, for a library that cannot be installed for this one.",
)
@options.json_option
def engine(
    docs: int | None,
    shape: str,
    k: int,
    threads: int,
    rounds: int,
    engines: Sequence[str],
    source: str | None,
    captions: Sequence[str],
    model: str,
    queries_of: str | None,
    dense_model: str | None,
    images: str | None,
    split: str | None,
    work_dir: str | None,
    pythons: Sequence[str],
    as_json: bool,
    **asked: Any,
) -> None:
    """Measure this search engine beside others, on the same documents and queries.

    Documents are synthetic, with the statistics of a model's vectors, or photos and captions. Engines for
    dense vectors get those of the same photos. Engines that are not installed are named.

    recall@k is the share of the best documents by an engine's own vectors that it finds; found@k the share of
    the captions of photos whose photo it finds.
    """
    from benchmarks.benchmark import Benchmark, EngineSettings
    from benchmarks.peers import choose, library_class

    if queries_of is not None and (captions or source is None):
        raise click.UsageError("--queries-of goes with --source, and without --captions")
    if dense_model is not None and source is None and not captions:
        raise click.UsageError(
            "--dense goes with --source or --captions; synthetic photos have dense vectors"
        )
    specs = choose(engines)
    settings = EngineSettings(k, threads, rounds, _pythons(pythons))
    dense = any(library_class(spec.library).dense for spec in specs)
    with _folder(work_dir) as folder, terminated_as_interrupted():
        with interruptible("nothing was measured"):
            _say("documents and queries")
            if source is None and not captions:
                from benchmarks.corpus.prepare import prepare_synthetic

                number = docs or DOCUMENTS
                corpus, made = prepare_synthetic(folder / "corpus", shape, number, dense=dense, **asked)
            else:
                given = _documents(source, captions, queries_of, images, split)
                from benchmarks.corpus.prepare import prepare_encoded
                from lexlip.models.load import load_dense
                from lexlip.queries.photo_encoder import open_encoder

                encoder = open_encoder(model)
                asked["dense"] = None
                if dense_model and dense:
                    asked["dense"] = load_dense(dense_model).fold_batch_norms()
                corpus, made = prepare_encoded(folder / "corpus", encoder, **given, documents=docs, **asked)
            benchmark = Benchmark(corpus, folder, specs, settings, _say, made)
        try:
            for _ in benchmark.run():
                (folder / "report.json").write_text(json.dumps(benchmark.report()))
        except KeyboardInterrupt:
            show(benchmark.report(), as_json)
            raise Interrupted("interrupted: the report holds what was measured until then") from None
    show(benchmark.report(), as_json)


@contextmanager
def _folder(work_dir: str | None) -> Iterator[Path]:
    """--work-dir, or one that is removed at the end."""
    import tempfile

    from lexlip.errors import ConfigError

    try:
        if work_dir is None:
            with tempfile.TemporaryDirectory(prefix="lexlip-bench-") as name:
                yield Path(name)
        else:
            Path(work_dir).mkdir(parents=True, exist_ok=True)
            yield Path(work_dir).absolute()
    except OSError as error:
        where = work_dir or tempfile.gettempdir()
        raise ConfigError(f"cannot work in {where} (--work-dir): {error}") from error


def _pythons(values: Sequence[str]) -> dict[str, str]:
    """--python as {library: interpreter}.

    Raises:
        ConfigError: not LIBRARY=PATH, or no such library.
    """
    from benchmarks.peers import LIBRARIES
    from lexlip.errors import ConfigError

    found = dict(value.partition("=")[::2] for value in values)
    for library, path in found.items():
        if library not in LIBRARIES or not path:
            raise ConfigError(
                f"--python is '{library}={path}'; it must be LIBRARY=PATH, with one of {', '.join(LIBRARIES)}"
            )
    return found


def _documents(
    source: str | None,
    captions: Sequence[str],
    queries_of: str | None,
    images: str | None,
    split: str | None,
) -> dict[str, Any]:
    """Return the photos and captions as `prepare_encoded` takes them."""
    from lexlip.cli.evaluate import open_captioned
    from lexlip.data import open_source
    from lexlip.data.caption_files import read_captions_alone
    from lexlip.data.source import Concat

    given: dict[str, Any] = {"captions": {path: read_captions_alone(path) for path in captions}}
    if source is None:
        return given | {"photos": None}
    if queries_of is None:
        return given | {"photos": (open_source if captions else open_captioned)(source, images, split)}
    first = open_captioned(queries_of, images, split)
    photos = Concat([first, open_source(source, images, split)])
    return given | {"photos": photos, "asked_photos": len(first)}


@click.command()
@click.argument("results", nargs=-1, required=True, metavar="RESULT.json…")
@click.option("--out", required=True, metavar="FOLDER", help="Where the pictures go.")
def plot(results: Sequence[str], out: str) -> None:
    """Draw what `lexlip bench engine --json` printed: speed against recall, cost against size.

    The first picture is of the largest collection; the others need results of several sizes.
    """
    from benchmarks.plots import draw, read_results

    for path in draw(read_results(results), out):
        click.echo(path)


def _say(line: str) -> None:
    click.echo(line, err=True)


def show(report: dict[str, Any], as_json: bool) -> None:
    """Print a report as JSON, or as a table with ratios of queries per second."""
    if as_json:
        click.echo(json.dumps(report))
        return
    c = report["conditions"]
    click.echo(f"{c['source']}: {c['documents']:,} documents, {c['postings']:,} postings (top-{c['topk']})")
    click.echo(
        f"{c['queries']:,} queries of {c['terms_of_a_query']:.0f} terms that touch"
        f" {c['postings_touched_by_a_query']:,.0f} postings each, k = {c['k']}"
    )
    rows = report["engines"]
    click.echo(
        f"{c['cpu']}, {c['cores']} cores, threads: {c['threads']}, rounds: {c['rounds']},"
        f" threads that built: {builders(rows)}"
    )
    bases = [name for name in BASELINES if name in rows]
    shares = [f"recall@{c['k']}", f"found@{c['k']}"]
    shares = [name for name in shares if any(name in row for row in rows.values())]
    head = ["queries/s", *(f"x {name}" for name in bases), "p50 ms", "p99 ms", *shares]
    head += ["build s", "MB", "RAM MB"]
    click.echo(f"{'':26}" + "".join(f"{name:>13}" for name in head))
    for name, row in rows.items():
        cells = [
            f"{row['qps']:,.0f}" if row["qps"] >= 100 else f"{row['qps']:.1f}",
            *(f"{row['qps'] / rows[base]['qps']:.2f}" for base in bases),
            f"{row['p50_ms']:.3f}",
            f"{row['p99_ms']:.3f}",
            *(f"{row[name]:.4f}" for name in shares),
            f"{row['build_s']:.1f}",
            f"{row['index_mb']:,.1f}",
            f"{row['memory_mb']:,.0f}",
        ]
        click.echo(f"{name:26}" + "".join(f"{cell:>13}" for cell in cells))
    for name, row in rows.items():
        if loaded := row.get("under_load"):
            click.echo(
                f"{name}, {loaded['clients']} clients at a time: {loaded['qps']:,.0f} queries/s,"
                f" p50 {loaded['p50_ms']:.3f} ms, p99 {loaded['p99_ms']:.3f} ms"
            )
    for name, reason in {**report["missing"], **report["failed"]}.items():
        click.echo(f"{name}: {reason}")


def builders(rows: Mapping[str, Any]) -> str:
    """Return the most threads that built each library's index, such as "lexlip its choice, faiss-hnsw 1"."""
    from benchmarks.peers import ENGINES

    built = {
        ENGINES[name].library: row["build_threads"]
        for name, row in rows.items()
        if name in ENGINES and "build_threads" in row  # not in what an older version built
    }
    return ", ".join(f"{library} {threads or 'its choice'}" for library, threads in built.items())
