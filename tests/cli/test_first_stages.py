"""lexlip index, search and evaluate with dense models, and with captions alone."""

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from anserini_bridge import read_header, read_metadata_as, replace_index
from lexlip.data import decode, open_source
from lexlip.data.source import no_captions
from lexlip.measure.evaluate import evaluate
from lexlip.models.clip import Clip
from lexlip.models.dense import Dense
from lexlip.models.load import load_model
from lexlip.retrieval.first_stage import EngineName
from lexlip.search.engines.exact import engine_for
from lexlip.search.stages.dense import DenseMetadata
from tests.cli.conftest import ALL, ELSEWHERE, Run, as_json, error, search
from tests.cli.interrupted import encoding
from tests.cli.test_evaluate import write_karpathy
from tests.conftest import write_photos
from tests.search.indexes import change_header, open_vectors
from tests.tiny import tiny_dense
from tests.tiny_clip import DIMENSIONS, write_clip


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dense model, another one, and a CLIP, in folders of these names; not to be changed."""
    folder = tmp_path_factory.mktemp("models")
    tiny_dense().save(folder / "dense")
    tiny_dense(seed=1).save(folder / "other")
    write_clip(folder / "clip")
    return folder


@pytest.fixture
def here(lexlip: Run, photos: Path, models: Path) -> Run:
    """The command line where these models, and the six photos, lie."""
    for folder in models.iterdir():
        Path(folder.name).symlink_to(folder)
    return lexlip


@pytest.fixture
def dot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dense models compare by dot products, as ALBEF's kind may."""
    monkeypatch.setattr(Dense, "metric", "dot")


def read(path: Path, model: Any) -> Image.Image:
    return decode(path.read_bytes(), model.config.image.size)


def cosines(model: Any, query: str, photos: Path) -> dict[str, float]:
    """By id, computed photo by photo."""
    text = model.encode_text([query]).toarray()[0]
    found = {}
    for path in sorted(photos.glob("*.jpg")):
        image = model.encode_image([read(path, model)]).toarray()[0]
        found[path.name] = image @ text
        if model.metric == "cosine":
            found[path.name] /= np.linalg.norm(image) * np.linalg.norm(text)
    return found


# ---- lexlip index ----


def test_a_dense_index_says_what_it_is(here: Run, photos: Path) -> None:
    (photos / "bad.jpg").touch()
    result = here("index", "photos", "--model", "dense")
    assert result.stdout.startswith("6 photos, ")
    assert " kB in .lexlip, " in result.stdout
    assert result.stderr.splitlines() == ["1 skipped:", "  bad.jpg: empty file"]
    found, vectors = open_vectors(Path(".lexlip"))
    model = Dense.from_pretrained("dense")
    assert (found.encoder, found.model_kind, found.metric) == (model.identity, "dense", "cosine")
    assert (found.ann, found.dimensions, found.documents) == ("flat", 16, 6)
    assert found.extra["model"] == str(Path("dense").resolve())
    assert found.extra["root"] == str(photos) + "/"
    assert vectors.ids == [f"{number}.jpg" for number in range(6)]


def test_json(here: Run) -> None:
    done = as_json(here, "index", "photos", "--model", "clip", "--ann", "hnsw")
    names = ["index", "photos", "postings", "megabytes", "seconds", "skipped"]
    more = (
        "resumed unlisted captions_left_out files unsealed text_read with_text text_unread text_failed"
        " misplaced missed"
    )
    assert list(done) == [*names, *more.split()]
    assert (done["photos"], done["postings"], done["skipped"]) == (6, None, [])
    size = sum(file.stat().st_size for file in Path(".lexlip").rglob("*") if file.is_file()) / 1e6
    assert done["megabytes"] == pytest.approx(size)
    found = read_metadata_as(DenseMetadata, ".lexlip")
    assert (found.model_kind, found.ann, found.dimensions) == ("clip", "hnsw", DIMENSIONS)
    assert found.encoder == Clip.from_pretrained("clip").identity


