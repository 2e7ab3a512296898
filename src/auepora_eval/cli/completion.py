"""``auepora completion``: the shell script that completes commands, options and runs."""

from __future__ import annotations

import click

SHELLS = ("bash", "zsh", "fish")


@click.command(name="completion")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the script with which SHELL completes commands, options and runs.

    \b
    auepora completion bash >> ~/.bashrc
    auepora completion zsh >> ~/.zshrc
    auepora completion fish > ~/.config/fish/completions/auepora.fish
    """
    from click.shell_completion import get_completion_class

    from .main import cli

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, "auepora", "_AUEPORA_COMPLETE").source())
