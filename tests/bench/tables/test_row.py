from lexlip.bench.tables.row import Row
from tests.bench.tables.some_table import I2T, REPORT, T2I


def test_recalls_are_those_of_the_report() -> None:
    row = Row(model="be", documents="dense", report=REPORT)
    assert (row.t2i, row.i2t) == (T2I, I2T)


def test_a_system_has_recalls_without_a_report() -> None:
    row = Row(model="BM25", documents="captions", t2i=T2I)
    assert (row.t2i, row.i2t, row.report) == (T2I, None, None)
