"""The documents: links lead somewhere, every page is in the menu, commands that they show exist."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer.main

import evenflow as ef
from benchmarks.__main__ import main as studies
from evenflow.cli import main
from evenflow.testing import OWN_FOLDERS

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
MENU = re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), flags=re.MULTILINE)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
PROGRAMS = {"evenflow": main, "python -m benchmarks": studies}
QUOTED = re.compile(rf"`((?:{'|'.join(PROGRAMS)}) [a-z][^`]*)`")


def names(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text()):
        if "://" not in link:
            assert (page.parent / link).exists(), link


def test_the_image_is_made_of_what_is_there_and_has_the_folders_of_the_tested_cluster() -> None:
    image = (ROOT / "docker" / "Dockerfile").read_text()
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", image, flags=re.MULTILINE)
    assert copied
    assert all((ROOT / source).exists() for sources in copied for source in sources.split())
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(re.findall(r"/opt/evenflow\[(\w+)\]", image)) <= set(extras)
    assert set(re.findall(r"/var/spark/(\w+)", image)) == set(OWN_FOLDERS)


def test_every_page_is_in_the_menu() -> None:
    there = {str(page.relative_to(ROOT / "docs")) for page in PAGES if page.is_relative_to(ROOT / "docs")}
    assert there == set(MENU)


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_commands_and_their_options_exist(page: Path) -> None:
    for shown in commands(page.read_text()):
        program = next(name for name in PROGRAMS if shown.startswith(name))
        words = shlex.split(shown.removeprefix(program).split(" > ")[0], comments=True)
        command: Any = typer.main.get_command(PROGRAMS[program])
        while hasattr(command, "commands") and words and not words[0].startswith("-"):
            if words[0].isupper():  # a stand-in for any of them
                break
            assert words[0] in command.commands, shown
            command = command.commands[words.pop(0)]
        known = {option for parameter in command.params for option in parameter.opts} | {"--help", "-h"}
        for word in words:
            if word.startswith("--"):
                assert word.partition("=")[0] in known or words[0].isupper(), shown


def commands(text: str) -> list[str]:
    """Return the commands of a page: lines of code blocks, and what is quoted."""
    blocks = text.split("```")
    lines = [line for block in blocks[1::2] for line in block.splitlines()]
    lines += [line.removeprefix("    ") for line in text.splitlines() if line.startswith("    ")]
    quoted = [" ".join(found.split()) for block in blocks[::2] for found in QUOTED.findall(block)]
    return [line for line in lines if re.match(f"(?:{'|'.join(PROGRAMS)}) [a-z]", line)] + quoted


@pytest.mark.parametrize("package", ["evenflow", "evenflow.spark"])
def test_every_public_name_is_in_the_reference(package: str) -> None:
    pages = "".join(page.read_text() for page in (ROOT / "docs" / "reference").glob("*.md"))
    documented = {
        name.rpartition(".")[2] for name in re.findall(r"^::: ([\w.]+)$", pages, flags=re.MULTILINE)
    }
    assert set(importlib.import_module(package).__all__) <= documented


def test_every_scheme_is_in_the_reference_and_in_the_table_and_its_page_names_its_file() -> None:
    reference = (ROOT / "docs" / "reference" / "schemes.md").read_text()
    table = (ROOT / "docs" / "schemes" / "index.md").read_text()
    for name, kind in ef.list_schemes().items():
        if kind.__module__.startswith("evenflow."):
            assert f"::: {kind.__module__}.{kind.__name__}\n" in reference
            assert f"| [{name}]({name}.md) | {kind.paper} |" in table
            file = f"src/{kind.__module__.replace('.', '/')}.py"
            assert (ROOT / file).exists()
            assert f"Source: `{file}`" in (ROOT / "docs" / "schemes" / f"{name}.md").read_text()


@pytest.mark.parametrize("kind", ef.list_schemes().values(), ids=ef.list_schemes())
def test_scheme_classes_document_their_parameters_an_example_and_the_paper(kind: type[ef.Scheme]) -> None:
    text = inspect.cleandoc(kind.__doc__ or "")
    assert "\nExamples\n--------\n>>> " in text
    assert ("\nReferences\n----------\n" in text) == (kind.paper != "evenflow's own")
    declared = {
        name
        for base in kind.__mro__[:-1]
        for name in re.findall(r"^(\w+)\n    \S", inspect.cleandoc(base.__doc__ or ""), flags=re.MULTILINE)
        if name in vars(base).get("__annotations__", {})
    }
    assert declared == {field.name for field in dataclasses.fields(kind)}


def test_the_papers_are_cited_alike() -> None:
    cited = (ROOT / "CITATION.cff").read_text()
    titles = [title.strip('"') for title in re.findall("^    title: (.+)$", cited, flags=re.MULTILINE)]
    bibliography = " ".join((ROOT / "README.md").read_text().partition("## Bibliography")[2].split())
    assert len(titles) == 5
    assert all(f"*{title}" in bibliography for title in titles)
