from pathlib import Path

from PIL import Image

from tools.studies.pictures_with_text import main


def test_pictures_are_the_same_each_time(tmp_path: Path) -> None:
    for name in ("one", "two"):
        main(tmp_path / name, 4)
    table = (tmp_path / "one" / "words.tsv").read_text()
    assert table == (tmp_path / "two" / "words.tsv").read_text()
    rows = [line.split("\t") for line in table.splitlines()]
    assert [row[1] for row in rows] == ["printed", "photographed"] * 2
    assert all(row[3].split() for row in rows)
    for name, *_ in rows:
        with Image.open(tmp_path / "one" / name) as one, Image.open(tmp_path / "two" / name) as two:
            assert one.tobytes() == two.tobytes()
            assert max(one.size) == 1600 or name.startswith("photographed")
