"""Saves a model into a folder of its own: as a whole, or not at all. Without torch until then."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from anserini_bridge.storage import replace_folder
from lexlip.errors import DataError, writing
from lexlip.models.hub import CARD
from lexlip.models.model_checksums import files_of

if TYPE_CHECKING:
    from lexlip.models.dual_encoder import DualEncoder


def check_place(folder: Path, may_replace: bool = False) -> None:
    """Check that a model can be saved into a folder, before the work.

    With `may_replace` it may be there already, with a saved model and nothing else in it.

    Raises:
        DataError: it cannot be made, or is there already.
    """
    with writing(f"the model {folder}"), tempfile.TemporaryDirectory(dir=folder.parent):
        exists, is_folder = os.path.lexists(folder), folder.is_dir()
        others = {path.name for path in folder.iterdir()} - files_of(folder) if is_folder else set()
    if exists and not (may_replace and is_folder and folder.name):
        raise DataError(f"{folder} exists already: give another folder")
    if others:
        raise DataError(f"{folder} holds more than a model, such as {min(others)}: give another folder")


def save_whole(model: DualEncoder, folder: Path, small: bool = False) -> None:
    """Save a model into a new folder, or replace a saved model, whose card stays; see `DualEncoder.save`.

    Raises:
        DataError: it cannot be written; what was there stays.
    """
    temporary = folder.with_name(f".{folder.name[:40]}.{os.getpid()}")
    with writing(f"the model {folder}"):
        try:
            if (folder / CARD).is_file():
                temporary.mkdir()
                shutil.copyfile(folder / CARD, temporary / CARD)
            model.save(temporary, small)
            replace_folder(temporary, folder)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
