"""The papers' tables, for one's own models and photos. Each is defined as data in one of the `of_*` files."""