def test_captions_are_indexed_without_opening_a_photo(here: Run, photos: Path) -> None:
    (photos / "0.txt").unlink()
    (photos / "1.jpg").write_text("no photo")
    result = here("index", "photos", "--model", "bm25")
    assert result.stdout.startswith("5 photos, 2")  # some twenty words
    assert result.stderr.splitlines() == ["1 skipped:", "  0.jpg: no caption"]
    header = read_header(".lexlip")
    assert (header.kind, header.encoder, header.documents) == ("bm25", "bm25", 5)
    for text in photos.glob("*.txt"):
        text.unlink()
    says = error(here("index", "photos", "--model", "bm25", code=2))
    assert says == str(no_captions("photos"))
    assert search(here, "a cat")["hits"]  # in the old index


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            ["--model", "dense", "--topk", "32"],
            "--topk is for models of words, and 'dense' is a dense one: leave it out",
        ),
        (
            ["--model", "clip", "--quantization", "unit"],
            "--quantization is for models of words, and 'clip' is a dense one: leave it out",
        ),
        (
            ["--model", "dense", "--pseudo-documents", "x.jsonl"],
            "--pseudo-documents is for models of words, and 'dense' is a dense one: leave it out",
        ),
        (["--ann", "flat"], "--ann is for dense models, and 'mini' is one of words: leave it out"),
        (
            ["--model", "bm25", "--topk", "8"],
            "--topk is for models, and bm25 takes captions as they are: leave it out",
        ),
        (
            ["--model", "bm25", "--ann", "hnsw"],
            "--ann is for models, and bm25 takes captions as they are: leave it out",
        ),
        (["--update", "--ann", "hnsw"], "--ann is for a new index, not for --update: leave it out"),
        (["--model", "no/where/at/all"], "no model 'no/where/at/all': "),
        (["--model", "photos/model"], "no model 'photos/model': "),  # there are photos, so it is no hub's
        (["--model", "nobody/clip"], "no model 'nobody/clip': no folder has that name, and the model hub "),
        (["--model", "bert"], "'bert' holds a model of type 'bert', not a CLIP or SigLIP model"),
    ],
)
def test_what_cannot_be_indexed(here: Run, options: list[str], says: str) -> None:
    Path("bert").mkdir()
    Path("bert/config.json").write_text('{"model_type": "bert"}')
    assert error(here("index", "photos", *options, code=2)).startswith(says)
    assert not Path(".lexlip").exists()


@pytest.mark.parametrize("model", ["dense", "bm25"])
def test_only_an_index_of_words_is_updated(here: Run, model: str) -> None:
    here("index", "photos", "--model", model)
    before = Path(".lexlip/index.json").read_bytes()
    made_with = read_header(".lexlip").encoder
    assert error(here("index", "photos", "--update", code=2)) == (
        f"the index .lexlip was made with {made_with}, and only an index of words can be updated:"
        " index without --update"
    )
    assert "an index of kind" in error(here("optimize", code=2))
    assert "an index of kind" in error(here("bench", "latency", "photos", code=2))
    assert Path(".lexlip/index.json").read_bytes() == before


def test_an_index_is_replaced_by_one_of_any_kind(here: Run, other_model: Path) -> None:
    encoders = set()
    for model, kind in (
        *(("dense", "dense"), ("mini", "impact"), (other_model, "impact"), ("bm25", "bm25")),
        ("clip", "dense"),
    ):
        here("index", "photos", "--model", model)
        encoders.add(read_header(".lexlip").encoder)
        assert read_header(".lexlip").kind == kind
        assert len(list(Path(".lexlip").iterdir())) == 3  # the data, index.json and the lock
        assert search(here, "a cat on the boat")["hits"]
    assert len(encoders) == 5


