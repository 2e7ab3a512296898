"""Messages on stderr, and the option ``--quiet``."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import click

__all__ = ["echo_err", "quiet_option"]


FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def quiet_option(function: FunctionT) -> FunctionT:
    """Add ``--quiet`` to a command."""
    return click.option(
        "-q",
        "--quiet",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_set_quiet,
        help="Show neither progress nor messages.",
    )(function)


def _set_quiet(context: click.Context, parameter: click.Parameter, quiet: bool) -> None:
    from ..core.errors import AueporaWarning
    from ..reporting.progress import silenced

    if quiet:
        context.with_resource(silenced())
        context.with_resource(warnings.catch_warnings())
        warnings.simplefilter("ignore", AueporaWarning)


def echo_err(message: str, *, always: bool = False) -> None:
    """Print a message to stderr, unless ``--quiet`` is given; a closed stderr is ignored.

    With ``always`` it is printed even with ``--quiet``; use that for errors.
    """
    from ..reporting.control_characters import escape_control_characters
    from ..reporting.progress import clear, is_quiet

    if is_quiet() and not always:
        return
    clear()
    with suppress(OSError):
        click.echo(escape_control_characters(message), err=True)
