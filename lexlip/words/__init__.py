"""Words: the lexicon, function words, and texts of people."""
