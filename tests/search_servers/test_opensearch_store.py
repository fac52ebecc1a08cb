"""What OpenSearch is sent for a photo; the rest is tested where it is indexed and searched."""

import numpy as np

from lexlip.other_engines.export import fit
from lexlip.search_servers.opensearch_store import features, whole


def test_every_part_of_a_weight_fits_nine_bits_and_they_add_up() -> None:
    """So that scores are those of the whole weights: export.fit says what Lucene's FeatureField holds."""
    words = {f"{weight}": weight for weight in (*range(1, 1100), 4097, 100_001, 2**18 - 1)}
    parts = features(words)
    assert all(fit(np.array([part]), 9)[0] == part > 0 for part in parts.values())
    assert whole(parts) == words
