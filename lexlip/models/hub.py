"""Models of this project on the model hub: fetched once, then used from the hub's cache without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anserini_bridge.given_files import read_json
from lexlip.encoders.hub_access import check_reachable, reason
from lexlip.errors import ModelError
from lexlip.models.foreign import OPEN_CLIP

PATTERNS = ("*.json", "*.txt", "*.safetensors", "*.onnx")
"""The files of a model's folder, see `lexlip.models.model_folder`."""

TOKENIZER = ("*token*.json", "vocab.*", "merges.txt", "*.model")
"""Those of a model of open_clip that are neither its config nor its weights."""

CARD = "README.md"


def read_on_hub(name: str, file: str) -> Any:
    """Return the content of a JSON file of a model on the hub, from the cache if it is there.

    None: the model has no such file, or it cannot be read. ModelError: the hub has no such model, or cannot
    be reached.
    """
    from huggingface_hub import hf_hub_download, try_to_load_from_cache
    from huggingface_hub.utils import RepositoryNotFoundError

    check_reachable(name)
    try:
        cached = try_to_load_from_cache(name, file)
        return read_json(Path(cached if isinstance(cached, str) else hf_hub_download(name, file)))
    except RepositoryNotFoundError as error:
        raise _none(name, error) from error
    except Exception:  # the hub raises many kinds
        return None


def fetch(name: str) -> Path:
    """Return the folder of a model in the hub's cache; what is not there yet is downloaded.

    A model that is there stays as it is: an index needs the weights that it was made with. ModelError: it
    cannot be downloaded.
    """
    from huggingface_hub import snapshot_download

    patterns: Any = {"allow_patterns": list(PATTERNS)}
    try:
        folder = Path(snapshot_download(name, local_files_only=True, **patterns))
        if _is_complete(folder):
            return folder
    except Exception:
        pass  # nothing of it is there
    check_reachable(name)
    try:
        return Path(snapshot_download(name, **patterns))
    except Exception as error:  # the hub raises many kinds
        raise _none(name, error) from error


def fetch_open_clip(name: str) -> Path:
    """Return the folder of a model of open_clip in the hub's cache; what is not there yet is downloaded.

    ModelError: it cannot be downloaded.
    """
    from huggingface_hub import hf_hub_download, snapshot_download
    from open_clip.pretrained import download_pretrained_from_hf

    check_reachable(name)
    try:
        hf_hub_download(name, OPEN_CLIP)
        weights = Path(download_pretrained_from_hf(name))
        snapshot_download(name, allow_patterns=list(TOKENIZER))
    except Exception as error:  # the hub raises many kinds
        raise _none(name, error) from error
    return weights.parent


def _none(name: str, error: Exception) -> ModelError:
    return ModelError(f"no model '{name}': no folder has that name, and the hub says: {reason(error)}")


def _is_complete(folder: Path) -> bool:
    """Return whether all files are there that the checksums name."""
    try:
        lines = (folder / "checksums.txt").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    return all((folder / line.partition("  ")[2]).exists() for line in lines)


def push(folder: Path, name: str, private: bool) -> str:
    """Upload a folder, but no card that the hub has, and return its page; ModelError: the hub refuses it."""
    from huggingface_hub import HfApi

    api = HfApi()
    try:
        page = api.create_repo(name, private=private, exist_ok=True)
        kept = [CARD] if api.file_exists(name, CARD) else None
        api.upload_folder(repo_id=name, folder_path=folder, ignore_patterns=kept)
    except Exception as error:  # the hub raises many kinds
        raise ModelError(f"cannot upload the model '{name}': {reason(error)}") from error
    return str(page)


def write_card(
    folder: Path, title: str, words: int | None, name: str, license: str, base: str | None
) -> None:
    """Write a model card with the hub's front matter, unless the folder has one.

    `words` is V, None if its vectors are no words; `name` is on the hub, and so is `base`, from which it was
    made.
    """
    from huggingface_hub import ModelCardData

    if (folder / CARD).exists():
        return
    data = ModelCardData(
        library_name="lexlip",
        pipeline_tag="image-feature-extraction",
        license=license,
        base_model=base,
        metrics=["recall"],
        tags=["image-text-retrieval", *(["learned-sparse-retrieval"] if words is not None else [])],
    )
    what = f"{words:,} weighted words" if words is not None else "vectors"
    missing = ["its licence"] if license == "unknown" else []
    missing += ["the photos that it was trained on", "its figures (`lexlip evaluate`)", "its limits"]
    text = (
        f"---\n{data.to_yaml()}\n---\n\n# {title}\n\nTurns photos and sentences into {what} that are compared"
        f" with each other.\n\n```\nlexlip index PHOTOS --model {name}\n```\n\nStill to be said:"
        f" {', '.join(missing)}.\n"
    )
    (folder / CARD).write_text(text, encoding="utf-8")
