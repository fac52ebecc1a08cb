"""Makes anserini_bridge/java/lucene.jar of Lucene's own artifacts: its core, and the codecs of older indexes.

    python -m tools.lucene_jar [OUTPUT.jar]

Maven (`mvn`) brings them, or takes them from its cache. They always give the same bytes, with the same
zlib: sorted entries with fixed dates.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

OUTPUT = Path(__file__).parents[1] / "anserini_bridge" / "java" / "lucene.jar"

VERSION = "10.5.2"  # 10.6 is as fast, and what it writes cannot be read by the Lucene of pyserini 2.4
ARTIFACTS = {
    "lucene-core": "39210e1024da5c31d1ad7571d622ebb122a8c4e23ff42e9bc380124973d8c635",
    "lucene-backward-codecs": "3e5ecd56022c196cc6ab1bd6b99a1d504ce82153c77ecf4b5d01b8bb0b365682",
}
"""Artifacts of the group org.apache.lucene, each with its SHA-256."""

_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
_MANIFEST = f"Manifest-Version: 1.0\nImplementation-Title: Lucene\nImplementation-Version: {VERSION}\n\n"
_SERVICES = "META-INF/services/"
_LEFT_OUT = ("META-INF/MANIFEST.MF", "module-info.class")  # each artifact has its own


def lucene_jar(output: Path) -> None:
    """Write the jar of the artifacts that Maven brings.

    Raises:
        CalledProcessError: Maven does not bring one.
        SystemExit: one has another checksum.
    """
    with tempfile.TemporaryDirectory() as folder:
        jars = {}
        for name, checksum in ARTIFACTS.items():
            artifact = f"-Dartifact=org.apache.lucene:{name}:{VERSION}"
            subprocess.run(["mvn", "-q", "-B", _COPY, artifact, f"-DoutputDirectory={folder}"], check=True)
            jars[Path(folder) / f"{name}-{VERSION}.jar"] = checksum
        join(jars, output)


def join(jars: Mapping[Path, str], output: Path) -> None:
    """Write one jar of several, given with their SHA-256; a service's list is that of all of them.

    Raises:
        SystemExit: a jar has another checksum.
    """
    entries: dict[str, bytes] = defaultdict(bytes)
    for jar, wanted in jars.items():
        if (found := hashlib.sha256(jar.read_bytes()).hexdigest()) != wanted:
            raise SystemExit(f"{jar.name} has the SHA-256 {found}, not {wanted}")
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if name.startswith(_SERVICES):
                    entries[name] += archive.read(name)
                elif not name.endswith(("/", *_LEFT_OUT)):
                    entries[name] = archive.read(name)
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as written:
        for name, content in [(_LEFT_OUT[0], _MANIFEST.encode()), *sorted(entries.items())]:
            if content:
                written.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED, 9)  # dated 1980


if __name__ == "__main__":
    lucene_jar(Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT)
