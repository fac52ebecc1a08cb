"""Makes photos searchable: one file per kind of index, and updates."""
