"""A report as Markdown: the same sentences, tables and lists, without the figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..markdown import escaped, markdown_table
from .blocks import Block, Bullets, Cell, Code, Facts, Figure, Fold, Gallery, Prose, Report, Section, Shelf, Table

__all__ = ["report_markdown"]


def report_markdown(report: Report) -> str:
    """The page as Markdown. Whatever a name holds is shown as text."""
    parts = [f"# {escaped(report.title)}", escaped(report.subtitle), f"**{escaped(report.verdict.sentence)}**"]
    if report.verdict.points:
        parts.append(_bullets(report.verdict.points))
    for section in report.sections:
        parts += _section(section)
    parts.append(escaped(report.made))
    return "\n\n".join(filter(None, parts)) + "\n"


def _section(section: Section) -> list[str]:
    told = [text for block in section.blocks for text in _block(block, level=3)]
    return [f"## {escaped(section.title)}", escaped(section.lead), *told] if told else []


def _block(block: Block, *, level: int) -> Iterator[str]:
    match block:
        case Prose(text=text):
            yield escaped(text)
        case Bullets(items=items):
            yield _bullets(items)
        case Facts(pairs=pairs):
            yield _bullets([f"{name}: {value if isinstance(value, str) else value.text}" for name, value in pairs])
        case Code(text=text):
            yield _fenced(text)
        case Table():
            yield from _table(block)
        case Fold(summary=summary, blocks=blocks):
            yield f"{'#' * level} {escaped(summary)}"
            for inner in blocks:
                yield from _block(inner, level=min(level + 1, 6))
        case Shelf(folds=folds):
            for inner in folds:
                yield from _block(inner, level=level)
        case Figure() | Gallery():
            return


def _bullets(items: Sequence[str]) -> str:
    return "\n".join(f"- {escaped(item)}" for item in items)


def _fenced(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}text\n{text}\n{fence}"


def _table(block: Table) -> Iterator[str]:
    if block.caption:
        yield escaped(block.caption)
    grouped = any(group.title for group in block.groups)
    headers = [*([block.grouped_by] if grouped else []), *(escaped(one.title) for one in block.columns)]
    rows: list[list[str]] = []
    for group in block.groups:
        for place, row in enumerate(group.rows):
            title = [escaped(group.title) if place == 0 else ""] if grouped else []
            rows.append([*title, *map(_cell, row)])
    shift = 1 if grouped else 0
    right = [place + shift for place, one in enumerate(block.columns) if one.number]
    if rows:
        yield markdown_table(headers, rows, right=right)


def _cell(value: Cell | str) -> str:
    if isinstance(value, str):
        return _inside(value)
    text = f"{value.sign} {value.text}" if value.sign else value.text
    return _inside(f"{text} ({value.note})" if value.note and text else text or value.note)


def _inside(text: str) -> str:
    """A text in a table, where a number at its beginning makes no list."""
    return escaped(f".{text}")[1:].strip()
