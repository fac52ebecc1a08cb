"""Documents and queries to measure with: synthetic ones, or photos and captions that a model encodes."""
