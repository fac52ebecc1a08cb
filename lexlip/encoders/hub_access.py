"""The model hub: what of it is on this machine, and whether it can be asked for the rest."""

from __future__ import annotations

from pathlib import Path

from lexlip.errors import ModelError

DESCRIPTIONS = ("config.json", "open_clip_config.json", "modules.json")
"""The files that say what a model is, of transformers or LexLIP, open_clip, and sentence-transformers."""


def is_cached(name: str, *files: str) -> bool:
    """Return whether the hub's cache holds one of some files of a model."""
    from huggingface_hub import try_to_load_from_cache

    return any(isinstance(try_to_load_from_cache(name, file), str) for file in files)


def folder_here(name: str) -> Path:
    """Return the folder of a model that a file names, maybe a stranger's: the hub is not asked.

    The name is a folder, or one on the hub, of which the cache is looked at. ModelError: it is not here.
    """
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    if Path(name).exists():
        return Path(name)
    try:
        cached = (try_to_load_from_cache(name, file) for file in DESCRIPTIONS)
        here = next((file for file in cached if isinstance(file, str)), None)
    except HFValidationError:  # not a name of the hub
        here = None
    if here is None:
        raise ModelError(
            f"no model '{name}' is on this machine, and the model hub is asked only for names that you type"
        )
    return Path(here).parent


def reason(error: Exception) -> str:
    """Return what transformers, timm or the hub say in an error, on one line."""
    said = " ".join(str(error).split())
    return "it needs Python code of its own, which is never run" if "trust_remote_code" in said else said


def check_reachable(name: str, *files: str) -> None:
    """Check that a model can be loaded: a folder, in the hub's cache, or from a hub that answers.

    Of `files` one must be in the cache; of DESCRIPTIONS if none is given. The hub is asked once, as its own
    downloads ask a hub that is out of reach for minutes. What it answers does not count: loading the model
    then says what is wrong with it. ModelError: the hub cannot be reached.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.utils import HfHubHTTPError

    try:
        if not Path(name).exists() and not is_cached(name, *(files or DESCRIPTIONS)):
            HfApi().file_exists(name, "config.json")
    except (HfHubHTTPError, ValueError):  # it has answered; or the name is not one of the hub's
        pass
    except Exception as error:  # of the library that speaks HTTP, which depends on the hub's version
        raise ModelError(
            f"no model '{name}': no folder has that name, and the model hub cannot be reached"
            f" ({reason(error)}): check the connection, or give a folder"
        ) from error
