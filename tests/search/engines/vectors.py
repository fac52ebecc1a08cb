"""Random sparse vectors with names, for the engines."""

import numpy as np
from scipy.sparse import csr_matrix, random_array

N, V = 300, 80
IDS = [f"{number * 7 % N}.jpg" for number in range(N)]
WORDS = [f"w{column}" for column in range(V)]


def random_vectors(rows: int, seed: int, density: float = 0.15) -> csr_matrix:
    vectors = random_array((rows, V), density=density, rng=np.random.default_rng(seed), dtype=np.float32)
    return csr_matrix(vectors * 2)


def unit(vectors: csr_matrix) -> np.ndarray:
    dense = vectors.toarray().astype(np.float64)
    return dense / np.maximum(np.linalg.norm(dense, axis=1, keepdims=True), 1e-12)


DOCUMENTS, QUERIES = random_vectors(N, 0), random_vectors(20, 1)
