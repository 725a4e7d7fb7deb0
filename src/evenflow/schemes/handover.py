"""What the routers of one micro-batch hand on to those of the next.

The routers of a batch, one per source, all begin with the same knowledge, each with its share of the counts.
``hand_over`` joins what they know at the end; ``Router.learn`` gives the next ones their share of it.

* Counts are aged: what was known before a batch of at least 256 rows per worker weighs half, and a smaller
  batch ages it by less, since sources make tiny batches by themselves. A scheme that ``forgets`` by itself
  (epochs, cycles) is not aged in addition.
* If more routers took part than sources were expected, each began with too large a share, and the
  sum is scaled down. If fewer took part, the shares that nobody took are added from before.
* The result does not depend on the order of the routers, and is as large as one router.
"""

from __future__ import annotations

from collections.abc import Sequence

from evenflow.schemes.base import Router, Scheme

PAST_WEIGHT = 0.5  # of all earlier batches, relative to a last one with STEADY_ROWS_PER_WORKER
STEADY_ROWS_PER_WORKER = 256  # in a batch; enough to detect hot keys without earlier batches


def hand_over(
    scheme: Scheme, workers: int, routers: Sequence[Router], before: Router | None = None, seed: int = 0
) -> Router:
    """Return one router that knows what ``routers`` know at the end of a batch.

    Parameters
    ----------
    scheme, workers, seed
        Of the routers.
    routers
        One for each source that had messages.
    before
        What each of them learned its share of when it began; None in the first batch.

    Returns
    -------
    Router
        A router without messages, whose place has as many sources as there were routers.

    Examples
    --------
    >>> from evenflow import scheme
    >>> fish = scheme("fish")
    >>> routers = [fish.router(4, source=source, sources=2) for source in range(2)]
    >>> _ = [router.route(["a", "b", "a"]) for router in routers]
    >>> known = hand_over(fish, 4, routers)
    >>> later = fish.router(4, source=0, sources=2)
    >>> later.learn([known], 1 / 2)
    """
    sources = routers[0].place.sources
    known = scheme.router(workers, seed, sources=len(routers))
    parts = sorted(routers, key=lambda router: router.place.source)
    if before is not None and len(routers) < sources:
        untaken = scheme.router(workers, seed, sources=sources)
        untaken.learn([before], 1 - len(routers) / sources)
        parts.append(untaken)
    began_with = min(1.0, sources / len(routers))
    known.learn(parts, began_with * past_weight(scheme, workers, sum(router.routed for router in routers)))
    return known


def past_weight(scheme: Scheme, workers: int, rows: int) -> float:
    """Return the weight of what is known after a batch of this size, in the next batch."""
    if scheme.forgets:
        return 1.0
    return float(PAST_WEIGHT ** min(1.0, rows / (STEADY_ROWS_PER_WORKER * workers)))
