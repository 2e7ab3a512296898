"""Remarks on stderr: what is worth knowing besides the results."""

from __future__ import annotations

from contextlib import suppress

import click

__all__ = ["say"]


def say(message: str) -> None:
    """Tell whoever watches stderr. Where nobody does any more, the work goes on."""
    from ..reporting.printable import printable
    from ..reporting.progress import wipe

    wipe()
    with suppress(OSError):
        click.echo(printable(message), err=True)
