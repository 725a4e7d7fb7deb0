"""Optional dependencies: a missing extra raises one sentence instead of a ModuleNotFoundError."""

from __future__ import annotations

from importlib.util import find_spec

from evenflow.errors import EvenflowError


class MissingExtraError(EvenflowError, ImportError):
    """A package of an optional extra is not installed."""


def require(package: str, extra: str, purpose: str) -> None:
    """Raise an error with the install command unless ``package`` can be imported.

    Parameters
    ----------
    package
        Name of the module to look for; it is not imported.
    extra
        The evenflow extra that installs it.
    purpose
        What needs it, as the subject of a sentence.

    Examples
    --------
    >>> require("numpy", "plots", "figures")
    >>> require("no_such_package", "plots", "a figure")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    evenflow.extras.MissingExtraError: a figure needs no_such_package, ...: pip install 'evenflow[plots]'
    """
    if find_spec(package) is None:
        raise MissingExtraError(
            f"{purpose} needs {package}, which is not installed; run: pip install 'evenflow[{extra}]'"
        )
