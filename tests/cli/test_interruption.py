"""What is left when `lexlip index` is ended while it encodes."""

import json
import re
import signal
from pathlib import Path

import pytest

from tests.cli.conftest import Run, as_json
from tests.cli.interrupted import encoding
from tests.conftest import write_photos


def names(folder: str | Path) -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())


def test_an_update_that_is_interrupted_changes_nothing(
    lexlip: Run, tmp_path: Path, model_folder: Path
) -> None:
    write_photos(tmp_path / "photos", 3)
    lexlip("index", "photos", "--model", model_folder)
    write_photos(tmp_path / "photos", 70)
    (tmp_path / "photos" / "0.jpg").unlink()
    before = Path(".lexlip/index.json").read_bytes()

    for end in (signal.SIGINT, signal.SIGKILL):
        with encoding(tmp_path, "index", "photos", "--update") as process:
            code, stdout, stderr = process.end(end)
        assert stdout == ""
        if end == signal.SIGINT:
            assert code == 130
            assert stderr == "Error: interrupted: nothing was changed; run the same command again to go on\n"
        assert Path(".lexlip/index.json").read_bytes() == before
        hits = as_json(lexlip, "search", "a dog on the beach")["hits"]
        assert {hit["id"] for hit in hits} <= {"0.jpg", "1.jpg", "2.jpg"}

    done = lexlip("index", "photos", "--update", "--workers", "0").stdout
    assert done.startswith("67 added, 2 changed, 1 deleted, 0 unchanged, 8 encoded before, ")
    assert names(".lexlip") == ["data-1", "index.json", "writer.lock"]


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_the_old_index_answers_and_the_next_run_completes(
    lexlip: Run, tmp_path: Path, model_folder: Path, end: signal.Signals
) -> None:
    write_photos(tmp_path / "photos", 3)
    lexlip("index", "photos", "--model", model_folder)
    before = Path(".lexlip/index.json").read_bytes()
    write_photos(tmp_path / "photos", 70)  # so many that some are read ahead

    with encoding(tmp_path, "index", "photos", "--model", model_folder, "--anew") as process:
        assert (tmp_path / ".lexlip" / "data-2").is_dir()
        code, stdout, stderr = process.end(end)
    assert stdout == ""
    if end == signal.SIGINT:
        assert code == 130
        assert stderr == ("Error: interrupted: nothing was changed; run the same command again to go on\n")
        assert names(".lexlip") == ["data-1", "index.json", "unfinished", "writer.lock"]
    else:
        assert code == -signal.SIGKILL

    assert Path(".lexlip/index.json").read_bytes() == before
    assert len(as_json(lexlip, "search", "a dog on the beach")["hits"]) <= 3
    done = lexlip("index", "photos", "--workers", "0", "--anew").stdout
    assert re.match(r"70 photos, \d+ postings(, 8 encoded before)?, ", done)
    assert "encoded before" in done or end == signal.SIGKILL  # which loses the last two seconds
    folder = json.loads(Path(".lexlip/index.json").read_text())["directory"]
    assert names(".lexlip") == [folder, "index.json", "writer.lock"]
    assert len(as_json(lexlip, "search", "a dog on the beach")["hits"]) == 10


def test_a_first_index_goes_on(lexlip: Run, tmp_path: Path, model_folder: Path) -> None:
    write_photos(tmp_path / "photos", 40)
    with encoding(tmp_path, "index", "photos", "--model", model_folder) as process:
        code, _, stderr = process.end(signal.SIGINT)
    assert code == 130
    assert stderr == "Error: interrupted: nothing was changed; run the same command again to go on\n"
    assert {".lexlip", "photos"} <= {*names(tmp_path)}
    assert names(tmp_path / ".lexlip") == ["unfinished", "writer.lock"]
    assert "holds no index" in lexlip("search", "a dog", code=2).stderr
    done = lexlip("index", "photos", "--model", model_folder, "--workers", "0").stdout
    assert done.startswith("40 photos, ")
    assert "8 encoded before" in done
