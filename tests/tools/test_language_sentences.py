"""Sentences out of files as their sources have them."""

import gzip
import json
from pathlib import Path

import pytest

from tools import language_sentences as tool


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    content = text.encode()
    file.write_bytes(gzip.compress(content) if file.suffix == ".gz" else content)


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A line or two of each source; one photo of Flickr8k is held back."""
    images = [{"filename": "1_a.jpg", "split": "train"}, {"filename": "3_c.jpg", "split": "val"}]
    write(tmp_path / "flickr8k.json", json.dumps({"images": images}))
    for name in ("1_a.jpg", "2_b.jpg", "3_c.jpg"):
        write(tmp_path / "Image-Text-Matching/data/images" / name, "")
    task = tmp_path / "dataset/data/task1"
    write(task / "image_splits/train.txt", "1.jpg\n2.jpg\n3.jpg\n4.jpg\n")
    for language in ("en", "cs", "de", "fr"):
        write(task / f"raw/train.{language}.gz", "".join(f"{language} {photo}\n" for photo in range(1, 5)))
    for name in ("es", "uk", "zh_hans", "zh_hant", "ar_arab"):
        write(tmp_path / f"multi30k-extension/multi30k-dataset-en-{name}/train.{name}", f"{name}\n" * 4)
    chinese = {
        "enc.caption.txt": "A dog",
        "zhb.caption.txt.v20160815": "一只狗",
        "zhg.caption.txt.v20160816": "狗",
    }
    for name, text in chinese.items():
        places = [f"{photo}#{name[:3]}#{n}" for photo in ("1_a.jpg", "3_c.jpg") for n in (0, 1)]
        lines = "".join(f"{place} {text} {place[-1]}\n" for place in places)
        write(tmp_path / "flickr8kcn/data" / f"flickr8k{name}", lines)
    rows = [
        "genre file year id score one two",
        "main-captions f y i 5 개 고양이",
        "main-news f y i 0 뉴스 글",
    ]
    korean = "\n".join(row.replace(" ", "\t") for row in rows)
    for split in ("train", "dev"):
        write(tmp_path / f"KorNLUDatasets/KorSTS/sts-{split}.tsv", korean)
        write(tmp_path / f"stsb-multi-mt/data/stsb-en-{split}.csv", 'A dog,"A cat, too",5.0\nNews,Text,0\n')
        write(tmp_path / f"stsb-multi-mt/data/stsb-ru-{split}.csv", "Собака,И кошка,5.0\nНовости,Текст,0\n")
    pairs = [("7_8-1-2", "犬", "猫"), ("9-3-4", "馬", "牛"), ("7-5-6", "犬", "赤い犬")]
    japanese = [{"yjcaptions_id": key, "sentence1": one, "sentence2": two} for key, one, two in pairs]
    write(tmp_path / "JGLUE/datasets/jsts-v1.3/train-v1.3.json", "\n".join(map(json.dumps, japanese)))
    write(
        tmp_path / "captions.tsv",
        "7\t0\tA dog runs.\tcoco\n7\t1\tThe dog\tcoco\n8\t0\tA cat\tcoco\n9\t0\tcow\tcoco\n",
    )
    everyday = ["the dog runs fast", "the dog runs", "i run the dog", "the dog runs away"]
    write(tmp_path / "small_parallel_enja/train.en", "".join(f"{text} .\n" for text in everyday))
    write(tmp_path / "small_parallel_enja/train.ja", "犬 は 速い 。\n犬 。\n私 。\n逃げる 。\n")
    write(tmp_path / "kor-eng-translator/kor.txt", "The dog runs fast.\t개가 뛴다.\tCC-BY\n")
    write(tmp_path / "python_machine_learning_assignments/cmn.txt", "Hi.\t嗨。\n")
    write(tmp_path / "apertium/en.txt", "A dog runs.\n")
    write(tmp_path / "apertium/es.txt", "Un perro corre.\n")
    write(tmp_path / "held_out.txt", "comp5329_1\n000000000009\n")
    return tmp_path


def test_no_photo_that_is_held_back_gives_a_sentence(sources: Path) -> None:
    learned = tool.training_photos(sources / "flickr8k.json")
    found = list(tool.multi30k(sources, learned))
    czech = [(text, english) for language, text, english in found if language == "cs"]
    assert czech == [("cs 1", ["en 1"]), ("cs 4", ["en 4"])]
    assert {language for language, *_ in found} == {"cs", "de", "fr", "es", "uk", "zh", "zh-Hant", "ar"}
    own = [("zh", f"{text} {n}", [f"A dog {n}"]) for text in ("一只狗", "狗") for n in (0, 1)]
    assert list(tool.flickr8k_in_chinese(sources, learned)) == own


def test_captions_alone_are_taken_of_sentences_of_many_kinds(sources: Path) -> None:
    own = [("ru", "Собака", ["A dog"]), ("ru", "И кошка", ["A cat, too"])]
    own += [("ko", "개", ["A dog"]), ("ko", "고양이", ["A cat, too"])]
    assert list(tool.sts(sources)) == own * 2


def test_japanese_captions_have_all_english_ones_of_their_photo(sources: Path) -> None:
    found = list(tool.japanese_captions(sources, [sources / "captions.tsv"], {"9"}))
    dog = ["A dog runs.", "The dog"]
    assert found == [("ja", "犬", dog), ("ja", "猫", ["A cat"]), ("ja", "赤い犬", dog)]


def test_everyday_sentences_are_such_as_captions_could_be(
    sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(sources / "captions.tsv", "7\t0\tThe dog runs fast, I run\tcoco\n")
    monkeypatch.setattr(tool, "OFTEN", 1)
    found = list(tool.everyday(sources, [sources / "captions.tsv"]))
    assert found == [
        ("ja", "犬は速い。", ["the dog runs fast ."]),
        ("ko", "개가 뛴다.", ["The dog runs fast."]),
    ]


def test_the_table(sources: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = (sources / name for name in ("captions.tsv", "held_out.txt", "flickr8k.json", "table.tsv"))
    tool.main(sources, sources / "apertium", *files)
    lines = (sources / "table.tsv").read_text(encoding="utf-8").splitlines()
    assert "ja\t赤い犬\tA dog runs.\tThe dog" in lines
    assert lines[-1] == "es\tUn perro corre.\tA dog runs."
    assert not any("cow" in line for line in lines)
    assert "ja: 3 sentences" in capsys.readouterr().out
