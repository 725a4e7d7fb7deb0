"""Both scales on one page: what was found at the papers' scale is kept in a small file beside it.

The page is ``NAME.md``, the file ``NAME-paper.json``: by figure when and at which commit it was measured, and
every claim's number, spread over the seeds and verdict. A run at paper scale adds the figures it finished.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from evenflow.files import replace_file
from evenflow.papers.experiment import Experiment, Row
from evenflow.papers.reproduce import Outcome

KEPT = ("claim", "measured", "spread", "verdict")


def summary_beside(page: Path) -> Path:
    """Return where a page's results at paper scale are kept.

    >>> summary_beside(Path("docs/reproduction.md")).name
    'reproduction-paper.json'
    """
    return page.with_name(f"{page.stem}-paper.json")


def read_summary(path: Path) -> dict[str, Row]:
    """Read the results by figure; none if there is no such file."""
    found: dict[str, Row] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def write_summary(outcome: Outcome, experiments: Sequence[Experiment], path: Path) -> None:
    """Add the finished figures to those in the file, but not those that have no points."""
    found = read_summary(path)
    for experiment in experiments:
        if outcome.made.get(experiment.name, {}).get("dates"):
            claims = [{name: claim[name] for name in KEPT} for claim in outcome.claims_of(experiment)]
            made = {"version": experiment.version, **outcome.made[experiment.name]}
            found[experiment.name] = made | {"claims": claims}
    text = json.dumps(dict(sorted(found.items())), indent=1, ensure_ascii=False)
    replace_file(path, (text + "\n").encode())


def of_figure(summary: dict[str, Row], experiment: Experiment) -> Row | None:
    """Return a figure's results if they are those of the experiment as it is now."""
    found = summary.get(experiment.name)
    return found if found and found["version"] == experiment.version else None


def changed(outcome: Outcome, experiments: Sequence[Experiment], summary: dict[str, Row]) -> list[Row]:
    """Return the claims whose verdict changes with scale: figure, claim, both verdicts."""
    rows = []
    for experiment in experiments:
        found = of_figure(summary, experiment)
        large = {claim["claim"]: claim for claim in found["claims"]} if found else {}
        for small in outcome.claims_of(experiment):
            other = large.get(small["claim"])
            if other and other["verdict"] != small["verdict"]:
                own = {"figure": experiment.name, "claim": small["claim"]}
                rows.append(own | {"small": small["verdict"], "paper": other["verdict"]})
    return rows
