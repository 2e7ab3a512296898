"""The report as Markdown: the same texts, tables and lists, without figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..markdown import escape_markdown, markdown_table
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
)

__all__ = ["report_markdown"]


def report_markdown(report: Report) -> str:
    """The report as Markdown. Names are escaped."""
    parts = [
        f"# {escape_markdown(report.title)}",
        escape_markdown(report.subtitle),
        f"**{escape_markdown(report.verdict.sentence)}**",
    ]
    if report.verdict.points:
        parts.append(_bullets(report.verdict.points))
    for section in report.sections:
        parts += _section(section)
    parts.append(escape_markdown(report.build_info))
    return "\n\n".join(filter(None, parts)) + "\n"


def _section(section: ReportSection) -> list[str]:
    texts = [text for block in section.blocks for text in _block(block, level=3)]
    return [f"## {escape_markdown(section.title)}", escape_markdown(section.lead), *texts] if texts else []


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
    if block.caption:
        yield escape_markdown(block.caption)
    grouped = any(group.title for group in block.groups)
    headers = [*([block.grouped_by] if grouped else []), *(escape_markdown(one.title) for one in block.columns)]
    rows: list[list[str]] = []
    for group in block.groups:
        for index, row in enumerate(group.rows):
            title = [escape_markdown(group.title) if index == 0 else ""] if grouped else []
            rows.append([*title, *map(_cell, row)])
    shift = 1 if grouped else 0
    right = [index + shift for index, one in enumerate(block.columns) if one.number]
    if rows:
        yield markdown_table(headers, rows, right=right)


def _cell(value: Cell | str) -> str:
    if isinstance(value, str):
        return _escape_cell(value)
    text = f"{value.sign} {value.text}" if value.sign else value.text
    return _escape_cell(f"{text} ({value.note})" if value.note and text else text or value.note)


def _escape_cell(text: str) -> str:
    """Escape a table cell, where a leading number does not start a list."""
    return escape_markdown(f".{text}")[1:].strip()
