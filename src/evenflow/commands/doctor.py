"""``evenflow doctor``: check the installation; each line says ok or what to do."""

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

LEAST_MEMORY = 4  # GiB, for Spark's driver and a few Python workers
_INSTALL = "pip install 'evenflow[spark]'"
LEAST_DISK = 2  # GiB, for Spark's shuffle files


class Check(NamedTuple):
    """One line: what was checked, what was found, and what to do (empty if ok)."""

    what: str
    found: str
    to_do: str = ""
    needed: bool = True  # False: only optional features need it


def doctor(
    spark: Annotated[bool, typer.Option("--spark", help="Also start Spark and run a small job.")] = False,
    storage: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Also try out this object store or folder: write, read, conditions, latency."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check Python, Java, Spark, memory and numba's cache; each line says ok or what to do.

    Example: `evenflow doctor --spark`

    Example: `evenflow doctor --storage s3://bucket/evenflow`
    """
    checks = [check() for check in (*CHECKS, *((spark_runs,) if spark else ()))]
    if storage is not None:
        from evenflow.storage.probe import probe

        checks += [Check(f"storage: {what}", found, to_do) for what, found, to_do in probe(storage)]
    if as_json:
        print_json([check._asdict() | {"ok": not check.to_do} for check in checks])
    else:
        from evenflow.report.tables import Table, show

        rows = [(check.what, check.found, check.to_do or "ok") for check in checks]
        show([Table("This machine", ("", "found", "what to do"), rows)])
    if any(check.to_do and check.needed for check in checks):
        raise typer.Exit(1)


def python() -> Check:
    """Check the Python version."""
    old = sys.version_info < (3, 11)
    return Check("Python", platform.python_version(), "evenflow needs Python 3.11 or newer." if old else "")


def java_runs() -> Check:
    """Check the Java that Spark would use."""
    found = java.java_version()
    bad = found is None or found < java.OLDEST
    wanted = _version("pyspark") is not None  # the core does not need Java
    to_do = java.advice(found) if bad else ""
    return Check("Java", "none" if found is None else str(found), to_do, needed=wanted)


def pyspark() -> Check:
    """Check the PySpark version."""
    found = _version("pyspark")
    if found is None:
        return _optional("PySpark", "none", True, "use Spark", "spark")
    from evenflow.spark.versions.known import OLDEST, lacking, parsed, spelled

    if parsed(found) < OLDEST:
        return Check("PySpark", found, f"evenflow needs {spelled(OLDEST)} or newer; run: {_INSTALL}")
    missing = lacking(parsed(found))
    return Check("PySpark", found + "".join(f"; {sentence}" for sentence in missing))


def worker_python() -> Check:
    """Check that evenflow is installed for Spark's worker Python."""
    chosen = os.environ.get("PYSPARK_PYTHON", "python3")  # Spark's default
    probe = "import importlib.util as u; raise SystemExit(u.find_spec('evenflow') is None)"
    found = shutil.which(chosen)
    if (
        found is not None
        and subprocess.run([found, "-c", probe], capture_output=True, check=False).returncode == 0
    ):
        return Check("Spark worker Python", chosen)
    to_do = (
        "evenflow is not installed in this Python. Before submitting jobs, run: "
        f"export PYSPARK_PYTHON={sys.executable}"
    )
    return Check("Spark worker Python", chosen, to_do, needed=False)


def connect() -> Check:
    """Check the dependencies of a Spark Connect client."""
    missing = [name for name in ("grpcio", "grpcio-status", "zstandard") if _version(name) is None]
    found = f"missing {', '.join(missing)}" if missing else "installed"
    return _optional("Spark Connect", found, bool(missing), "use Spark Connect", "connect")


def delta() -> Check:
    """Check the package that stores the state of stateful queries."""
    found = _version("deltalake")
    return _optional("Delta (stateful)", found or "none", found is None, "use stateful queries", "state")


def figures() -> Check:
    """Check the plotting package."""
    found = _version("matplotlib")
    return _optional(
        "Matplotlib (figures)", found or "none", found is None, "draw figures and reports", "plots"
    )


def dashboard() -> Check:
    """Check the web server of the dashboard."""
    found = _version("starlette") if _version("uvicorn") else None
    return _optional("dashboard", found or "none", found is None, "open the dashboard", "dashboard")


def metrics() -> Check:
    """Check the client of Prometheus."""
    found = _version("prometheus-client")
    return _optional("Prometheus client", found or "none", found is None, "serve metrics", "metrics")


def _optional(what: str, found: str, missing: bool, use: str, extra: str) -> Check:
    to_do = f"To {use}, run: pip install 'evenflow[{extra}]'" if missing else ""
    return Check(what, found, to_do, needed=False)


def compiled() -> Check:
    """Check that compiled kernels can be cached."""
    what = "compiled kernels"
    try:
        from evenflow.kernels import cache_folder

        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        to_do = f"Set NUMBA_CACHE_DIR to a writable folder, or every process compiles again ({error})."
        return Check(what, "not cached", to_do, needed=False)
    return Check(what, f"{sum(1 for _ in folder.parent.rglob('*.nbc'))} cached in {folder}")


def memory() -> Check:
    """Check the memory available to Spark."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    to_do = f"Spark and its Python workers need about {LEAST_MEMORY} GiB; use fewer workers."
    found = f"{total:.1f} GiB, {os.cpu_count()} cores"
    return Check("memory", found, to_do if total < LEAST_MEMORY else "", needed=False)


def disk() -> Check:
    """Check the disk space for shuffle files."""
    folder = Path(os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).split(",")[0])
    free = shutil.disk_usage(folder).free / 2**30
    to_do = f"Spark writes shuffle files to {folder}; free some space or set SPARK_LOCAL_DIRS."
    found = f"{free:.0f} GiB free in {folder}"
    return Check("disk for shuffles", found, to_do if free < LEAST_DISK else "", needed=False)


def spark_runs() -> Check:
    """Run a small balanced job, Python workers included."""
    try:
        from evenflow.spark.session import local_session

        with local_session(**{"spark.log.level": "ERROR"}) as session:
            from evenflow.spark import balance, loads
            from evenflow.spark.versions.known import lacking, version_of

            mode = "planned" if lacking(version_of(session)) else "online"
            frame = session.range(1000).selectExpr("id % 10 as key")
            found = loads(frame.transform(balance("key", workers=2, mode=mode)), "key", workers=2)
    except Exception as error:  # any failure of Spark is a finding
        return Check("Spark job", "failed", str(error).splitlines()[0])
    return Check("Spark job", found.summary())


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


CHECKS: tuple[Callable[[], Check], ...] = (
    python, java_runs, pyspark, worker_python, connect, delta, figures, dashboard, metrics, compiled, memory,
    disk,
)  # fmt: skip
