"""Write a trained model for packaging: in int8, without what only training needs.

python tools/package_checkpoint.py runs/mini/best lexlip/weights/mini
"""

from __future__ import annotations

import sys
from pathlib import Path

from lexlip.errors import LexLIPError
from lexlip.models.lexlip import LexLIP
from lexlip.models.model_checksums import check_model


def package(checkpoint: Path, folder: Path) -> None:
    """Save the model in a checkpoint folder as int8 under the name of the target folder."""
    check_model(checkpoint)
    model = LexLIP.from_pretrained(checkpoint)
    model.name = folder.name
    model.save(folder, small=True)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python tools/package_checkpoint.py CHECKPOINT FOLDER")
    try:
        package(Path(sys.argv[1]), Path(sys.argv[2]))
    except LexLIPError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
