"""`load_model` opens a saved model of any kind."""

from __future__ import annotations

from pathlib import Path

from lexlip.errors import ModelError
from lexlip.models.be import BE
from lexlip.models.ce import CE
from lexlip.models.clip import Clip
from lexlip.models.dense import Dense
from lexlip.models.dual_encoder import DualEncoder
from lexlip.models.encoder import Encoder
from lexlip.models.folder import kind_of, model_folder
from lexlip.models.joint import Joint
from lexlip.models.lexlip import LexLIP
from lexlip.models.lightningdot import LightningDOT
from lexlip.models.vldeformer import VLDeformer

KINDS: dict[str, type[DualEncoder]] = {
    model.kind: model for model in (LexLIP, Dense, LightningDOT, VLDeformer, BE, CE, Joint)
}


def load_model(name: str | Path) -> Encoder:
    """A saved model, by the name of a packaged one ("mini"), by folder, or a CLIP by the hub's name.

    Raises:
        ModelError: there is no such model, its files are damaged, or of a kind or version unknown here.
    """
    kind = kind_of(name)
    if kind == Clip.kind:
        return Clip.from_pretrained(name)
    folder = model_folder(name)
    if kind not in KINDS:
        raise ModelError(f"{folder} holds a model of kind {kind!r}; known: {', '.join([*KINDS, Clip.kind])}")
    return KINDS[kind].from_pretrained(folder)
