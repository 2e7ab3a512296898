"""``auepora explain``: what a stored number is, and how it came about for one query."""

from __future__ import annotations

import json

import click

from .console import quiet_option
from .stores import complete_run, open_store, store_option

__all__ = ["command"]


@click.command(name="explain")
@click.argument("run", shell_complete=complete_run)
@click.argument("metric")
@click.option("--query", "sample_id", metavar="ID", help="The derivation of this query's score, step by step.")
@click.option(
    "--models", is_flag=True, help="Let models that turn texts into numbers be asked again; judges never are."
)
@store_option
@quiet_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("-o", "--output", type=click.Path(), help="Write to this file (.json, .md, else text).")
def command(
    run: str, metric: str, sample_id: str | None, models: bool, store: str | None, as_json: bool, output: str | None
) -> None:
    """Explain the number that METRIC has in the stored RUN: what it is, by which choices, on which samples.

    With --query, its derivation for one query, so that it can be checked by hand. All of it is computed again from what
    is stored, and compared with the stored number. METRIC is a name as `auepora show` has it, or a whole signature.

    \b
    auepora explain latest ndcg@10
    auepora explain latest ndcg@10 --query q17
    auepora explain nightly token_f1 --query q17 -o q17.md
    """
    from ..explaining import explain
    from ..explaining.rendering import explanation_markdown, explanation_text
    from .output import output_format, write_out

    form = "json" if as_json else output_format(output)
    if form == "csv":
        raise click.UsageError("an explanation has no CSV; write .json, .md or text")
    with open_store(store, output=output) as found:
        told = explain(found, run, metric, query=sample_id, models=models)
    if form == "json":
        text = json.dumps(told.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)
    else:
        text = explanation_markdown(told) if form == "markdown" else explanation_text(told)
    write_out(text, output)
