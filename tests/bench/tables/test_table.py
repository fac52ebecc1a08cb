from lexlip.bench.tables.columns import DOCUMENTS, MODEL, PHOTOS, RERANKER, K
from tests.bench.tables.some_table import ALONE, PAIRS, RERANKED, cells, some_table


def test_labels_come_first_and_what_no_row_has_is_left_out() -> None:
    table = some_table(columns=(PHOTOS,))
    assert cells(table, [ALONE, PAIRS]) == [
        ["model", "documents", "photos"],
        ["be", "dense", "30"],
        ["ce", "pairs", "30"],
    ]
    assert table.shown([ALONE, RERANKED]) == [MODEL, RERANKER, DOCUMENTS, K, PHOTOS]


def test_figures_of_the_paper_stand_beside_one_s_own() -> None:
    table = some_table(
        labels=(MODEL,),
        figures={("be", "dense"): {"qps": 19.7, "recall": None}},
        figure_headings={"qps": "paper QPS", "recall": "paper R@1"},
    )
    assert cells(table, [ALONE, PAIRS]) == [
        ["model", "paper QPS", "paper R@1"],
        ["be", "19.7", "–"],
        ["ce", "–", "–"],
    ]
