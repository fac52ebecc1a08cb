import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from bridge_corpus import ROOT

from anserini_bridge import find_jar, lucene_version

JAVA = ROOT / "anserini_bridge" / "java"


def compiler() -> str | None:
    """The javac that builds what ships: other versions write other bytes for the same sources."""
    candidates = [shutil.which("javac"), *map(str, Path("/usr/lib/jvm").glob("*/bin/javac"))]
    for javac in filter(None, candidates):
        answer = subprocess.run([javac, "-version"], capture_output=True, text=True)
        if re.search(r"javac 17\b", answer.stdout):
            return javac
    return None


def entries(jar: Path) -> list[tuple[str, tuple[int, ...], bytes]]:
    with zipfile.ZipFile(jar) as archive:
        return [(entry.filename, entry.date_time, archive.read(entry)) for entry in archive.infolist()]


def test_the_jar_holds_classes_alone_in_order_without_dates() -> None:
    names = [name for name, _, _ in entries(JAVA / "impact.jar")]
    assert names == sorted(set(names))
    assert all(re.fullmatch(r"impact/\w+(\$\w+)*\.class", name) for name in names)
    assert {f"impact/{source.stem}.class" for source in (JAVA / "impact").iterdir()} <= set(names)
    assert {date for _, date, _ in entries(JAVA / "impact.jar")} == {(1980, 2, 1, 0, 0, 0)}


def test_the_jar_that_ships_is_that_of_the_sources(tmp_path: Path) -> None:
    javac = compiler()
    if javac is None or not lucene_version().startswith("9."):
        pytest.skip("the classes are built by javac 17, which reads those of Lucene 9")
    subprocess.run([JAVA / "build.sh", find_jar(), tmp_path / "built.jar", javac], check=True)
    built, shipped = entries(tmp_path / "built.jar"), entries(JAVA / "impact.jar")
    assert [(name, date) for name, date, _ in built] == [(name, date) for name, date, _ in shipped]
    assert [old[0] for old, new in zip(shipped, built, strict=True) if old != new] == []
