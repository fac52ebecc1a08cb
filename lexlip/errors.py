"""Errors that a user can mend."""


class LexLIPError(Exception):
    """What a user can mend: one sentence; the command line prints it and exits with 2.

    LexLIPError
    ├── ConfigError              an experiment file, an option, a value
    ├── DataError                photos, captions, tars, tables
    │   └── UnreadableImage      one image (in lexlip.data.images)
    └── ModelError               a checkpoint or an encoder
    """


class ConfigError(LexLIPError):
    """An experiment file or an option says something impossible."""


class DataError(LexLIPError):
    """Photos or captions are missing or unusable."""


class ModelError(LexLIPError):
    """A checkpoint or an encoder is missing or does not fit."""
