"""``evenflow advise`` as a user runs it: real files in, sentences, JSON and a page out."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import evenflow as ef
from evenflow.advisor import Advice
from evenflow.cli import main
from evenflow.errors import EvenflowError
from evenflow.schemes.d_choices import DChoices

VOID = {"meta", "br", "img", "link", "hr", "input"}
SCHEME_FIELDS = {
    "scheme",
    "spelling",
    "mode",
    "suits",
    "one_owner",
    "max_load",
    "max_over_mean",
    "expected",
    "makespan",
    "seconds",
    "speed_up",
    "imbalance",
    "imbalance_mean",
    "replicas",
    "memory",
    "keys_moved",
    "state_moved",
    "joining_moves",
    "joining_ideal",
}
STREAM_FIELDS = {
    "name",
    "key",
    "messages",
    "total",
    "sampled",
    "sample",
    "keys",
    "top_1",
    "top_10",
    "top_100",
    "hottest",
    "exponent",
    "grouped",
    "change",
}


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["advise", *arguments])


def advice(*arguments: str) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refusal(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return str(result.stderr)


@pytest.fixture(scope="module")
def sales(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """4000 rows, half of them of one shop; 300 days; ``empty`` has only nulls."""
    draw = np.random.default_rng(1)
    shops = np.where(draw.random(4000) < 0.5, 0, draw.integers(1, 200, 4000))
    table = pa.table(
        {
            "shop": [f"shop {number}" for number in shops],
            "day": np.arange(4000) // 14,
            "at": pa.array(1_700_000_000 + np.arange(4000) * 60, pa.timestamp("s")),
            "empty": pa.nulls(4000, pa.string()),
        }
    )
    path = tmp_path_factory.mktemp("sales") / "sales.parquet"
    pyarrow.parquet.write_table(table, path, row_group_size=1000)
    return path


class Checker(HTMLParser):
    """Refuses tags that do not fit together; keeps the tags and the text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def checked(path: Path) -> Checker:
    checker = Checker()
    checker.feed(path.read_text(encoding="utf-8"))
    checker.close()
    assert checker.open == []
    return checker


def test_people_see_facts_schemes_reason_and_code(sales: Path) -> None:
    result = run(str(sales), "--key", "shop", "--workers", "8")
    assert result.exit_code == 0, result.output
    for text in ("Key 'shop' on 8 workers", "4,000", "shop 0", "Zipf", "speed-up", "memory"):
        assert text in result.stdout
    assert "### Recommended: fill" in result.stdout
    assert 'df = df.transform(balance("shop", workers=8))' in result.stdout


@pytest.mark.parametrize(("work", "answer"), [("--mergeable", "fill"), ("--one-owner", "fill:split=no")])
def test_the_profile_and_a_first_answer_come_before_the_comparison(
    sales: Path, monkeypatch: pytest.MonkeyPatch, work: str, answer: str
) -> None:
    """Whatever goes wrong with the schemes that are compiled later, the user has seen the profile."""

    def broken(*arguments: Any, **options: Any) -> Any:
        raise EvenflowError("d-choices was asked")

    monkeypatch.setattr(DChoices, "router", broken)
    result = run(str(sales), "--key", "day", "--workers", "4", work)
    assert result.exit_code == 2
    assert "d-choices was asked" in result.stderr
    assert "Key 'day' on 4 workers" in result.stdout
    assert "Hottest keys" in result.stdout
    assert "Recommended" not in result.stdout
    assert "First answer: key (under key grouping" in result.stderr
    hot = run(str(sales), "--key", "shop", "--workers", "4", work)
    hashed, better = re.findall(r"([0-9.]+) times", hot.stderr.partition("First answer: ")[2])[:2]
    assert f"First answer: {answer} (" in hot.stderr
    assert float(hashed) > float(better)


def test_the_first_answer_is_in_the_last_one(sales: Path) -> None:
    firsts: list[Advice] = []
    last = ef.advise(str(sales), "shop", workers=8, first=firsts.append)
    [first] = firsts
    assert [outcome.spelling for outcome in first.outcomes] == ["fill", "key", "shuffle"]
    rows = last.to_dict()["schemes"]
    assert all(row in rows for row in first.to_dict()["schemes"])
    assert first.to_dict()["recommendation"] == last.to_dict()["recommendation"]


