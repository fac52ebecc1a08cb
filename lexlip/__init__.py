"""LexLIP: images and captions as a few weighted words, searched in an inverted index."""
