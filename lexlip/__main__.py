"""The command line as `python -m lexlip`."""

from lexlip.cli import main

main(prog_name="lexlip")
