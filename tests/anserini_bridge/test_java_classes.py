import re
import shutil
import subprocess
from pathlib import Path

import pytest
from bridge_corpus import ROOT

from anserini_bridge import find_jar, lucene_version

JAVA = ROOT / "anserini_bridge" / "java"


def compiler() -> str | None:
    """A javac that can read the jar: 17 for Lucene 9, 21 for Lucene 10."""
    needed = 17 if lucene_version().startswith("9.") else 21
    candidates = [shutil.which("javac"), *map(str, Path("/usr/lib/jvm").glob("*/bin/javac"))]
    for javac in filter(None, candidates):
        answer = subprocess.run([javac, "-version"], capture_output=True, text=True)
        if (found := re.search(r"javac (\d+)", answer.stdout)) and int(found[1]) >= needed:
            return javac
    return None


def test_the_classes_that_ship_are_those_of_the_sources(tmp_path: Path) -> None:
    javac = compiler()
    if javac is None:
        pytest.skip(f"no javac that reads the classes of Lucene {lucene_version()}")
    subprocess.run([JAVA / "build.sh", find_jar(), tmp_path, javac], check=True)
    built = {file.name: file.read_bytes() for file in (tmp_path / "impact").iterdir()}
    shipped = {file.name: file.read_bytes() for file in (JAVA / "impact").glob("*.class")}
    assert built.keys() == shipped.keys()
    assert [name for name in built if built[name] != shipped[name]] == []
