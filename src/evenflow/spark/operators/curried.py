"""The two call forms of every operator: ``operator(df, ...)``, and ``operator(...)`` for ``df.transform``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast, overload

from pyspark.sql import DataFrame

Options = ParamSpec("Options")
Result_co = TypeVar("Result_co", covariant=True)


class Operator(Protocol, Generic[Options, Result_co]):
    """An operator: given a DataFrame it returns its result, otherwise a function of a DataFrame."""

    @overload
    def __call__(self, df: DataFrame, /, *options: Options.args, **named: Options.kwargs) -> Result_co: ...

    @overload
    def __call__(
        self, *options: Options.args, **named: Options.kwargs
    ) -> Callable[[DataFrame], Result_co]: ...


def curried(function: Callable[Concatenate[DataFrame, Options], Result_co]) -> Operator[Options, Result_co]:
    """Allow ``function(df, ...)`` to be called without ``df``, for ``df.transform(function(...))``."""

    @functools.wraps(function)
    def operator(*options: object, **named: object) -> object:
        if "df" in named or (options and isinstance(options[0], DataFrame)):
            return function(*options, **named)  # type: ignore[arg-type]
        return lambda df: function(df, *options, **named)  # type: ignore[arg-type]

    return cast("Operator[Options, Result_co]", operator)
