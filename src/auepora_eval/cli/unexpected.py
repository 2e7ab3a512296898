"""An error that no check found: one line without secrets, and its traceback on request."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

from ..runtime.secrets import Secrets
from .console import echo_err

MAX_MESSAGE = 400
"""The number of characters that are shown of the message."""


def report_unexpected(error: Exception, arguments: Sequence[str] | None) -> int:
    """Print a line about a bug, or a damaged file; with ``--debug`` or ``AUEPORA_DEBUG`` the traceback first.

    Returns the exit code: 4.
    """
    secrets = Secrets(hide_passwords=True)
    words = sys.argv[1:] if arguments is None else arguments
    is_traced = "--debug" in words or os.environ.get("AUEPORA_DEBUG", "") not in ("", "0")
    if is_traced:
        echo_err(secrets.text("".join(traceback.format_exception(error)).rstrip()), always=True)
    what = " ".join(f"{type(error).__name__}: {secrets.text(str(error))}".split()).removesuffix(":")
    if len(what) > MAX_MESSAGE:
        what = f"{what[:MAX_MESSAGE]}…"
    hint = "" if is_traced else "; `auepora --debug COMMAND` prints the traceback"
    echo_err(f"Error: unexpected {what}. A file may be damaged, or this is a bug{hint}", always=True)
    return 4
