"""Get advice on a file: how skewed the key is, which scheme suits it, and the gain.

python examples/advise_file.py [FILE COLUMN]
"""

import sys
from pathlib import Path

from evenflow.advisor import advise

if __name__ == "__main__":
    words = Path(__file__).parent / "data" / "sotu_words.parquet"
    file, column = sys.argv[1:] or (str(words), "key")
    advice = advise(file, column, workers=32)
    print(f"{advice.profile.messages:,} rows, {advice.profile.keys:,} keys")
    for outcome in advice.ranked()[:5]:
        print(f"{outcome.spelling:16} max/mean load {outcome.max_over_mean:.3f}, memory {outcome.memory:.2f}")
    print(advice.recommendation.code)
