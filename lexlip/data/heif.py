"""HEIC pictures in Pillow, opened and decoded by a process of their own: a damaged one can crash libheif."""

from __future__ import annotations

import atexit
import json
import os
import struct
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import IO, Any, NamedTuple

from PIL import Image, ImageFile

BRANDS = (
    *(b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs"),
    *(b"mif1", b"msf1"),
)
SECONDS = 60.0  # that one picture may take

_PROCESS = Path(__file__).with_name("heif_process.py")
_lock = threading.Lock()
_idle: list[subprocess.Popen[bytes]] = []


class Reply(NamedTuple):
    """What the process tells about a picture.

    Attributes:
        size: width and height.
        mode: Pillow's.
        info: "exif" and "xmp", if it has them; upright already.
        pixels: the raw ones, b"" if only its header was asked for.
    """

    size: tuple[int, int]
    mode: str
    info: dict[str, bytes]
    pixels: bytes


class HeifFile(ImageFile.ImageFile):
    """A HEIC picture, as Pillow's other formats are."""

    format = "HEIF"
    format_description = "HEIF container"

    def _open(self) -> None:
        assert self.fp is not None
        self._data: bytes | None = self.fp.read()
        header = ask(self._data, pixels=False)
        self._size, self._mode = header.size, header.mode
        self.info.update(header.info)
        self.tile = []

    def load(self) -> Any:
        if self._data is not None:
            reply = ask(self._data, pixels=True)
            self._data = None
            self._size, self._mode = reply.size, reply.mode
            self.im = Image.frombytes(reply.mode, reply.size, reply.pixels).im
        return super().load()


@cache
def register() -> None:
    """Let Pillow open HEIC."""
    Image.register_open("HEIF", HeifFile, _accept)


def ask(data: bytes, pixels: bool) -> Reply:
    """Have a process open a picture, and decode it; several threads may ask at once.

    Args:
        data: the file.
        pixels: also decode it.

    Raises:
        SyntaxError: it is no such picture, as Pillow's own formats say it.
        OSError: it cannot be decoded: it is damaged, takes too long, or the decoder crashed.
    """
    process = _take()
    late = threading.Timer(SECONDS, process.kill)
    late.start()
    try:
        answer, reply = _exchange(process, data, pixels)
    except BaseException as error:
        process.kill()
        process.communicate()
        if not isinstance(error, OSError | EOFError):
            raise
        took = "takes too long to decode" if not late.is_alive() else "its decoder crashed"
        raise OSError(took) from error
    finally:
        late.cancel()
    with _lock:
        _idle.append(process)
    if reply is None:
        raise (SyntaxError if answer["unknown"] else OSError)(answer["error"])
    return reply


def _exchange(
    process: subprocess.Popen[bytes], data: bytes, pixels: bool
) -> tuple[dict[str, Any], Reply | None]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(struct.pack(">?Q", pixels, len(data)))
    process.stdin.write(data)
    process.stdin.flush()
    (length,) = struct.unpack(">I", _read(process.stdout, 4))
    answer: dict[str, Any] = json.loads(_read(process.stdout, length))
    if "error" in answer:
        return answer, None
    width, height = answer["size"]
    info = {name: _read(process.stdout, size) for name, size in answer["info"].items()}
    return answer, Reply((width, height), answer["mode"], info, _read(process.stdout, answer["pixels"]))


def _read(file: IO[bytes], size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise EOFError("the process has ended")
    return data


def _take() -> subprocess.Popen[bytes]:
    """Return a process that is idle, or a new one."""
    with _lock:
        if _idle:
            return _idle.pop()
    return subprocess.Popen(
        [sys.executable, "-P", str(_PROCESS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for this process; the other ends with it
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),  # the same on Windows
    )


def _accept(start: bytes) -> bool:
    return start[4:8] == b"ftyp" and start[8:12] in BRANDS


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
