"""The command line: ``evenflow schemes | simulate | advise | reproduce | run | dashboard | demo | ...``.

To add a command, write a module in :mod:`evenflow.commands` and register it at the end of this file. Bad
input prints one sentence and exits with status 2; Ctrl-C prints one line and exits with 130. Commands import
their dependencies when they run, so ``evenflow --help`` loads neither numba nor PySpark.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from evenflow.commands import advise, bench, dashboard, demo, doctor, reproduce, run, schemes, simulate
from evenflow.commands.terminal import notify
from evenflow.errors import EvenflowError

UsageError: type[Exception] = typer.BadParameter.__bases__[0]  # click's, or the copy that newer typers have


class Commands(TyperGroup):
    """The command group; prints errors as single sentences."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options before the command."""
        try:
            return super().parse_args(ctx, args)
        except UsageError as error:
            raise _refused(error) from None

    def invoke(self, ctx: Any) -> Any:
        """Run a command; a user error prints a sentence instead of a traceback."""
        command = self._command_path(ctx)  # running takes the arguments away
        try:
            return super().invoke(ctx)
        except EvenflowError as error:
            notify(str(error))
            raise typer.Exit(2) from None
        except UsageError as error:
            raise _refused(error, command) from None
        except KeyboardInterrupt:
            notify("interrupted.")
            raise typer.Exit(130) from None

    def _command_path(self, ctx: Any) -> str:
        """Return the command that the arguments name, such as "evenflow bench spark"."""
        path: list[str] = [ctx.command_path]
        group: TyperGroup = self
        for name in [*ctx._protected_args, *ctx.args]:
            found = group.get_command(ctx, name)
            if found is None:
                break
            path.append(name)
            if not isinstance(found, TyperGroup):
                break
            group = found
        return " ".join(path)


def _refused(error: Any, command: str = "evenflow") -> typer.Exit:
    """Print what is wrong with the command line as one sentence."""
    if type(error).__name__ == "NoArgsIsHelpError":  # a group alone shows its help
        raise error
    sentence = " ".join(error.format_message().split()).rstrip(".")
    if ";" not in sentence:  # our own say what to write instead
        sentence += f"; see '{error.ctx.command_path if error.ctx else command} --help'"
    notify(f"{sentence}.")
    return typer.Exit(2)


main = typer.Typer(
    name="evenflow",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Balance keyed streams: evenflow decides which worker each row goes to.\n\n"
    "Example: `evenflow schemes`",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from evenflow import __version__

        typer.echo(f"evenflow {__version__}")
        raise typer.Exit


@main.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Accept the global options."""


main.command("schemes")(schemes.schemes)
main.command("simulate")(simulate.simulate)
main.command("advise")(advise.advise)
main.command("reproduce")(reproduce.reproduce)
main.command("run")(run.run)
main.command("dashboard")(dashboard.dashboard)
main.command("demo")(demo.demo)
main.command("doctor")(doctor.doctor)
main.add_typer(bench.bench, name="bench")
