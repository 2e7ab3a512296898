"""The form in a real terminal: typing, kill, resume, resize, and restoring the terminal."""

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.io.labels import read_labels
from helpers.tmux_screen import COMMAND, Tmux, waited

LABEL = f"{COMMAND} label latest --n 5 --stratify labels.scenario"


def rows(path: str = "labels.jsonl") -> list[dict[str, Any]]:
    return [one.to_dict() for one in read_labels(path)] if Path(path).exists() else []


def labels_of(path: str = "labels.jsonl") -> list[tuple[str, Any]]:
    return [(one["sample_id"], one["label"]) for one in rows(path)]


def number_shown(screen: str) -> str:
    found = re.search(r"question (\d+)\?", screen)
    assert found, screen
    return f"q{int(found[1]):05}"


def given_back(shell: Tmux) -> None:
    """The shell has its screen, its cursor and its keyboard again."""
    assert shell.variable_value("alternate_on") == "0"
    assert shell.variable_value("cursor_flag") == "1"
    shell.run("stty -g > after; echo 'se''en'")
    shell.wait("seen")
    assert Path("after").read_text() == Path("before").read_text()


def started(shell: Tmux, command: str = LABEL, *, shows: str = "1 of 5  0 labelled") -> str:
    shell.run("clear; stty -g > before; echo $$ > shell_pid")
    waited(lambda: Path("shell_pid").read_text() if Path("shell_pid").exists() else "", bool, "the shell's number")
    shell.run(f"sh -c 'echo $$ > pid; exec {command}'")
    return shell.wait(shows)


def test_a_whole_session(shell: Tmux, labelled_run: str) -> None:
    screen = started(shell, f"{LABEL} --annotator ann")
    first = number_shown(screen)
    assert "[31mred" in screen  # written out, not obeyed
    assert "\\u001b[31mred\\u001b[0m 東京" in screen
    assert shell.variable_value("alternate_on") == "1"
    shell.press("r")
    second = number_shown(shell.wait("2 of 5  1 labelled"))
    assert labels_of() == [(first, "right")]  # on the disk as soon as the next is shown

    shell.press("c")
    shell.wait("enter keep")
    shell.type("nö sourse")
    shell.press("BSpace", "BSpace")
    shell.type("ce 東")
    shell.wait("comment: nö source 東")
    shell.press("Enter")
    shell.wait("r right")
    shell.press("w")
    shell.wait("3 of 5  2 labelled")
    assert rows()[1]["comment"] == "nö source 東"
    assert (rows()[1]["annotator"], rows()[1]["run"], rows()[1]["provenance"]) == ("ann", labelled_run, "human")

    shell.press("u")
    shell.wait("taken back: wrong")
    assert labels_of() == [(first, "right")]
    shell.press("r")
    shell.wait("3 of 5  2 labelled")
    assert labels_of() == [(first, "right"), (second, "right")]

    shell.press("s")
    shell.wait("1 skipped")
    shell.press("w")
    shell.wait("5 of 5  3 labelled")
    shell.press("w")
    shell.wait("s shows it again")
    shell.press("s")
    shell.wait("3 of 5  4 labelled")
    shell.press("w")
    shell.wait("5 labelled: 2 right, 3 wrong.")
    shell.press("q")
    shell.wait("labels.jsonl: 5 of 5 labelled by ann: 2 right, 3 wrong")
    assert "owned" not in shell.variable_value("pane_title")
    given_back(shell)

    draw = json.loads(Path("labels.draw.json").read_text())["draws"][0]
    assert (draw["run"], draw["population"], draw["left_out"]) == (labelled_run, 11, {"failed": 1})
    assert {name: one["population"] for name, one in draw["strata"].items()} == {"rare": 3, "usual": 8}
    assert {one["sample_id"] for one in draw["drawn"]} == {sample for sample, _ in labels_of()}


