import gzip
import json
from pathlib import Path

import pytest

from lexlip.models import image_graph
from lexlip.models.lexlip import LexLIP
from tests.cli.conftest import Run, as_json, error
from tests.cli.test_main import RunPython
from tests.tiny import tiny_dense
from tests.tiny_clip import write_clip, write_open_clip, write_siglip
from tests.training.test_lexicon_fit import MANY


@pytest.fixture
def captions(tmp_path: Path, photos: Path) -> Path:
    write_clip(tmp_path / "clip")
    file = tmp_path / "captions.txt"
    file.write_text("\n".join([*MANY, "", " "]), encoding="utf-8")
    return file


def test_a_clip_gets_words_that_are_indexed_and_searched(lexlip: Run, captions: Path) -> None:
    result = lexlip("lexicon", "clip", "--captions", captions, "--output", "words", "--json")
    answer = json.loads(result.stdout)
    model = LexLIP.from_pretrained("words")
    assert answer == {
        "model": "words",
        "identity": model.identity,
        "words": len(model.vocabulary),
        "captions": len(MANY),
        "captions_of": str(captions),
        "photos": 0,
    }
    assert model.name == "words"
    lexlip("index", "photos", "--model", "words", "--index", "found")
    for encoder in ("network", "words"):
        hits = as_json(
            lexlip,
            "search",
            "two dogs in the snow",
            "--content-only",
            "--index",
            "found",
            "--query-encoder",
            encoder,
        )["hits"]
        assert hits
        assert set(hits[0]["words"]) <= set(model.vocabulary.words)
    assert "R@1" in lexlip("evaluate", "photos", "--model", "words", "--engine", "exact").stdout


def test_photos_balance_it(lexlip: Run, captions: Path, tmp_path: Path) -> None:
    tiny_dense().save(tmp_path / "dense")
    with gzip.open("captions.txt.gz", "wt", encoding="utf-8") as file:
        file.write(captions.read_text(encoding="utf-8"))
    command = ["lexicon", "dense", "--captions", "captions.txt.gz", "--output", "words"]
    result = lexlip(*command, "--photos", "scenes:20:0")
    assert result.stdout.endswith("captions (captions.txt.gz): lexlip index --model words\n")
    assert LexLIP.from_pretrained("words").balance is not None
    assert "exists already" in error(lexlip(*command, code=2))


def test_captions_of_coco_come_along(lexlip: Run, captions: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = lexlip("lexicon", "clip", "--output", "words")
    assert "words from 10,000 captions (of COCO, which come along): lexlip index" in result.stdout
    made = LexLIP.from_pretrained("words")
    assert {"dogs", "snow", "boat"} <= set(made.vocabulary.words)
    # it would be the same once more
    monkeypatch.setattr("lexlip.training.lexicon_fit.make_lexicon", lambda *given, **options: made)
    answer = as_json(lexlip, "lexicon", "clip", "--output", "again")
    assert (answer["captions"], answer["captions_of"]) == (10_000, "COCO")
    assert "cannot be read" in error(lexlip("lexicon", "clip", "--captions", "", "--output", "no", code=2))


KINDS = ("clip", "siglip", "siglip2", "dense", "open")


def test_photos_and_queries_need_no_torch(lexlip: Run, captions: Path, run_python: RunPython) -> None:
    """All kinds share a process without torch, as its start takes longer than what it does."""
    write_siglip(Path("siglip"), second=False)
    write_siglip(Path("siglip2"), second=True)
    tiny_dense().save("dense")
    write_open_clip(Path("open"))
    for kind in KINDS:
        lexlip("lexicon", kind, "--captions", captions, "--output", f"{kind}-words")
    code = """
import sys
from lexlip.cli import main
for kind in sys.argv[1:]:
    index = ["--index", f"{kind}-found"]
    for command in (
        ["index", "photos", "--model", f"{kind}-words", *index],
        ["search", "two dogs in the snow", *index, "--query-encoder", "network"],
    ):
        main(command, standalone_mode=False)
        loaded = [name for name in ("torch", "torchvision", "transformers", "timm") if name in sys.modules]
        print(f"{kind} {command[0]}: {loaded}")
"""
    result = run_python("-c", code, *KINDS)
    ends = [line for line in result.stdout.splitlines() if line.partition(" ")[0] in KINDS]
    wanted = [f"{kind} {command}: []" for kind in KINDS for command in ("index", "search")]
    assert ends == wanted, result.stderr


def test_it_says_if_photos_need_torch(lexlip: Run, captions: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(image_graph.OPERATORS, "conv2d")
    result = lexlip("lexicon", "clip", "--captions", captions, "--output", "words")
    assert "note: photos need torch" in result.stderr


def test_without_photos_it_says_what_that_means(lexlip: Run, captions: Path) -> None:
    result = lexlip("lexicon", "clip", "--captions", captions, "--output", "words")
    assert "without --photos, photos are taken to lie where captions do" in result.stderr


def test_a_picture_is_explained_without_places(lexlip: Run, captions: Path) -> None:
    lexlip("lexicon", "clip", "--captions", captions, "--output", "words", "--json")
    picture = ["explain", "photos/0.jpg", "--model", "words"]
    answer = as_json(lexlip, *picture, "--topk", 5)
    assert answer["places"] is None
    assert len(answer["words"]) == 5
    lines = lexlip(*picture, "--topk", 5).stdout.splitlines()
    assert lines[0].split() == ["word", "weight"]
    assert [line.split()[0] for line in lines[1:]] == list(answer["words"])
    message = error(lexlip(*picture, "--heat", "heat", code=2))
    assert message == "'words' sees words in a picture as a whole: it cannot be said where they are"


def test_bad_input(lexlip: Run, captions: Path, model_folder: Path, tmp_path: Path) -> None:
    def refused(model: object, file: object, output: str = "words", *more: str) -> str:
        message = error(lexlip("lexicon", model, "--captions", file, "--output", output, *more, code=2))
        assert not Path("words").exists()
        return message

    assert "is of kind lexlip, which has words already" in refused(model_folder, captions)
    assert refused("bm25", captions) == (
        "'bm25' is of kind bm25: give a CLIP, a SigLIP or a model of kind dense"
    )
    assert "no model 'nothing'" in refused("nothing", captions)
    assert "nothing.txt cannot be read: No such file" in refused("clip", "nothing.txt")
    (tmp_path / "few.txt").write_text("two dogs\n", encoding="utf-8")
    assert refused("clip", "few.txt").startswith("1 captions are too few to fit words to")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    assert refused("clip", "latin.txt") == "latin.txt is not UTF-8 at byte 3"
    (tmp_path / "bad.gz").write_text("two dogs\n", encoding="utf-8")
    assert refused("clip", "bad.gz").startswith("bad.gz cannot be unpacked")
    assert refused("clip", captions, "none/words").startswith("cannot write the model none/words")
    assert "does not exist" in refused("clip", captions, "words", "--photos", "nowhere")
