"""Help that fits on a screen: groups of options, ``--help-all`` and ``auepora help``."""

from collections.abc import Callable, Iterator

import click
import pytest

from auepora_eval.cli import help_pages
from auepora_eval.cli.help_topics import topics
from auepora_eval.cli.main import COMMANDS, cli
from tools import help_topics as written_topics

Auepora = Callable[..., tuple[int, str, str]]
MAX_LINES = 45


def every_command(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from every_command(command, (*path, name))


@pytest.fixture(autouse=True)
def narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def words_of(text: str) -> set[str]:
    return set(text.replace(",", " ").split())


def shown_options(command: click.Command) -> list[str]:
    return [param.opts[-1] for param in command.params if isinstance(param, click.Option) and not param.hidden]


def test_page_of_all_commands(auepora: Auepora) -> None:
    code, out, _ = auepora("--help")
    assert code == 0
    assert len(out.splitlines()) <= MAX_LINES
    assert {name for group in COMMANDS.values() for name in group} <= words_of(out)


def test_every_page_fits_on_a_screen(auepora: Auepora) -> None:
    long_pages = []
    for path, _ in every_command(cli):
        lines = len(auepora(*path, "--help")[1].splitlines())
        if lines > MAX_LINES:
            long_pages.append((path, lines))
    assert long_pages == []


def test_whole_help_has_every_option(auepora: Auepora) -> None:
    for path, command in every_command(cli):
        has_two_forms = isinstance(command, help_pages.Command) and command.has_many_options
        out = auepora(*path, "--help-all" if has_two_forms else "--help")[1]
        starts = [line.strip() for line in out.splitlines() if line.startswith("  -")]
        for option in shown_options(command):
            listed = [start for start in starts if option in start.replace(",", " ").split()[:2]]
            assert listed, (path, option)


def test_short_help_names_how_many_options_it_leaves_out(auepora: Auepora) -> None:
    short, whole = auepora("run", "--help")[1], auepora("run", "--help-all")[1]
    hidden = [option for option in shown_options(dict(every_command(cli))["run",]) if option not in words_of(short)]
    assert f"{len(hidden)} more options: auepora run --help-all" in short
    assert "--max-calls" in hidden
    assert "more options" not in whole
    assert "The whole plan is checked" in whole
    assert "The whole plan is checked" not in short


def test_names_in_the_tables_are_parameters() -> None:
    known = {param.name for _, command in every_command(cli) for param in command.params}
    assert {*help_pages._HEADINGS, *help_pages._RARE} <= known


class TestTopics:
    def test_texts_are_those_of_the_docs(self) -> None:
        written = {path.stem: path.read_text(encoding="utf-8") for path in written_topics.FOLDER.glob("*.txt")}
        assert written == {name: written_topics.topic_text(name) for name in written_topics.TOPICS}, "run `make docs`"

    @pytest.mark.parametrize("topic", topics())
    def test_topic(self, auepora: Auepora, topic: str) -> None:
        code, out, _ = auepora("help", topic)
        lines = out.splitlines()
        assert code == 0
        assert 5 <= len(lines) <= MAX_LINES
        assert max(map(len, lines)) <= 140
        assert lines[-1].startswith("More: docs/")
        assert "](" not in out

    def test_list_and_commands(self, auepora: Auepora) -> None:
        assert set(topics()) <= words_of(auepora("help")[1])
        assert auepora("help", "gate")[1] == auepora("gate", "--help")[1]

    def test_unknown_topic(self, auepora: Auepora) -> None:
        code, _, err = auepora("help", "verdict")
        assert (code, "did you mean 'verdicts'?" in err) == (2, True)
