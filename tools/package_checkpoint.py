"""Write a trained model for packaging: in int8, without what only training needs.

    python tools/package_checkpoint.py runs/mini/best lexlip/weights/mini [SOURCE ...]

Captions and photos of each SOURCE, which are of the training data, make the bank by which the model balances
its documents (lexlip/sparse/balance.py): equally many of each. All of its photos say how likely people are to
name a word (lexlip/sparse/likely.py). Without a SOURCE the model has neither.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from lexlip.data import open_source
from lexlip.errors import DataError, LexLIPError
from lexlip.models.lexlip import LexLIP
from lexlip.models.model_checksums import check_model, write_checksums
from lexlip.sparse.balance import FILE as BALANCE
from lexlip.sparse.balance import save_balance
from lexlip.sparse.likely import FILE as LIKELY
from lexlip.sparse.likely import save_likely
from lexlip.training.bank import draw_balance
from lexlip.training.likely_fit import draw_likely


def package(checkpoint: Path, folder: Path, sources: Sequence[str] = ()) -> None:
    """Save the model in a checkpoint folder as int8 under the name of the target folder."""
    check_model(checkpoint)
    opened = [open_source(source) for source in sources]
    model = LexLIP.from_pretrained(checkpoint)
    model.name = folder.name
    model.save(folder, small=True)
    if opened:
        small = LexLIP.from_pretrained(folder)
        try:
            small.balance = draw_balance(small, opened)
            small.likely = draw_likely(small, opened)
        except ValueError as error:
            raise DataError(str(error)) from error
        save_balance(folder, small.balance)
        save_likely(folder, small.likely)
        write_checksums(folder, [BALANCE, LIKELY])


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: python tools/package_checkpoint.py CHECKPOINT FOLDER [SOURCE ...]")
    try:
        package(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
    except LexLIPError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
