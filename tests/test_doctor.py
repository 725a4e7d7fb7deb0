"""`evenflow doctor`: every line says ok or what to do, and the exit status says whether anything works."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from evenflow.cli import main
from evenflow.commands import doctor


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["doctor", *arguments])


def test_a_healthy_machine() -> None:
    found = run("--json")
    assert found.exit_code == 0, found.output
    checks = {check["what"]: check for check in json.loads(found.stdout)}
    assert all(checks[what]["ok"] for what in ("Python", "Java", "PySpark", "compiled kernels"))


def test_without_java_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = run()
    assert found.exit_code == 1
    assert "apt-get install openjdk" in " ".join(found.output.split())


def test_an_old_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_292\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert "Java 8 was found" in doctor.java_runs().to_do


@pytest.mark.parametrize(
    ("version", "found", "to_do"),
    [
        ("3.5.9", "3.5.9", "evenflow needs 4.0 or newer; run: pip install 'evenflow[spark]'"),
        ("4.0.5", "4.0.5; mode='online' needs Spark 4.2 or newer", ""),
        ("4.2.0", "4.2.0", ""),
    ],
)
def test_versions_of_spark(monkeypatch: pytest.MonkeyPatch, version: str, found: str, to_do: str) -> None:
    monkeypatch.setattr(doctor, "_version", lambda package: version)
    assert doctor.pyspark() == ("PySpark", found, to_do, True)


def test_kernels_that_cannot_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> Path:
        raise OSError("no folder")

    monkeypatch.setattr("evenflow.kernels.cache_folder", refuse)
    check = doctor.compiled()
    assert "NUMBA_CACHE_DIR" in check.to_do
    assert not check.needed


def test_the_python_of_the_workers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert not doctor.worker_python().to_do
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys._base_executable} -S -I "$@"\n')  # type: ignore[attr-defined]
    bare.chmod(0o755)
    for other in (bare, tmp_path / "none"):
        monkeypatch.setenv("PYSPARK_PYTHON", str(other))
        assert f"export PYSPARK_PYTHON={sys.executable}" in doctor.worker_python().to_do
        assert not doctor.worker_python().needed


@pytest.mark.spark
def test_a_job_on_spark(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(spark), "__exit__", lambda *_: None)  # the session of all tests stays
    assert doctor.spark_runs().found.startswith("1,000 rows on 2 workers")
