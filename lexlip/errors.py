"""Errors that the user can fix."""

from anserini_bridge.errors import FixableError


class LexLIPError(FixableError):
    """An error that the user can fix: one sentence, which the command line prints before it exits with 2.

    Those of Lucene and of an index's folder are `anserini_bridge.BridgeError`; `FixableError` is both.

    LexLIPError
    ├── ConfigError              an experiment file, an option, a value
    ├── DataError                photos, captions, tars, tables
    │   └── UnreadableImage      one image (in lexlip.data.images)
    └── ModelError               a checkpoint or an encoder
    """


class ConfigError(LexLIPError):
    """An experiment file or an option is invalid."""


class DataError(LexLIPError):
    """Photos or captions are missing or unusable."""


class ModelError(LexLIPError):
    """A checkpoint or an encoder is missing or does not fit."""
