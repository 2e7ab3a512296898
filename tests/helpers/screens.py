"""What a command prints, as a terminal of 100 columns shows it."""

from auepora_eval.render.terminal import text_width

WIDTH, MOST_LINES = 100, 25


def count_lines(text: str) -> int:
    """The lines that a terminal takes for a text."""
    return sum(max(1, -(-text_width(line) // WIDTH)) for line in text.splitlines())


def read_screen(text: str) -> list[str]:
    """The lines of a text, which fits on a screen and begins with its conclusion."""
    assert count_lines(text) <= MOST_LINES, text
    lines = text.splitlines()
    assert lines[0].strip()
    assert text_width(lines[0]) <= WIDTH
    return lines


def whole_text(text: str) -> str:
    """The text with each row of white space as one blank, for sentences that are wrapped."""
    return " ".join(text.split())
