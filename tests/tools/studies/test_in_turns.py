from pathlib import Path

import pytest

from tests.conftest import write_photos
from tools.studies.in_turns import HERE, Cost, main, table


def test_every_program_runs_with_each_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([str(write_photos(tmp_path / "photos")), str(HERE), "--rounds", "1"])
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    assert [row[0] for row in rows] == [
        f"| {name}" for name in ("import", "index", "update", "search", "serve")
    ]
    assert all(float(row[2].split()[0]) > 0 for row in rows)


def test_ratios_are_to_the_last_tree() -> None:
    old, new = Path("/old"), Path("/new")
    costs = {
        ("search", old): [Cost(2, 1, 100), Cost(4, 2, 300), Cost(3, 3, 200)],
        ("search", new): [Cost(1, 1, 50), Cost(1.5, 1, 60), Cost(9, 1, 55)],
    }
    assert table(costs).splitlines()[2:] == [
        "| search | old | 3.00 (2.00-4.00) | 2.00 | 2.00 | 300 |",
        "| search | new | 1.50 (1.00-9.00) | 1.00 | 1.00 | 60 |",
    ]


def test_what_fails_ends_it(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="is no checkout of LexLIP"):
        main([str(tmp_path), str(tmp_path)])
    with pytest.raises(SystemExit, match=r"lexlip index .*no photos"):
        main([str(tmp_path), "--rounds", "1"])


def test_a_tree_s_own_lexlip_runs(tmp_path: Path) -> None:
    other = tmp_path / "tree" / "lexlip" / "__main__.py"
    other.parent.mkdir(parents=True)
    (other.parent / "__init__.py").touch()
    other.write_text('raise SystemExit("the other one")')
    with pytest.raises(SystemExit, match="the other one"):
        main([str(tmp_path), str(tmp_path / "tree"), "--rounds", "1"])
