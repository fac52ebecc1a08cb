import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from anserini_bridge import ImpactSearcher, read_metadata
from lexlip import index
from lexlip.data import extra_kinds
from tests.cli.conftest import ELSEWHERE, Run, as_json, error, search
from tests.conftest import write_photos
from tests.data.made_raw import dng


def test_without_a_source_it_is_the_current_folder(
    lexlip: Run, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(photos)
    assert lexlip("index").stdout.startswith("6 photos, ")
    again = lexlip("index").stdout
    assert again.startswith("0 added, 0 changed, 0 deleted, 6 unchanged, ")  # the index is no photo


def test_what_is_said_and_written(lexlip: Run, photos: Path) -> None:
    result = lexlip("index", "photos")
    written = read_metadata(".lexlip")
    assert written.documents == 6
    assert result.stdout.startswith(f"6 photos, {written.postings} postings, ")
    assert " kB in .lexlip, " in result.stdout
    assert result.stdout.endswith("photos/s)\n")
    assert result.stderr == ""
    (photos / "bad.jpg").write_text("no photo")
    done = as_json(lexlip, "index", "photos", "--index", "there")
    assert list(done) == [
        *("index", "photos", "postings", "megabytes", "seconds", "skipped", "resumed", "unlisted"),
        *(
            "captions_left_out",
            "files",
            "unsealed",
            "text_read",
            "with_text",
            "text_unread",
            "text_failed",
            "misplaced",
            "missed",
        ),
    ]
    assert done["skipped"] == [{"id": "bad.jpg", "reason": "not an image"}]
    assert (done["index"], done["photos"]) == ("there", 6)
    assert done["postings"] == read_metadata("there").postings == written.postings
    size = sum(file.stat().st_size for file in Path("there").rglob("*") if file.is_file())
    assert done["megabytes"] == pytest.approx(size / 1e6)


def test_photos_whose_place_cannot_be_are_named(lexlip: Run, photos: Path, tmp_path: Path) -> None:
    for number, north in enumerate((95.0, 48.0, 0.0)):
        exif = Image.Exif()
        exif[0x8825] = {1: "N", 2: (north, 0.0, 0.0), 3: "E", 4: (0.0, 0.0, 0.0)}
        with Image.open(photos / f"{number}.jpg") as image:
            image.save(photos / f"{number}.jpg", exif=exif)
    said = "a place that cannot be, which is left out: "
    result = lexlip("index", "photos")
    assert result.stderr == f"note: 2 photos tell {said}0.jpg, 2.jpg\n"
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "a.jpg").write_bytes((photos / "5.jpg").read_bytes())
    done = as_json(lexlip, "index", "photos", "more", "--index", "there")
    assert (done["misplaced"], done["skipped"]) == (["photos/0.jpg", "photos/2.jpg"], [])
    (photos / "2.jpg").touch()  # the others are not read again
    assert lexlip("index", "photos").stderr == f"note: 1 photo tells {said}2.jpg\n"


@pytest.mark.parametrize(
    ("options", "given"),
    [
        (("--topk", 1), {"topk": 1}),
        (("--topk", "all"), {"topk": None}),
        (("--topk", 3, "--quantization", "paper"), {"topk": 3, "quantization": "paper"}),
        (("--exclude", "1.*", "--exclude", "2.jpg"), {"exclude": ["1.*", "2.jpg"]}),
    ],
    ids=str,
)
def test_an_index_is_that_of_the_library(
    lexlip: Run, photos: Path, options: tuple[object, ...], given: dict[str, Any]
) -> None:
    lexlip("index", "photos", *options)
    index("photos", "other", **given)
    found = []
    for folder in (".lexlip", "other"):
        made = read_metadata(folder)
        with ImpactSearcher(folder) as searcher:
            ids = searcher.ids()
            vectors = searcher.vectors(ids).toarray().tolist()
        found.append((made.encoder, made.topk, made.quantization, made.normalize, ids, vectors))
    assert found[0] == found[1]


def test_a_photo_keeps_all_words(lexlip: Run, photos: Path) -> None:
    most = as_json(lexlip, "index", "photos", "--topk", 1000)
    all_words = as_json(lexlip, "index", "photos", "--topk", "all")
    assert all_words["postings"] == most["postings"]
    assert read_metadata(".lexlip").topk is None
    assert lexlip("index", "--update", "--topk", "all").stdout.startswith("0 added")
    says = "was made with --topk all, not 32: leave --topk out"
    assert says in error(lexlip("index", "--update", "--topk", 32, code=2))
    lexlip("index", "photos")
    assert "with --topk 32, not all" in error(lexlip("index", "--update", "--topk", "all", code=2))
    assert "--topk is for models" in error(
        lexlip("index", "photos", "--model", "bm25", "--topk", "all", code=2)
    )


