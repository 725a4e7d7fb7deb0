"""Runs mutants, all or those named, and writes their rows to docs/mutants.md: ``make mutants``."""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from mutants import table
from mutants.registry import MUTANTS
from mutants.suite import Result, Suite

JOBS = int(os.environ.get("EVENFLOW_JOBS", "2"))  # mutants at once


def main(names: list[str]) -> int:
    """Run the mutants of these names (all if there are none); return 1 if one fares other than declared."""
    start = time.monotonic()
    chosen = [mutant for mutant in MUTANTS if not names or mutant.name in names]
    suite = Suite()
    figures = sorted({figure for mutant in chosen for figure in mutant.figures})
    _say(f"unmutated: {', '.join(figures)}")
    suite.measure_unmutated(figures)
    with ThreadPoolExecutor(JOBS) as pool:
        results = list(pool.map(lambda mutant: _told(suite.run(mutant)), chosen))
    (table.update if names else table.write)(results)
    survivors = [result.mutant for result in results if not result.caught]
    _say(f"{len(results) - len(survivors)} of {len(results)} caught in {time.monotonic() - start:.0f} s")
    return int(any(bool(result.mutant.survives) == bool(result.caught) for result in results))


def _told(result: Result) -> Result:
    claims = "; ".join(f"{found.figure}: {found.claim} ({found.measured})" for found in result.caught)
    _say(f"{result.mutant.name}: {claims or result.failure or 'SURVIVES'} [{result.seconds:.0f} s]")
    return result


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
