import math
import subprocess
import sys
from pathlib import Path

import pytest

from anserini_bridge import memory_limits as memory

LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]), resource.RLIM_INFINITY))
from anserini_bridge import BridgeError, start_jvm
from anserini_bridge.jvm import java_class
from anserini_bridge.memory_limits import address_space_left
before = address_space_left()
try:
    start_jvm()
except BridgeError as error:
    sys.exit(str(error))
java_class("org.apache.lucene.index.IndexWriter")
print(0 < address_space_left() < before < int(sys.argv[1]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps to the limit")
@pytest.mark.parametrize(("limit", "starts"), [(10**9, True), (4 * 10**8, False)])
def test_java_fits_into_a_limit_of_address_space(limit: int, starts: bool) -> None:
    done = subprocess.run([sys.executable, "-c", LIMITED, str(limit)], capture_output=True, text=True)
    if starts:
        assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
    else:
        assert done.stdout == ""
        assert done.stderr.startswith("Java needs more address space than the ")
        assert "`ulimit -v " in done.stderr


@pytest.mark.parametrize(
    ("groups", "files", "limit"),
    [
        ("0::/", {"memory.max": "262144000"}, 262144000),  # in a container
        ("0::/a/b", {"a/memory.max": "450", "a/b/memory.max": "max"}, 450),  # a group around has it
        ("0::/on/the/machine", {"memory.max": "9"}, 9),
        ("4:memory:/a\n0::/", {"memory/a/memory.limit_in_bytes": "7"}, 7),
        ("4:memory:/a\n1:cpu:/b", {"memory/a/memory.limit_in_bytes": str(2**63 - 4096)}, math.inf),
        ("0::/", {}, math.inf),
    ],
)
def test_the_memory_of_a_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, groups: str, files: dict[str, str], limit: float
) -> None:
    (tmp_path / "groups").write_text(groups + "\n")
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content + "\n")
    monkeypatch.setattr(memory, "CGROUP", tmp_path / "groups")
    monkeypatch.setattr(memory, "CGROUPS", tmp_path)
    assert memory.container_memory() == limit
    assert (memory.memory_left() < limit) == (limit < math.inf)
