"""The wheel alone: what a light install brings, what it can do, and what it says of the rest.

The environment is a new one with the wheel and, linked into it, the packages that the wheel's metadata asks
for without any extra, and what these ask for: nothing else can be imported there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import evenflow as ef

ROOT = Path(__file__).parents[1]
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
OPTIONAL = ("deltalake", "google.protobuf", "grpc", "matplotlib", "pandas", "pyspark")


@dataclass(frozen=True)
class Environment:
    """A virtual environment with the wheel and what it depends on."""

    folder: Path
    wheel: Path

    def run(self, *command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command of the environment, with nothing of ours in its path."""
        return subprocess.run(
            [str(self.folder / "bin" / command[0]), *command[1:]],
            capture_output=True,
            text=True,
            check=False,
            cwd=cwd or self.folder,
            env=CLEAN,
        )


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    tree = folder / "tree"  # a copy: an old build/ in the checkout would leak into the wheel
    tree.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", tree / "src", ignore=ignored)
    command = ["wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--wheel-dir", str(folder)]
    done = subprocess.run(
        [sys.executable, "-m", "pip", *command, str(tree)],
        capture_output=True,
        text=True,
        check=False,
        env=CLEAN,
    )
    if "No matching distribution found for setuptools" in done.stderr:
        pytest.skip("setuptools, which builds the wheel, cannot be had: there is no package index here")
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def core(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    folder = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in closure(requirements(wheel, extra="")):
        link(name, site)
    python = str(folder / "bin" / "python")
    command = ["--python", python, "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([sys.executable, "-m", "pip", *command, str(wheel)], check=True, env=CLEAN)
    # kernels that were compiled from the same source need not be compiled again
    compiled = shutil.ignore_patterns("*.py", "*.pyc", "*.typed")
    shutil.copytree(ROOT / "src" / "evenflow", site / "evenflow", ignore=compiled, dirs_exist_ok=True)
    return Environment(folder, wheel)


def requirements(wheel: Path, extra: str) -> set[str]:
    """Return the packages that the wheel asks for with an extra, or with none."""
    with ZipFile(wheel) as archive:
        (path,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        lines = archive.read(path).decode().splitlines()
    asked = [Requirement(line.partition(": ")[2]) for line in lines if line.startswith("Requires-Dist: ")]
    return {
        canonicalize_name(one.name)
        for one in asked
        if one.marker is None or (extra and one.marker.evaluate({"extra": extra}))
    }


def closure(names: set[str]) -> set[str]:
    """Return the packages and all that they depend on, as installed here."""
    found: set[str] = set()
    left = set(names)
    while left:
        name = left.pop()
        try:
            asked = [Requirement(text) for text in distribution(name).requires or ()]
        except PackageNotFoundError:
            raise AssertionError(f"{name} is not installed here; run make setup") from None
        found.add(name)
        needed = {
            canonicalize_name(one.name)
            for one in asked
            if one.marker is None or one.marker.evaluate({"extra": ""})
        }
        left |= needed - found
    return found


def link(name: str, site: Path) -> None:
    """Make an installed package importable in another environment, and nothing beside it."""
    found = distribution(name)
    for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
        if not (site / top).exists() and not top.endswith(".pth"):
            (site / top).symlink_to(Path(str(found.locate_file(top))))


def test_the_core_is_six_packages_and_state_leaves_pyspark_to_the_cluster(wheel: Path) -> None:
    core = requirements(wheel, "")
    assert core == {"lazy-loader", "numba", "numpy", "pyarrow", "rich", "typer"}
    assert not closure(core) & {"deltalake", "matplotlib", "pandas", "protobuf", "pyspark"}
    assert "deltalake" in requirements(wheel, "state")
    assert "pyspark" not in closure(requirements(wheel, "state") - {"evenflow"})
    assert {"pyspark", "pandas"} <= requirements(wheel, "spark")
    assert "matplotlib" in requirements(wheel, "plots")
    assert {"starlette", "uvicorn"} <= requirements(wheel, "dashboard")
    assert not closure(requirements(wheel, "dashboard")) & {"pyspark", "matplotlib", "pandas"}


def test_the_metadata_is_complete(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        (path,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        text = archive.read(path).decode().partition("\n\n")[0]
    assert f"Version: {ef.__version__}\n" in text
    for line in (
        "Author: evenflow contributors",
        "License-Expression: Apache-2.0",
        "Classifier: Typing :: Typed",
    ):
        assert line in text
    assert "Keywords: " in text
    assert "evenflow/py.typed" in names
    assert {"evenflow/charts/static/uplot.js", "evenflow/charts/static/uplot.LICENSE"} <= set(names)
    assert {"evenflow/dashboard/static/dashboard.js", "evenflow/dashboard/templates/dashboard.html"} <= set(
        names
    )
    assert not [name for name in names if not name.startswith("evenflow")]  # no tests, no studies


def test_nothing_optional_is_there(core: Environment) -> None:
    tried = f"import importlib.util as u; print(*[n for n in {OPTIONAL!r} if u.find_spec(n.split('.')[0])])"
    assert core.run("python", "-c", tried).stdout.split() == []


def test_the_package_and_its_commands_work(core: Environment, tmp_path: Path) -> None:
    program = (
        "import sys, evenflow as ef\n"
        "router = ef.scheme('partial-key').router(workers=4, seed=7)\n"
        "print(router.route(ef.hash_keys(['to', 'be', 'or', 'not'])).size, ef.__file__)\n"
    )
    done = core.run("python", "-c", program)
    assert done.stdout.startswith(f"4 {core.folder}"), done.stderr
    assert core.run("evenflow", "--version").stdout == f"evenflow {ef.__version__}\n"
    schemes = core.run("evenflow", "schemes")
    assert all(name in schemes.stdout for name in ef.list_schemes()), schemes.stderr
    stream = "zipf:z=1.4,keys=100,messages=5000,seed=1"
    simulated = core.run("evenflow", "simulate", "--scheme", "key,fill", "--stream", stream, "--workers", "5")
    assert re.search(r"\| fill +\| +5 \|", simulated.stdout), simulated.stderr
    lines = [f"u{number % 7 if number % 2 else 0},{number}" for number in range(2000)]
    (tmp_path / "events.csv").write_text("\n".join(["user,at", *lines]))
    advised = core.run("evenflow", "advise", "events.csv", "--key", "user", "--workers", "8", cwd=tmp_path)
    assert "### Recommended: " in advised.stdout, advised.stderr
    doctor = core.run("evenflow", "doctor")
    assert doctor.returncode == 0, doctor.stdout + doctor.stderr
    for extra in ("spark", "state", "plots", "connect", "dashboard", "metrics"):
        assert f"pip install 'evenflow[{extra}]'" in doctor.stdout


SIMULATE = ("simulate", "--scheme", "key", "--stream", "zipf:messages=100", "--workers", "2")


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        ((*SIMULATE, "--plot", "figure.png"), "plots"),
        (("advise", "zipf:messages=100", "--workers", "2", "--html", "page.html"), "plots"),
        (("reproduce", "choices/fig1"), "plots"),
        (("run",), "spark"),
        (("demo",), "spark"),
        (("dashboard", "."), "dashboard"),
        (("bench", "spark"), "spark"),
        (("bench", "stateful"), "spark"),
        (("bench", "all"), "spark"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
)
def test_what_is_missing_is_said_in_one_sentence(
    core: Environment, tmp_path: Path, command: tuple[str, ...], extra: str
) -> None:
    done = core.run("evenflow", *command, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("evenflow: ")
    assert line.endswith(f"pip install 'evenflow[{extra}]'")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("program", ["import evenflow.spark", "from evenflow.spark import balance"])
def test_the_names_for_spark_say_so_too(core: Environment, program: str) -> None:
    done = core.run("python", "-c", program)
    expected = "evenflow.spark needs pyspark, which is not installed; run: pip install 'evenflow[spark]'"
    assert done.stderr.splitlines()[-1].endswith(expected)


def test_state_on_a_cluster_that_has_pyspark_alone(core: Environment, tmp_path: Path) -> None:
    for name in ("pyspark", "py4j"):  # the cluster's own, in a folder of its own
        link(name, tmp_path)
    program = (
        f"import sys; sys.path.append({str(tmp_path)!r})\n"
        "import evenflow.spark as es\n"
        "from evenflow.errors import EvenflowError\n"
        "for name in ('stateful', 'read_state', 'StatefulQuery'):\n"
        "    try:\n"
        "        getattr(es, name)\n"
        "    except EvenflowError as error:\n"
        "        print(error)\n"
    )
    done = core.run("python", "-c", program)
    sentences = done.stdout.splitlines()
    assert len(sentences) == 3, done.stderr
    assert all(text.endswith("pip install 'evenflow[state]'") for text in sentences)
