from pathlib import Path

import pytest

from lexlip.data import open_source
from lexlip.data.source import Source
from lexlip.measure.comparison import MEASURES
from tests.cli.conftest import Run, as_json, error
from tests.search.test_contact_sheet import Page


@pytest.fixture
def compared(lexlip: Run, photos: Path) -> Run:
    """The command line where `a` and `b` hold run files of two ways to encode the captions of `photos`."""
    lexlip("evaluate", "photos", "--run-files", "a")
    lexlip("evaluate", "photos", "--run-files", "b", "--query-encoder", "words")
    return lexlip


T2I = ("a/t2i.run", "b/t2i.run", "a/t2i.qrels")


def test_json(compared: Run, photos: Path) -> None:
    recalls = [
        as_json(compared, "evaluate", "photos", "--query-encoder", encoder)["t2i"]
        for encoder in ("network", "words")
    ]
    answer = as_json(compared, "compare", *T2I, "--source", "photos")
    assert list(answer) == [
        *("first", "second", "qrels", "queries", "missing", "test", "differences", "most_different")
    ]
    assert [answer["first"], answer["second"], answer["qrels"]] == [*T2I]
    assert (answer["queries"], answer["missing"]) == (6, [0, 0])
    assert answer["test"] == "two-sided paired t-test"
    assert list(answer["differences"]) == [*MEASURES]
    for k in (1, 5, 10):
        row = answer["differences"][f"Success@{k}"]
        assert list(row) == [*("first", "second", "difference", "low", "high", "p", "won", "lost", "tied")]
        for mean, of in ((row["first"], recalls[0]), (row["second"], recalls[1])):
            assert 100 * mean == pytest.approx(of[f"R@{k}"])
    assert answer["most_different"]
    for query in answer["most_different"]:
        photo, _, number = query["query"].rpartition("#")
        assert query["text"] == _captions(open_source(photos), photo)[int(number)]
        assert query["right"] == [photo]
        for run, rank in (("first_hits", "first_rank"), ("second_hits", "second_rank")):
            assert len(query[run]) == 5
            assert query[run].index(photo) + 1 == query[rank] if photo in query[run] else query[rank] > 5


def test_text(compared: Run) -> None:
    answer = as_json(compared, "compare", *T2I, "--source", "photos", "--test", "randomization")
    lines = compared("compare", *T2I, "--source", "photos", "--test", "randomization").stdout.splitlines()
    assert lines[0] == (
        "6 queries, B - A with its 95% confidence interval, p of a two-sided paired randomization test,"
        " 9,999 draws"
    )
    for line, (name, row) in zip(lines[3:], answer["differences"].items(), strict=False):
        shown = [word for word in line.split() if word != "…"]
        assert shown[0] == name
        assert shown[1:4] == [f"{row['first']:.4f}", f"{row['second']:.4f}", f"{row['difference']:+.4f}"]
        assert shown[-3:] == [str(row["won"]), str(row["lost"]), str(row["tied"])]
    assert lines[9] == "most different by nDCG@10, A → B:"
    assert [line.split("  ")[-1].strip() for line in lines[10:]] == [
        q["text"] for q in answer["most_different"]
    ]


def test_queries_that_a_run_lacks(compared: Run) -> None:
    kept = Path("b/t2i.run").read_text().splitlines(keepends=True)
    Path("b/t2i.run").write_text("".join(line for line in kept if not line.startswith(("0.jpg", "1.jpg"))))
    lines = compared("compare", *T2I, "--measure", "RR").stdout.splitlines()
    assert lines[1] == "  B has no line for 2 of them, which count as finding nothing"
    (lacking,) = (line.split() for line in lines if line.endswith(" 0.jpg#0"))
    assert lacking[1:3] == ["→", "0.000,"]
    assert lacking[-3:] == ["→", "–", "0.jpg#0"]


@pytest.mark.parametrize("way", ["t2i", "i2t"])
def test_html(compared: Run, way: str) -> None:
    files = [f"a/{way}.run", f"b/{way}.run", f"a/{way}.qrels"]
    answer = as_json(compared, "compare", *files, "--source", "photos", "--html", "page.html")
    result = compared("compare", *files, "--source", "photos", "--html", "page.html")
    assert result.stdout.endswith("\npage: page.html\n")
    page = Page(Path("page.html").read_text(encoding="utf-8"))
    number = len(answer["most_different"])
    assert number > 0
    assert len(page.all("section")) == number
    # a caption's own photo and five of each run, or the photo that asks
    assert len(page.all("img")) == number * (11 if way == "t2i" else 1)
    assert all(str(image["src"]).startswith("data:image/jpeg;base64,") for image in page.all("img"))
    assert page.texts.count(f"A: {files[0]}") == page.texts.count("right") == number
    marked = sum(
        id in q["right"] for q in answer["most_different"] for id in q["first_hits"] + q["second_hits"]
    )
    assert page.texts.count("✓") == marked


def test_what_cannot_be_compared(compared: Run) -> None:
    run = Path("a/t2i.run").read_text()
    Path("nan.run").write_text(run.replace(run.split()[4], "nan", 1))
    Path("twice.run").write_text(run + run.splitlines()[0])
    for arguments, says in (
        (
            ["a/t2i.run", "nan.run", "a/t2i.qrels"],
            "line 1 of nan.run has the score nan, which cannot be one",
        ),
        (["twice.run", "a/t2i.run", "a/t2i.qrels"], "line 37 of twice.run has query "),
        (["a/t2i.run", "b/t2i.run", "gone"], "cannot read gone: No such file or directory"),
        (["a/t2i.run", "b/i2t.run", "a/t2i.qrels"], "no query of the qrels is in both runs: "),
        ([*T2I, "--source", "scenes:3:0"], "no query of a/t2i.qrels is of scenes:3:0: "),
        ([*T2I, "--measure", "recall"], "there is no measure 'recall' here: give one as R@5, "),
        ([*T2I, "--html", "page.html"], "--html shows photos: give their --source, too"),
        ([*T2I, "--images", "photos"], "--images is for --source: leave it out"),
        ([*T2I, "--source", "photos", "--html", "gone/page.html"], "cannot write the page gone/page.html: "),
    ):
        assert error(compared("compare", *arguments, code=2)).startswith(says)
    assert not Path("page.html").exists()


def _captions(source: Source, id: str) -> tuple[str, ...]:
    return next(item.captions for item in source.items if item.id == id)
