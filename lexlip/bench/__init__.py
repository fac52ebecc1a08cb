"""What things cost, measured side by side: search engines, encoding, training, and the papers' tables."""
