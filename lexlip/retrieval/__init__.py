"""What every kind of index and engine offers, what answers look like, and what is known about photos."""
