"""The command line, as `lexlip` and as `python -m lexlip`."""

import gc
import signal

starting = signal.getsignal(signal.SIGINT) is signal.default_int_handler
if starting:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends the imports without a traceback

gc.disable()  # nothing of what is loaded is garbage

from lexlip.cli import main  # noqa: E402

gc.freeze()
gc.unfreeze()  # all of it counts as old
gc.enable()

if starting:
    signal.signal(signal.SIGINT, signal.default_int_handler)

if __name__ == "__main__":
    main(prog_name="lexlip")
