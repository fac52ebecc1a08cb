import pytest

from lexlip.bench import endurance
from lexlip.bench.endurance import K, _are_best, measure_endurance


def test_what_counts_as_the_best() -> None:
    scores = {f"{number}.jpg": 1.0 - number // 2 / 100 for number in range(K + 11)}  # in pairs of equal ones
    best = sorted(scores.items(), key=lambda hit: -hit[1])[:K]
    assert _are_best(best, scores)
    assert _are_best([best[1], best[0], *best[2:]], scores)  # equal scores, the other way round
    assert not _are_best(best[:-1], scores)
    assert not _are_best([*best[1:], best[0]], scores)
    assert not _are_best([("other.jpg", best[0][1]), *best[1:]], scores)
    assert not _are_best([(best[0][0], 2.0), *best[1:]], scores)
    assert not _are_best([*best[:-1], (f"{K + 9}.jpg", scores[f"{K + 9}.jpg"])], scores)
    assert _are_best([], {})


@pytest.mark.slow
def test_a_server_endures(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short run: nothing is wrong, the server follows and stays as it is."""
    changes = {
        "PHOTOS": 80,
        "CHANGE": 5.0,
        "HOLDING": 20,
        "IDLE_SECONDS": 5.0,
        "CLOSED_SECONDS": 3.0,
        "OVERLOAD_SECONDS": 3.0,
    }
    for name, value in changes.items():
        monkeypatch.setattr(endurance, name, value)
    report = measure_endurance(0.5, 2)
    for phase in ("idle", "load", "overload"):
        assert report[phase]["wrong"] == []
        assert report[phase]["statuses"]["200"] > 0
    assert {"400", "404", "405", "415", "422"} <= report["load"]["statuses"].keys()
    for held in report["held"].values():
        assert held["opened"] >= 20
        assert held["refused"] == 0
    assert report["held"]["silent"]["closed"] > 0
    assert report["updates"] >= 1
    assert report["restart"]["documents"] == report["restart"]["expected"]
