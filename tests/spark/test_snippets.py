"""Every Python block of the README and of the documentation runs as written.

The blocks of a page run in order, in one namespace, in an empty folder. They find the session ``spark``, as
in Spark's shell, and what the page's hidden set-up makes: an HTML comment ``<!-- setup ... -->`` with code.
DataFrames are computed, those of bare expressions and, in batch, those that have a name, since making one
runs little of the code. A text block below ``<!-- prints -->`` holds what the block above it prints or, if it
starts with ``$ evenflow``, lines of the command's output in their order.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame
from typer.testing import CliRunner

from evenflow.cli import main
from evenflow.schemes import registry

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LANGUAGES = {"python", "sh", "text", "toml"}
PIECE = re.compile(
    r"^<!-- setup\n(?P<setup>.*?)^-->$"
    r"|^(?P<prints><!-- prints -->\n)?(?P<indent> *)```(?P<language>.*?)\n(?P<code>.*?)^(?P=indent)```$",
    flags=re.MULTILINE | re.DOTALL,
)


class Piece(NamedTuple):
    """A block of a page, or its hidden set-up."""

    language: str
    text: str
    line: int
    prints: bool = False


def pieces(page: Path) -> Iterator[Piece]:
    text = page.read_text(encoding="utf-8")
    for found in PIECE.finditer(text):
        line = text.count("\n", 0, found.start("setup" if found["setup"] else "code"))
        if found["setup"]:
            yield Piece("setup", found["setup"], line)
        else:
            code = re.sub(f"^{found['indent']}", "", found["code"], flags=re.MULTILINE)
            yield Piece(found["language"].strip(), code, line, found["prints"] is not None)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


RUN = [page for page in PAGES if any(piece.language in ("python", "setup") for piece in pieces(page))]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_has_a_language(page: Path) -> None:
    fences = re.findall("^ *```", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    blocks = [piece for piece in pieces(page) if piece.language != "setup"]
    assert {piece.language for piece in blocks} <= LANGUAGES
    assert len(fences) == 2 * len(blocks)


@pytest.mark.spark
@pytest.mark.usefixtures("same_settings")
@pytest.mark.parametrize("page", RUN, ids=name_of)
def test_blocks_run_as_written(
    spark: Any,
    request: pytest.FixtureRequest,
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if page.stem == "kafka":
        request.getfixturevalue("spark_kafka")
        monkeypatch.setenv("EVENFLOW_TEST_BROKER", request.getfixturevalue("broker").servers)
    monkeypatch.chdir(tmp_path)
    change_folder(spark, tmp_path)
    monkeypatch.setattr(registry, "_SCHEMES", dict(registry._SCHEMES))
    spark.conf.set("spark.sql.shuffle.partitions", 2)
    names: dict[str, Any] = {"__name__": "__main__", "spark": spark}  # workers get its classes by value
    printed = ""
    try:
        for number, piece in enumerate(pieces(page)):
            if piece.language in ("python", "setup"):
                path = tmp_path / f"block_{number}.py"
                path.write_text("\n" * piece.line + piece.text)  # a traceback shows the line of the page
                capsys.readouterr()
                run(path, names, tmp_path)
                printed = capsys.readouterr().out
            elif piece.prints and piece.text.startswith("$ evenflow "):
                monkeypatch.chdir(ROOT)
                assert_prints(piece.text)
                monkeypatch.chdir(tmp_path)
            elif piece.prints:
                assert printed == piece.text
        for value in list(names.values()):
            if isinstance(value, DataFrame) and not value.isStreaming:
                compute(value, tmp_path)
    finally:
        change_folder(spark, ROOT)
        for query in spark.streams.active:
            query.stop()


def change_folder(spark: Any, folder: Path) -> None:
    """Let Spark's relative paths start in a folder; the JVM itself cannot change its own."""
    hadoop = spark._jvm.org.apache.hadoop.fs
    settings = spark._jsparkSession.sessionState().newHadoopConf()
    hadoop.FileSystem.get(settings).setWorkingDirectory(hadoop.Path(str(folder)))
    spark._jvm.System.setProperty("user.dir", str(folder))  # for checkpoints


def run(path: Path, names: dict[str, Any], folder: Path) -> None:
    """Run a block; like a notebook, compute the DataFrames that it does not assign to a name."""
    tree = ast.parse(path.read_text(), str(path))
    for statement in tree.body:
        if isinstance(statement, ast.Expr):
            called = ast.Call(ast.Name("_compute", ast.Load()), [statement.value], [])
            statement.value = ast.fix_missing_locations(ast.copy_location(called, statement.value))
    names["_compute"] = lambda value: compute(value, folder)
    exec(compile(tree, str(path), "exec"), names)


def compute(value: Any, folder: Path) -> None:
    """Compute a DataFrame; of a stream, what there is."""
    if not isinstance(value, DataFrame):
        return
    if not value.isStreaming:
        value.write.format("noop").mode("overwrite").save()
        return
    writer = value.writeStream.format("noop").outputMode("append").trigger(availableNow=True)
    checkpoint = folder / "checkpoints" / f"computed_{len(list(folder.rglob('computed_*')))}"
    writer.option("checkpointLocation", str(checkpoint)).start().awaitTermination()


def assert_prints(text: str) -> None:
    """Assert that a command prints this text, wrapped in any way; a line ``...`` stands for other text."""
    command, _, shown = text.partition("\n")
    result = CliRunner().invoke(main, shlex.split(command.removeprefix("$ evenflow ")))
    assert result.exit_code == 0, result.output
    rest = " ".join(result.output.split())
    for part in filter(str.strip, re.split(r"^\.\.\.$", shown, flags=re.MULTILINE)):
        _, found, rest = rest.partition(" ".join(part.split()))
        assert found, part


def test_the_schemes_of_the_page_are_those_of_the_examples() -> None:
    shown = [piece.text for piece in pieces(ROOT / "docs" / "own-scheme.md")]
    for name in ("own_scheme", "jump_hash"):
        assert (ROOT / "examples" / f"{name}.py").read_text() in shown
