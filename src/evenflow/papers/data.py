"""The papers' data sets and what stands in for them: the original files are not available.

Comparable real streams come from a folder (``EVENFLOW_DATA``) or one by one (``--data NAME=SPEC``); without
them, generated streams with the same skew are used, so every figure can be made anywhere. Captions say which.
Where no real stream is close to a paper's, one is generated in any case: WP-made, TW-made, CT-made, MT-made
and AM-made have the papers' messages per key and, where the papers print it, their hottest key's share; in
the last three the hottest key changes. At scale small they are shorter than the papers' (``FULL``); TW-made,
whose paper has 1.2 billion messages, is so at both. What the papers say of their streams is in ``PRINTED``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from evenflow.errors import EvenflowError, nearest

REAL = {
    "WP": "sotu_words",
    "TW": "congress_words",
    "CT": "stocknet_cashtags",
    "CT-drift": "congress_hashtags",
    "MT": "congress_hashtags",
    "AM": "online_retail_stock",
    "AM-many": "scarab_recs",
    "twitter-ticker": "stocknet_cashtags",
    "wikipedia-pageviews": "sotu_words",
}
GENERATED = {
    "WP": "zipf:z=0.98,keys=24095,messages=1788989,seed=11",
    "WP-made": "drift:z=0.8556,keys=158186,messages=1000000,share=0.0932,steps=1,seed=23",
    "TW": "zipf:z=0.89,keys=80238,messages=5020664,seed=12",
    "TW-made": "zipf:z=0.7841,keys=25833,messages=1000000,seed=25",
    "CT": "drift:messages=243149,keys=7414,seed=13",
    "CT-drift": "drift:messages=2749304,keys=160358,seed=14",
    "CT-made": "drift:z=0.7395,keys=2900,messages=690000,share=0.1,steps=20,seed=22",
    "MT": "drift:messages=2749304,keys=160358,seed=14",
    "MT-made": "drift:z=0.7419,keys=7800,messages=984200,share=0.043,steps=10,seed=24",
    "AM": "zipf:z=0.41,keys=4070,messages=541909,seed=15",
    "AM-many": "zipf:z=0.74,keys=258368,messages=1245184,seed=16",
    "AM-made": "drift:z=0.6,keys=25000,messages=791000,share=0.05,steps=50,seed=21",
    "twitter-ticker": "zipf:z=0.95,keys=7414,messages=243149,seed=13",
    "wikipedia-clickstream": "zipf:z=1.0361,keys=100000,messages=1245184,seed=16",  # p1 10 percent
    "wikipedia-pageviews": "zipf:z=0.98,keys=24095,messages=1788989,seed=11",
    "wikipedia-pageviews-by-lang": "zipf:z=1.2397,keys=300,messages=541909,seed=17",  # p1 27 percent
    "twitter-election": "election:messages=1000000,seed=18",
}
FULL = {  # a generated stream at its paper's size: as many messages per key, the same hottest keys
    GENERATED["TW-made"]: "zipf:z=0.8325,keys=129170,messages=5000000,seed=25",  # of 1.2 billion
    GENERATED["WP-made"]: "drift:z=0.8404,keys=3480000,messages=22000000,share=0.0932,steps=1,seed=23",
    GENERATED["MT-made"]: "drift:z=0.863,keys=390000,messages=49210000,share=0.043,steps=10,seed=24",
    GENERATED["AM-made"]: "drift:z=0.6,keys=250000,messages=7910000,share=0.05,steps=50,seed=21",
}

PRINTED: dict[str, tuple[float | None, float | None, float | None, str]] = {  # messages, keys, p1, drift
    "WP": (22e6, 2.9e6, 0.0932, ""),
    "TW": (1.2e9, 31e6, 0.0267, ""),
    "CT": (690e3, 2.9e3, 0.0329, "drifts"),
    "MT": (49.21e6, 0.39e6, None, "time-evolving"),
    "AM": (7.91e6, 0.25e6, None, "time-evolving"),
    "twitter-election": (5e6, None, 0.68, ""),
    "twitter-ticker": (1.5e6, None, 0.10, ""),
    "wikipedia-clickstream": (8e9, None, 0.10, ""),
    "wikipedia-pageviews": (22e6, None, 0.09, ""),
    "wikipedia-pageviews-by-lang": (588e6, None, 0.27, ""),
}


def data_sets(folder: str | None = None, given: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return a stream's spelling for every data set: the user's own, a real stand-in, or a generated one."""
    folder = folder or os.environ.get("EVENFLOW_DATA")
    streams = dict(GENERATED)
    if folder:
        for name, stem in REAL.items():
            file = Path(folder) / f"{stem}.parquet"
            if file.is_file():
                streams[name] = f"{file}#key"
    for name, spec in (given or {}).items():
        if name not in streams:
            raise EvenflowError(f"--data names {name!r}, which no paper uses; {nearest(name, streams)}")
        streams[name] = spec
    return streams


def described(name: str, spec: str) -> str:
    """Describe what stands in for a data set, for a caption."""
    if name in REAL and REAL[name] in spec:
        return f"{REAL[name]} stands in for {name}"
    if GENERATED.get(name) == spec and name.partition("-")[2] == "made":
        return f"{name} is generated with the sizes of {name.partition('-')[0]}"
    if GENERATED.get(name) == spec:
        return f"a generated stream ({spec.partition(':')[0]}) stands in for {name}"
    return f"{name} from {Path(spec.split('#', maxsplit=1)[0]).name}"