def test_json_has_the_documented_fields_and_nothing_else_is_printed(sales: Path) -> None:
    found = advice(str(sales), "--key", "shop", "--workers", "8")
    assert set(found) == {"stream", "workers", "work", "cores", "cost", "schemes", "recommendation"}
    assert set(found["stream"]) == STREAM_FIELDS
    assert all(set(row) == SCHEME_FIELDS for row in found["schemes"])
    assert set(found["recommendation"]) == {"scheme", "spelling", "reason", "code", "notes"}
    assert (found["workers"], found["work"]) == (8, "mergeable")
    stream = found["stream"]
    assert (stream["messages"], stream["total"], stream["sampled"], stream["sample"]) == (
        4000,
        4000,
        False,
        None,
    )
    assert stream["key"] == ["shop"]
    assert stream["hottest"][0]["key"] == "shop 0"
    assert stream["top_1"] == stream["hottest"][0]["share"] == pytest.approx(0.5, abs=0.03)
    assert stream["change"]["changes"] is False


@pytest.mark.parametrize(
    ("option", "scheme"), [("--mergeable", "fill"), ("--stateless", "shuffle"), ("--one-owner", None)]
)
def test_the_kind_of_work_decides(sales: Path, option: str, scheme: str | None) -> None:
    found = advice(str(sales), "--key", "shop", "--workers", "8", option)
    assert found["work"] == option[2:]
    recommended = found["recommendation"]["spelling"]
    if scheme is not None:
        assert recommended == scheme
    else:
        row = next(row for row in found["schemes"] if row["spelling"] == recommended)
        assert row["one_owner"]


def test_an_even_key_of_a_csv_gets_key_grouping(tmp_path: Path) -> None:
    path = tmp_path / "even.csv"
    path.write_text("id,value\n" + "".join(f"u{(row * 7919) % 2000},{row}\n" for row in range(20_000)))
    found = advice(str(path), "--key", "id", "--workers", "4")
    assert found["recommendation"]["scheme"] == "key"
    assert found["recommendation"]["code"] == 'df = df.repartition(4, "id")'
    assert found["stream"]["keys"] == 2000


def test_a_key_of_several_columns(sales: Path) -> None:
    found = advice(str(sales), "--key", "shop", "--key", "day", "--workers", "4")
    assert found["stream"]["key"] == ["shop", "day"]
    assert "shop 0, " in found["stream"]["hottest"][0]["key"]
    assert f"{sales}#shop+day" == found["stream"]["name"]


def test_a_large_file_is_sampled_and_it_says_so(sales: Path) -> None:
    result = run(str(sales), "--key", "shop", "--workers", "4", "--sample", "1e3")
    assert "Based on a sample: 1,000 of 4,000 messages" in result.stdout
    found = advice(str(sales), "--key", "shop", "--workers", "4", "--sample", "1000")
    assert (found["stream"]["messages"], found["stream"]["total"], found["stream"]["sampled"]) == (
        1000,
        4000,
        True,
    )
    whole = advice(str(sales), "--key", "shop", "--workers", "4", "--sample", "all")
    assert whole["stream"]["messages"] == 4000


def test_hot_keys_that_change_are_noticed() -> None:
    drift = advice("drift:keys=1e3,messages=2e4,share=0.4", "--workers", "8")
    assert drift["stream"]["change"]["changes"] is True
    still = advice("zipf:z=1.4,keys=1e3,messages=2e4", "--workers", "8")
    assert still["stream"]["change"]["changes"] is False
    assert "### Recommended: fill" in run("drift:keys=1e3,messages=2e4,share=0.4", "--workers", "8").stdout


