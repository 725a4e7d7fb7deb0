"""The command line: what it prints for people and for programs, how it fails, how it stops."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

import evenflow as ef
from evenflow import bench
from evenflow.bench import memory, routers
from evenflow.bench.subjects import Subject
from evenflow.cli import main

EVENFLOW = [sys.executable, "-c", "from evenflow.cli import main; main(prog_name='evenflow')"]


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main, list(arguments))


def run_json(*arguments: str) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


ALL = [path for path, _ in commands(typer.main.get_command(main))]


# --- the frame ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_has_help_with_an_example(path: tuple[str, ...]) -> None:
    result = run(*path, "--help")
    assert result.exit_code == 0
    words = re.sub(r"\s+", " ", result.stdout)
    assert f"Example: evenflow {' '.join(path)}".strip() in words


def test_a_command_alone_shows_its_help() -> None:
    assert "Usage: evenflow" in run().output
    assert "routers" in run("bench").output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            "advise x --workers none",
            "Invalid value for '--workers': 'none' is not a whole number; write one such as 64 or 1e6.",
        ),
        (
            "advise x --workers 4 --cost a",
            "Invalid value for '--cost': 'a' is not a number; write 0.5 or 2e-5.",
        ),
        ("advise", "Missing argument 'DATA'; see 'evenflow advise --help'."),
        ("bench spark --foo", "No such option: --foo; see 'evenflow bench spark --help'."),
        ("wrong", "No such command 'wrong'; see 'evenflow --help'."),
        ("advise x --key", "Option '--key' requires an argument; see 'evenflow advise --help'."),
        ("bench join --only", "Option '--only' requires an argument; see 'evenflow bench join --help'."),
        ("--foo", "No such option: --foo; see 'evenflow --help'."),
        ("bench wrong", "No such command 'wrong'; see 'evenflow bench --help'."),
        ("demo --rounds 0", "--rounds is 0; run each at least once."),
    ],
)
def test_a_wrong_command_line_is_one_sentence(arguments: str, sentence: str) -> None:
    done = CliRunner().invoke(main, arguments.split(), prog_name="evenflow")
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"evenflow: {sentence}\n")


def test_version() -> None:
    assert run("--version").stdout == f"evenflow {ef.__version__}\n"


@pytest.mark.parametrize("arguments", [["--help"], ["bench", "--help"], ["bench", "routers", "--help"]])
def test_help_is_quick(arguments: list[str]) -> None:
    program = (
        "import sys\n"
        "from evenflow.cli import main\n"
        "try:\n"
        f"    main({arguments!r})\n"
        "except SystemExit as end:\n"
        "    assert end.code == 0\n"
        "print('loaded:', *{'numba', 'numpy', 'pyarrow', 'pandas', 'pyspark'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1].split() == ["loaded:"]


def test_the_package_loads_its_names_when_they_are_used() -> None:
    program = (
        "import sys, evenflow.schemes.base, evenflow as ef\n"
        "assert ef.list_schemes().keys() == evenflow.schemes.list_schemes().keys()\n"
        "assert set(ef.__all__) <= set(dir(ef))\n"
        "from evenflow import *\n"
        "assert scheme('key') == ef.scheme('key') and 'key' in list_schemes()\n"
        "assert 'pyspark' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    with pytest.raises(AttributeError, match="routers"):
        ef.routers  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["schemes", "d-choice"], "there is no scheme 'd-choice'; did you mean 'd-choices'"),
        (["bench", "routers", "--workers", "0"], "workers is 0; it must be at least 1."),
        (["bench", "routers", "--messages", "-5"], "messages is -5"),
    ],
)
def test_bad_input_is_one_sentence_and_status_2(arguments: list[str], sentence: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("evenflow: ")
    lines = [line for line in result.stderr.splitlines() if sentence in line]
    assert len(lines) == 1
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [["bench", "routers", "--messages", "many"], ["bench", "routers", "--messages", "1.5"], ["nothing"]],
)
def test_bad_usage_is_status_2_too(arguments: list[str]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.stderr


def test_ctrl_c_ends_with_one_line_and_130() -> None:
    command = [*EVENFLOW, "bench", "routers"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        assert "bench routers: 0 of" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        rest = [line for line in process.stderr.read().splitlines() if " of " not in line]
        assert process.stdout.read() == ""
    assert rest == ["evenflow: interrupted."]
    assert process.returncode == 130


def test_a_reader_that_leaves_early_is_no_error() -> None:
    done = subprocess.run(
        ["sh", "-c", '"$@" | head -n 1', "sh", *EVENFLOW, "schemes"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "### Schemes\n"
    assert done.stderr == ""


def test_the_shell_completes_names() -> None:
    environment = os.environ | {
        "_EVENFLOW_COMPLETE": "complete_bash",
        "COMP_WORDS": "evenflow schemes d-",
        "COMP_CWORD": "2",
    }
    done = subprocess.run(EVENFLOW, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == ["d-choices"]


# --- schemes -----------------------------------------------------------------------------------------------


def test_schemes_lists_what_is_registered() -> None:
    listed = {scheme["name"]: scheme for scheme in run_json("schemes")}
    assert listed.keys() == ef.list_schemes().keys()
    for name, kind in ef.list_schemes().items():
        assert {entry["name"]: entry["default"] for entry in listed[name]["parameters"]} == json.loads(
            json.dumps(kind().parameters())
        )
        assert listed[name]["properties"]["splits_keys"] == kind.splits_keys
        assert listed[name]["summary"]
        assert listed[name]["paper"]
    assert listed["partial-key"]["aliases"] == ["pkg"]


def test_schemes_for_people() -> None:
    output = run("schemes").stdout
    for name in ef.list_schemes():
        assert f"| {name} " in output
    assert "distinct=True" in output


@pytest.mark.parametrize("name", ["partial-key", "pkg"])
def test_one_scheme_by_name_or_alias(name: str) -> None:
    output = run("schemes", name).stdout
    assert output.startswith("partial-key: two candidates per key")
    assert "Not specified by the paper" in output
    assert "| distinct  | bool | True    |" in output
    assert run_json("schemes", name)["description"] in output


# --- bench -------------------------------------------------------------------------------------------------


def test_bench_routers() -> None:
    rows = run_json("bench", "routers", "--quick", "--messages", "2e4", "--workers", "20")
    for row in rows:
        assert {"scheme", "workers", "messages_per_second", "relative_to_key"} <= row.keys()
        assert row["messages_per_second"] > 0
        assert row["messages"] == 2000
        assert row["lowest"] <= row["relative_to_key"] <= row["highest"]
    parts = {part: [row for row in rows if row["part"] == part] for part in ("speed", "growth", "memory")}
    assert sum(map(len, parts.values())) == len(rows)
    names = [row["scheme"] for row in parts["speed"]]
    assert sorted(names) == sorted([*ef.list_schemes(), "explicit"])
    assert {row["workers"] for row in parts["speed"]} == {20}
    assert [row["relative_to_key"] for row in parts["speed"] if row["scheme"] == "key"] == [1.0]
    assert all(row["ok"] is None for row in parts["speed"])  # the limits are for 100 workers
    assert [row["workers"] for row in parts["growth"]] == [10, 100, 1000] * 2
    assert {row["scheme"] for row in parts["memory"]} == set(ef.list_schemes())
    assert all(row["details"]["distinct_keys"] == [2, 2000] for row in parts["memory"])
    assert all(row["ok"] == (row["value"] <= float(row["limit"].split()[-1])) for row in parts["memory"])


def test_bench_all(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(str(bench.__file__)).parent
    assert {folder / f"{name}.py" for name in bench.BENCHMARKS} <= set(folder.iterdir())
    monkeypatch.setattr(bench, "BENCHMARKS", ("routers",))
    monkeypatch.setattr(routers, "run", partial(routers.run, workers=5, messages=2000))
    few = [Subject(ef.scheme(name)) for name in ("key", "partial-key")]  # test_bench_routers has them all
    for module in (routers, memory):
        monkeypatch.setattr(module, "every_scheme", lambda: few)
    found = run_json("bench", "all", "--quick")
    assert list(found) == ["routers"]
    assert {row["messages"] for row in found["routers"]} == {200}