def test_evidence_is_paged_and_the_reference_shown_on_demand(shell: Tmux) -> None:
    screen = started(shell)
    assert "Document 1 of 2: aside" in screen
    assert "more lines below" in screen
    shell.press("a")
    shell.wait(lambda seen: re.search(r"Reference\s*\n\s+yes", seen) is not None)
    shell.press("NPage")
    shell.wait("Document 2 of 2: gold  * relevant")
    shell.press("Home")
    shell.wait("Question")
    shell.press("Tab")
    shell.wait(lambda seen: "Question" not in seen and "Document 1 of 2: aside" in seen)
    shell.press("?")
    shell.wait("the next document")
    shell.press("x")
    shell.wait("Question")
    assert labels_of() == []
    shell.press("q")
    shell.wait("0 of 5 labelled")


def test_pasted_text_labels_nothing(shell: Tmux) -> None:
    started(shell)
    shell.paste("rrrrr")
    shell.wait("pasted text was ignored")
    shell.press("c")
    shell.wait("enter keep")
    shell.paste("quoted\nfrom it")
    shell.wait("comment: quoted from it")
    shell.press("Escape")
    shell.wait("r right")
    assert labels_of() == []
    shell.press("q")
    shell.wait("0 of 5 labelled")


def test_a_dumb_terminal_is_rejected(shell: Tmux) -> None:
    shell.run(f"TERM=dumb {LABEL}")
    assert "--plain asks line by line" in " ".join(shell.wait("by line").split())


def test_a_killed_session_resumes(shell: Tmux) -> None:
    started(shell, f"{LABEL} --annotator ann")
    shell.press("r")
    shell.wait("2 of 5  1 labelled")
    shell.press("w")
    third = number_shown(shell.wait("3 of 5  2 labelled"))
    os.kill(int(Path("pid").read_text()), signal.SIGKILL)
    shell.wait("ready>")
    assert [label for _, label in labels_of()] == ["right", "wrong"]
    # What nobody could give back: somebody would type `reset`.
    shell.run(r"stty sane; printf '\033[?1049l\033[?7h\033[?2004l\033[?25h'; clear")
    shell.wait(lambda seen: seen.strip() == "ready>")

    screen = started(shell, f"{LABEL} --annotator ann", shows="3 of 5  2 labelled")
    assert number_shown(screen) == third
    shell.press("u")  # across the kill
    shell.wait("2 of 5  1 labelled")
    assert [label for _, label in labels_of()] == ["right"]
    shell.press("r")
    shell.wait("3 of 5  2 labelled")
    shell.press("q")
    shell.wait("labels.jsonl: 2 of 5 labelled by ann: 2 right")
    shell.wait("the same command continues with the others")
    given_back(shell)


def test_the_window_may_change_its_size(shell: Tmux) -> None:
    started(shell)
    for width, height in ((40, 12), (20, 6), (10, 3), (3, 2), (120, 40)):
        shell.resize(width, height)
        wanted = "r right" if width > 15 else " 1" if height > 1 else ""
        seen = shell.wait(lambda seen, h=height, w=wanted: len(seen.rstrip("\n").split("\n")) <= h and w in seen)  # type: ignore[misc]
        assert all(len(line) <= width for line in seen.splitlines())
    seen = shell.wait("Document 2 of 2: gold  * relevant")
    assert seen.rstrip().endswith("a reference")
    shell.press("r")
    shell.wait("2 of 5  1 labelled")
    shell.press("q")
    shell.wait("1 of 5 labelled")
    given_back(shell)


@pytest.mark.parametrize(
    ("number", "message", "status"),
    [
        (signal.SIGTERM, "ready>", 143),
        (signal.SIGQUIT, "ready>", 131),
        (signal.SIGINT, "Interrupted.", 130),
        (None, "Interrupted.", 130),
    ],
    ids=["terminated", "quit", "interrupted", "ctrl-c"],
)
def test_the_terminal_is_always_restored(shell: Tmux, number: signal.Signals | None, message: str, status: int) -> None:
    started(shell)
    shell.press("r")
    shell.wait("2 of 5  1 labelled")
    if number is None:
        shell.press("C-c")
    else:
        os.kill(int(Path("pid").read_text()), number)
    shell.wait(lambda seen: message in seen and "2 of 5" not in seen)
    shell.run('echo "ended with $?."')
    shell.wait(f"ended with {status}.")
    assert len(labels_of()) == 1
    given_back(shell)


