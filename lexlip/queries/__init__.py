"""What encodes a sentence when it is searched with: a saved model's text half, without torch."""
