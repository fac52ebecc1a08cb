"""What Table 2 of the LexLIP paper compares, each built on the same pool."""
