"""LexLIP: images and captions as a few weighted words, searched in an inverted index."""

import os

# Idle OpenMP threads sleep rather than spin. Spinning ones take the cores from the processes that
# decode photos, and training on two cores becomes ten times slower. Read when torch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
