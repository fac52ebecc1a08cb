import zipfile
from pathlib import Path

import pytest

from anserini_bridge import NoJar, find_anserini
from anserini_bridge.runtime import version_in_pom
from tools.lucene_jar import OUTPUT, lucene_jar

FIXED = (1980, 1, 1, 0, 0, 0)


def entries(jar: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(jar) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {FIXED}
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_jar_that_ships_is_part_of_anserinis(tmp_path: Path) -> None:
    shipped = entries(OUTPUT)
    manifest = shipped["META-INF/MANIFEST.MF"].decode()
    if f"Implementation-Version: {version_in_pom(find_anserini())}\n" not in manifest:
        pytest.skip("pyserini has another Lucene here")
    lucene_jar(find_anserini(), tmp_path / "made.jar")
    assert entries(tmp_path / "made.jar") == shipped
    again = (tmp_path / "made.jar").read_bytes()
    lucene_jar(find_anserini(), tmp_path / "made.jar")
    assert (tmp_path / "made.jar").read_bytes() == again


def test_it_holds_lucene_alone_with_its_licence() -> None:
    shipped = entries(OUTPUT)
    classes = {name for name in shipped if name.endswith(".class")}
    assert all(name.startswith("org/apache/lucene/") for name in classes)
    assert "Apache License" in shipped["META-INF/LICENSE.txt"].decode()
    assert shipped["META-INF/NOTICE.txt"].decode().startswith("Apache Lucene")
    services = [name for name in shipped if name.startswith("META-INF/services/")]
    assert "META-INF/services/org.apache.lucene.codecs.Codec" in services
    named = {line for name in services for line in shipped[name].decode().splitlines()}
    assert {f"{name.replace('.', '/')}.class" for name in named} <= classes
    assert OUTPUT.stat().st_size < 7e6


def test_another_jar_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "other.jar", "w"):
        pass
    with pytest.raises(NoJar, match=r"other\.jar is damaged"):
        lucene_jar(tmp_path / "other.jar", tmp_path / "made.jar")
    assert not (tmp_path / "made.jar").exists()
