"""``auepora convert``: samples or outputs from one format to another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from .console import echo_err, quiet_option
from .options import columns_option

if TYPE_CHECKING:
    from ..io.convert import Conversion


@click.command(name="convert")
@click.argument("source", metavar="IN", type=click.Path())
@click.argument("target", metavar="OUT", type=click.Path())
@click.option("--from", "from_format", metavar="NAME", help="Format of IN; default: detected.")
@columns_option(of="IN")
@click.option("--to", "to_format", metavar="NAME", help="Format of OUT; default: from its suffix.")
@click.option(
    "--role",
    type=click.Choice(["samples", "outputs"]),
    help="Content of IN; default: detected from its first record.",
)
@click.option("--outputs", "outputs_out", type=click.Path(), help="Also write the outputs, to this file.")
@click.option(
    "--outputs-in",
    type=click.Path(),
    help="Add these outputs, for a format that keeps samples and outputs in one file.",
)
@click.option("--nuggets", type=click.Path(), help="JSONL file with the nuggets of the samples, matched by id.")
@quiet_option
@click.option("--json", "as_json", is_flag=True, help="Print a summary as JSON.")
def command(
    source: str,
    target: str,
    from_format: str | None,
    columns: dict[str, str] | None,
    to_format: str | None,
    role: Literal["samples", "outputs"] | None,
    outputs_out: str | None,
    outputs_in: str | None,
    nuggets: str | None,
    as_json: bool,
) -> None:
    """Write the samples, or outputs, of IN to OUT in another format.

    Fields that OUT cannot hold are dropped, and reported with their counts. --outputs splits a format that keeps
    samples and outputs in one file; --outputs-in combines them.

    \b
    auepora convert data.jsonl data.jsonl.gz
    auepora convert run.jsonl out.jsonl.zst --role outputs
    auepora convert records.json data.jsonl --outputs out.jsonl
    auepora convert answers.csv data.jsonl --columns query=Question,reference=Expected
    """
    from ..io.convert import convert_files
    from ..render.terminal import progress

    with progress(f"reading {source}"):
        done = convert_files(
            source,
            target,
            from_format=from_format,
            to_format=to_format,
            role=role,
            outputs_in=outputs_in,
            outputs_out=outputs_out,
            nuggets=nuggets,
            columns=columns,
        )
    if as_json:
        import json

        click.echo(json.dumps(_document(done), indent=2, ensure_ascii=False))
        return
    for message in _messages(done):
        echo_err(message)


def _messages(done: Conversion) -> list[str]:
    """Messages about what was written and what was dropped."""
    from ..io.join import unknown_ids_message

    by_path: dict[str, list[str]] = {}
    for role in ("samples", "outputs"):
        if role in done.written:
            count = done.counts[role]
            by_path.setdefault(str(done.written[role]), []).append(f"{count} {role if count != 1 else role[:-1]}")
    messages = [f"wrote {path}: {' and '.join(counts)}" for path, counts in by_path.items()]
    messages += [f"dropped: {one}" for one in done.dropped]
    if done.outputs_not_written:
        what = "1 output" if done.outputs_not_written == 1 else f"{done.outputs_not_written} outputs"
        messages.append(f"dropped: {what}; --outputs FILE writes them to a file of their own")
    return [*messages, unknown_ids_message(done.unmatched_ids)] if done.unmatched_ids else messages


def _document(done: Conversion) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "schema": 1,
        "written": {role: {"path": str(path), "count": done.counts[role]} for role, path in done.written.items()},
        "dropped": list(map(asdict, done.dropped)),
        "outputs_left": done.outputs_not_written,
        "strays": done.unmatched_ids,
    }
