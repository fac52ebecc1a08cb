"""Download the photos of CC3M, CC12M or SBU from the web, by their official lists of addresses.

    pip install img2dataset   # best in an environment of its own; it has to be on the PATH
    python tools/prepare_web_images.py cc3m Train_GCC-training.tsv data/cc3m --processes 16
    python tools/prepare_web_images.py cc12m cc12m.tsv data/cc12m --processes 16
    python tools/prepare_web_images.py sbu sbu-captions-all.tar.gz data/sbu --processes 16

The list is checked and written to OUTPUT/urls.tsv, from which img2dataset fills OUTPUT with tars. The same
command goes on after an interruption. See docs/data.md.
"""

from __future__ import annotations

import csv
import json
import os
import shlex
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import click
from tqdm import tqdm

from downloads import checksum, preparing, read_checksums, reading, verify_checksums, write_checksums
from lexlip.errors import DataError

PHOTOS = {"cc3m": 3_318_333, "cc12m": 12_423_374, "sbu": 1_000_000}  # in the complete official lists
SUMS = "SHA256SUMS"
PER_TAR = 10_000


class Row(NamedTuple):
    """A line of a list; one of both is empty if the line is malformed."""

    url: str
    caption: str


def prepare(
    name: str, addresses: Path, output: Path, checksums: Path | None, size: int, processes: int, threads: int
) -> None:
    """Write the list, download the photos with img2dataset, and write SHA256SUMS.

    Raises:
        DataError: the list is damaged or not the expected one, or img2dataset is missing or fails.
        OSError: `output` cannot be written.
    """
    if not addresses.is_file():
        raise DataError(f"{addresses} does not exist: docs/data.md says where to download it")
    if checksums is not None:
        verify_checksums([addresses], checksums)
    output.mkdir(parents=True, exist_ok=True)
    rows = tqdm(read_rows(name, addresses), name, PHOTOS[name], unit="line", disable=None, delay=2)
    count, left_out = write_rows(addresses, rows, output / "urls.tsv")
    click.echo(f"{count:,} addresses in {output}/urls.tsv{left_out}")
    if count < PHOTOS[name]:
        click.echo(f"the complete list has {PHOTOS[name]:,} lines", err=True)
    command = img2dataset(output, size, processes, threads)
    program = shutil.which(command[0])
    if program is None:
        raise DataError(
            "img2dataset is not installed: pip install img2dataset, best in an environment of its own,"
            f" then repeat this command, or run: {shlex.join(command)}"
        )
    status = subprocess.run([program, *command[1:]]).returncode
    if status != 0:
        raise DataError(f"img2dataset ended with status {status}; the same command goes on where it was")
    report(output, count)


def read_rows(name: str, path: Path) -> Iterator[Row]:
    """Yield the lines of an official list.

    CC3M has CAPTION <TAB> URL, CC12M URL <TAB> CAPTION. SBU is a JSON of `image_urls` and `captions`, or two
    files of lines, in a tar or zip.

    Raises:
        DataError: the list is damaged, or not the official one.
    """
    with reading(path, f"is not the list of {name}"):
        if name == "sbu":
            yield from _sbu(path)
            return
        with path.open(encoding="utf-8", newline="\n") as lines:
            for line in lines:
                if name == "cc3m":
                    caption, _, url = line.rpartition("\t")
                else:
                    url, _, caption = line.partition("\t")
                yield _row(url, caption)


def _row(url: str, caption: str) -> Row:
    url = url.strip()
    return Row(url if url.startswith(("http://", "https://")) else "", " ".join(caption.split()))


def _sbu(path: Path) -> Iterator[Row]:
    files = dict(_sbu_files(path))
    json_file = next((name for name in files if name.endswith(".json")), None)
    if json_file is not None:
        content = json.loads(files[json_file])
        urls, captions = content["image_urls"], content["captions"]
    else:
        urls, captions = (_lines(files, end) for end in ("_urls.txt", "_captions.txt"))
    for url, caption in zip(urls, captions, strict=True):
        if url or caption:  # not what follows the last line
            yield _row(url, caption)


def _lines(files: dict[str, bytes], end: str) -> list[str]:
    found = [data for name, data in files.items() if name.endswith(end)]
    if not found:
        raise KeyError(f"no file *{end}")
    return found[0].decode(errors="replace").split("\n")


