r"""Write sentences in other languages with the English ones that mean the same, for tools/train_languages.py.

    for name in multi30k/dataset ufdatastudio/multi30k-extension PhilipMay/stsb-multi-mt \
        kakaobrain/KorNLUDatasets yahoojapan/JGLUE odashi/small_parallel_enja \
        nate-koser/kor-eng-translator xuman-Amy/python_machine_learning_assignments \
        RlNZLER/Image-Text-Matching li-xirong/flickr8kcn; do
            git clone https://github.com/$name sources/${name#*/}; done
    python tools/language_sentences.py sources apertium captions/coco_captions_en.tsv \
        captions/coco_captions_more.tsv coco/held_out.txt flickr8k/dataset_flickr8k.json sentences.tsv

Sources: Multi30k (Elliott et al., 2016-2018: captions of Flickr30k, translated by people) and what a
machine made of its captions in further languages (MultiScript30k, arXiv 2512.11074); Flickr8k's captions as
two machines translated them into Chinese (Flickr8k-CN, Li et al., 2016); captions among the sentences of
the STS benchmark in ten languages (stsb-multi-mt, by DeepL) and Korean (KorSTS, Ham et al., 2020); Japanese
captions of COCO (of YJ Captions, in JSTS, Kurihara et al., 2022); sentences of Tatoeba and the Tanaka
corpus (Korean, Chinese, Japanese), of which only those stay that consist of words of captions and speak of
nobody in the first or second person. `apertium` is a folder of captions that Apertium translated: en.txt,
and LANGUAGE.txt for each language, the same lines. Photos of Flickr8k's test and validation splits, and
those in the list of photos that are left out of every training, give no sentence. The STS benchmark names
no photos, so it may have captions of these.

A line of the table: language, text, and one English sentence or more.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

Sentence = tuple[str, str, list[str]]
"""Language, text, English."""
OFTEN = 20  # a word of captions occurs so often in them
LENGTHS = range(4, 15)  # words of a sentence of everyday language
PERSONS = frozenset("i you we me us my your our i'm i've i'll you're".split())


def lines(file: Path) -> list[str]:
    """Return the lines of a file, which may be compressed."""
    content = file.read_bytes()
    text = (gzip.decompress(content) if file.suffix == ".gz" else content).decode("utf-8")
    return text.removesuffix("\n").split("\n")


def training_photos(flickr8k: Path) -> set[str]:
    """Return the names of Flickr8k's training photos."""
    images = json.loads(flickr8k.read_text(encoding="utf-8"))["images"]
    return {image["filename"] for image in images if image["split"] == "train"}


def multi30k(sources: Path, learned: set[str]) -> Iterator[Sentence]:
    """Yield captions of Flickr30k, but of no photo that Flickr8k holds back."""
    folder = sources / "dataset" / "data" / "task1"
    held = {
        photo.name.split("_")[0] + ".jpg"  # as Flickr30k names it
        for photo in (sources / "Image-Text-Matching" / "data" / "images").iterdir()
        if photo.name not in learned
    }
    photos, english = lines(folder / "image_splits" / "train.txt"), lines(folder / "raw" / "train.en.gz")
    files = {language: folder / "raw" / f"train.{language}.gz" for language in ("cs", "de", "fr")}
    made = {"es": "es", "uk": "uk", "zh": "zh_hans", "zh-Hant": "zh_hant", "ar": "ar_arab"}
    for language, name in made.items():
        files[language] = sources / "multi30k-extension" / f"multi30k-dataset-en-{name}" / f"train.{name}"
    for language, file in files.items():
        for photo, text, own in zip(photos, lines(file), english, strict=True):
            if photo not in held:
                yield language, text, [own]


def flickr8k_in_chinese(sources: Path, learned: set[str]) -> Iterator[Sentence]:
    """Yield captions of Flickr8k's training photos that Baidu and Google translated."""
    folder = sources / "flickr8kcn" / "data"
    english: dict[tuple[str, str], str] = {}
    for name in ("enc.caption.txt", "zhb.caption.txt.v20160815", "zhg.caption.txt.v20160816"):
        for line in lines(folder / f"flickr8k{name}"):
            place, _, text = line.partition(" ")
            photo, _, index = place.split("#")
            if photo in learned:
                if name.startswith("enc"):
                    english[photo, index] = text
                else:
                    yield "zh", text, [english[photo, index]]


