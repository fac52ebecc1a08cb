from pathlib import Path

import pytest
import torch
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel, BertTokenizerFast

from lexlip.config import TextEncoderConfig
from lexlip.encoders.text import TextEncoder
from tests.multilingual import ALL, CAPTIONS, SIZE
from tools import make_multilingual_encoder as tool

ENGLISH = ["two", "dogs", "play", "snow", "dog", "hun", "##d", "##e", "m", "##adchen", "schnee", "##s", "."]


@pytest.fixture(scope="module")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny uncased BERT with the entries of ENGLISH."""
    folder = tmp_path_factory.mktemp("minilm")
    entries = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *ENGLISH]
    (folder / "vocab.txt").write_text("\n".join(entries))
    BertTokenizerFast.from_pretrained(folder).save_pretrained(str(folder))
    torch.manual_seed(0)
    BertModel(BertConfig(vocab_size=len(entries), **SIZE)).save_pretrained(folder)
    return folder


@pytest.fixture
def tables(tmp_path: Path) -> list[str]:
    """Captions of photos that are not there, a table for each language."""
    for language, captions in CAPTIONS.items():
        rows = [f"{number}.jpg\t0\t{caption}\n" for number, caption in enumerate(captions)]
        (tmp_path / f"{language}.tsv").write_text("".join(rows) * 2, encoding="utf-8")
    return [str(tmp_path / f"{language}.tsv") for language in CAPTIONS]


def test_words_are_those_of_minilm_or_means_of_its_pieces(
    minilm: Path, tables: list[str], tmp_path: Path
) -> None:
    tool.make(str(minilm), tmp_path / "made", tables)
    old, new = AutoModel.from_pretrained(minilm), AutoModel.from_pretrained(tmp_path / "made")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "made")
    before = AutoTokenizer.from_pretrained(minilm).get_vocab()
    vectors, own = new.embeddings.word_embeddings.weight, old.embeddings.word_embeddings.weight

    def vector(word: str) -> torch.Tensor:
        return vectors[tokenizer.get_vocab()[word]]

    def mean(*pieces: str) -> torch.Tensor:
        return own[[before[piece] for piece in pieces]].mean(dim=0)

    for entry in ("dogs", "snow", "schnee", "[MASK]", "[PAD]"):
        torch.testing.assert_close(vector(entry), own[before[entry]])
    torch.testing.assert_close(vector("hunde"), mean("hun", "##d", "##e"))
    torch.testing.assert_close(vector("mädchen"), mean("m", "##adchen"))  # without its accent
    torch.testing.assert_close(vector("bateau"), mean("[UNK]"))
    layers = [dict(model.encoder.named_parameters()) for model in (old, new)]
    assert all(torch.equal(layers[0][name], layers[1][name]) for name in layers[1])
    assert new.config.vocab_size == len(tokenizer) == len(vectors)
    ids, mask = TextEncoder(TextEncoderConfig(name=str(tmp_path / "made")), tokenizer).tokenize(ALL)
    assert ids[mask].max() < len(tokenizer)


def test_the_tokenizer_is_uncased_and_keeps_accents() -> None:
    tokenizer = tool.learn_tokenizer(ALL * 2)
    assert tokenizer.tokenize("Ein MÄDCHEN hält") == ["ein", "mädchen", "hält"]
    assert tokenizer.tokenize("Dívka drží kočku.") == ["dívka", "drží", "kočku", "."]
    assert tokenizer.tokenize("ma\u0308dchen") == ["mädchen"]  # the accent as a character of its own
    assert tokenizer.decode(tokenizer("Hund").input_ids) == "[CLS] hund [SEP]"


def test_photos_have_captions_too(photos: Path, tables: list[str]) -> None:
    assert len(tool.read_captions([str(photos), *tables])) == 6 + 2 * len(ALL)


@pytest.mark.parametrize(
    ("model", "table", "says"),
    [
        ("minilm", "nothing.tsv", "nothing.tsv cannot be read: No such file or directory"),
        ("minilm", "empty.tsv", "empty.tsv has no captions"),
        ("made", "one.tsv", "no model 'made': no folder has that name"),
    ],
)
def test_what_cannot_be_used(
    tmp_path: Path,
    minilm: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    model: str,
    table: str,
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "minilm").symlink_to(minilm)
    (tmp_path / "empty.tsv").touch()
    (tmp_path / "one.tsv").write_text("a.jpg\ta dog")
    with pytest.raises(SystemExit) as ended:
        tool.main([model, "made", table])
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(says)


def test_the_arguments_are_named() -> None:
    with pytest.raises(SystemExit, match=r"^usage: python tools/make_multilingual_encoder\.py MINILM FOLDER"):
        tool.main([])
