"""The encoder of other languages for LexLIP's packaged model; see `lexlip.models.language_model`."""

from pathlib import Path

FOLDER = Path(__file__).parent / "model"
