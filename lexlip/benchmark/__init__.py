"""What things cost, measured side by side."""
