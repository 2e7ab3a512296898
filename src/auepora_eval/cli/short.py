"""The short form on stdout: the option ``--all``, and the commands to go on with."""

from __future__ import annotations

import shlex

import click

from .help_pages import ARGUMENTS
from .options import is_stdout

_LONGEST = 90
"""A longer command is not repeated."""

all_option = click.option("--all", "every", is_flag=True, help="Print all tables and notes, not only what decides.")


def is_short(form: str, output: str | None, *, every: bool) -> bool:
    """Whether the short form is printed: on stdout as text, unless ``--all`` is given. Files are complete."""
    return form == "table" and is_stdout(output) and not every


def same_command(*more: str) -> str:
    """The command as it was given, with more words; in words if it is long or contains a password."""
    from ..runtime.secrets import url_secrets

    context = click.get_current_context()
    command = f"{context.command_path} {shlex.join([*context.meta[ARGUMENTS], *more])}"
    if len(command) > _LONGEST or url_secrets(command):
        return f"the same command with {shlex.join(more)}"
    return command
