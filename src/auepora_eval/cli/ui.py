"""``auepora ui``: stored runs in the browser."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from .console import echo_err, quiet_option
from .help_pages import Command
from .options import open_store, store_option

LOCK_TIMEOUT_S = 5.0
"""How long a page waits for a locked store."""


@click.command(name="ui", cls=Command)
@store_option
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="Port to listen on; 0: a free one."
)
@click.option("--no-open", is_flag=True, help="Do not open the browser.")
@click.option(
    "--plans",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    help="Folder whose plans are shown; default: the current folder.",
)
@click.option(
    "--labels",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of labels, corrections and sample sets; default: $AUEPORA_LABELS, else labels next to the store.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the address as JSON.")
@quiet_option
def command(store: str | None, port: int, no_open: bool, plans: Path, labels: Path | None, as_json: bool) -> None:
    """Open the stored runs in the browser: search, filter and compare them, down to a single query.

    The server listens on this machine only (127.0.0.1), and only the printed address, which contains a token, gives
    access. Ctrl-C stops it.

    \b
    auepora ui
    auepora ui --store auepora-demo/runs.sqlite
    auepora ui --port 0 --no-open
    """
    from ..ui.server import serve
    from ..ui.workbench import Workbench

    def ready(url: str) -> None:
        click.echo(json.dumps({"url": url}) if as_json else url)
        sys.stdout.flush()
        echo_err("The workbench runs until Ctrl-C.")
        if not no_open:
            click.launch(url)

    with open_store(store, timeout=LOCK_TIMEOUT_S) as found:
        serve(Workbench(found, plans=plans.absolute(), labels=labels), port=port, ready=ready)
    echo_err("Stopped.")
