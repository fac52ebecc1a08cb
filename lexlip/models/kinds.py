"""`load_model` opens a saved model of any kind."""

from __future__ import annotations

from pathlib import Path

from lexlip.errors import ModelError
from lexlip.models.be import BE
from lexlip.models.ce import CE
from lexlip.models.dense import Dense
from lexlip.models.dual_encoder import DualEncoder
from lexlip.models.folder import model_folder, read_description
from lexlip.models.joint import Joint
from lexlip.models.lexlip import LexLIP
from lexlip.models.lightningdot import LightningDOT
from lexlip.models.vldeformer import VLDeformer

KINDS: dict[str, type[DualEncoder]] = {
    model.kind: model for model in (LexLIP, Dense, LightningDOT, VLDeformer, BE, CE, Joint)
}


def load_model(name: str | Path) -> DualEncoder:
    """A saved model, by the name of a packaged one ("mini") or by folder.

    Raises:
        ModelError: there is no such model, its files are damaged, or of a kind or version unknown here.
    """
    folder = model_folder(name)
    kind = read_description(folder)["kind"]
    if kind not in KINDS:
        raise ModelError(f"{folder} holds a model of kind {kind!r}; known: {', '.join(KINDS)}")
    return KINDS[kind].from_pretrained(folder)