@pytest.mark.parametrize("model", ["mini", "dense", "bm25"])
def test_folders_that_are_no_index_are_left_alone(here: Run, model: str) -> None:
    Path("mine").mkdir()
    Path("mine/notes.txt").write_text("mine")
    says = error(here("index", "photos", "--model", model, "--index", "mine", code=2))
    assert says.endswith(
        "mine holds other files, such as notes.txt, and no index: give a new or an empty folder"
    )
    assert [path.name for path in Path("mine").iterdir()] == ["notes.txt"]
    assert "is a file" in error(
        here("index", "photos", "--model", model, "--index", "mine/notes.txt", code=2)
    )
    says = error(here("index", "photos", "--model", model, "--index", "mine/notes.txt/index", code=2))
    assert says == "cannot write the index mine/notes.txt/index: Not a directory" + ELSEWHERE
    with replace_index(Path(".lexlip")) as folder:
        says = error(here("index", "photos", "--model", model, code=2))
        shutil.rmtree(folder)
    assert "another process is writing to the index" in says


def test_photos_that_cannot_be_read_leave_the_old_index(here: Run, photos: Path) -> None:
    here("index", "photos", "--model", "dense")
    Path("bad").mkdir()
    (Path("bad") / "1.jpg").touch()
    says = error(here("index", "bad", "--model", "dense", code=2))
    assert says == "no photo in bad can be read (1 tried; 1.jpg: empty file)"
    assert error(here("index", "bad", "--model", "dense", "--index", "new", code=2)) == says
    assert not Path("new").exists()
    assert len(search(here, "a dog")["hits"]) == 6


@pytest.mark.parametrize("end", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.slow)])
def test_an_indexing_that_is_interrupted_leaves_the_old_index(
    here: Run, tmp_path: Path, end: signal.Signals
) -> None:
    here("index", "photos", "--model", "dense")
    write_photos(tmp_path / "more", 70)
    before = Path(".lexlip/index.json").read_bytes()
    with encoding(tmp_path, "index", "more", "--model", "other") as process:
        code, _, stderr = process.end(end)
    if end == signal.SIGINT:
        assert code == 130
        assert stderr == "Error: interrupted: nothing was changed; run the same command again to go on\n"
    assert Path(".lexlip/index.json").read_bytes() == before
    assert len(search(here, "a dog")["hits"]) == 6
    here("index", "photos", "--model", "dense")  # clears up
    assert len(list(Path(".lexlip").iterdir())) == 3


# ---- lexlip search ----


@pytest.mark.parametrize(("name", "ann"), [("dense", "hnsw"), ("clip", "flat")])
def test_scores_are_cosines(here: Run, photos: Path, name: str, ann: str) -> None:
    here("index", "photos", "--model", name, "--ann", ann)
    answer = search(here, "a dog in the snow")
    assert (answer["query"], answer["terms"], answer["unknown"]) == ("a dog in the snow", {}, [])
    expected = cosines({"dense": Dense, "clip": Clip}[name].from_pretrained(name), answer["query"], photos)
    scores = {hit["id"]: hit["score"] for hit in answer["hits"]}
    assert scores == pytest.approx(expected, abs=1e-4)
    assert list(scores.values()) == sorted(scores.values(), reverse=True)
    assert {hit["path"] for hit in answer["hits"]} == {str(photos / id) for id in expected}
    assert [(hit["rank"], hit["words"]) for hit in answer["hits"]] == [(rank, {}) for rank in range(1, 7)]
    of_picture = {hit["id"]: hit["score"] for hit in search(here, "--image", photos / "3.jpg")["hits"]}
    assert of_picture["3.jpg"] == pytest.approx(max(of_picture.values())) == pytest.approx(1, abs=1e-4)


@pytest.mark.usefixtures("dot")
def test_scores_are_dot_products_where_the_model_says_so(here: Run, photos: Path) -> None:
    here("index", "photos", "--model", "dense")
    assert read_metadata_as(DenseMetadata, ".lexlip").metric == "dot"
    expected = cosines(Dense.from_pretrained("dense"), "a dog in the snow", photos)
    found = {hit["id"]: hit["score"] for hit in search(here, "a dog in the snow")["hits"]}
    assert found == pytest.approx(expected, abs=1e-3)


