"""The command `lexlip bench`, a group of the other bench_*.py."""

from __future__ import annotations

import click

from lexlip.cli.bench_encode import encode
from lexlip.cli.bench_engine import engine, plot
from lexlip.cli.bench_latency import latency
from lexlip.cli.bench_serve import serve
from lexlip.cli.bench_train import train


@click.group()
def bench() -> None:
    """Measure speed and memory on this machine."""


for command in (engine, plot, latency, encode, train, serve):
    bench.add_command(command)
