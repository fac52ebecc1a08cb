import json
import os
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from anserini_bridge import ImpactSearcher, read_metadata, write_metadata
from anserini_bridge.flat import flat_file
from lexlip.cli import main
from lexlip.cli.demo import PHOTOS
from lexlip.data.files import read_location
from lexlip.models.model_folder import PACKAGED
from lexlip.queries.query_language import parse_query
from lexlip.queries.text_queries import TextQueries
from lexlip.retrieval.answer import Answer
from lexlip.retrieval.filters import Filters
from lexlip.search.photo_search import PhotoSearch
from lexlip.search.rerank import Reranker
from lexlip.sparse import SENTENCE_TOPK
from lexlip.sparse.quantize import quantize
from tests.cli.conftest import ALL, Run, as_json, error, printed_without, search
from tests.conftest import write_photos
from tests.reference.anserini import index_with_anserini


def test_json(indexed: Run, library: Path) -> None:
    answer = search(indexed, ALL)
    assert list(answer) == [
        *("query", "terms", "hits", "ms", "unknown", "without", "cursor", "cut", "suggestions"),
        *(
            "unread",
            "well",
            "negations",
            "meant",
            "foreign",
            "unmet",
            "language",
            "other_languages",
            "install",
            "shown_in",
            "translations",
            "above_well",
            "above",
            "below",
            "by_file_time",
        ),
    ]
    assert answer["query"] == ALL
    assert list(answer["terms"].values()) == sorted(answer["terms"].values(), reverse=True)
    assert [hit["rank"] for hit in answer["hits"]] == [1, 2, 3, 4, 5, 6]
    scores = [hit["score"] for hit in answer["hits"]]
    assert scores == sorted(scores, reverse=True)
    for hit in answer["hits"]:
        assert list(hit) == [
            *("rank", "id", "path", "score", "words", "probability", "width", "height", "taken"),
            *("duplicates", "version", "date", "dated", "latitude", "longitude", "key"),
        ]
        assert hit["path"] == str(library / hit["id"])
        assert Path(hit["path"]).is_file()
        assert sum(hit["words"].values()) == pytest.approx(hit["score"], abs=1e-9)
        assert list(hit["words"].values()) == sorted(hit["words"].values(), reverse=True)
        assert set(hit["words"]) <= set(answer["terms"])
    assert list(answer["ms"]) == ["encode", "search"]
    assert all(value > 0 for value in answer["ms"].values())


def text(k: int = 10, **how: Any) -> Callable[[PhotoSearch], Answer]:
    return lambda photos: photos.text(ALL, k, suggest=8, **how)


ANSWERS: dict[str, tuple[tuple[object, ...], dict[str, Any], Callable[[PhotoSearch], Answer]]] = {
    "a sentence": ((ALL,), {}, text()),
    "hits and words": ((ALL, "-k", 2, "--query-topk", 2), {"query_topk": 2}, text(2)),
    "more than there are": ((ALL, "-k", 10**9, "--query-topk", "all"), {"query_topk": None}, text(10**9)),
    "a weight per word": ((ALL, "--query-encoder", "words"), {"query_encoder": "words"}, text()),
    "a picture": (
        *(("--image", "photos/3.jpg", "--query-topk", 32), {"query_topk": 32}),
        lambda photos: photos.image("photos/3.jpg", suggest=8),
    ),
    "a photo": (("--similar", "3.jpg", "-k", 3), {}, lambda photos: photos.similar("3.jpg", 3, suggest=8)),
    "captions": ((ALL, "--caption", "dogs"), {}, text(filters=Filters(caption="dogs"))),
    "filters": (
        *((ALL, "--after", 2014, "--before", 2015, "--folder", "a", "--caption", "b"), {}),
        text(filters=Filters("2014", "2015", "a", "b")),
    ),
    "the lowest score": ((ALL, "--min-score", 0.2), {}, text(min_score=0.2)),
    "near": (
        (ALL, "--near", "48,11", "--within", "9km"),
        *({}, text(filters=Filters(near="48,11", within="9km"))),
    ),
    "by date": ((ALL, "--sort", "date"), {}, text(sort="date")),
    "groups": ((ALL, "--group"), {}, text(group=True)),
    "two indexes": ((ALL, "--also", "vectors"), {"also": "vectors"}, text()),
    "a weighted sum": (
        (ALL, "--also", "vectors", "--hybrid", "weighted", "--hybrid-weight", 0.3),
        {"also": "vectors", "hybrid": "weighted", "hybrid_weight": 0.3},
        text(),
    ),
    "reranked": ((ALL, "-k", 4, "--rerank", "ce"), {"rerank": ("ce",)}, text(4)),
    "reranked and summed": (
        (ALL, "--rerank", "ce", "--rerank-k", 2, "--rerank-fusion", "add", "--rerank-weight", 0.9),
        {"rerank": ("ce", 2, "add", 0.9)},
        text(),
    ),
}
"""What is typed, how the library opens the same, and what it is asked."""


