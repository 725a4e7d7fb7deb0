"""``evenflow doctor``: is everything here that evenflow needs? Each line says ok, or what to do."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from evenflow import java
from evenflow.commands.terminal import Json, print_json

LEAST_MEMORY = 4  # GiB: Spark's driver, and a few Python workers beside it
LEAST_DISK = 2  # GiB: Spark's shuffle files


class Check(NamedTuple):
    """One line: what was looked at, what was found, and what to do (nothing if it is well)."""

    what: str
    found: str
    to_do: str = ""
    needed: bool = True  # without it nothing works; otherwise only a part does not


def doctor(
    spark: Annotated[bool, typer.Option("--spark", help="Start Spark as well and run a small job.")] = False,
    as_json: Json = False,
) -> None:
    """Look at Python, Java, Spark, memory and numba's cache; each line says ok or what to do.

    Example: `evenflow doctor --spark`
    """
    checks = [check() for check in (*CHECKS, *((spark_runs,) if spark else ()))]
    if as_json:
        print_json([check._asdict() | {"ok": not check.to_do} for check in checks])
    else:
        from evenflow.report.tables import Table, show

        rows = [(check.what, check.found, check.to_do or "ok") for check in checks]
        show([Table("This machine", ("", "found", "what to do"), rows)])
    if any(check.to_do and check.needed for check in checks):
        raise typer.Exit(1)


def python() -> Check:
    """Look at the version of Python."""
    old = sys.version_info < (3, 11)
    return Check("Python", platform.python_version(), "evenflow needs Python 3.11 or newer." if old else "")


def java_runs() -> Check:
    """Look for the Java that Spark would use."""
    found = java.java_version()
    bad = found is None or found < java.OLDEST
    wanted = _version("pyspark") is not None  # the core runs without
    to_do = java.advice(found) if bad else ""
    return Check("Java", "none" if found is None else str(found), to_do, needed=wanted)


def pyspark() -> Check:
    """Look at the version of PySpark."""
    found = _version("pyspark")
    if found is None:
        return Check("PySpark", "none", "for Spark: pip install 'evenflow[spark]'", needed=False)
    old = tuple(int(part) for part in found.split(".")[:2]) < (4, 2)
    return Check(
        "PySpark", found, "mode='online' needs 4.2 or newer: pip install 'evenflow[spark]'" if old else ""
    )


def worker_python() -> Check:
    """Look whether the Python that Spark starts its workers with has evenflow too."""
    chosen = os.environ.get("PYSPARK_PYTHON", "python3")  # as Spark does
    asked = "import importlib.util as u; raise SystemExit(u.find_spec('evenflow') is None)"
    found = shutil.which(chosen)
    if (
        found is not None
        and subprocess.run([found, "-c", asked], capture_output=True, check=False).returncode == 0
    ):
        return Check("Python of Spark's workers", chosen)
    to_do = f"it has no evenflow; before your own jobs: export PYSPARK_PYTHON={sys.executable}"
    return Check("Python of Spark's workers", chosen, to_do, needed=False)


def connect() -> Check:
    """Look for what a Spark Connect client needs."""
    missing = [name for name in ("grpcio", "grpcio-status", "zstandard") if _version(name) is None]
    to_do = "for Spark Connect: pip install 'evenflow[connect]'" if missing else ""
    return Check(
        "Spark Connect", f"without {', '.join(missing)}" if missing else "installed", to_do, needed=False
    )


def delta() -> Check:
    """Look for the package that keeps the state of stateful queries."""
    found = _version("deltalake")
    to_do = "" if found else "for stateful queries: pip install 'evenflow[state]'"
    return Check("Delta (stateful)", found or "none", to_do, needed=False)


def figures() -> Check:
    """Look for the package that draws figures."""
    found = _version("matplotlib")
    to_do = "" if found else "for figures and reports: pip install 'evenflow[plots]'"
    return Check("Matplotlib (figures)", found or "none", to_do, needed=False)


def compiled() -> Check:
    """Look whether compiled kernels are kept for the next process."""
    what = "compiled kernels"
    try:
        from evenflow.kernels import cache_folder

        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        to_do = (
            f"set NUMBA_CACHE_DIR to a folder that can be written, or each process compiles anew ({error})."
        )
        return Check(what, "not kept", to_do, needed=False)
    return Check(what, f"{sum(1 for _ in folder.parent.rglob('*.nbc'))} kept in {folder}")


def memory() -> Check:
    """Look at how much memory there is for Spark."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    to_do = (
        f"Spark and its Python workers want {LEAST_MEMORY} GiB; use fewer workers."
        if total < LEAST_MEMORY
        else ""
    )
    return Check("memory", f"{total:.1f} GiB, {os.cpu_count()} cores", to_do, needed=False)


def disk() -> Check:
    """Look at how much room there is for shuffle files."""
    folder = Path(os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).split(",")[0])
    free = shutil.disk_usage(folder).free / 2**30
    to_do = (
        f"Spark shuffles through {folder}; make room, or set SPARK_LOCAL_DIRS." if free < LEAST_DISK else ""
    )
    return Check("disk for shuffles", f"{free:.0f} GiB free in {folder}", to_do, needed=False)


def spark_runs() -> Check:
    """Run a small job through balanced workers, Python included."""
    try:
        from evenflow.spark.session import local_session

        with local_session(**{"spark.log.level": "ERROR"}) as session:
            from evenflow.spark import balance, loads

            frame = session.range(1000).selectExpr("id % 10 as key")
            found = loads(frame.transform(balance("key", workers=2, mode="online")), "key", workers=2)
    except Exception as error:  # whatever is wrong with Spark here is what was asked
        return Check("a job on Spark", "failed", str(error).splitlines()[0])
    return Check("a job on Spark", found.summary())


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


CHECKS: tuple[Callable[[], Check], ...] = (
    python, java_runs, pyspark, worker_python, connect, delta, figures, compiled, memory, disk,
)  # fmt: skip