def sts(sources: Path) -> Iterator[Sentence]:
    """Yield captions of the STS benchmark."""
    for split in ("train", "dev"):
        korean = lines(sources / "KorNLUDatasets" / "KorSTS" / f"sts-{split}.tsv")[1:]
        rows = [line.split("\t") for line in korean]
        folder = sources / "stsb-multi-mt" / "data"
        tables = {
            file.name.split("-")[1]: list(csv.reader(lines(file)))
            for file in folder.glob(f"stsb-*-{split}.csv")
        }
        tables["ko"] = [row[5:7] for row in rows]
        english = tables.pop("en")
        for language, own in tables.items():
            for row, told, texts in zip(rows, english, own, strict=True):
                if row[0] == "main-captions":
                    for text, one in zip(texts[:2], told[:2], strict=True):
                        yield language, text, [one]


def japanese_captions(sources: Path, captions: Iterable[Path], held: set[str]) -> Iterator[Sentence]:
    """Yield Japanese captions of COCO's photos with the English ones."""
    english: defaultdict[str, list[str]] = defaultdict(list)
    for file in captions:
        for line in lines(file):
            photo, _, text, _ = line.split("\t")
            if photo not in held:
                english[photo].append(text)
    seen = set()
    for line in lines(sources / "JGLUE" / "datasets" / "jsts-v1.3" / "train-v1.3.json"):
        row = json.loads(line)
        photos = row["yjcaptions_id"].split("-")[0].split("_")
        for photo, text in ((photos[0], row["sentence1"]), (photos[-1], row["sentence2"])):
            if photo in english and text not in seen:
                seen.add(text)
                yield "ja", text, english[photo]


def everyday(sources: Path, captions: Iterable[Path]) -> Iterator[Sentence]:
    """Yield sentences of Tatoeba and the Tanaka corpus that could be captions by their words."""
    heard = Counter(word for file in captions for line in lines(file) for word in _words(line.split("\t")[2]))
    tanaka = sources / "small_parallel_enja"
    pairs = [
        ("ja", text.replace(" ", ""), english)
        for text, english in zip(lines(tanaka / "train.ja"), lines(tanaka / "train.en"), strict=True)
    ]
    for language, file in (
        ("ko", sources / "kor-eng-translator" / "kor.txt"),
        ("zh", sources / "python_machine_learning_assignments" / "cmn.txt"),
    ):
        for line in lines(file):
            english, text, *_ = line.split("\t")
            pairs.append((language, text, english))
    for language, text, english in pairs:
        words = _words(english)
        fits = len(words) in LENGTHS and all(heard[word] >= OFTEN for word in words)
        if fits and PERSONS.isdisjoint(words):
            yield language, text, [english]


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z']+", text.lower())


def apertium(folder: Path) -> Iterator[Sentence]:
    """Yield captions of COCO that Apertium translated."""
    english = lines(folder / "en.txt")
    for file in sorted(folder.glob("*.txt")):
        if file.stem != "en":
            for text, own in zip(lines(file), english, strict=True):
                yield file.stem, text, [own]


def main(sources: Path, machine: Path, *files: Path) -> None:
    """Write the table."""
    *captions, held_out, flickr8k, table = files
    learned = training_photos(flickr8k)
    held = {line.lstrip("0") for line in lines(held_out)}
    number: Counter[str] = Counter()
    with table.open("w", encoding="utf-8") as out:
        for read in (
            multi30k(sources, learned),
            flickr8k_in_chinese(sources, learned),
            sts(sources),
            japanese_captions(sources, captions, held),
            everyday(sources, captions),
            apertium(machine),
        ):
            for language, text, english in read:
                cells = [" ".join(cell.split()) for cell in (language, text, *english)]
                if all(cells):
                    out.write("\t".join(cells) + "\n")
                    number[language] += 1
    for language, count in sorted(number.items()):
        print(f"{language}: {count:,} sentences")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