@pytest.mark.parametrize("what", ANSWERS)
def test_answers_are_those_of_the_library(staged: Run, what: str) -> None:
    arguments, opened, ask = ANSWERS[what]
    if "rerank" in opened:
        opened = {"rerank": Reranker(*opened["rerank"])}
    with PhotoSearch(".lexlip", **opened) as photos:
        expected = json.loads(json.dumps(ask(photos).to_dict()))
    found = search(staged, *arguments)
    assert found.pop("ms").keys() == expected.pop("ms").keys()
    assert found == expected


def test_scores_by_the_paper_s_quantization(lexlip: Run, photos: Path, model_folder: Path) -> None:
    """They are those of brute force over the stored vectors."""
    lexlip("index", "photos", "--quantization", "paper")
    answer = search(lexlip, "a dog in the snow", "--content-only")
    ids = [f"{number}.jpg" for number in range(6)]
    with ImpactSearcher(".lexlip") as index:
        stored = index.vectors(ids)
    queries = TextQueries(model_folder)
    query = quantize(queries.encode_query(parse_query("a dog in the snow"), SENTENCE_TOPK), "paper")
    scores = (stored @ query.T.astype(np.int64)).toarray()[:, 0] / 1e4
    expected = {id: score for id, score in zip(ids, scores.tolist(), strict=True) if score}
    assert {hit["id"]: hit["score"] for hit in answer["hits"]} == pytest.approx(expected)
    words = queries.vocabulary.words
    weights = {words[c]: weight / 100 for c, weight in zip(query.indices, query.data, strict=True)}
    assert answer["terms"] == pytest.approx(weights)


@pytest.mark.parametrize("query_encoder", ["network", "words"])
def test_a_sentence_needs_nothing_heavy(
    indexed: Run, run_python: Callable[..., Any], model_folder: Path, query_encoder: str
) -> None:
    options = "--model", model_folder, "--query-encoder", query_encoder, "--json"
    heavy = "torch torchvision transformers timm faiss scipy jnius filelock numpy.ma subprocess zipfile"
    own = "lexlip.retrieval.albums lexlip.retrieval.circle lexlip.search.listing lexlip.search.photo_map"
    slow = "tarfile shutil tempfile secrets logging concurrent.futures gzip shlex"
    (answer,) = printed_without(run_python, f"{heavy} {slow} {own}", "search", "two dogs", *options)
    assert json.loads(answer)["hits"]


def test_a_search_looks_for_no_garbage(
    indexed: Run, run_python: Callable[..., Any], model_folder: Path
) -> None:
    """Neither while it loads and searches, nor when the process ends; what lives on does so again."""
    code = (
        "import atexit, gc, sys, lexlip.cli.search;"
        "atexit.register(lambda: print(gc.get_freeze_count() > 10_000));"
        "looks = lambda: sum(generation['collections'] for generation in gc.get_stats()); before = looks();"
        "lexlip.cli.main(sys.argv[1:], standalone_mode=False); print(looks() - before < 10, gc.isenabled())"
    )
    asked = "search", "two dogs", "--model", model_folder
    result = run_python("-c", code, *asked)
    assert (result.returncode, result.stdout.splitlines()[-2:]) == (0, ["True True", "True"])
    result = run_python("-c", f"import torch; {code}", *asked)  # whose extensions complain of what is left
    assert (result.stdout.splitlines()[-1], "leak" in result.stderr) == ("False", False)


