"""`lexlip` in a process of its own, which is ended while it encodes."""

import itertools
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

from lexlip.cli import main
from lexlip.models.dense import Dense
from lexlip.models.dual_encoder import DualEncoder
from lexlip.models.lexlip import LexLIP
from tests.forks import OUTPUT, forks, print_to


class Ended(NamedTuple):
    """What is left of a process: its exit code, or minus the signal, and what it printed."""

    code: int | None
    stdout: str
    stderr: str


class Encoding:
    """A `lexlip` that has encoded its first batch and is about to encode the next."""

    def __init__(self, process: Any, output: Path) -> None:
        self.process, self.output = process, output

    def end(self, number: signal.Signals) -> Ended:
        """End it, as a terminal does with all processes of a session."""
        os.killpg(self.process.pid, number)
        self.process.join(60)
        return Ended(self.process.exitcode, *((self.output / name).read_text() for name in OUTPUT))


@contextmanager
def encoding(folder: Path, *arguments: object) -> Iterator[Encoding]:
    """Run `lexlip` in a folder, and in a session of its own."""
    context = forks()
    reader, writer = context.Pipe(duplex=False)
    with tempfile.TemporaryDirectory() as output:
        given = list(map(str, arguments)), folder, Path(output), dict(os.environ), writer
        process = context.Process(target=_run, args=given)
        process.start()
        writer.close()
        try:
            ready = wait([reader, process.sentinel], timeout=240)
            assert reader in ready, Path(output, "stderr").read_text()
            assert reader.recv() == "encoding"
            yield Encoding(process, Path(output))
        finally:
            if process.is_alive():
                os.killpg(process.pid, signal.SIGKILL)
            process.join()


def _run(
    arguments: list[str], folder: Path, output: Path, environment: dict[str, str], writer: Connection
) -> None:
    os.setsid()
    os.chdir(folder)
    os.environ.update(environment)
    print_to(output)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    encode, batches = DualEncoder.encode_image, itertools.count()

    def encode_slowly(self: DualEncoder, photos: Any) -> Any:
        if next(batches):
            writer.send("encoding")
            time.sleep(300)
        return encode(self, photos)

    for kind in (LexLIP, Dense):
        assert kind.encode_image is encode
    DualEncoder.encode_image = encode_slowly  # type: ignore[method-assign]
    main(arguments, prog_name="lexlip")
