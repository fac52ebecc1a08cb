"""Where to compute."""

from __future__ import annotations

import torch

from lexlip.errors import ConfigError


def pick_device(name: str) -> torch.device:
    """ "auto" is a GPU where there is one.

    Raises:
        ConfigError: the device does not exist here.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.zeros(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"device '{name}' cannot be used here: {str(error).splitlines()[0]}") from error
