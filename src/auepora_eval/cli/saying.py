"""Remarks on stderr: what is worth knowing besides the results."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import click

__all__ = ["quiet_option", "say"]


FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def quiet_option(function: FunctionT) -> FunctionT:
    """``--quiet``, for commands that make remarks."""
    return click.option(
        "-q",
        "--quiet",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_hush,
        help="Neither progress nor remarks.",
    )(function)


def _hush(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    from ..core.errors import AueporaWarning
    from ..reporting.progress import quietly

    if wanted:
        context.with_resource(quietly())
        context.with_resource(warnings.catch_warnings())
        warnings.simplefilter("ignore", AueporaWarning)


def say(message: str, *, always: bool = False) -> None:
    """Tell whoever watches stderr, unless all is to be quiet. Where nobody does any more, the work goes on.

    What a user must know, such as an error, is said ``always``.
    """
    from ..reporting.printable import printable
    from ..reporting.progress import is_quiet, wipe

    if is_quiet() and not always:
        return
    wipe()
    with suppress(OSError):
        click.echo(printable(message), err=True)
