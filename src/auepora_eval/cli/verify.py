"""``auepora verify``: recompute the results of a stored run from its stored outputs and judgements."""

from __future__ import annotations

import sys

import click

from .console import quiet_option
from .help_pages import Command
from .options import complete_run, open_store, store_option, write_out

SCOPE = (
    "Found are changes of a part of the store. A store that was changed consistently, an output with its digest and "
    "all that follows from it, is not found."
)
UNCHECKED = (
    "not checked: answers that none of these results reads: the run has not ended, or was stored before digests of "
    "outputs were"
)


@click.command(name="verify", cls=Command)
@click.argument("run", default="latest", shell_complete=complete_run)
@store_option
@quiet_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(run: str, store: str | None, as_json: bool) -> None:
    """Recompute the results of the stored RUN from its outputs and judgements, and name what differs.

    No system, judge or model is called, and nothing is stored. Scores, values, intervals and groups are compared, and
    the samples and outputs with their digests. The exit code is 0 if all is as stored, 1 if something differs, 3 if
    nothing can be recomputed.

    \b
    auepora verify latest
    """
    from ..runs.verify import verify_run
    from ..store.records import to_json

    with open_store(store) as found:
        checked = verify_run(found, found.find(run))
    lines = [checked.sentence(), *(str(difference) for difference in checked.differences)]
    lines += [f"not recomputed: {name}: {reason}" for name, reason in checked.not_recomputed.items()]
    lines += [] if checked.outputs_checked else [UNCHECKED]
    text = to_json(checked.to_dict()) if as_json else "\n".join([*lines, SCOPE])
    write_out(text, None)
    if checked.exit_code:
        sys.exit(checked.exit_code)
