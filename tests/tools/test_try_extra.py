"""What `make extras` runs is run by `make release`; here only that no extra is left out."""

import re
import tomllib

from tests.conftest import ROOT
from tools.try_extra import TRIES


def test_every_extra_is_tried() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    alone = extras.keys() - {"all", "dev"}
    assert TRIES.keys() == {"lean", *alone}
    (made,) = re.findall(r"^EXTRAS := (.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(made.split()) == alone
