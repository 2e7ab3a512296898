"""Remarks on stderr: what is worth knowing besides the results."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import click

__all__ = ["echo_err", "quiet_option"]


FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def quiet_option(function: FunctionT) -> FunctionT:
    """``--quiet``, for commands that make remarks."""
    return click.option(
        "-q",
        "--quiet",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_set_quiet,
        help="Neither progress nor remarks.",
    )(function)


def _set_quiet(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    from ..core.errors import AueporaWarning
    from ..reporting.progress import silenced

    if wanted:
        context.with_resource(silenced())
        context.with_resource(warnings.catch_warnings())
        warnings.simplefilter("ignore", AueporaWarning)


def echo_err(message: str, *, always: bool = False) -> None:
    """Tell whoever watches stderr, unless all is to be quiet. Where nobody does any more, the work goes on.

    What a user must know, such as an error, is said ``always``.
    """
    from ..reporting.control_characters import escape_control_characters
    from ..reporting.progress import clear, is_quiet

    if is_quiet() and not always:
        return
    clear()
    with suppress(OSError):
        click.echo(escape_control_characters(message), err=True)
