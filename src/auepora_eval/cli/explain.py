"""``auepora explain``: what a stored number is, and how it came about for one query."""

from __future__ import annotations

import json

import click

from .console import quiet_option
from .options import complete_run, open_store, store_option


@click.command(name="explain")
@click.argument("run", shell_complete=complete_run)
@click.argument("metric")
@click.option("--query", "sample_id", metavar="ID", help="Show how the score of this query was computed, step by step.")
@click.option("--models", is_flag=True, help="Allow calls to embedding and NLI models; judges are never called.")
@store_option
@quiet_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("-o", "--output", type=click.Path(), help="Write to this file (.json, .md, else text).")
def command(
    run: str, metric: str, sample_id: str | None, models: bool, store: str | None, as_json: bool, output: str | None
) -> None:
    """Explain the value of METRIC in the stored RUN: its definition, its options and its samples.

    With --query, show how the score of one query was computed, so that it can be checked by hand. Everything is
    computed again from the stored outputs and compared with the stored value. METRIC is a name as shown by
    `auepora show`, or a full signature.

    \b
    auepora explain latest ndcg@10
    auepora explain latest ndcg@10 --query q17
    auepora explain nightly token_f1 --query q17 -o q17.md
    """
    from ..report.explain import explain, explanation_markdown, explanation_text
    from .options import output_format, write_out

    form = "json" if as_json else output_format(output)
    if form == "csv":
        raise click.UsageError("explanations cannot be written as CSV; write .json, .md or text")
    with open_store(store, output=output) as found:
        explanation = explain(found, run, metric, query=sample_id, models=models)
    if form == "json":
        text = json.dumps(explanation.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)
    else:
        text = explanation_markdown(explanation) if form == "markdown" else explanation_text(explanation)
    write_out(text, output)