def test_a_crash_restores_the_terminal_and_shows_the_error(shell: Tmux) -> None:
    Path("crash.py").write_text(
        "import sys\n"
        "from auepora_eval.annotate import terminal as form\n"
        "from auepora_eval.cli.main import main\n"
        "def broken(*_):\n"
        "    raise RuntimeError('what is ' + 'this')\n"
        "form.press = broken\n"
        "main(sys.argv[1:])\n"
    )
    command = LABEL.replace("-m auepora_eval", "crash.py")
    started(shell, command)
    shell.press("r")
    shell.wait("RuntimeError: what is this")
    assert labels_of() == []
    given_back(shell)


def test_stopped_and_continued(shell: Tmux) -> None:
    shell.run("clear; stty -g > before")
    shell.run(LABEL)
    shell.wait("1 of 5  0 labelled")
    shell.press("C-z")
    shell.wait("Stopped")
    given_back(shell)
    shell.run("fg")
    shell.wait("1 of 5  0 labelled")
    shell.press("w")
    shell.wait("2 of 5  1 labelled")
    shell.press("q")
    shell.wait("1 of 5 labelled")
    given_back(shell)


def test_agreement_and_adjudication(shell: Tmux, auepora: Any) -> None:
    for annotator, keys in (("ann", "rrwrw"), ("bob", "rwwrr")):
        started(shell, f"{LABEL} --annotator {annotator} --labels {annotator}.jsonl")
        for number, key in enumerate(keys, start=1):
            shell.press(key)
            shell.wait(f"  {number} labelled")
        shell.press("q")
        shell.wait(f"{annotator}.jsonl: 5 of 5 labelled by {annotator}")
        given_back(shell)
    samples = [sample for sample, _ in labels_of("ann.jsonl")]
    assert [sample for sample, _ in labels_of("bob.jsonl")] == samples  # the same seed, the same samples

    code, out, _ = auepora("label", "--agreement", "ann.jsonl", "bob.jsonl", "--json")
    assert code == 0
    report = json.loads(out)
    assert report["pairs"][0]["agreement"]["value"] == 3 / 5
    # Both say right 3 times of 5: chance agrees in 13/25; (15/25 - 13/25) / (12/25) = 1/6.
    assert report["pairs"][0]["kappa"]["value"] == pytest.approx(1 / 6)
    disputed = sorted([samples[1], samples[4]])
    assert [one["sample_id"] for one in report["disputes"]] == disputed

    command = f"{COMMAND} label latest --adjudicate ann.jsonl bob.jsonl --labels settled.jsonl --annotator eve"
    screen = started(shell, command, shows="1 of 2  0 labelled")
    assert number_shown(screen) == disputed[0]
    assert re.search(r"ann said\s+right\s+bob said\s+wrong", screen)
    shell.press("w")
    screen = shell.wait("2 of 2  1 labelled")
    assert number_shown(screen) == disputed[1]
    assert re.search(r"ann said\s+wrong\s+bob said\s+right", screen)
    shell.press("r")
    shell.wait("2 labelled: 1 right, 1 wrong.")
    shell.press("q")
    shell.wait("settled.jsonl: 2 of 2 labelled by eve")
    assert [(one["sample_id"], one["label"], one["adjudicated"]) for one in rows("settled.jsonl")] == [
        (disputed[0], "wrong", True),
        (disputed[1], "right", True),
    ]
    given_back(shell)


def test_a_scale_is_pressed_as_digits(shell: Tmux) -> None:
    started(shell, f"{LABEL} --scale 1-5 --blind --annotator ann")
    seen = shell.screen()
    assert "1-5 score" in seen
    assert "nightly" not in seen
    shell.press("r")
    shell.wait("press a number from 1 to 5")
    shell.press("4")
    shell.wait("2 of 5  1 labelled")
    shell.press("q")
    shell.wait("1 of 5 labelled by ann: 1 4")
    assert [label for _, label in labels_of()] == [4]