def _sbu_files(path: Path) -> Iterator[tuple[str, bytes]]:
    kinds = (".json", "_urls.txt", "_captions.txt")
    if path.suffix == ".json":
        yield path.name, path.read_bytes()
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path) as zipped:
            yield from ((name, zipped.read(name)) for name in zipped.namelist() if name.endswith(kinds))
    else:
        with tarfile.open(path) as tar:
            for info in tar:
                file = tar.extractfile(info) if info.name.endswith(kinds) else None
                if file is not None:
                    yield info.name, file.read()


def write_rows(source: Path, rows: Iterable[Row], path: Path) -> tuple[int, str]:
    """Write a table with a header, as img2dataset reads it; it replaces an older one atomically.

    Returns:
        How many lines there are, and a remark on those that were left out.

    Raises:
        DataError: a tenth of the lines or more are malformed.
    """
    count, bad, first = 0, 0, ""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("w", encoding="utf-8", errors="replace", newline="") as file:
            table = csv.writer(file, delimiter="\t", lineterminator="\n")
            table.writerow(Row._fields)
            for number, row in enumerate(rows, start=1):
                if row.url and row.caption:
                    count += 1
                    table.writerow(row)
                else:
                    bad += 1
                    lacks = "no caption" if row.url else "no address"
                    first = first or f"line {number} has {lacks}"
        if not count or bad >= (count + bad) / 10:
            raise DataError(
                f"{source} is another list: {bad:,} of its {count + bad:,} lines make no sense"
                + (f" ({first})" if first else "")
            )
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return count, f"; {bad:,} left out, {first}" if bad else ""


def img2dataset(output: Path, size: int, processes: int, threads: int) -> list[str]:
    """Return the command that downloads the photos; shorter sides above `size` pixels become `size`."""
    options = {
        "url_list": output / "urls.tsv",
        "input_format": "tsv",
        "url_col": "url",
        "caption_col": "caption",
        "output_format": "webdataset",
        "output_folder": output,
        "number_sample_per_shard": PER_TAR,
        "image_size": size,
        "resize_mode": "keep_ratio",
        "resize_only_if_bigger": True,
        "processes_count": processes,
        "thread_count": threads,
        "incremental_mode": "incremental",
    }
    return ["img2dataset", *(f"--{name}={value}" for name, value in options.items())]


def report(output: Path, addresses: int) -> None:
    """Print how many photos were downloaded, and write the checksums of the tars.

    Raises:
        DataError: there are no tars.
    """
    tars = sorted(output.glob("*.tar"))
    if not tars:
        raise DataError(f"img2dataset wrote no tars to {output}")
    photos = 0
    for file in output.glob("*_stats.json"):
        try:
            photos += json.loads(file.read_bytes())["successes"]
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{file} is not a file of img2dataset's statistics: {error!r}") from error
    sums_file = output / SUMS
    known, made = {}, 0
    if sums_file.exists():
        known, made = read_checksums(sums_file), sums_file.stat().st_mtime_ns
    sums = {}
    for tar in tqdm(tars, "sums", unit="tar", disable=None, delay=2):
        old = known.get(tar.name) if tar.stat().st_mtime_ns < made else None
        sums[tar.name] = old or checksum(tar)
    write_checksums(sums_file, sums)
    expected = -(-addresses // PER_TAR)
    click.echo(f"{photos:,} of {addresses:,} photos ({photos / addresses:.0%}) in {len(tars)} tars")
    if len(tars) < expected:
        click.echo(f"{expected - len(tars)} tars are missing; the same command goes on", err=True)


@click.command(help=(__doc__ or "").replace("    pip", "\b\n    pip", 1))
@click.argument("data_set", type=click.Choice(list(PHOTOS)))
@click.argument("addresses", type=click.Path(path_type=Path))
@click.argument("output", type=click.Path(path_type=Path))
@click.option("--checksums", type=click.Path(path_type=Path), help="Verify ADDRESSES with these sums.")
@click.option("--size", type=click.IntRange(1), default=256, show_default=True, help="Shorter side, pixels.")
@click.option("--processes", type=click.IntRange(1), default=os.cpu_count() or 1, help="Default: all cores.")
@click.option("--threads", type=click.IntRange(1), default=64, show_default=True, help="Of each process.")
def main(
    data_set: str,
    addresses: Path,
    output: Path,
    checksums: Path | None,
    size: int,
    processes: int,
    threads: int,
) -> None:
    with preparing(output, "the same command goes on where it was"):
        prepare(data_set, addresses, output, checksums, size, processes, threads)


if __name__ == "__main__":
    main()