def test_pseudo_documents(lexlip: Run, photos: Path) -> None:
    lexlip("index", "photos", "--pseudo-documents", "documents.jsonl")
    documents = [json.loads(line) for line in Path("documents.jsonl").read_text().splitlines()]
    assert [document["id"] for document in documents] == [f"{number}.jpg" for number in range(6)]
    for place, why in (("nowhere/documents.jsonl", "No such file or directory"), (".", "Is a directory")):
        says = error(lexlip("index", "photos", "--pseudo-documents", place, code=2))
        assert says == f"cannot write {place}: {why}"


def test_photos_that_cannot_be_read_are_skipped_and_listed(lexlip: Run, photos: Path) -> None:
    whole = (photos / "0.jpg").read_bytes()
    (photos / "a.jpg").write_bytes(whole[: len(whole) // 2])
    (photos / "b.jpg").write_bytes(whole[:2] + bytes(100))
    (photos / "c.jpg").write_text("only text")
    (photos / "d.jpg").touch()
    (photos / "e.jpg").symlink_to("nothing")
    (photos / "f.jpg").mkdir()
    result = lexlip("index", "photos")
    assert result.stdout.startswith("6 photos, ")
    lines = result.stderr.splitlines()
    assert lines[0] == "5 skipped:"
    assert sorted(lines[1:]) == [
        "  a.jpg: truncated",
        "  b.jpg: not an image",
        "  c.jpg: not an image",
        "  d.jpg: empty file",
        "  e.jpg: a link to nothing",
    ]


def test_without_rawpy_one_line_tells_of_all_raw_files(
    lexlip: Run, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extra_kinds, "is_installed", lambda module: False)
    for name in ("a.cr2", "b.NEF", "c.dng"):
        (photos / name).write_bytes(dng())
    (photos / "d.jpg").touch()
    for again in range(2):
        result = lexlip("index", "photos")
        assert result.stdout.startswith("0 added, " if again else "6 photos, ")
        lines = [
            "4 skipped:",
            "  3 RAW files: to read RAW files, pip install 'lexlip[raw]'",
            "  d.jpg: empty file",
        ]
        assert result.stderr.splitlines()[:3] == lines
    found = as_json(lexlip, "index", "photos")
    assert sorted(skip["id"] for skip in found["skipped"]) == ["a.cr2", "b.NEF", "c.dng", "d.jpg"]


def test_of_many_skipped_photos_ten_are_named(lexlip: Run, photos: Path) -> None:
    for number in range(13):
        (photos / f"bad{number:02}.jpg").touch()
    lines = lexlip("index", "photos").stderr.splitlines()
    assert (len(lines), lines[0]) == (12, "13 skipped:")
    assert lines[-1] == "  … and 3 more (--json lists all)"


def test_a_source_without_photos_leaves_the_old_index(indexed: Run) -> None:
    Path("empty").mkdir()
    Path("notes.md").touch()
    Path("bad").mkdir()
    for name in ("1.jpg", "2.jpg"):
        (Path("bad") / name).touch()
    before = sorted(Path(".lexlip").rglob("*")), Path(".lexlip/index.json").read_bytes()
    kinds = "is not a folder, a photo, a tar, a table (.tsv, .csv) or captions in JSON (.json, .jsonl)"
    for source, says in {
        "nothing": "nothing does not exist",
        "empty": "no photos below empty: looked for JPEG, ",
        "bad": "no photo in bad can be read (2 tried; 1.jpg: empty file)",
        "notes.md": f"notes.md {kinds}",
        "*.tar": "no tar matches *.tar",
    }.items():
        for place in (".lexlip", "new"):
            assert error(indexed("index", source, "--index", place, code=2)).startswith(says)
        assert not Path("new").exists()
    assert (sorted(Path(".lexlip").rglob("*")), Path(".lexlip/index.json").read_bytes()) == before


def test_a_model_that_is_not_there(lexlip: Run, photos: Path) -> None:
    says = error(lexlip("index", "photos", "--model", "maxi", code=2))
    assert says == "no model 'maxi': neither a folder with a config.json nor a packaged model (mini)"
    assert not Path(".lexlip").exists()


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("model.safetensors", None, "the model in damaged is damaged: [Errno 2] No such file"),
        (
            "model.safetensors",
            b"short",
            "the model in damaged is damaged: model.safetensors is not as it was",
        ),
        ("config.json", b"{", "the model in damaged is damaged: Expecting"),
        ("config.json", b"[]", "the model in damaged is damaged: "),
        ("config.json", b"{}", "the model in damaged is damaged: "),
        ("vocabulary.txt", None, "the model in damaged is damaged: "),
        ("vocabulary.txt", b"dog\n", "the model in damaged is damaged: vocabulary.txt is not as it was"),
        ("tokenizer.json", b"{", "the model in damaged is damaged: tokenizer.json is not as it was"),
    ],
)
def test_a_damaged_model(
    lexlip: Run, photos: Path, model_folder: Path, file: str, content: bytes | None, says: str
) -> None:
    shutil.copytree(model_folder, "damaged")
    (Path("damaged") / file).unlink()
    if content is not None:
        (Path("damaged") / file).write_bytes(content)
    assert says in error(lexlip("index", "photos", "--model", "damaged", code=2))
    assert not Path(".lexlip").exists()


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="this system has no folder where none can be made")
def test_an_index_folder_that_cannot_be_made(lexlip: Run, photos: Path) -> None:
    says = error(lexlip("index", "photos", "--index", "/proc/index", code=2))
    assert says == "cannot write the index /proc/index: No such file or directory" + ELSEWHERE


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_index_folder_without_permission(lexlip: Run, photos: Path) -> None:
    Path("closed").mkdir(mode=0o500)
    says = error(lexlip("index", "photos", "--index", "closed/index", code=2))
    assert says == "cannot write the index closed/index: Permission denied" + ELSEWHERE


