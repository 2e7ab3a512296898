"""``auepora help``: a topic, or the whole help of a command."""

from __future__ import annotations

from pathlib import Path

import click

from .console import echo
from .help_pages import Command

_FOLDER = Path(__file__).parent / "topics"
"""The texts, which `make docs` writes from the documentation."""


def topics() -> list[str]:
    """The names of the topics, sorted."""
    return sorted(path.stem for path in _FOLDER.glob("*.txt"))


@click.command(name="help", cls=Command)
@click.argument("topic", required=False)
@click.pass_context
def command(context: click.Context, topic: str | None) -> None:
    """Explain a TOPIC in a few lines, or list the topics.

    The name of a command prints its help.

    \b
    auepora help
    auepora help verdicts
    auepora help compare
    """
    from ..errors import did_you_mean

    known = topics()
    if topic is None:
        echo(f"Topics: {', '.join(known)}\n\nauepora help TOPIC explains one; auepora COMMAND --help a command.")
        return
    if topic in known:
        echo((_FOLDER / f"{topic}.txt").read_text(encoding="utf-8").rstrip())
        return
    group = context.find_root().command
    assert isinstance(group, click.Group)
    found = group.get_command(context, topic)
    if found is None:
        names = [*known, *group.list_commands(context)]
        raise click.UsageError(f"there is no topic '{topic}'{did_you_mean(topic, names)}; `auepora help` lists them")
    with click.Context(found, parent=context.find_root(), info_name=topic) as inner:
        echo(found.get_help(inner))
