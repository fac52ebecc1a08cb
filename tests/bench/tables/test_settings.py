from lexlip.bench.tables.settings import TableSettings, topk_name


def test_names_of_what_is_kept() -> None:
    assert [topk_name(kept) for kept in (None, 32)] == ["all", "top-32"]


def test_a_progress_bar_is_for_terminals() -> None:
    for wanted in (False, True):  # the tests have none
        with TableSettings(progress=wanted).bar("photos", 3, "photo") as bar:
            assert (bar.disable, bar.total) == (True, 3)
