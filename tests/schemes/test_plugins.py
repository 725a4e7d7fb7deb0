"""Schemes of others: a file's class by module:Name, an installed package's by entry point."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import evenflow as ef
from evenflow.schemes import plugins
from evenflow.schemes.spelling import parse_scheme

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_a_class_of_a_file_joins_the_others() -> None:
    # in a process of its own: a registered scheme stays registered
    command = [sys.executable, "-c", "from evenflow.cli import main; main()", "simulate"]
    options = ["--scheme=own_scheme:Sticky:slack=0.2,key", "--stream=zipf:z=1,messages=2e4", "--workers=10"]
    done = subprocess.run(
        [*command, *options, "--sources=1", "--json"],
        cwd=EXAMPLES,
        capture_output=True,
        text=True,
        check=True,
    )
    own, plain = json.loads(done.stdout)
    assert own["parameters"] == "sticky(slack=0.2)"
    assert 1.1 < own["max_over_mean"] < 1.25 < plain["max_over_mean"]


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("no_such_module:Sticky", "No module named 'no_such_module'"),
        ("evenflow.plan:NoSuchClass", "attribute '?NoSuchClass"),
        ("evenflow.plan:Plan", "must be a subclass of evenflow.schemes.Scheme"),
    ],
)
def test_what_is_no_scheme_gets_a_sentence(spec: str, sentence: str) -> None:
    with pytest.raises(ef.EvenflowError, match=sentence):
        parse_scheme(spec)


def test_packages_offer_schemes(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    offered = [
        EntryPoint("again", "evenflow.schemes.key:Key", plugins.GROUP),
        EntryPoint("broken", "no_such_package:Scheme", plugins.GROUP),
    ]
    asked: list[str] = []

    def entry_points(group: str) -> list[EntryPoint]:
        asked.append(group)
        return offered

    monkeypatch.setattr(plugins, "entry_points", entry_points)
    with caplog.at_level(logging.WARNING, "evenflow"):
        plugins.load_installed.__wrapped__()
    assert asked == ["evenflow.schemes"]
    assert "scheme broken of no_such_package:Scheme" in caplog.text
    assert "key" in ef.list_schemes()
