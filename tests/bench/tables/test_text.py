from lexlip.measure.evaluate import Report
from lexlip.bench.tables.formatting import Row, as_markdown, as_text, cells
from tests.training.run_folders import validation

WORDS = Report.from_dict(validation(12.345))
DENSE = Report.from_dict({**validation(100), "terms_image": None, "terms_text": None, "words@10": None})


def test_aligned_text() -> None:
    rows = [Row("runs/a", "top-32", WORDS), Row("d", "dense", DENSE)]
    assert as_text(cells(rows)) == (
        "model   documents  T2I R@1    R@5   R@10  I2T R@1    R@5   R@10   mean  terms  words@10\n"
        "runs/a  top-32        12.3   12.3   12.3     12.3   12.3   12.3   12.3   20.0     0.250\n"
        "d       dense        100.0  100.0  100.0    100.0  100.0  100.0  100.0      -         -"
    )


def test_markdown_with_methods() -> None:
    rows = [Row("a|b", "all", WORDS, "LexLIP"), Row("d", "dense", DENSE, "Dense without L_i2t")]
    assert as_markdown(cells(rows)).splitlines() == [
        "| model | method | documents | T2I R@1 | R@5 | R@10 | I2T R@1 | R@5 | R@10 | mean | terms |"
        " words@10 |",
        "| --- | --- | --- |" + " ---: |" * 9,
        "| a\\|b | LexLIP | all |" + " 12.3 |" * 7 + " 20.0 | 0.250 |",
        "| d | Dense without L_i2t | dense |" + " 100.0 |" * 7 + " - | - |",
    ]


def test_plain_values() -> None:
    row = Row("a", "all", WORDS, "LexLIP").to_dict()
    assert row == {"model": "a", "method": "LexLIP", "documents": "all", **WORDS.to_dict()}
    assert "method" not in Row("a", "all", WORDS).to_dict()