def test_a_photo_that_the_index_does_not_hold(indexed: Run, library: Path) -> None:
    """A path is no id, unless it is that of a photo of the index."""
    says = error(indexed("search", "--similar", library / "nothing.jpg", code=2))
    assert says.startswith(
        f"the index .lexlip holds no photo with the id '{library}/nothing.jpg': give the id of"
    )


@pytest.mark.parametrize("query", ["the of and", "-dash", "a\nb\tc", "'\"<b>&", "dog " * 5000, "犬", "🐕"])
def test_odd_queries(indexed: Run, query: str) -> None:
    for encoder in ("network", "words"):
        result = indexed("search", "--json", "--query-encoder", encoder, "--", query)
        assert json.loads(result.stdout)["query"] == query


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nothing.jpg", "No such file or directory"),
        ("photos", "Is a directory"),
        ("empty.jpg", "empty file"),
        ("text.jpg", "not an image"),
        ("half.jpg", "truncated"),
    ],
)
def test_a_picture_that_cannot_be_read(indexed: Run, library: Path, name: str, says: str) -> None:
    Path("empty.jpg").touch()
    Path("text.jpg").write_text("text")
    whole = (library / "0.jpg").read_bytes()
    Path("half.jpg").write_bytes(whole[: len(whole) // 2])
    assert error(indexed("search", "--image", name, code=2)) == f"cannot read the picture {name}: {says}"


def test_no_index(lexlip: Run, tmp_path: Path) -> None:
    assert error(lexlip("search", "dog", code=2)).startswith("there is no index at .lexlip: make one")
    (tmp_path / "notes.txt").touch()
    says = error(lexlip("search", "dog", "--index", tmp_path, code=2))
    assert says.startswith(f"{tmp_path} holds no index: make one")
    says = error(lexlip("search", "dog", "--index", "notes.txt", code=2))
    assert says.startswith("notes.txt is a file, not an index")


def test_an_index_that_anserini_made(lexlip: Run, photos: Path, model_folder: Path) -> None:
    lexlip("index", "photos", "--model", model_folder)
    lexlip("export", "anserini", "--output", "out")
    of_anserini = "--index", index_with_anserini(Path("out/documents"), Path("anserini"))
    expected = search(lexlip, ALL, "--content-only")
    answer = search(lexlip, ALL, *of_anserini, "--model", model_folder)
    assert answer["terms"] == expected["terms"]
    shown = [[(hit["id"], hit["score"]) for hit in one["hits"]] for one in (answer, expected)]
    assert sorted(shown[0]) == sorted(shown[1])
    assert [hit["path"] for hit in answer["hits"]] == [id for id, _ in shown[0]]
    assert "query words: " in lexlip("search", ALL, *of_anserini, "--model", model_folder).output
    assert error(lexlip("search", ALL, *of_anserini, code=2)).endswith("name it with --model")
    says = error(lexlip("search", ALL, *of_anserini, "-f", "paths", code=2))
    assert says.startswith("--format needs what `lexlip index` keeps of photos, and anserini is Anserini's")
    says = error(lexlip("serve", *of_anserini, code=2))
    assert "only `lexlip search --model NAME` can ask it" in says


def forget_flat(index: Path) -> None:
    """Let an index have no copy that is searched without Java, as those of older versions have none."""
    metadata = read_metadata(index)
    files = {name: sum for name, sum in metadata.files.items() if name != flat_file(metadata)}
    write_metadata(index, replace(metadata, files=files))


def test_damaged_index_files(lexlip: Run, photos: Path) -> None:
    lexlip("index", "photos")
    lucene = Path(".lexlip") / read_metadata(".lexlip").directory / "lucene"
    whole = Path(".lexlip/index.json").read_bytes()
    for read in (lucene.parent.glob("flat-*"), [*lucene.glob("*.doc"), *lucene.glob("segments_*")]):
        for path in read:
            content = path.read_bytes()
            path.write_bytes(content[:10])
            assert "is damaged" in error(lexlip("search", "dog", code=2))
            path.write_bytes(content)
        forget_flat(Path(".lexlip"))
    Path(".lexlip/index.json").write_bytes(whole[:50])
    assert "index.json is not JSON" in error(lexlip("search", "dog", code=2))
    Path(".lexlip/index.json").write_bytes(whole)
    (lucene.parent / "vocabulary.txt").write_text("other\n")
    assert "was changed after the index was built" in error(lexlip("search", "dog", code=2))


def test_an_index_of_another_vocabulary(lexlip: Run, photos: Path, model_folder: Path) -> None:
    """The same model by its name, and other words by number."""
    shutil.copytree(model_folder, "copy")
    lexlip("index", "photos", "--model", "copy")
    words = (Path("copy") / "vocabulary.txt").read_text().splitlines()
    (Path("copy") / "vocabulary.txt").write_text("\n".join(reversed(words)) + "\n")
    (Path("copy") / "checksums.txt").unlink()
    says = error(lexlip("search", "dog", code=2))
    assert f"was made with a vocabulary of {len(words)} words" in says


def test_an_index_with_its_model_answers_from_any_folder(
    lexlip: Run, photos: Path, tmp_path: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(model_folder, "model")
    lexlip("index", "photos", "--model", "model")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    hits = search(lexlip, ALL, "--index", "../.lexlip/")["hits"]
    assert all(Path(hit["path"]).is_file() for hit in hits)


def test_photos_of_one_name_in_two_folders(lexlip: Run, tmp_path: Path) -> None:
    write_photos(tmp_path / "photos" / "a", 2)
    write_photos(tmp_path / "photos" / "b", 4)
    lexlip("index", "photos")
    hits = search(lexlip, ALL)["hits"]
    names = ["a/0.jpg", "a/1.jpg", "b/0.jpg", "b/1.jpg", "b/2.jpg", "b/3.jpg"]
    assert sorted(hit["id"] for hit in hits) == names
    assert sorted(hit["path"] for hit in hits) == [str(tmp_path / "photos" / name) for name in names]


def test_links_to_folders(lexlip: Run, photos: Path, tmp_path: Path) -> None:
    (tmp_path / "album").mkdir()
    (tmp_path / "album" / "linked").symlink_to(photos)
    (photos / "loop").symlink_to(tmp_path / "album")
    (tmp_path / "link").symlink_to(tmp_path / "album")
    lexlip("index", "link")
    hits = search(lexlip, ALL)["hits"]
    assert sorted(hit["id"] for hit in hits) == [f"linked/{number}.jpg" for number in range(6)]
    assert all(Path(hit["path"]).is_file() for hit in hits)


@pytest.mark.parametrize("through_a_link", [False, True])
def test_an_index_among_its_photos_moves_with_them(
    lexlip: Run, photos: Path, tmp_path: Path, through_a_link: bool
) -> None:
    (tmp_path / "link").symlink_to(photos)
    source = "link" if through_a_link else "photos"
    lexlip("index", source, "--index", f"{source}/.index")
    (tmp_path / "link").unlink()
    (tmp_path / "new").mkdir()
    photos.rename(tmp_path / "new" / "place")
    hits = search(lexlip, ALL, "--index", "new/place/.index")["hits"]
    assert {Path(hit["path"]) for hit in hits} == set((tmp_path / "new" / "place").glob("*.jpg"))


def test_tars(lexlip: Run, photos: Path, tmp_path: Path) -> None:
    (tmp_path / "tars" / "sub").mkdir(parents=True)
    for shard in ("one.tar", "sub/two.tar"):
        with tarfile.open(tmp_path / "tars" / shard, "w") as tar:
            for number in (0, 1):
                tar.add(photos / f"{number}.jpg", f"key {number}.jpg")
                tar.add(photos / f"{number}.txt", f"key {number}.txt")
    lexlip("index", "tars")
    hits = search(lexlip, ALL)["hits"]
    names = [f"{shard}/key {number}.jpg" for shard in ("one.tar", "sub/two.tar") for number in (0, 1)]
    assert sorted(hit["id"] for hit in hits) == names
    for hit in hits:
        assert hit["path"] == str(tmp_path / "tars" / hit["id"])
        assert read_location(hit["path"]) == (photos / f"{hit['path'][-5]}.jpg").read_bytes()
    lexlip("index", "tars/{one,sub/two}.tar")
    assert sorted(hit["id"] for hit in search(lexlip, ALL)["hits"]) == names


def test_karpathys_json_with_images_elsewhere(lexlip: Run, photos: Path, tmp_path: Path) -> None:
    (photos / "deep").mkdir()
    (photos / "1.jpg").rename(photos / "deep" / "1.jpg")
    (tmp_path / "lists").mkdir()
    images = [
        {"filename": "0.jpg", "filepath": "gone", "split": "val", "sentences": [{"raw": "two dogs"}]},
        {"filename": "1.jpg", "filepath": "deep", "split": "val", "sentences": [{"raw": "a dog"}]},
        {"filename": "2.jpg", "split": "test", "sentences": [{"raw": "a cat"}]},
    ]
    (tmp_path / "lists" / "dataset.json").write_text(json.dumps({"images": images}))
    lexlip("index", "lists/dataset.json", "--images", "photos", "--split", "val")
    hits = {hit["id"]: hit["path"] for hit in search(lexlip, ALL)["hits"]}
    assert hits == {"gone/0.jpg": str(photos / "0.jpg"), "deep/1.jpg": str(photos / "deep" / "1.jpg")}
    says = error(lexlip("index", "lists/dataset.json", "--images", "nowhere", code=2))
    assert "nowhere" in says
    says = error(lexlip("index", "lists/dataset.json", "--images", "photos", "--split", "dev", code=2))
    assert says == "lists/dataset.json has no split 'dev': it has test, val"


def test_one_photo(lexlip: Run, photos: Path) -> None:
    lexlip("index", "photos/2.jpg")
    (hit,) = search(lexlip, ALL)["hits"]
    assert (hit["id"], hit["path"]) == ("2.jpg", str(photos / "2.jpg"))


def test_the_contact_sheet(indexed: Run) -> None:
    result = indexed("search", ALL, "--html", "sheet.html")
    assert result.stdout.endswith("\ncontact sheet: sheet.html\n")
    assert Path("sheet.html").read_text().count("<figure>") == 6
    assert "hits" in as_json(indexed, "search", ALL, "--html", "sheet.html")


def test_a_contact_sheet_that_cannot_be_written(indexed: Run, library: Path) -> None:
    for place, why in (("none/sheet.html", "No such file or directory"), ("photos", "Is a directory")):
        before = sorted(Path().iterdir())
        says = error(indexed("search", ALL, "--html", place, code=2))
        assert says == f"cannot write the contact sheet {place}: {why}"
        assert sorted(Path().iterdir()) == before


def test_real_photos_with_the_packaged_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (PACKAGED / "mini" / "config.json").exists():
        pytest.skip("no model is packaged")
    (tmp_path / "photos").mkdir()
    for name in ("chelsea", "coffee", "rocket", "astronaut"):
        shutil.copy(PHOTOS / f"{name}.jpg", tmp_path / "photos")
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["index", "photos"])
    assert (result.exit_code, result.stderr) == (0, "")
    result = CliRunner().invoke(main, ["search", "a cat", "--json"])
    assert (result.exit_code, result.stderr) == (0, "")
    hits = json.loads(result.stdout)["hits"]
    assert hits[0]["id"] == "chelsea.jpg"


def test_names_that_could_steer_the_terminal(lexlip: Run, tmp_path: Path) -> None:
    write_photos(tmp_path / "odd", 2)
    (tmp_path / "odd" / "0.jpg").rename(tmp_path / "odd" / "\x1b[31mred\n.jpg")
    (tmp_path / "odd" / "bad\x1b.jpg").touch()
    result = lexlip("index", "odd")
    assert r"  bad\x1b.jpg: empty file" in result.stderr.splitlines()
    result = lexlip("search", ALL)
    assert r"/odd/\x1b[31mred\n.jpg" in result.stdout
    assert "\x1b" not in result.output + lexlip("words", "odd").output
    assert error(lexlip("index", "no\x1b]0;", code=2)) == r"no\x1b]0; does not exist"
    paths = lexlip("search", ALL, "-f", "paths", "-0").stdout  # for other commands
    assert f"{tmp_path}/odd/\x1b[31mred\n.jpg" in paths.split("\0")


@pytest.mark.parametrize("name", ["/dev/zero", "pipe.jpg", "~nosuchuser/x", "x" * 5000, "sparse.jpg"])
def test_a_picture_that_never_ends_is_refused_at_once(indexed: Run, name: str) -> None:
    os.mkfifo("pipe.jpg")
    with Path("sparse.jpg").open("wb") as file:
        file.truncate(20 << 30)
    assert error(indexed("search", "--image", name, code=2))
    assert error(indexed("explain", name if name == "pipe.jpg" else "sparse.jpg", code=2))


def test_hits_are_copied(indexed: Run, tmp_path: Path) -> None:
    answer = search(indexed, ALL, "-k", 2, "--copy-to", "out")
    assert answer["not_copied"] == []
    assert answer["copies"] == {hit["id"]: f"out/{Path(hit['path']).name}" for hit in answer["hits"]}
    for hit in answer["hits"]:
        assert Path(answer["copies"][hit["id"]]).read_bytes() == Path(hit["path"]).read_bytes()
    shown = indexed("search", ALL, "-k", 3, "--copy-to", "out", "-f", "paths")
    assert "3 photos in out (2 of them before)" in shown.stderr
    assert len(list((tmp_path / "out").iterdir())) == 3
    assert "copies" not in search(indexed, ALL)
    (tmp_path / "file").touch()
    assert error(indexed("search", ALL, "--copy-to", "file", code=2)).startswith(
        "cannot write copies into file"
    )
    refused = indexed("search", ALL, "--copy-to", "out", "--server", "opensearch+https://h/i", code=2)
    assert "--copy-to with --server needs the folder of the photos: give --photos FOLDER" in refused.stderr


def test_copies_of_photos_in_tars(lexlip: Run, photos: Path, tmp_path: Path) -> None:
    """Two have one name; a tar that is written anew holds other bytes where a photo was."""
    (tmp_path / "tars").mkdir()

    def pack(tar: str, *numbers: int) -> None:
        with tarfile.open(tmp_path / "tars" / tar, "w") as packed:
            for number in numbers:
                packed.add(photos / f"{number}.jpg", "deep/dog.jpg" if number < 2 else f"{number}.jpg")

    pack("one.tar", 0, 2)
    pack("two.tar", 1, 3)
    lexlip("index", "tars")
    pack("two.tar", 3, 1)
    answer = search(lexlip, ALL, "--copy-to", "out")
    assert sorted(answer["copies"]) == ["one.tar/2.jpg", "one.tar/deep/dog.jpg"]
    assert sorted(one["id"] for one in answer["not_copied"]) == ["two.tar/3.jpg", "two.tar/deep/dog.jpg"]
    assert {one["reason"] for one in answer["not_copied"]} == {"not what was indexed: update the index"}
    lexlip("index", "tars")
    assert search(lexlip, ALL, "--copy-to", "out")["not_copied"] == []
    dogs = {(tmp_path / "out" / name).read_bytes() for name in ("dog.jpg", "dog (2).jpg")}
    assert dogs == {(photos / f"{number}.jpg").read_bytes() for number in (0, 1)}
    assert len(list((tmp_path / "out").iterdir())) == 4


def test_hits_go_into_an_album_and_are_searched_there(lexlip: Run, photos: Path, tmp_path: Path) -> None:
    """What updates, repairs or makes the index anew leaves albums alone."""
    lexlip("index", photos)
    assert error(lexlip("search", ALL, "--album", "none", code=2)) == (
        "there is no album 'none'; there is none yet"
    )
    answer = search(lexlip, ALL, "-k", 2, "--add-to", "best ones")
    assert answer["added"] == 2
    said = lexlip("search", ALL, "-k", 3, "--add-to", "best ones", "-f", "paths").stderr
    assert "1 photo added to the album best ones" in said
    file = tmp_path / ".lexlip" / "albums" / "best ones.txt"
    assert file.read_text().splitlines()[:2] == [hit["id"] for hit in answer["hits"]]
    with file.open("a") as album:
        album.write("gone.jpg\n")
    content = file.read_text()
    for command in (["--update"], ["--update", "--repair"], [photos, "--anew"]):
        lexlip("index", *command)
        found = search(lexlip, ALL, "--album", "best ones")["hits"]
        assert {hit["id"] for hit in found} == set(content.splitlines()) - {"gone.jpg"}
        assert file.read_text() == content
    checks = json.loads(lexlip("doctor", "--verify", "--json").stdout)["checks"]
    assert {check["name"]: check["ok"] for check in checks}["files"]
    for option in ("--album", "--add-to"):
        assert "is no name for an album" in error(lexlip("search", ALL, option, "a/b", code=2))
    file.write_text("gone.jpg\n")
    unmet = search(lexlip, ALL, "--album", "best ones")["unmet"]
    assert unmet == "no photo of the album best ones is in this index"


def test_a_photo_that_no_album_can_hold_is_left_out_and_named(lexlip: Run, photos: Path) -> None:
    (photos / "0.jpg").rename(photos / "two\nlines.jpg")
    lexlip("index", photos)
    answer = search(lexlip, ALL, "--add-to", "all")
    assert (answer["added"], answer["not_added"]) == (5, ["two\nlines.jpg"])
    said = lexlip("search", ALL, "--add-to", "all").stderr
    assert "not added: two\\nlines.jpg has an end of line in its name: no album can hold it" in said
    assert len(search(lexlip, ALL, "--album", "all")["hits"]) == 5
    alone = error(lexlip("search", "name:two", "--add-to", "all", code=2))
    assert alone == "'two\\nlines.jpg' has an end of line in its name: no album can hold it"


def test_a_name_with_an_emoji(lexlip: Run, photos: Path) -> None:
    (photos / "0.jpg").rename(photos / "🎉🎈.jpg")
    (photos / "1.jpg").rename(photos / "popper.jpg")
    lexlip("index", photos)
    for query in ("name:🎉", "name:🎉🎈", "name:🎉 dog", 'name:"🎉🎈.jpg"', "name:🎈"):
        assert [hit["id"] for hit in search(lexlip, query)["hits"]] == ["🎉🎈.jpg"]
    assert search(lexlip, "🎉")["hits"][0]["id"] == "🎉🎈.jpg"


def test_a_path_with_folders_above_those_of_the_index(lexlip: Run, photos: Path) -> None:
    for number in range(6):
        (photos / "2019").mkdir(exist_ok=True)
        (photos / f"{number}.jpg").rename(photos / "2019" / f"IMG_{number}.jpg")
    lexlip("index", photos)
    for query in (photos / "2019/IMG_4.jpg", "me/photos/2019/IMG_4.jpg", f"name:{photos}/2019/IMG_4.jpg"):
        hit = search(lexlip, query)["hits"][0]
        assert hit["id"] == "2019/IMG_4.jpg"
        assert 'name:"img 4 jpg"' in hit["words"]


def test_a_picture_that_is_typed_as_a_sentence(indexed: Run, library: Path, tmp_path: Path) -> None:
    picture = next(library.glob("*.jpg"))
    shutil.copy(picture, tmp_path / "My dog.JPG")
    said = indexed("search", "My dog.JPG").stderr
    assert "note: to search with the picture My dog.JPG, give it to --image" in said
    for sentence in ("My dog.jpg", "a dog.", "dog", "x" * 5000 + ".jpg"):
        assert "--image" not in indexed("search", sentence).stderr
