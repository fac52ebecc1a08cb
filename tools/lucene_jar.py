"""Makes anserini_bridge/java/lucene.jar: of Anserini's jar, only the Lucene that the impact index uses.

    python -m tools.lucene_jar [ANSERINI_JAR] [OUTPUT.jar]

Anserini's jar is by default that of the installed pyserini. Kept are Lucene's core and the codecs that read
older indexes, without analyzers of languages, query parsers and experimental codecs. The same jar always
gives the same sorted entries with fixed dates, and with the same zlib the same bytes.
"""

from __future__ import annotations

import re
import sys
import zipfile
from pathlib import Path

from anserini_bridge.runtime import find_anserini, version_in_pom

OUTPUT = Path(__file__).parents[1] / "anserini_bridge" / "java" / "lucene.jar"

_CORE = "analysis analysis/standard analysis/tokenattributes document geo index internal search store util"
_DEEP = "backward_codecs document geo index internal search store util"
_CODECS = r"codecs(/(compressing|hnsw|lucene\d+|perfield)(/\w+)*)?"  # the others are experiments
KEPT = re.compile(
    rf"org/apache/lucene/({'|'.join(_CORE.split())}|({'|'.join(_DEEP.split())})(/\w+)+|{_CODECS})/[\w$-]+\.class"
)
LICENCE = ("META-INF/LICENSE.txt", "META-INF/NOTICE.txt")  # Lucene's; those of others have other names
SERVICES = "META-INF/services/org.apache.lucene."


def lucene_jar(anserini: Path, output: Path) -> None:
    """Write the part of Anserini's jar that the impact index uses.

    Args:
        anserini: the jar.
        output: written; an older one is replaced.

    Raises:
        NoJar: the jar is not one of Anserini.
    """
    version = version_in_pom(anserini)
    with zipfile.ZipFile(anserini) as archive:
        entries = {name: archive.read(name) for name in archive.namelist() if KEPT.fullmatch(name)}
        for name in archive.namelist():
            if name.startswith(SERVICES) and (classes := _kept_of(archive.read(name).decode(), entries)):
                entries[name] = "".join(f"{line}\n" for line in classes).encode()
        entries.update({name: archive.read(name) for name in LICENCE})
    head = f"Manifest-Version: 1.0\nImplementation-Title: Lucene\nImplementation-Version: {version}\n\n"
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as written:
        for name, content in [("META-INF/MANIFEST.MF", head.encode()), *sorted(entries.items())]:
            written.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED, 9)  # dated 1980


def _kept_of(service: str, entries: dict[str, bytes]) -> list[str]:
    """Return the classes of a list of services that are kept; Java fails on one that is missing."""
    lines = (line.partition("#")[0].strip() for line in service.splitlines())
    return [line for line in lines if f"{line.replace('.', '/')}.class" in entries]


if __name__ == "__main__":
    given = [Path(argument) for argument in sys.argv[1:]]
    lucene_jar(given[0] if given else find_anserini(), given[1] if len(given) > 1 else OUTPUT)