def test_text(here: Run, photos: Path) -> None:
    here("index", "photos", "--model", "dense")
    hits = search(here, "a cat", "-k", 2)["hits"]
    result = here("search", "a cat", "-k", 2, "--html", "sheet.html")
    assert result.stdout.splitlines() == [
        *(f"{hit['rank']:3d}  {hit['score']:.3f}  {hit['path']}" for hit in hits),
        "",
        "contact sheet: sheet.html",
    ]
    assert Path("sheet.html").read_text().count("<figure>") == 2


def test_captions_answer(here: Run, photos: Path) -> None:
    here("index", "photos", "--model", "bm25")
    answer = search(here, "Dogs, jumping over a fence!")
    assert [hit["id"] for hit in answer["hits"]] == ["1.jpg", "0.jpg"]
    assert (answer["terms"], set(answer["hits"][0]["words"])) == ({}, {"Dogs", "jumping", "over", "fence"})
    shown = here("search", "Dogs, jumping over a fence!").stdout.splitlines()
    assert shown[1].split()[-1].startswith("Dogs:")  # below the hit, the least of four
    assert answer["hits"][0]["path"] == str(photos / "1.jpg")
    assert answer["hits"][0]["score"] > answer["hits"][1]["score"] > 0
    lines = here("search", "a quokka", "--html", "sheet.html").stdout.splitlines()
    assert lines[0] == "no photo shares a word with the query; try other words"
    assert "No photo shares a word" in Path("sheet.html").read_text()
    assert here("search", "the").stdout == "no photo shares a word with the query; try other words\n"
    for query in ("?!", "犬", "a\nb", "dog " * 5000):
        assert search(here, "--", query)["query"] == query
    says = error(here("search", "--image", photos / "0.jpg", code=2))
    assert says == (
        "the index .lexlip holds captions (BM25), which a picture cannot search: give a sentence, or index"
        " with a model"
    )


@pytest.mark.parametrize("model", ["dense", "clip"])
def test_a_sentence_that_is_too_long_for_a_dense_model(here: Run, model: str) -> None:
    here("index", "photos", "--model", model)
    long = "a dog " * 100 + "on the beach"
    unread = search(here, long)["unread"]
    assert long.endswith(unread)
    assert unread.endswith("a dog on the beach")
    assert here("search", long).stderr.startswith(
        "note: too long for the model, which did not read the end: "
    )
    assert search(here, "a dog")["unread"] == ""


def test_all_captions_of_a_photo_are_its_document(here: Run, photos: Path) -> None:
    (photos / "5.txt").write_text("a boat\nwaves and gulls\n")
    here("index", "photos", "--model", "bm25")
    for query in ("boats", "gull"):
        assert [hit["id"] for hit in search(here, query)["hits"]] == ["5.jpg"]


def identity(folder: str) -> str:
    return str(json.loads((Path(folder) / "config.json").read_text())["identity"])


