"""From a model to vectors: sentences and photos without torch, and all photos of a source."""
