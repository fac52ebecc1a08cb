"""What every kind of index and engine offers, and what all answers look like; no implementation."""
