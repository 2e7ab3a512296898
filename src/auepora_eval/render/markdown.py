"""Markdown: escaping, tables, and a report as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from .blocks import (
    Block,
    Bullets,
    Cell,
    Code,
    DefinitionList,
    Details,
    DetailsGrid,
    Figure,
    Gallery,
    Prose,
    Report,
    ReportSection,
    Table,
    table_rows,
)

_MARKS = re.compile(r"[\\`*\[\]|~$#]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_BLOCK_START = re.compile(r"^(?:[+\-=]|\d+(?=[.)]))")


def escape_markdown(text: str) -> str:
    r"""Escape a text to one line that Markdown and HTML show literally, also in a table.

    >>> escape_markdown("a|b <i> snake_case")
    'a\\|b &lt;i&gt; snake_case'
    """
    line = " ".join("".join(mark if mark.isprintable() else " " for mark in str(text)).split())
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    line = _MARKS.sub(lambda mark: f"\\{mark.group()}", line)
    line = line.replace("://", ":\\//").replace("www.", "www\\.")  # neither becomes a link by itself
    return _BLOCK_START.sub(lambda mark: _escape_block_start(mark.group()), line)


def _escape_block_start(start: str) -> str:
    """Escape a line start that Markdown would read as a list item or a heading underline."""
    return f"{start}\\" if start.isdigit() else f"\\{start}"


def markdown_table(headers: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    """A Markdown table of cells that are Markdown already; the columns in ``right`` are right-aligned."""
    rule = ["---:" if column in right else "---" for column in range(len(headers))]
    return "\n".join(f"| {' | '.join(row)} |" for row in [headers, rule, *rows])


# --- the report as Markdown: the same texts, tables and lists, without figures ---------------------------------------


def report_markdown(report: Report) -> str:
    """The report as Markdown. Names are escaped."""
    parts = [
        f"# {escape_markdown(report.title)}",
        escape_markdown(report.subtitle),
        f"**{escape_markdown(report.verdict.sentence)}**" if report.verdict.sentence else "",
        _bullets(report.verdict.points),
    ]
    for section in report.sections:
        parts += _section(section)
    parts.append(escape_markdown(report.build_info))
    return "\n\n".join(filter(None, parts)) + "\n"


def blocks_markdown(blocks: Iterable[Block], *, level: int = 3) -> str:
    """Blocks as Markdown; details become headings of this level."""
    return "\n\n".join(chain.from_iterable(_block(block, level=level) for block in blocks))


def _section(section: ReportSection) -> list[str]:
    texts = list(chain.from_iterable(_block(block, level=3) for block in section.blocks))
    heading = f"## {escape_markdown(section.title)}" if section.title else ""
    return [heading, escape_markdown(section.lead), *texts] if texts else []


def _block(block: Block, *, level: int) -> Iterator[str]:
    match block:
        case Prose(text=text):
            yield escape_markdown(text)
        case Bullets(items=items):
            yield _bullets(items)
        case DefinitionList(pairs=pairs):
            yield _bullets([f"{name}: {value if isinstance(value, str) else value.text}" for name, value in pairs])
        case Code(text=text):
            yield _code_block(text)
        case Table():
            yield from _table(block)
        case Details(summary=summary, blocks=blocks):
            yield f"{'#' * level} {escape_markdown(summary)}"
            for inner in blocks:
                yield from _block(inner, level=min(level + 1, 6))
        case DetailsGrid(details=folds):
            for inner in folds:
                yield from _block(inner, level=level)
        case Figure() | Gallery():
            return


def _bullets(items: Sequence[str]) -> str:
    return "\n".join(f"- {escape_markdown(item)}" for item in items)


def _code_block(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}text\n{text}\n{fence}"


def _table(block: Table) -> Iterator[str]:
    headers, rows, right = table_rows(block)
    if block.caption:
        yield escape_markdown(block.caption)
    if rows:
        yield markdown_table(
            [escape_markdown(header) for header in headers], [list(map(_cell, row)) for row in rows], right=right
        )


def _cell(value: Cell | str) -> str:
    if isinstance(value, str):
        return _escape_cell(value)
    text = f"{value.sign} {value.text}" if value.sign else value.text
    return _escape_cell(f"{text} ({value.note})" if value.note and text else text or value.note)


def _escape_cell(text: str) -> str:
    """Escape a table cell, where a leading number does not start a list."""
    return escape_markdown(f".{text}")[1:].strip()
