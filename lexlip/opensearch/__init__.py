"""A library of photos that lives in an OpenSearch index: indexed into it, updated there, searched there."""