def test_the_page_is_one_whole_file_with_three_figures(sales: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    result = run(str(sales), "--key", "shop", "--time", "at", "--workers", "8", "--html", str(page))
    assert result.exit_code == 0, result.output
    assert f"Wrote the report to {page}." in result.stdout
    checker = checked(page)
    assert [name for name, _ in checker.attributes].count("data-chart") == 3
    assert checker.tags.count("figure") == 3
    assert page.stat().st_size < 2_000_000
    text = " ".join(checker.text)
    for expected in (
        "Recommended: fill",
        "Load per worker",
        "Hot keys over time",
        "Balance against memory",
        "shop 0",
    ):
        assert expected in text
    assert "2023-11-1" in text  # the figure over time has dates
    for name, value in checker.attributes:
        if name in {"href", "src", "xlink:href"}:
            assert value is not None
            assert value.startswith(("#", "data:"))
    ids = [value for name, value in checker.attributes if name == "id"]
    assert {"chart-0", "chart-1", "chart-2"} <= set(ids)
    assert len(ids) == len(set(ids))  # no chart takes another's data


@pytest.mark.parametrize("work", ["--mergeable", "--one-owner", "--stateless"])
def test_a_key_named_like_a_script_stays_text(tmp_path: Path, work: str) -> None:
    evil = "<script>alert('x')</script>"
    others = ["a&b", '"><img src=x onerror=1>', "$\\frac{1}$", "x\x1b[31m", "日本", "null"]
    keys = [evil] * 600 + [name for name in others for _ in range(60)]
    order = np.random.default_rng(1).permutation(len(keys))
    path = tmp_path / "evil.parquet"
    table = pa.table({"<b>key</b>": [keys[place] for place in order]})
    pyarrow.parquet.write_table(table, path)
    page = tmp_path / "report.html"
    result = run(str(path), "--workers", "4", work, "--html", str(page))
    assert result.exit_code == 0, result.output
    assert "\x1b[31m" not in result.stdout
    checker = checked(page)
    assert checker.tags.count("script") == 5  # the data of three charts, uPlot, and what draws with it
    assert evil not in page.read_text()
    assert "b" not in checker.tags
    assert "img" not in checker.tags
    assert not any(name.startswith("on") for name, _ in checker.attributes)
    text = "".join(checker.text)
    assert evil in text
    assert "<b>key</b>" in text
    assert "$\\frac{1}$" in text


def test_json_and_page_together(sales: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    found = advice(str(sales), "--key", "shop", "--workers", "8", "--html", str(page))
    assert found["recommendation"]["scheme"] == "fill"
    checked(page)


def test_missing_files_and_columns_are_named(sales: Path, tmp_path: Path) -> None:
    assert "there is no file" in refusal(str(tmp_path / "nothing.csv"), "--workers", "4")
    assert "has no column 'shopp'; did you mean 'shop'" in refusal(
        str(sales), "--key", "shopp", "--workers", "4"
    )
    assert "name the key column" in refusal(str(sales), "--workers", "4")
    assert "there is no generator 'zpif'" in refusal("zpif:z=1", "--workers", "4")


def test_empty_data_and_null_keys_are_refused(sales: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.csv"
    empty.write_text("key\n")
    assert "has no rows" in refusal(str(empty), "--workers", "4")
    assert "is null; choose another of the columns shop, day, at, empty" in refusal(
        str(sales), "--key", "empty", "--workers", "4"
    )


def test_numbers_of_workers_that_are_none_are_refused(sales: Path) -> None:
    assert "workers is 0; a router needs at least one worker" in refusal(
        str(sales), "--key", "shop", "--workers", "0"
    )
    assert "workers is -3" in refusal(str(sales), "--key", "shop", "--workers", "-3")
    assert "workers is 10000000; use at most 1048576" in refusal(
        str(sales), "--key", "shop", "--workers", "10000000"
    )
    missing = run(str(sales), "--key", "shop")
    assert missing.exit_code == 2
    assert "--workers" in missing.stderr


def test_other_bad_options_are_refused_before_the_work(sales: Path, tmp_path: Path) -> None:
    common = (str(sales), "--key", "shop", "--workers", "4")
    assert "--one-owner and --stateless are mutually exclusive" in refusal(
        *common, "--one-owner", "--stateless"
    )
    assert "--sample is 'some'; it must be a number of rows" in refusal(*common, "--sample", "some")
    assert "use .html" in refusal(*common, "--html", str(tmp_path / "report.pdf"))
    assert "there is no folder" in refusal(*common, "--html", str(tmp_path / "no" / "report.html"))


def test_more_workers_than_rows_is_fine(tmp_path: Path) -> None:
    path = tmp_path / "few.txt"
    path.write_text("to be or not to be")
    found = advice(str(path), "--workers", "50")
    assert found["stream"]["messages"] == 6
    assert found["stream"]["key"] == ["word"]
    assert any("fewer keys (4) than workers (50)" in note for note in found["recommendation"]["notes"])
