import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.conftest import ROOT


@pytest.fixture
def demo() -> ModuleType:
    spec = importlib.util.spec_from_file_location("demo", ROOT / "tools" / "demo.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_demo_of_a_folder(
    demo: ModuleType, lexlip: Callable[..., Any], photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    photos.rename("my photos")
    demo.main("my photos")
    shown = capsys.readouterr()
    assert '$ lexlip index "my photos" --topk 32 --index .demo/index\n6 photos, ' in shown.out
    for query in demo.QUERIES:
        assert f'$ lexlip search "{query}" --index .demo/index -k 3\nquery words: ' in shown.out
    sheet = Path(".demo/contact-sheet.html").resolve()
    assert shown.out.endswith(f"contact sheet: {sheet}\n")
    assert sheet.read_text().count("<section>") == len(demo.QUERIES)


def test_photos_that_packages_carry(demo: ModuleType, tmp_path: Path) -> None:
    pytest.importorskip("skimage")
    names = {photo.stem for photo in demo.sample_photos(tmp_path / "photos").iterdir()}
    assert {"chelsea", "coffee", "rocket"} <= names
    assert not names & demo.NOT_PHOTOS


def test_the_demo_of_nothing(
    demo: ModuleType, lexlip: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        demo.main("nothing")
    assert end.value.code == 2
    assert capsys.readouterr().err == "Error: nothing does not exist\n"
