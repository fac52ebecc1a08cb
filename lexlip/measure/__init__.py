"""How well models find captioned photos, and how readable their words are."""
