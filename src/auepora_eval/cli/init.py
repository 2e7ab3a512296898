"""``auepora init``: write a commented starter plan for a dataset."""

from __future__ import annotations

from pathlib import Path

import click

from .console import echo_err, quiet_option


@click.command(name="init")
@click.argument("dataset", type=click.Path())
@click.argument("outputs", required=False, type=click.Path())
@click.option(
    "--system",
    metavar="KIND",
    help="System to call: python, http, command, an import path (my_app.rag:build) or a URL.",
)
@quiet_option
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    default="plan.yaml",
    show_default=True,
    help="File to write; - prints the plan.",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def command(dataset: str, outputs: str | None, system: str | None, output: str, force: bool) -> None:
    """Write a commented starter plan for DATASET and saved OUTPUTS, or for DATASET and a system to call.

    The plan lists the metrics that the data supports. Edit it, then run it with `auepora run`.

    \b
    auepora init data.jsonl outputs.jsonl
    auepora init data.jsonl --system my_app.rag:build
    auepora init data.jsonl --system http://127.0.0.1:8000/ask -o nightly.yaml
    """
    from ..plan.starter import starter_plan
    from ..render.terminal import progress
    from ..runtime.files import write_lines

    if outputs is not None and system is not None:
        raise click.UsageError("give OUTPUTS or --system, not both")
    target = Path(output)
    if output != "-" and target.exists() and not force:
        raise click.UsageError(f"{output} exists; --force overwrites it, -o writes elsewhere")
    with progress(f"looking through {dataset}"):
        text = starter_plan(
            Path(dataset),
            outputs=None if outputs is None else Path(outputs),
            system=system,
            folder=Path.cwd() if output == "-" else target.parent,
        )
    if output == "-":
        click.echo(text, nl=False)
        return
    write_lines(target, [text.rstrip("\n").encode()])
    echo_err(f"wrote {output}; edit it, then: auepora validate {output} && auepora run {output}")
