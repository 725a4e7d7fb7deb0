"""Compiled kernels are found again by every process, and never after an edit of what they call."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from evenflow import kernels

ROOM = Path(kernels.__file__).parent

STAMPS = """
import json, sys
import {first}
import evenflow.schemes, evenflow.keys.hashing
found = {{}}
for name, module in sorted(sys.modules.items()):
    if name.startswith(("evenflow.schemes", "evenflow.sketches", "evenflow.keys")):
        for attribute, value in vars(module).items():
            cache = getattr(getattr(value, "_cache", None), "_cache_file", None)
            if cache is not None and value.__module__ == name:
                found[f"{{name}}.{{attribute}}"] = cache._source_stamp.hex()
print(json.dumps(found))
"""


def test_kernels_are_the_same_whatever_else_is_loaded() -> None:
    """Or processes that differ in it would compile everything again and again."""
    found = []
    for first in ("evenflow.keys.hashing", "evenflow.schemes"):
        program = [sys.executable, "-c", STAMPS.format(first=first)]
        printed = subprocess.run(program, capture_output=True, text=True, check=True).stdout
        found.append(json.loads(printed))
    assert len(found[0]) > 30
    assert found[0] == found[1]


def test_a_kernel_depends_on_what_its_module_calls() -> None:
    behind = {
        str(file.relative_to(ROOM)) for file in kernels._files_behind(ROOM / "schemes" / "d_choices.py")
    }
    assert {
        "schemes/d_choices.py", "schemes/choices_solver.py", "schemes/head.py", "sketches/space_saving.py",
        "keys/__init__.py", "kernels.py",
    } <= behind  # fmt: skip
    assert not any(name.startswith(("spark", "simulator", "advisor")) for name in behind)


@pytest.mark.parametrize(
    "text", ["from evenflow.schemes import (\n    head,\n)", "from evenflow.schemes import head"]
)
def test_a_module_may_be_imported_by_name(tmp_path: Path, text: str) -> None:
    file = tmp_path / "own.py"
    file.write_text(text)
    assert {file, ROOM / "schemes" / "head.py"} <= kernels._files_behind(file)


def test_an_edit_of_a_file_behind_it_compiles_a_kernel_anew(tmp_path: Path) -> None:
    copy = tmp_path / "evenflow"
    shutil.copytree(ROOM, copy, ignore=shutil.ignore_patterns("__pycache__", "spark", "papers", "dashboard"))
    program = (
        "from evenflow.schemes import choices_solver, d_choices, key; "
        "print(*(m._cache._cache_file._source_stamp.hex() for m in (d_choices._route, key._route)))"
    )

    def stamps() -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path
        )
        return done.stdout.split()

    before = stamps()
    solver = copy / "schemes" / "choices_solver.py"
    solver.write_text(solver.read_text().replace("failed = 1", "failed = size"))
    after = stamps()
    assert before[0] != after[0]
    assert before[1] == after[1]
