"""``auepora convert``: samples or outputs from one format to another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from .console import echo_err, quiet_option

if TYPE_CHECKING:
    from ..io.convert import Conversion

__all__ = ["command"]


@click.command(name="convert")
@click.argument("source", metavar="IN", type=click.Path())
@click.argument("target", metavar="OUT", type=click.Path())
@click.option("--from", "from_format", metavar="NAME", help="The format of IN; by default it is guessed.")
@click.option("--to", "to_format", metavar="NAME", help="The format of OUT; by default its suffix says it.")
@click.option(
    "--role",
    type=click.Choice(["samples", "outputs"]),
    help="What IN holds; by default its first record says it.",
)
@click.option("--outputs", "outputs_out", type=click.Path(), help="Write the outputs to this file as well.")
@click.option("--outputs-in", type=click.Path(), help="Bring these outputs along, for a format that keeps both.")
@click.option("--nuggets", type=click.Path(), help="Give samples the nuggets of this file (JSONL), by their ids.")
@quiet_option
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
def command(
    source: str,
    target: str,
    from_format: str | None,
    to_format: str | None,
    role: Literal["samples", "outputs"] | None,
    outputs_out: str | None,
    outputs_in: str | None,
    nuggets: str | None,
    as_json: bool,
) -> None:
    """Write the samples, or outputs, of IN to OUT in another format.

    What both formats can hold is kept as it is; what is dropped is said, with counts. A format that keeps a sample and
    its output in one record can be taken apart with --outputs, and put together with --outputs-in.

    \b
    auepora convert data.jsonl data.jsonl.gz
    auepora convert run.jsonl out.jsonl.zst --role outputs
    auepora convert records.json data.jsonl --outputs out.jsonl
    """
    from ..io.convert import convert_files
    from ..reporting.progress import progress

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
        )
    if as_json:
        import json

        click.echo(json.dumps(_document(done), indent=2, ensure_ascii=False))
        return
    for remark in _messages(done):
        echo_err(remark)


def _messages(done: Conversion) -> list[str]:
    """What was written, and what not."""
    by_path: dict[str, list[str]] = {}
    for role in ("samples", "outputs"):
        if role in done.written:
            count = done.counts[role]
            by_path.setdefault(str(done.written[role]), []).append(f"{count} {role if count != 1 else role[:-1]}")
    told = [f"wrote {path}: {' and '.join(counts)}" for path, counts in by_path.items()]
    told += [f"dropped: {one}" for one in done.dropped]
    if done.outputs_not_written:
        what = "1 output" if done.outputs_not_written == 1 else f"{done.outputs_not_written} outputs"
        told.append(f"dropped: {what}; --outputs FILE writes them to a file of their own")
    if done.unmatched_ids:
        one = len(done.unmatched_ids) == 1
        what = (
            "1 output belongs to no sample and is"
            if one
            else f"{len(done.unmatched_ids)} outputs belong to no sample and are"
        )
        named = ", ".join(map(repr, done.unmatched_ids[:3])) + (
            f" and {len(done.unmatched_ids) - 3} more" if done.unmatched_ids[3:] else ""
        )
        told.append(f"{what} left out: {named}")
    return told


def _document(done: Conversion) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "schema": 1,
        "written": {role: {"path": str(path), "count": done.counts[role]} for role, path in done.written.items()},
        "dropped": list(map(asdict, done.dropped)),
        "outputs_left": done.outputs_not_written,
        "strays": done.unmatched_ids,
    }
