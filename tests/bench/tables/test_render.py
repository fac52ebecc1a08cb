from lexlip.bench.tables.definitions import TABLES
from lexlip.bench.tables.render import as_markdown, as_text
from lexlip.bench.tables.row import Row
from lexlip.measure.evaluate import Report
from tests.training.run_folders import validation

WORDS = Report.from_dict(validation(12.345))
DENSE = Report.from_dict({**validation(100), "terms_image": None, "terms_text": None, "words@10": None})


def test_aligned_text() -> None:
    rows = [
        Row(model="runs/a", documents="top-32", report=WORDS),
        Row(model="d", documents="dense", report=DENSE),
    ]
    assert as_text(TABLES["1"].shown(rows), rows) == (
        "model   documents  T2I R@1    R@5   R@10  I2T R@1    R@5   R@10   mean  terms  words@10  words P@5\n"
        "runs/a  top-32        12.3   12.3   12.3     12.3   12.3   12.3   12.3   20.0     0.250          -\n"
        "d       dense        100.0  100.0  100.0    100.0  100.0  100.0  100.0      -         -          -"
    )


def test_markdown_with_methods() -> None:
    rows = [
        Row(model="a|b", documents="all", report=WORDS, method="LexLIP"),
        Row(model="d", documents="dense", report=DENSE, method="Dense without L_i2t"),
    ]
    assert as_markdown(TABLES["3"].shown(rows), rows).splitlines() == [
        "| model | method | documents | T2I R@1 | R@5 | R@10 | I2T R@1 | R@5 | R@10 | mean | terms |"
        " words@10 | words P@5 |",
        "| --- | --- | --- |" + " ---: |" * 10,
        "| a\\|b | LexLIP | all |" + " 12.3 |" * 7 + " 20.0 | 0.250 | - |",
        "| d | Dense without L_i2t | dense |" + " 100.0 |" * 7 + " - | - | - |",
    ]
