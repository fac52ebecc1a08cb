import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from benchmarks import benchmark as module
from benchmarks.benchmark import Benchmark
from benchmarks.corpus import synthetic
from lexlip.cli import main
from tests.benchmarks.reports import report
from tests.cli.conftest import Run
from tests.conftest import write_photos
from tests.tiny import tiny_dense

SMALL = ["--docs", "300", "--queries", "20", "--rounds", "1", "--engine", "lexlip", "--engine", "scipy"]
KEYS = {"qps", "p50_ms", "p95_ms", "p99_ms", "p99.9_ms", "recall@10", "build_s", "index_mb", "memory_mb"}


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("SECONDS", "BATCH_SECONDS", "WARM_UP", "REPEATED"):
            patch.setattr(module, name, 0.02)
        small = synthetic.Shape(vocabulary=500, terms=(30, 8), query_terms=(20, 6), topics=20, candidates=200)
        patch.setitem(synthetic.SHAPES, "wide", small)
        patch.setattr(synthetic, "BLOCK", 512)
        yield


@pytest.fixture(scope="module")
def measured(quick: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    """What the command printed with --json, and its folder, which is not to be changed."""
    folder = tmp_path_factory.mktemp("measured") / "work"
    return CliRunner().invoke(main, ["bench", "engine", *SMALL, "--work-dir", str(folder), "--json"]), folder


@pytest.fixture
def work(measured: tuple[Result, Path], lexlip: Run, tmp_path: Path) -> Path:
    """A copy of that folder where the command line runs: its indexes need not be built again."""
    return Path(shutil.copytree(measured[1], tmp_path / "work"))


def test_json(measured: tuple[Result, Path]) -> None:
    result, _ = measured
    report = json.loads(result.stdout)
    conditions = report["conditions"]
    wanted = {"source": "synthetic", "documents": 300, "topk": 32, "k": 10, "threads": 1, "rounds": 1}
    wanted |= {"seed": 0, "queries": 20, "query_terms": 12}
    assert wanted.items() <= conditions.items()
    assert conditions["shape"]["vocabulary"] == 500
    machine = {"cpu", "cores", "python", "system", "versions"}
    assert {*machine, "postings_touched_by_a_query"} <= conditions.keys()
    assert list(report["engines"]) == ["lexlip", "scipy"]
    for row in report["engines"].values():
        assert KEYS | {"calls", "queries", "build_threads"} <= row.keys()
        assert row["recall@10"] == 1
    assert report["missing"] == report["failed"] == {}
    assert "round 1 of 1" in result.stderr


def test_text_with_ratios(lexlip: Run, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lexlip.cli.bench_engine.BASELINES", ("scipy", "faiss-flat"))
    lines = lexlip("bench", "engine", *SMALL, "--work-dir", "work").stdout.splitlines()
    assert lines[0].startswith("synthetic: 300 documents, ")
    assert lines[1].startswith("20 queries of 12 terms that touch ")
    assert "threads: 1, rounds: 1, threads that built: lexlip its choice, scipy 1" in lines[2]
    assert "x scipy" in lines[3]
    assert "x faiss-flat" not in lines[3]  # which was not measured
    assert [line.split()[0] for line in lines[4:]] == ["lexlip", "scipy"]
    assert lines[5].split()[2] == "1.00"


def test_what_is_missing_is_named(lexlip: Run, tmp_path: Path) -> None:
    broken = tmp_path / "broken"  # a package that cannot be loaded stands before the real one, if any
    broken.mkdir()
    (broken / "seismic.py").write_text("raise ImportError('none here')")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={broken}:$PYTHONPATH exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    arguments = [*SMALL[:6], "--engine", "scipy", "--engine", "seismic", "--python", f"seismic={python}"]
    lines = lexlip("bench", "engine", *arguments).stdout.splitlines()
    assert lines[4].startswith("scipy ")
    says = (
        "seismic-cut2-heap0.9: pip install pyseismic-lsr, or name a Python that has it: --python seismic=PATH"
    )
    assert lines[5].startswith(says)


def test_photos_with_captions(lexlip: Run, photos: Path) -> None:
    arguments = ["--rounds", 1, "--engine", "scipy", "--engine", "faiss-flat", "--json"]
    report = json.loads(lexlip("bench", "engine", "--source", photos, *arguments).stdout)
    assert report["conditions"]["documents"] == 6
    assert report["conditions"]["queries"] == 6
    assert report["conditions"]["source"] == str(photos)
    assert "@" in report["conditions"]["model"]
    assert report["engines"]["scipy"]["recall@10"] == 1
    assert report["missing"] == {"faiss-flat": "dense vectors: name a model that makes them, --dense MODEL"}


def test_the_photo_of_a_caption_among_others(lexlip: Run, photos: Path, tmp_path: Path) -> None:
    others = write_photos(tmp_path / "others")
    tiny_dense().save(tmp_path / "dense")
    arguments = ["--source", others, "--queries-of", photos, "--dense", "dense", "--docs", 60, "--k", 60]
    arguments += ["--rounds", 1, "--engine", "lexlip-single", "--engine", "faiss-flat"]
    report = json.loads(lexlip("bench", "engine", *arguments, "--json").stdout)
    assert report["conditions"]["documents"] == 60
    assert report["conditions"]["queries"] == len(list(photos.glob("*.txt")))
    assert report["engines"]["faiss-flat"]["found@60"] == 1  # all documents are hits
    assert report["engines"]["lexlip-single"]["recall@60"] == 1
    of_words = ["--source", others, "--dense", "mini", "--engine", "faiss-flat"]
    assert "mini is a model of words: give a dense one" in lexlip("bench", "engine", *of_words, code=2).stderr
    says = "--dense goes with --source or --captions"
    assert says in lexlip("bench", "engine", "--dense", "dense", code=2).stderr
    says = "--queries-of goes with --source, and without --captions"
    assert says in lexlip("bench", "engine", "--queries-of", photos, code=2).stderr


def test_captions_photos_and_mixtures(lexlip: Run, photos: Path, tmp_path: Path) -> None:
    (tmp_path / "captions.tsv").write_text(
        "".join(f"{n}\t0\t{n} dogs\n" for n in "one two three four".split())
    )
    arguments = ["bench", "engine", "--captions", "captions.tsv", "--source", photos, "--queries", 2]
    arguments += ["--rounds", 1, "--engine", "scipy", "--json", "--docs"]
    report = json.loads(lexlip(*arguments, 100).stdout)
    wanted = {"documents": 100, "captions": 4, "held_out": 2, "source": f"{photos}, captions.tsv"}
    assert wanted.items() <= report["conditions"].items()
    assert report["conditions"]["queries"] == 2
    assert report["engines"]["scipy"]["recall@10"] == 1
    says = "169 documents would take more than 20 mixtures of each of 8 photos and captions"
    assert says in lexlip(*arguments, 169, code=2).stderr


def test_photos_without_captions(lexlip: Run, photos: Path) -> None:
    for captions in photos.glob("*.txt"):
        captions.unlink()
    assert "no photo of" in lexlip("bench", "engine", "--source", photos, code=2).stderr


def test_a_kept_folder(lexlip: Run, work: Path, tmp_path: Path) -> None:
    kept = json.loads((work / "report.json").read_text())
    assert list(kept["engines"]) == ["lexlip", "scipy"]
    again = lexlip("bench", "engine", *SMALL, "--query-terms", 5, "--work-dir", "work", "--json")
    assert "building" not in again.stderr
    report = json.loads(again.stdout)
    assert report["conditions"]["terms_of_a_query"] == 5
    assert report["engines"]["scipy"]["build_s"] == kept["engines"]["scipy"]["build_s"]
    says = f"{tmp_path}/work holds other documents; give another --work-dir, or remove it"
    assert says in lexlip("bench", "engine", *SMALL, "--seed", 1, "--work-dir", "work", code=2).stderr


def test_dense_vectors_are_added_to_a_kept_folder(lexlip: Run, tmp_path: Path) -> None:
    arguments = ["bench", "engine", *SMALL[:6], "--work-dir", "work", "--json", "--engine"]
    lexlip(*arguments, "scipy")
    report = json.loads(lexlip(*arguments, "faiss-flat").stdout)
    assert report["conditions"]["dimensions"] == 512
    assert report["engines"]["faiss-flat"]["recall@10"] == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_prints_what_is_known(
    number: signal.Signals, lexlip: Run, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = Benchmark._round

    def interrupted(self: Benchmark, spec: Any) -> dict[str, Any]:
        if spec.name == "scipy":
            os.kill(os.getpid(), number)
            time.sleep(60)
        return measure(self, spec)

    monkeypatch.setattr(Benchmark, "_round", interrupted)
    result = lexlip("bench", "engine", *SMALL, "--work-dir", "work", "--json", code=130)
    assert list(json.loads(result.stdout)["engines"]) == ["lexlip"]
    assert "interrupted: the report holds what was measured until then" in result.stderr


@pytest.mark.parametrize("arguments", [["engine"], ["plot", "report.json", "--out", "plots"]])
def test_a_package_without_the_engines_to_compare_with_says_where_they_are(
    arguments: list[str], lexlip: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [place for place in sys.path if not Path(place, "benchmarks").is_dir()])
    for name in [name for name in sys.modules if name.partition(".")[0] == "benchmarks"]:
        monkeypatch.delitem(sys.modules, name)
    assert lexlip("bench", *arguments, code=2).stderr == (
        "Error: this needs the engines to compare with, which are in a clone of LexLIP's repository: there,"
        " run pip install --editable '.[bench]'\n"
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        *(
            ([f"--{option}", "0"], f"'--{option}': 0 is not in the range x>=1")
            for option in ("docs", "topk", "k", "threads", "rounds", "queries", "query-terms")
        ),
        (["--seed", "-1"], "'--seed': -1 is not in the range x>=0"),
        (["--shape", "huge"], "'huge' is not one of 'wide', 'mini'"),
        (["--engine", "faiss-hsnw"], "there is no engine 'faiss-hsnw'; did you mean 'faiss-hnsw'?"),
        (["--python", "seismic"], "--python is 'seismic='; it must be LIBRARY=PATH"),
        (["--python", "numpy=/bin/x"], "--python is 'numpy=/bin/x'; it must be LIBRARY=PATH"),
        (["--source", "/no/photos"], "/no/photos"),
        (["--captions", "/no/captions.tsv"], "/no/captions.tsv cannot be read"),
        (["--work-dir", "/proc/none"], "cannot work in /proc/none (--work-dir): [Errno 2] No such file"),
    ],
)
def test_bad_options(arguments: list[str], says: str, lexlip: Run) -> None:
    result = lexlip("bench", "engine", *arguments, code=2)
    assert says in result.stderr
    assert result.stdout == ""


def test_pictures(lexlip: Run) -> None:
    pytest.importorskip("matplotlib", reason="pictures are optional: pip install matplotlib")
    for documents in (300, 600):
        Path(f"{documents}.json").write_text(json.dumps(report(documents)))
    out = lexlip("bench", "plot", "300.json", "600.json", "--out", "plots").stdout.split()
    assert len(out) == 6
    assert all(Path(path).stat().st_size for path in out)
    assert sum(path.startswith("plots/size-") for path in out) == 2


def test_no_report_to_draw(lexlip: Run) -> None:
    assert "cannot read none.json" in lexlip("bench", "plot", "none.json", "--out", "plots", code=2).stderr
    assert "Missing argument" in lexlip("bench", "plot", "--out", "plots", code=2).stderr
