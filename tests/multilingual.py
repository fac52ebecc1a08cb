"""Captions in four languages, and tiny text encoders for them in folders as transformers has them."""

import json
import re
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    BertConfig,
    BertModel,
    PreTrainedTokenizerFast,
    XLMRobertaConfig,
    XLMRobertaForMaskedLM,
)

CAPTIONS = {
    "en": [
        "Two dogs play in the snow.",
        "A brown dog jumps over a fence.",
        "A man in a red hat rides a bike.",
        "Children play football on green grass.",
        "A girl holds a small white cat.",
        "The boat is on the blue sea, near the beach.",
    ],
    "de": [
        "Zwei Hunde spielen im Schnee.",
        "Ein brauner Hund springt über einen Zaun.",
        "Ein Mann mit rotem Hut fährt auf dem Fahrrad.",
        "Kinder spielen Fußball auf grünem Gras.",
        "Ein Mädchen hält eine kleine, weiße Katze.",
        "Das Boot ist auf dem blauen Meer, nahe am Strand.",
    ],
    "fr": [
        "Deux chiens jouent dans la neige.",
        "Un chien brun saute par-dessus une clôture.",
        "Un homme au chapeau rouge fait du vélo.",
        "Des enfants jouent au football sur l'herbe verte.",
        "Une fille tient un petit chat blanc.",
        "Le bateau est sur la mer bleue, près de la plage.",
    ],
    "cs": [
        "Dva psi si hrají ve sněhu.",
        "Hnědý pes skáče přes plot.",
        "Muž v červeném klobouku jede na kole.",
        "Děti hrají fotbal na zelené trávě.",
        "Dívka drží malou bílou kočku.",
        "Loď je na modrém moři, blízko pláže.",
    ],
}
ALL = [caption for captions in CAPTIONS.values() for caption in captions]
SIZE = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 48,
}


def sentence_piece() -> PreTrainedTokenizerFast:
    """A Unigram tokenizer such as XLM-R's: four of five words of CAPTIONS, and all characters."""
    words = sorted({word for caption in ALL for word in re.findall(r"[^\W_]+", caption)})
    pieces = [(f"▁{word}", -5.0) for number, word in enumerate(words) if number % 5]
    characters = [(character, -9.0) for character in sorted({*"".join(ALL), "▁"} - {" "})]
    special = [(token, 0.0) for token in ("<s>", "<pad>", "</s>", "<unk>")]
    core = Tokenizer(models.Unigram([*special, *pieces, *characters, ("<mask>", 0.0)], unk_id=3))
    core.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    core.normalizer = normalizers.NFKC()
    core.pre_tokenizer = pre_tokenizers.Metaspace()
    core.decoder = decoders.Metaspace()
    core.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        bos_token="<s>",
        cls_token="<s>",
        eos_token="</s>",
        sep_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        mask_token="<mask>",
    )


def word_piece() -> PreTrainedTokenizerFast:
    """A cased WordPiece tokenizer such as multilingual BERT's, with all words of CAPTIONS."""
    core = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    core.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    core.train_from_iterator(
        ALL * 5, trainers.WordPieceTrainer(vocab_size=2000, special_tokens=special, show_progress=False)
    )
    core.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        cls_token="[CLS]",
        sep_token="[SEP]",
        pad_token="[PAD]",
        unk_token="[UNK]",
        mask_token="[MASK]",
    )


def write_encoder(kind: str, folder: Path) -> Path:
    """An XLM-R with a masked-language-model head ("xlm-roberta"), or a BERT without ("bert")."""
    torch.manual_seed(0)
    if kind == "xlm-roberta":
        tokenizer = sentence_piece()
        XLMRobertaForMaskedLM(
            XLMRobertaConfig(vocab_size=len(tokenizer), pad_token_id=1, type_vocab_size=1, **SIZE)
        ).save_pretrained(folder)
    else:
        tokenizer = word_piece()
        BertModel(BertConfig(vocab_size=len(tokenizer), **SIZE)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings["tokenizer_class"] = "XLMRobertaTokenizer" if kind == "xlm-roberta" else "BertTokenizer"
    if kind == "bert":
        settings |= {"do_lower_case": False, "strip_accents": False}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder
