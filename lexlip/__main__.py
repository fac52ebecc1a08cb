"""The command line, as `lexlip` and as `python -m lexlip`."""

import gc

gc.disable()  # nothing of what is loaded is garbage

from lexlip.cli import main  # noqa: E402

gc.freeze(), gc.unfreeze()  # as if it had been looked at
gc.enable()

if __name__ == "__main__":
    main(prog_name="lexlip")
