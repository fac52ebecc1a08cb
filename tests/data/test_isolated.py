import io
import multiprocessing
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lexlip.data import UnreadableImage, decode, isolated

FOLDER = Path(__file__).parent / "heic"
TURNED = (FOLDER / "upright-after-turning.heic").read_bytes()
BAD = TURNED[:231] + b"\xb3" + TURNED[232:]  # libheif 1.23 crashes when it reads this one's EXIF


@pytest.fixture
def none_idle() -> Iterator[None]:
    isolated.end()
    yield
    isolated.end()


def pixels(data: bytes) -> bytes:
    return decode(data).tobytes()


def test_a_picture_that_crashes_the_decoder_leaves_the_others(none_idle: None) -> None:
    expected = pixels(TURNED)
    for _ in range(2):
        with pytest.raises(UnreadableImage, match="damaged"):
            decode(BAD)
        assert pixels(TURNED) == expected


def test_a_decoder_that_was_ended_while_it_waited_is_no_fault_of_the_next_picture(none_idle: None) -> None:
    expected = pixels(TURNED)
    (process,) = isolated._idle
    process.kill()
    process.wait()
    assert pixels(TURNED) == expected


def test_several_threads(none_idle: None) -> None:
    files = [path.read_bytes() for path in sorted(FOLDER.iterdir())]
    expected = [pixels(data) for data in files]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(pixels, files * 10)) == expected * 10
    assert len(isolated._idle) <= 4


@pytest.mark.skipif(sys.platform != "linux", reason="this system does not bound a process's memory")
def test_a_picture_that_takes_too_much_memory(none_idle: None, monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.BytesIO()
    Image.new("RGB", (1200, 1200)).save(file, "JPEG2000", codeblock_size=(4, 4), num_resolutions=1)
    with monkeypatch.context() as patch:
        patch.setattr(isolated, "MOST_MEMORY", 100_000_000)
        with pytest.raises(UnreadableImage, match="damaged"):
            decode(file.getvalue())
        assert np.asarray(decode(TURNED)).std() > 10


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import sys; sys.stdin.buffer.read(9)", "its decoder crashed"),
        ("import time; time.sleep(60)", "takes too long to decode"),
    ],
)
def test_a_process_that_does_not_answer(
    none_idle: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, reason: str
) -> None:
    kill = subprocess.Popen.kill

    def kill_slowly(process: subprocess.Popen[bytes]) -> None:  # its end is seen before this returns
        kill(process)
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.2)

    (tmp_path / "process.py").write_text(code)
    with monkeypatch.context() as patch:
        patch.setattr(subprocess.Popen, "kill", kill_slowly)
        patch.setattr(isolated, "_PROCESS", tmp_path / "process.py")
        patch.setattr(isolated, "SECONDS", 1.0)
        with pytest.raises(UnreadableImage, match=rf"^damaged \({reason}\)$"):
            decode(TURNED)
    assert not isolated._idle
    assert np.asarray(decode(TURNED)).std() > 10


def test_a_forked_process_takes_processes_of_its_own(none_idle: None) -> None:
    expected = pixels(TURNED)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(pixels, [TURNED] * 8) == [expected] * 8
    assert pixels(TURNED) == expected


def test_its_processes_end_with_the_program() -> None:
    code = (
        "import sys; from lexlip.data import decode, isolated\n"
        "decode(open(sys.argv[1], 'rb').read()); print(isolated._idle[0].pid)"
    )
    file = FOLDER / "upright-after-turning.heic"
    ran = subprocess.run([sys.executable, "-c", code, file], capture_output=True, text=True, check=True)
    assert ran.stderr == ""
    assert not Path(f"/proc/{ran.stdout.strip()}").exists()
