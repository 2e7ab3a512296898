"""The command line reference, written from the commands:  python -m tools.cli_reference."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from auepora_eval.cli.help_pages import SHOWS_ALL
from auepora_eval.cli.main import cli

PAGE = Path(__file__).parent.parent / "docs" / "cli-reference.md"

_OPENING = """# Command line reference

Generated from the commands themselves by `make docs`; for a guide see [Command line](cli.md).

Results go to stdout, everything else to stderr. `--json` prints JSON wherever a command prints results.
Exit codes: 0 fine, 1 a gate failed or `crosscheck` deviates, 2 bad input or plan, 3 a run that stopped early or scored
nothing, or a gate that is inconclusive, 4 an unexpected error, 130 Ctrl-C.
"""


def reference_page() -> str:
    """The help of every command, one after the other, as Markdown."""
    context = click.Context(cli, info_name="auepora", terminal_width=100, **cli.context_settings)
    sections = [_OPENING]
    for path, command, parent in [("auepora", cli, None), *_commands(cli, context)]:
        inner = click.Context(command, info_name=path.rpartition(" ")[2], parent=parent, terminal_width=100)
        inner.meta[SHOWS_ALL] = True
        sections.append(f"## `{path}`\n\n```text\n{command.get_help(inner)}\n```\n")
    return "\n".join(sections)


def _commands(group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Command, click.Context]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{context.command_path} {name}", command, context
        if isinstance(command, click.Group):
            yield from _commands(command, click.Context(command, info_name=name, parent=context, terminal_width=100))


if __name__ == "__main__":
    PAGE.write_text(reference_page(), encoding="utf-8")
