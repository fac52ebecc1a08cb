"""Two first stages measured as one."""

from __future__ import annotations

from lexlip.measure.evaluate import Ranking, Report
from lexlip.search.fusion import DEPTH, Hybrid, fuse_two


def fuse_reports(
    first: Report, second: Report, how: Hybrid = "rrf", weight: float = 0.5, depth: int = DEPTH
) -> Report:
    """Return the first report with the fused answers of both; see `lexlip.search.fusion.fuse_two`.

    Args:
        first, second: reports with rankings of `depth` documents, of the same queries.
        how, weight: see `fuse_two`.
        depth: documents of each query to keep.
    """
    rankings = {}
    for way, ranking in first.rankings.items():
        other = second.rankings[way]
        both = (ranking.found, ranking.scores), (other.found, other.scores)
        found, scores = fuse_two(*both, depth, how, weight)
        rankings[way] = Ranking(ranking.queries, found, scores, ranking.relevant)
    return first.with_rankings(rankings)
