import re
import shutil
import subprocess
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


def test_the_classes_that_ship_are_those_of_the_sources(tmp_path: Path) -> None:
    javac = compiler()
    if javac is None or not lucene_version().startswith("9."):
        pytest.skip("the classes are built by javac 17, which reads those of Lucene 9")
    subprocess.run([JAVA / "build.sh", find_jar(), tmp_path, javac], check=True)
    built = {file.name: file.read_bytes() for file in (tmp_path / "impact").iterdir()}
    shipped = {file.name: file.read_bytes() for file in (JAVA / "impact").glob("*.class")}
    assert built.keys() == shipped.keys()
    assert [name for name in built if built[name] != shipped[name]] == []
