"""What every kind of index and engine offers, what answers look like, and what is known about photos.

An engine searches vectors. A first stage is an open index of some kind, with what encodes queries for it.
Other engines are servers and libraries to which an index is exported; peers are what benchmarks compare with.
"""
