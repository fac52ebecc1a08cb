"""Two first stages measured as one."""

from __future__ import annotations

from lexlip.errors import ModelError
from lexlip.evaluation.evaluate import Ranking, Report
from lexlip.search.hybrid import DEPTH, Hybrid, fuse_two


def fuse_reports(first: Report, second: Report, how: Hybrid = "rrf", weight: float = 0.5) -> Report:
    """The first report with the fused answers of both, see `lexlip.search.hybrid.fuse_two`.

    Args:
        first, second: reports with rankings of DEPTH documents, on the same photos and captions.
        how, weight: see `fuse_two`.

    Raises:
        ModelError: the second has other queries.
    """
    rankings = {}
    for way, ranking in first.rankings.items():
        other = second.rankings[way]
        if other.queries != ranking.queries:
            raise ModelError("both stages must be asked the same: bm25 asks with fewer captions than models")
        both = (ranking.found, ranking.scores), (other.found, other.scores)
        found, scores = fuse_two(*both, DEPTH, how, weight)
        rankings[way] = Ranking(ranking.queries, found, scores, ranking.relevant)
    return first.with_rankings(rankings)
