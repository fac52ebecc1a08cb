"""The command line, as `lexlip` and as `python -m lexlip`."""

import gc

gc.disable()  # nothing of what is loaded is garbage

from lexlip.cli import main  # noqa: E402

gc.freeze()
gc.unfreeze()  # all of it counts as old
gc.enable()

if __name__ == "__main__":
    main(prog_name="lexlip")
