"""The losses that compare a whole batch: one file per objective, and `losses.py`, which lists them."""
