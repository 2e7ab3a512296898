"""Commands with their options and arguments, and their help texts."""

from typing import Any

import click
import pytest

from helpers.golden import check_golden, check_golden_text
from helpers.golden_cli import call, commands, entered


def test_options() -> None:
    """Names, types, defaults and flags of every option and argument."""
    check_golden("cli/options.json", {name: _parameters(command) for name, command in commands().items()})


def test_help(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Wording: this file may be recorded again when a help text is changed on purpose."""
    pages = []
    with entered(tmp_path_factory.mktemp("golden_cli_help")):
        for name in commands():
            outcome = call(*name.split()[1:], "--help")
            assert (outcome.code, outcome.err) == (0, "")
            pages.append(f"$ {name} --help\n{outcome.out}")
    check_golden_text("cli/help.txt", "\n".join(pages))


def _parameters(command: click.Command) -> dict[str, Any]:
    """Options and arguments in the order they are declared; what is false or absent is left out."""
    group = {"invoke_without_command": command.invoke_without_command} if isinstance(command, click.Group) else {}
    options = [one for one in command.params if isinstance(one, click.Option)]
    arguments = [one for one in command.params if isinstance(one, click.Argument)]
    return {
        **group,
        "options": {" ".join([*one.opts, *one.secondary_opts]): _short(_of_option(one)) for one in options},
        "arguments": {one.human_readable_name: _short({**_of_any(one), "nargs": one.nargs}) for one in arguments},
    }


def _short(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None and value is not False}


def _of_option(option: click.Option) -> dict[str, Any]:
    flags = {"flag": option.is_flag, "eager": option.is_eager, "hidden": option.hidden, "multiple": option.multiple}
    return {**_of_any(option), **flags, "metavar": option.metavar}


def _of_any(parameter: click.Parameter) -> dict[str, Any]:
    return {
        "type": _type(parameter.type),
        "default": _default(parameter),
        "required": parameter.required,
        "variable": parameter.envvar,
    }


def _default(parameter: click.Parameter) -> Any:
    # What stands for "no default" differs between versions of click: None, False of a flag, or a marker.
    value = parameter.default
    return value if value is True or isinstance(value, str | int | float | list | tuple) else None


def _type(kind: Any) -> Any:
    if isinstance(kind, click.Choice):
        return {"choice": list(kind.choices)}
    if isinstance(kind, click.IntRange | click.FloatRange):
        return {kind.name: [kind.min, kind.max, kind.min_open, kind.max_open]}
    if isinstance(kind, click.Path):
        return "path" if kind.file_okay and kind.dir_okay else "file" if kind.file_okay else "directory"
    return kind.name
