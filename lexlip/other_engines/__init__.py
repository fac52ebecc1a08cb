"""Other search engines: what they are given of an index of words, and how they are asked."""
