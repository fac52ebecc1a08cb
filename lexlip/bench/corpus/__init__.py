"""Documents and queries to measure with: synthetic ones, encoded photos, and vectors that enlarge a pool."""