def test_another_model_than_the_index_s(
    here: Run, other_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lexlip.models.model_folder.read_on_hub", lambda name, file: {"model_type": "clip"})
    write_clip(tmp_path / "clip2", seed=1)
    clip, clip2 = (Clip.from_pretrained(name).identity for name in ("clip", "clip2"))
    made = {"mini": identity("packaged/mini"), "dense": identity("dense"), "clip": clip, "bm25": "bm25"}
    for model, other, called in (
        ("dense", "other", identity("other")),
        ("dense", "mini", made["mini"]),
        ("dense", "clip", clip),
        ("dense", "bm25", "bm25"),
        ("clip", "clip2", clip2),
        ("clip", "dense", made["dense"]),
        ("mini", "dense", made["dense"]),
        ("mini", str(other_model), identity(str(other_model))),
        ("mini", "clip", "a model of another library"),
        ("mini", "bm25", "bm25"),
        ("bm25", "mini", made["mini"]),
        ("bm25", "openai/clip-vit-base-patch32", "a model of another library"),
    ):
        if not Path(model + ".ix").exists():
            here("index", "photos", "--model", model, "--index", f"{model}.ix")
        says = error(here("search", "dog", "--index", f"{model}.ix", "--model", other, code=2))
        differs = f"not with {other}" if called == other else f"and {other} is {called}"
        assert says == (
            f"the index {model}.ix was made with {made[model]}, {differs}:"
            " give the model that made it (--model), or index again"
        )
    assert search(here, "dog", "--index", "bm25.ix", "--model", "bm25")["hits"]


@pytest.mark.parametrize("name", ["packaged/mini", "dense", "clip"])
def test_a_model_that_was_moved(here: Run, name: str) -> None:
    shutil.copytree(Path(name).resolve(), "mine")
    here("index", "photos", "--model", "mine")
    made_with = read_header(".lexlip").encoder
    Path("mine").rename("moved")
    says = error(here("search", "dog", code=2))
    assert says.startswith(f"the index .lexlip was made with {made_with}, which cannot be loaded: no model ")
    assert says.endswith("say with --model where it is, or index again")
    assert len(search(here, ALL, "--model", "moved")["hits"]) == 6
    assert error(here("search", "dog", "--model", "gone", code=2)).startswith("no model 'gone': ")


def test_options_of_other_indexes(here: Run) -> None:
    of_models = "is for queries that a model encodes, and .lexlip was made with bm25: leave"
    for model, options, says in (
        ("dense", ("--query-topk", 8), "--query-topk is for an index of words, and .lexlip was made with "),
        ("dense", ("--query-encoder", "words"), "which has no words: use --query-encoder network"),
        ("bm25", ("--query-encoder", "network"), f"--query-encoder {of_models}"),
        ("bm25", ("--query-topk", 8), f"--query-topk {of_models}"),
    ):
        if not Path(".lexlip").exists() or model == "bm25":
            here("index", "photos", "--model", model)
        assert says in error(here("search", "dog", *options, code=2))


def test_damaged_indexes(here: Run) -> None:
    here("index", "photos", "--model", "dense")
    folder = Path(".lexlip") / read_header(".lexlip").directory
    (folder / "vectors.faiss").write_bytes(b"short")
    assert "is damaged (" in error(here("search", "dog", code=2))
    (folder / "ids.json").unlink()
    assert "is damaged (" in error(here("search", "dog", code=2))
    change_header(Path(".lexlip"), kind="later")
    says = error(here("search", "dog", code=2))
    assert says == ".lexlip holds an index of an unknown kind, 'later': build the index again"
    here("index", "photos", "--model", "bm25")
    shutil.rmtree(Path(".lexlip") / read_header(".lexlip").directory / "lucene")
    assert "there is no folder" in error(here("search", "dog", code=2))
    here("index", "photos", "--model", "dense")
    assert search(here, "dog")["hits"]


def test_doctor(here: Run) -> None:
    for model in ("dense", "bm25"):
        here("index", "photos", "--model", model)
        lines = here("doctor", "--model", "clip").stdout.splitlines()
        assert lines[-1].endswith(f".lexlip: 6 photos, made with {read_header('.lexlip').encoder}")
        assert f"{DIMENSIONS} dimensions, " in lines[-2]


# ---- lexlip evaluate ----


@pytest.mark.parametrize("metric", ["cosine", "dot"])
@pytest.mark.parametrize("engine", [None, "flat", "hnsw", "exact"])
def test_recalls_of_a_dense_model(
    here: Run, photos: Path, monkeypatch: pytest.MonkeyPatch, engine: EngineName | None, metric: str
) -> None:
    monkeypatch.setattr(Dense, "metric", metric)
    monkeypatch.setattr("lexlip.models.clip.Clip.metric", metric)
    options = [] if engine is None else ["--engine", engine]
    for name in ("dense", "clip"):
        report = as_json(here, "evaluate", "photos", "--model", name, *options)
        model: Any = load_model(name)
        expected = evaluate(model, open_source(photos), engine_for(model, engine)[1], workers=0)
        assert report == json.loads(json.dumps(expected.to_dict()))
        assert (report["words@10"], report["terms_image"]) == (None, None)
    first = here("evaluate", "photos", "--model", "dense", *options).stdout.splitlines()[0]
    assert first == f"6 images, 6 captions, {engine or 'flat'} engine, whole vectors"


def test_recalls_of_captions(lexlip: Run, tmp_path: Path) -> None:
    write_karpathy(tmp_path / "scenes")
    data = json.loads(Path("dataset.json").read_text())
    data["images"][1]["sentences"] = []
    Path("dataset.json").write_text(json.dumps(data))
    source = ["dataset.json", "--images", "scenes", "--split", "test", "--model", "bm25"]
    result = lexlip("evaluate", *source, "--json")
    report = json.loads(result.stdout)
    assert (report["images"], report["captions"]) == (7, 28)
    assert (report["words@10"], report["terms_image"]) == (None, None)
    for way in ("t2i", "i2t"):
        assert 0 < report[way]["R@1"] <= report[way]["R@10"] <= 100
    assert result.stderr.splitlines() == ["1 skipped:", "  1.png: no caption"]
    lines = lexlip("evaluate", *source, "--run-files", "runs").stdout.splitlines()
    says = "7 images, 28 captions, bm25 over one caption of each image, the others are queries"
    assert lines[0] == says
    assert lines[3] == f"  mean recall {report['mean_recall']:.1f}"
    runs = (Path("runs") / "t2i.run").read_text().splitlines()
    assert {line.split()[-1] for line in runs} == {"bm25"}


@pytest.mark.parametrize("option", ["topk", "quantization", "engine", "query-encoder", "query-topk"])
def test_options_that_captions_have_not(lexlip: Run, photos: Path, option: str) -> None:
    value = {"quantization": "unit", "engine": "lucene", "query-encoder": "words"}.get(option, "8")
    says = error(lexlip("evaluate", "photos", "--model", "bm25", f"--{option}", value, code=2))
    assert says == f"--{option} is for models, and bm25 takes captions as they are: leave it out"


def test_captions_without_siblings(lexlip: Run, photos: Path) -> None:
    says = error(lexlip("evaluate", "photos", "--model", "bm25", code=2))
    assert says == "no photo has a second caption to search with"


def test_a_clip_cannot_be_taken_apart(here: Run) -> None:
    says = error(here("bench", "encode", "photos", "--model", "clip", code=2))
    assert says.startswith("the plain loop cannot take the clip model '")


# ---- captions in other languages ----


@pytest.fixture
def german(here: Run, photos: Path) -> Run:
    """The command line where six photos have two German captions each, in a table."""
    words = ["Hunde", "Boote", "Mädchen", "Bälle", "Häuser", "Katzen"]
    rows = [f"{n}.jpg\t{i}\tdie {word} auf dem Bild" for n, word in enumerate(words) for i in (0, 1)]
    Path("de.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return here


def test_an_index_of_captions_remembers_their_language(german: Run) -> None:
    german("index", "de.tsv", "--images", "photos", "--model", "bm25", "--language", "de")
    assert [hit["id"] for hit in search(german, "ein Haus")["hits"]] == ["4.jpg"]  # Häuser has its stem
    assert search(german, "auf dem")["hits"] == []  # stop words
    assert "6 photos" in german("doctor").output
    german("index", "de.tsv", "--images", "photos", "--model", "bm25")
    assert search(german, "ein Haus")["hits"] == []  # in English it has not
    assert json.loads(Path(".lexlip/index.json").read_text())["language"] == "en"
    change_header(Path(".lexlip"), language=None)  # older ones do not have it
    assert len(search(german, "auf dem")["hits"]) == 6


def test_captions_in_another_language_are_measured(german: Run) -> None:
    arguments = ("evaluate", "de.tsv", "--images", "photos", "--model", "bm25", "--language", "de", "--json")
    assert json.loads(german(*arguments).stdout)["t2i"]["R@1"] == 100


def test_an_index_of_a_language_is_of_captions(german: Run) -> None:
    says = "--language is for bm25: leave it out"
    assert error(german("index", "photos", "--language", "de", code=2)) == says
