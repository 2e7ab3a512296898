"""Write the texts of ``auepora help TOPIC`` from the pages in ``docs``:  python -m tools.help_topics"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from tools.source_tree import REPO

DOCS = REPO / "docs"
FOLDER = REPO / "src" / "auepora_eval" / "cli" / "topics"
MAX_LINES = 40
WIDTH = 88

TOPICS = {
    "targets": ("targets.md", ""),
    "plans": ("plans.md", ""),
    "running": ("running.md", "Stopping and resuming"),
    "formats": ("formats.md", ""),
    "matching": ("gold-matching.md", ""),
    "conventions": ("conventions.md", ""),
    "verdicts": ("comparing-metrics.md", "Verdicts"),
    "early-stopping": ("statistics/early-stopping.md", ""),
    "gates": ("gates.md", ""),
    "judges": ("judging.md", ""),
    "labels": ("judging/calibration.md", ""),
    "slices": ("slices.md", ""),
    "exit-codes": ("cli.md", ""),
}
"""Topic -> page and section; the text before the first section if that is empty."""

_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


def topic_text(name: str) -> str:
    """The text of a topic: its section in plain text, cut at a paragraph where it is long."""
    page, section = TOPICS[name]
    whole = (DOCS / page).read_text(encoding="utf-8")
    text = _section(_protected(whole), section)
    lines = [section or whole.splitlines()[0].removeprefix("# ")]
    for paragraph in _paragraphs(text):
        if len(lines) + len(paragraph) + 3 > MAX_LINES:
            break
        lines += ["", *paragraph]
    return "\n".join([*lines, "", f"More: docs/{page}", ""])


def _section(text: str, section: str) -> str:
    """The text below a heading, up to the next one."""
    heading = f"## {section}\n" if section else "\n"
    after = text.partition(heading)[2]
    assert after, f"there is no section '{section}'"
    return re.split(r"^#", after, maxsplit=1, flags=re.MULTILINE)[0].strip()


def _paragraphs(text: str) -> Iterator[list[str]]:
    """Paragraphs as lines of plain text, up to the first Python code; other code is indented."""
    for block in text.split("\n\n"):
        lines = block.replace("\x00", "\n").split("\n")
        if lines[0].startswith("```python"):
            return
        if lines[0].startswith("```"):
            yield [f"    {line}".rstrip() for line in lines[1:-1]]
        elif lines[0].startswith("|"):
            yield _table(lines)
        elif re.match(r"(\*|-|\d+\.) ", lines[0]):
            for item in re.split(r"\n(?=\*|-|\d+\.)", "\n".join(lines)):
                yield textwrap.wrap(_plain(item.replace("\n", " ")), WIDTH, subsequent_indent="  ")
        else:
            yield textwrap.wrap(_plain(" ".join(lines)), WIDTH)


def _protected(text: str) -> str:
    """The text with the lines of code blocks joined, so that an empty line in code ends no paragraph."""
    return re.sub(r"^```.*?^```", lambda found: found[0].replace("\n", "\x00"), text, flags=re.MULTILINE | re.DOTALL)


def _table(lines: list[str]) -> list[str]:
    """The first two columns of a table; long texts continue below."""
    rows = [[_plain(cell.strip()) for cell in re.split(r"(?<!\\)\|", line)[1:3]] for line in lines if "---" not in line]
    width = min(max(len(first) for first, _ in rows), 26)
    found: list[str] = []
    for first, second in rows:
        texts = textwrap.wrap(second, WIDTH - width - 2) or [""]
        found.append(f"{first:<{width}}  {texts[0]}".rstrip())
        found += [" " * (width + 2) + text for text in texts[1:]]
    return found


def _plain(text: str) -> str:
    without_links = _LINK.sub(r"\1", text)
    return re.sub(r"\*\*([^*]+)\*\*", r"\1", without_links).replace("\\|", "|")


def main() -> None:
    """Write a file for each topic."""
    FOLDER.mkdir(exist_ok=True)
    for name in TOPICS:
        (FOLDER / f"{name}.txt").write_text(topic_text(name), encoding="utf-8")


if __name__ == "__main__":
    main()
