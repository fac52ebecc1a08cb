from lexlip.bench.tables.settings import TableSettings, topk_name


def test_names_of_what_is_kept() -> None:
    assert [topk_name(kept) for kept in (None, 32)] == ["all", "top-32"]


def test_progress_is_shown_if_it_is_wanted() -> None:
    for wanted in (False, True):
        with TableSettings(progress=wanted).bar("photos", 3, "photo") as bar:
            assert (bar.disable, bar.total) == (not wanted, 3)
