from pathlib import Path

import pytest

from tests.data.pictures import jpeg, write


@pytest.fixture
def two_photos(tmp_path: Path) -> Path:
    """A folder with a.jpg and sub/b.png."""
    write(tmp_path / "a.jpg", jpeg())
    write(tmp_path / "sub" / "b.png", jpeg())
    return tmp_path