def test_an_index_where_one_stands_and_may_not_write(
    lexlip: Run, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).absolute() != Path.cwd())
    says = error(lexlip("index", "photos", code=2))
    assert says == "cannot write the index .lexlip: Permission denied" + ELSEWHERE
    assert lexlip("index", "photos", "--index", photos / "index").stdout.startswith("6 photos, ")


@pytest.mark.parametrize(
    "name", ["with space", "größe 写真", "-dash", "100% {x}", "tab\there", "quo\"te's", "*?[a]"]
)
def test_names_of_all_kinds(lexlip: Run, tmp_path: Path, name: str) -> None:
    write_photos(tmp_path / name / name, 2)
    (tmp_path / name / name / "0.jpg").rename(tmp_path / name / name / f"{name}.jpg")
    lexlip("index", "--index", f"ix {name}/", "--", name)
    found = search(lexlip, "--index", f"ix {name}", "dog cat boat")
    paths = {tmp_path / name / name / "1.jpg", tmp_path / name / name / f"{name}.jpg"}
    assert {Path(hit["path"]) for hit in found["hits"]} == paths


def test_a_folder_whose_name_is_not_utf8(
    lexlip: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    try:
        write_photos(folder, 1)
    except OSError:
        pytest.skip("this file system has only UTF-8 names")
    monkeypatch.chdir(folder)
    assert error(lexlip("index", code=2)) == "a folder above . or .lexlip has a name that is not UTF-8"


def test_a_damaged_index_can_be_built_again(lexlip: Run, photos: Path) -> None:
    lexlip("index", "photos")
    Path(".lexlip/index.json").write_text("{")
    lexlip("index", "photos")
    assert search(lexlip, "dog cat boat")["hits"]


@pytest.mark.parametrize("source", ["{0..99999999999}.tar", "scenes:9999999999:0", "/dev/zero", "~nobody9/x"])
def test_sources_without_end_are_refused_at_once(lexlip: Run, source: str) -> None:
    assert error(lexlip("index", source, code=2))
    assert not Path(".lexlip").exists()


def test_what_could_not_be_listed_is_named(lexlip: Run, photos: Path) -> None:
    (photos / "aloop").symlink_to("aloop")
    says = "could not be listed: aloop (Too many levels of symbolic links)"
    result = lexlip("index", "photos")
    assert result.stderr == f"{says}: the index may lack photos of it\n"
    assert lexlip("index", "--update").stderr == f"{says}\n"
    (photos / "aloop").unlink()
    (photos / "0.jpg").unlink()
    (photos / "0.jpg").symlink_to("0.jpg")
    says = says.replace("aloop", "0.jpg")
    result = lexlip("index", "--update")
    assert result.stdout.startswith("0 added, 0 changed, 0 deleted, 5 unchanged, 1 kept out of reach, ")
    assert result.stderr == f"{says}: 1 photo of the index stays as it was; --prune deletes it\n"
    done = as_json(lexlip, "index", "photos", "--index", "other")
    assert done["unlisted"] == [{"id": "0.jpg", "reason": "Too many levels of symbolic links", "photos": 1}]
    assert done["missed"] == 1
    assert lexlip("index", "photos", "--anew").stderr == f"{says}: the index may lack 1 photo of it\n"
    assert lexlip("index", "--update", "--prune").stdout.startswith("0 added, 0 changed, 0 deleted, 5 unch")
