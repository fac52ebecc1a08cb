import hashlib
import re
import shutil
import zipfile
from pathlib import Path

import pytest

from tools.lucene_jar import OUTPUT, VERSION, join, lucene_jar

FIXED = (1980, 1, 1, 0, 0, 0)
CODECS = "META-INF/services/org.apache.lucene.codecs.Codec"


def entries(jar: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(jar) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {FIXED}
        return {name: archive.read(name) for name in archive.namelist()}


def some_jar(path: Path, **files: str) -> tuple[Path, str]:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("META-INF/services/", "")
        for name, content in {"META-INF/MANIFEST.MF": "its own", "module-info.class": "", **files}.items():
            archive.writestr(name, content)
    return path, hashlib.sha256(path.read_bytes()).hexdigest()


def test_one_jar_holds_what_all_hold(tmp_path: Path) -> None:
    one = some_jar(tmp_path / "one.jar", **{"b.class": "1", CODECS: "new.Codec\n"})
    two = some_jar(tmp_path / "two.jar", **{"a.class": "2", CODECS: "old.Codec\n"})
    join(dict([one, two]), tmp_path / "made.jar")
    made = entries(tmp_path / "made.jar")
    assert list(made) == ["META-INF/MANIFEST.MF", CODECS, "a.class", "b.class"]
    assert made[CODECS] == b"new.Codec\nold.Codec\n"
    assert f"Implementation-Version: {VERSION}\n" in made["META-INF/MANIFEST.MF"].decode()


def test_a_jar_of_another_checksum_is_refused(tmp_path: Path) -> None:
    jar, _ = some_jar(tmp_path / "one.jar")
    with pytest.raises(SystemExit, match=r"one\.jar has the SHA-256 \w+, not 00"):
        join({jar: "00"}, tmp_path / "made.jar")
    assert not (tmp_path / "made.jar").exists()


def test_what_ships_is_lucene_alone_with_its_licence() -> None:
    shipped = entries(OUTPUT)
    classes = {name for name in shipped if name.endswith(".class")}
    assert all(name.startswith("org/apache/lucene/") for name in classes)
    assert "Apache License" in shipped["META-INF/LICENSE.txt"].decode()
    assert shipped["META-INF/NOTICE.txt"].decode().startswith("Apache Lucene")
    assert f"Implementation-Version: {VERSION}\n" in shipped["META-INF/MANIFEST.MF"].decode()
    services = "\n".join(content.decode() for name, content in shipped.items() if "/services/" in name)
    named = re.findall(r"^[\w.$]+$", services, re.MULTILINE)
    assert {f"{name.replace('.', '/')}.class" for name in named} <= classes
    assert OUTPUT.stat().st_size < 7e6


@pytest.mark.slow
def test_what_ships_is_made_of_the_artifacts(tmp_path: Path) -> None:
    if not shutil.which("mvn"):
        pytest.skip("needs Maven, which brings the artifacts")
    lucene_jar(tmp_path / "made.jar")
    assert entries(tmp_path / "made.jar") == entries(OUTPUT)
