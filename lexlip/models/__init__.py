"""One file a model, and what reads their folders. Importing the package alone loads no torch."""
