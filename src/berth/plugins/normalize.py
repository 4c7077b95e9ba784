"""`scale`: raw scores to 0..100, in proportion to the best.

Called by the score plugins that count something.

Source: k8s pkg/scheduler/framework/plugins/helper/normalize_score.go, ``DefaultNormalizeScore``.
"""

from berth.framework.interface import MAX_NODE_SCORE, Scores


def scale(scores: Scores, *, reverse: bool = False) -> Scores:
    """Scores in proportion to the highest one, which becomes 100.

    Args:
        scores: int64, shape (n,), not negative.  May be written to.
        reverse: whether little is good: what would become 100 becomes 0, and the other way round.

    Returns:
        int64, shape (n,), 0..100.  Where all scores are 0 they stay, or all become 100 if *reverse*.
    """
    highest = int(scores.max(initial=0))
    if highest > 0:
        scores *= MAX_NODE_SCORE
        scores //= highest
    if reverse:
        scores *= -1
        scores += MAX_NODE_SCORE
    return scores
