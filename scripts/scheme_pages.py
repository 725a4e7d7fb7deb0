"""Generate docs/schemes: for each scheme the rule, a figure, measurements, parameters and the paper.

The text comes from the docstrings of the scheme's module and class. Run it after changing a scheme:
``make scheme-pages``.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import evenflow as ef
from evenflow.report.style import GREY, colour_of, save
from evenflow.schemes import Scheme
from evenflow.simulator import simulate
from evenflow.streams import open_stream

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
WORKERS = 32
STREAMS = {
    "Zipf 1.4": "zipf:z=1.4,keys=100000,messages=1e6,seed=1",
    "drifting": "drift:messages=1e6,seed=1",
    "words": f"{ROOT / 'examples' / 'data' / 'sotu_words.parquet'}#key",
}
DRAWN = STREAMS["Zipf 1.4"]
SHOWN = 40  # hottest keys in the figure
ORDER = (
    "key", "shuffle", "partial-key", "two-choices", "greedy-d", "d-choices", "w-choices", "round-robin-head",
    "consistent-hash", "bounded-load", "random-choices", "consistent", "explicit", "fish", "dynamic-key",
    "fill",
)  # fmt: skip
USE = {
    "key": "all rows of a key must be on one worker and no key is hot",
    "shuffle": "rows need no keyed state",
    "partial-key": "skew is mild, workers are few, and merging two partial results is cheap",
    "two-choices": "you need a baseline: two random workers per row, regardless of the key",
    "greedy-d": "you need a baseline: the same number of candidates for every key",
    "d-choices": "skew is strong and state for hot keys is expensive",
    "w-choices": "skew is strong and state for hot keys is cheap",
    "round-robin-head": "you need a baseline: W-Choices without load information",
    "consistent-hash": "every key needs one owner and workers join and leave",
    "bounded-load": "you want consistent hashing with a hard limit on every worker's load",
    "random-choices": "workers are equal and every worker's load needs a hard limit",
    "consistent": "workers differ in speed or change speed",
    "explicit": "every key needs one owner and state should move as rarely as possible",
    "fish": "hot keys change within seconds and workers report how long a row takes them",
    "dynamic-key": "keys are few and some stay hot for long",
    "fill": "unsure; it is the default",
}


def main() -> None:
    """Write one page per scheme, and the table of all schemes."""
    hottest, ids = hottest_keys()
    numbers = {}
    for name in ORDER:
        kind = ef.list_schemes()[name]
        numbers[name] = {label: measure(name, spec) for label, spec in STREAMS.items()}
        draw(kind, hottest, ids, DOCS / "figures" / "schemes" / f"{name}.png")
        (DOCS / "schemes" / f"{name}.md").write_text(page(kind, numbers[name]))
        sys.stdout.write(f"{name}: {numbers[name]}\n")
    (DOCS / "schemes" / "index.md").write_text(INDEX.format(table=table_of(numbers)))


def measure(name: str, spec: str) -> tuple[float, float]:
    """Return max/mean and memory on one stream."""
    row = simulate(name, spec, workers=WORKERS, sources=1).row()
    return row["max_over_mean"], row["memory"]


def hottest_keys() -> tuple[np.ndarray, np.ndarray]:
    """Return the hashes of the hottest keys of the stream in the figure, and the hash of every message."""
    given = open_stream(DRAWN)
    hashes = given.hashes[np.concatenate([chunk.ids for chunk in given.chunks()])]
    keys, counts = np.unique(hashes, return_counts=True)
    return keys[np.argsort(-counts)[:SHOWN]], hashes


def draw(kind: type[Scheme], hottest: np.ndarray, hashes: np.ndarray, path: Path) -> None:
    """Draw the load of every worker next to key grouping, and the workers of the hottest keys."""
    workers = kind().router(WORKERS).route(hashes)
    plain = ef.scheme("key").router(WORKERS).route(hashes)
    homes = [np.unique(workers[hashes == key]).size for key in hottest]

    def figure() -> Figure:
        drawn = Figure(figsize=(7.2, 2.5), layout="constrained")
        left, right = drawn.subplots(1, 2)
        for routed, colour, label in ((plain, GREY, "key"), (workers, colour_of(kind.name), kind.name)):
            loads = np.sort(np.bincount(routed, minlength=WORKERS))[::-1] / (hashes.size / WORKERS)
            left.bar(np.arange(1, WORKERS + 1), loads, color=colour, alpha=0.75, label=label, width=0.9)
        left.set(xlabel="worker, fullest first", ylabel="load / mean", title="Load")
        left.set(xlim=(0.4, WORKERS + 0.6), xticks=(1, 8, 16, 24, 32))
        left.legend()
        right.bar(np.arange(1, SHOWN + 1), homes, color=colour_of(kind.name), width=0.85)
        right.set(xlabel="key, hottest first", ylabel="workers", ylim=(0, WORKERS), title="Workers of a key")
        right.set(xlim=(0.4, SHOWN + 0.6), xticks=(1, 10, 20, 30, 40), yticks=(0, 8, 16, 24, 32))
        return drawn

    save(figure, path)


def page(kind: type[Scheme], numbers: dict[str, tuple[float, float]]) -> str:
    """Return the page of one scheme."""
    module = sys.modules[kind.__module__]
    rows = "\n".join(f"| {label} | {even:.3f} | {memory:.2f} |" for label, (even, memory) in numbers.items())
    meanings = parameter_docs(kind)
    fields = "\n".join(
        f"| `{field.name}` | {str(field.type).replace('|', 'or')} | `{field.default!r}` | "
        f"{as_markdown(meanings[field.name])} |"
        for field in dataclasses.fields(kind)
    )
    parts = [
        f"# {kind.name}\n\n*{kind.summary[0].upper()}{kind.summary[1:]}.*\n\nUse it when {USE[kind.name]}.",
        f"![Load per worker and workers per key](../figures/schemes/{kind.name}.png)\n\n"
        f"One million messages, Zipf 1.4, {WORKERS} workers, one source; key grouping in grey.",
        "## The rule\n\n" + as_markdown(module.__doc__ or ""),
        "## Measured\n\n| stream | max / mean load | memory |\n|---|--:|--:|\n" + rows + "\n\n"
        "Memory is the number of (key, worker) pairs relative to key grouping. `make scheme-pages` runs "
        f"`evenflow simulate --scheme {kind.name} --workers {WORKERS} --sources 1` on each stream.",
    ]
    if fields:
        parts.append("## Parameters\n\n| name | type | default | meaning |\n|---|---|---|---|\n" + fields)
    origin = " ".join(section(kind, "References")) or "evenflow's own; [how it compares](../fill.md)."
    aliases = f" Aliases: {', '.join(kind.aliases)}." if kind.aliases else ""
    parts.append(f"## Paper and code\n\n{origin} Source: `{source_of(kind)}`.{aliases}")
    return "\n\n".join(parts) + "\n"


def table_of(numbers: dict[str, dict[str, tuple[float, float]]]) -> str:
    """Return the table of all schemes, with links to their pages."""
    labels = list(STREAMS)
    head = "| scheme | paper | what it does | use it when | " + " | ".join(labels) + " |"
    lines = [head, "|---|---|---|---|" + "---|" * len(labels)]
    for name, found in numbers.items():
        kind = ef.list_schemes()[name]
        cells = " | ".join(f"{even:.2f} / {memory:.2f}" for even, memory in found.values())
        lines.append(f"| [{name}]({name}.md) | {kind.paper} | {kind.summary} | {USE[name]} | {cells} |")
    return "\n".join(lines) + "\n"


def source_of(kind: type[Scheme]) -> Path:
    """Return the source file of a scheme, relative to the repository."""
    return Path(sys.modules[kind.__module__].__file__ or "").relative_to(ROOT)


def section(kind: type, title: str) -> list[str]:
    """Return the lines of a section of a class docstring; none if the class does not have it."""
    lines = inspect.cleandoc(kind.__doc__ or "").splitlines()
    if title not in lines:
        return []
    start = lines.index(title) + 2
    ends = [i - 1 for i in range(start, len(lines)) if set(lines[i]) == {"-"}]
    return [line for line in lines[start : ends[0] if ends else None] if line]


def parameter_docs(kind: type[Scheme]) -> dict[str, str]:
    """Return the text of each parameter, from the docstring of the class that declares it."""
    found: dict[str, str] = {}
    for base in kind.__mro__[:-1]:
        name = ""
        for line in section(base, "Parameters"):
            if not line.startswith(" "):
                name = line
            elif name in vars(base).get("__annotations__", {}):
                found[name] = f"{found.get(name, '')} {line.strip()}".strip().replace("|", "\\|")
    return found


def as_markdown(text: str) -> str:
    """Convert a docstring to Markdown."""
    text = inspect.cleandoc(text)
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text)
    text = re.sub(r"::$", ":", text, flags=re.MULTILINE)
    text = re.sub(r"(?<!\n)\n(?=\* )", "\n\n", text, count=1)
    return re.sub(r"``([^`]+)``", r"`\1`", text)


INDEX = f"""# All schemes

Each scheme is one short, compiled file to read beside its paper, tested message by message against a slow
reference. Papers have short names: *choices* (When Two Choices Are not Enough), *heterogeneous* (Load
Balancing for Skewed Streams on Heterogeneous Cluster), *functions* (Partitioning Functions for Stateful
Data Parallelism), *evolving* (FISH) and *dynamic* (Dynamic Key Grouping); a scheme's page cites its own.

The last columns are measurements (`make scheme-pages`): the highest load relative to the mean / the number of
(key, worker) pairs relative to key grouping, for {WORKERS} workers and one source, on a Zipf stream with
exponent 1.4, on a stream whose hot keys change, and on the words of the State of the Union addresses.

{{table}}
You can add [your own scheme](../own-scheme.md) in one file.
"""

if __name__ == "__main__":
    main()
