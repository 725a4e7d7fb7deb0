"""What the versions of Spark have, and what to do on one that lacks it; no other room asks for a version.

| since | what | before |
|---|---|---|
| 4.1 | ``DataFrame.repartitionById`` | :mod:`.placement`: Spark's hash of a number that falls on the worker |
| 4.1 | SQL's ``approx_top_k`` | :mod:`.frequent`: grouping by hash; on streams, quantiles of the hashes |
| 4.1 | ``arrow_udf`` | :mod:`.arrow`: a ``pandas_udf`` between Arrow's arrays |
| 4.1 | ``transformWithState`` | :mod:`.merging`: ``transformWithStateInPandas`` over pickled rows |
| 4.2 | ``timezone`` of ``to_arrow_schema`` | :mod:`.arrow`: UTC is what older ones assume |
| 4.2 | Python sources that support ``availableNow`` | :mod:`.sources`: one batch for all input |
| 4.2 | order-independent checksums of shuffles | :mod:`.known`: online mode is refused |
"""
