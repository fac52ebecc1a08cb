from dataclasses import replace
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of SMALL that nothing interrupted, not to be changed."""
    from lexlip.training.loop import pretrain
    from tests.training.small_run import SMALL

    return pretrain(replace(SMALL, out=str(tmp_path_factory.mktemp("runs") / "finished")))
