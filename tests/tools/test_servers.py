import contextlib
import os
import re
from pathlib import Path

import pytest

from lexlip.errors import DataError
from tests.other_engines.real_servers import KINDS, address
from tools import servers
from tools.servers import NODES, peers


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(servers, "CACHE", tmp_path)
    return tmp_path


@KINDS
def test_a_jar_that_is_not_the_pinned_one_is_refused(cache: Path, kind: str) -> None:
    folder = cache / f"{kind}-{servers.OPENSEARCH if kind == 'opensearch' else servers.SOLR}"
    folder.mkdir()
    core = folder / ("opensearch-3.9.0.jar" if kind == "opensearch" else "solr-core-9.10.1.jar")
    core.write_text("not Java")
    with pytest.raises(DataError, match=f"{core.name} is damaged: its sha256 sum is"):
        servers.jars(kind)
    core.rename(folder / "mine.jar")
    with pytest.raises(DataError, match=r"servers.sha256 has no sum of mine.jar"):
        servers.jars(kind)
    (folder / "mine.jar").unlink()
    assert servers.jars(kind) == folder


def test_another_process_is_not_taken_for_a_node(cache: Path) -> None:
    node = NODES[0]
    assert node.pid() is None
    node.folder.mkdir(parents=True)
    for said in (str(os.getpid()), "", "none"):
        (node.folder / "pid").write_text(said)
        assert node.pid() is None
        node.end()


def listened(pid: int) -> list[str]:
    """The addresses on which a process listens, as /proc has them."""
    sockets = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            sockets.add(str(descriptor.readlink()))
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            place, state, inode = line.split()[1], line.split()[3], line.split()[9]
            if state == "0A" and f"socket:[{inode}]" in sockets:
                found.append(place.partition(":")[0])
    return found


@pytest.mark.servers
@KINDS
def test_what_runs_is_left_alone_and_listens_on_loopback_alone(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for every in ("opensearch", "solr"):
        address(every)
    before = [node.pid() for node in NODES]
    servers.start()
    assert [node.pid() for node in NODES] == before
    assert f"{peers(kind)[0].name} {peers(kind)[0].address}\n" in capsys.readouterr().out
    for node in peers(kind):
        pid = node.pid()
        assert pid is not None
        places = listened(pid)
        assert len(places) >= 1
        loopback = "0100007F|0000000000000000FFFF00000100007F"  # 127.0.0.1, and the same as IPv6 maps it
        assert all(re.fullmatch(loopback, place) for place in places), places
