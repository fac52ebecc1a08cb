"""The page and its API: searches an index over HTTP for browsers and programs."""
