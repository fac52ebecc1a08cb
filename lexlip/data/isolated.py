"""HEIC, JPEG 2000, JPEG XL and RAW: decoded by a process of their own, as damaged ones crash their decoders.

Of JPEG 2000 a small file can also make the decoder take many times the memory that its pixels need.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image, ImageFile

MOST_MEMORY = 2**31  # bytes that one process may take, where the system can bound it
_JPEG_XL = (b"\0\0\0\x0cJXL \r\n\x87\n", b"\xff\x0a")
_JPEG2000 = (b"\0\0\0\x0cjP  \r\n\x87\n", b"\xff\x4f\xff\x51")
_BRANDS = (*(b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs"), *(b"mif1", b"msf1"))
SECONDS = 60.0  # that one picture may take
MOST_HALVED = 5  # times; most JPEG 2000 hold as many smaller copies of themselves
HEADER_ONLY, AS_JPEG = -1, -2

_PROCESS = Path(__file__).with_name("isolated_process.py")
_lock = threading.Lock()
_idle: list[subprocess.Popen[bytes]] = []


class Reply(NamedTuple):
    """What the process tells about a picture; its format and mode are Pillow's, it is upright.

    It may have "exif" and "xmp", and has no pixels if only its header was asked for. Those of a RAW file are
    a JPEG, with the EXIF in it.
    """

    format: str
    mode: str
    size: tuple[int, int]
    info: dict[str, bytes]
    pixels: bytes


class IsolatedFile(ImageFile.ImageFile):
    """A HEIC, a JPEG 2000 or a JPEG XL, as Pillow's other formats are."""

    def _open(self) -> None:
        assert self.fp is not None
        self._data: bytes | None = self.fp.read()
        self._halved = 0
        header = ask(self._data, HEADER_ONLY)
        self.format, self._size, self._mode = header.format, header.size, header.mode
        self.info.update(header.info)
        self.tile = []

    def draft(self, mode: str | None, size: tuple[int, int] | None) -> None:
        """Have a JPEG 2000 decoded as much smaller as it can be, not below a size."""
        if self.format != "JPEG2000" or size is None:
            return
        for times in range(MOST_HALVED, 0, -1):
            # as OpenJPEG rounds, and as Pillow does, which refuses what differs
            scale = 1 << times
            width, height = (-(-side // scale) for side in self.size)
            rounded = tuple((side + scale // 2) // scale for side in self.size)
            if rounded == (width, height) and width >= size[0] and height >= size[1]:
                self._size, self._halved = (width, height), times
                return

    def load(self) -> Any:
        if self._data is not None:
            reply = ask(self._data, self._halved)
            self._data = None
            self._size, self._mode = reply.size, reply.mode
            self.im = Image.frombytes(reply.mode, reply.size, reply.pixels).im
        return super().load()


def accepts(start: bytes) -> bool:
    """Return whether a file is a HEIC, a JPEG 2000 or a JPEG XL, given its first 64 bytes."""
    heic = start[4:8] == b"ftyp" and start[8:12] in _BRANDS and b"avif" not in start
    return heic or start.startswith(_JPEG2000) or is_jpeg_xl(start)


def is_jpeg_xl(start: bytes) -> bool:
    return start.startswith(_JPEG_XL)


def ask(data: bytes, halved: int) -> Reply:
    """Have a process open a picture, and decode it; several threads may ask at once.

    It is decoded so many times half as large, if it can be; or not at all, for HEADER_ONLY. A RAW file
    becomes a JPEG, for AS_JPEG. SyntaxError: it is no such picture, as Pillow's own formats say it. OSError:
    it cannot be decoded: it is damaged, takes too long, or the decoder crashed.
    """
    process = _take()
    late = threading.Event()

    def end_late() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(SECONDS, end_late)
    timer.start()
    try:
        answer = _exchange(process, data, halved)
    except BaseException as error:
        process.kill()
        process.communicate()
        if not isinstance(error, OSError | EOFError):
            raise
        took = "takes too long to decode" if late.is_set() else "its decoder crashed"
        raise OSError(took) from error
    finally:
        timer.cancel()
    with _lock:
        _idle.append(process)
    if "error" in answer:
        raise (SyntaxError if answer["unknown"] else OSError)(answer["error"])
    parts = dict(zip(answer["parts"], answer["bytes"], strict=True))
    pixels, (width, height) = parts.pop("pixels"), answer["size"]
    return Reply(answer["format"], answer["mode"], (width, height), parts, pixels)


def _exchange(process: subprocess.Popen[bytes], data: bytes, halved: int) -> dict[str, Any]:
    """Send a line of JSON and a picture, and return the line that comes back, with the "bytes" behind it."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.writelines([json.dumps([halved, len(data)]).encode(), b"\n", data])
    process.stdin.flush()
    line = process.stdout.readline()
    if not line.endswith(b"\n"):
        raise EOFError("the process has ended")
    answer: dict[str, Any] = json.loads(line)
    sizes = list(answer["parts"].values())
    answer["bytes"] = list(map(process.stdout.read, sizes))
    if list(map(len, answer["bytes"])) != sizes:
        raise EOFError("the process has ended")
    return answer


def _take() -> subprocess.Popen[bytes]:
    with _lock:
        while _idle:
            process = _idle.pop()
            if process.poll() is None:
                return process
            process.communicate()  # it was ended meanwhile
    return subprocess.Popen(
        [sys.executable, "-P", str(_PROCESS), str(MOST_MEMORY)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for this process; the other ends with it
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),  # the same on Windows
    )


@atexit.register
def end() -> None:
    """End the processes that are idle; further pictures start new ones."""
    while _idle:
        process = _idle.pop()
        process.kill()
        process.communicate()


def _leave() -> None:
    """Leave the processes to the parent of this forked one."""
    for process in _idle:
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()
        process.returncode = 0  # as far as this process is concerned
    _idle.clear()


if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(after_in_child=_leave)
