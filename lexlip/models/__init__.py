"""The models: one file per family, and what reads their folders. Importing the package loads no torch."""
