"""Escaping and tables for Markdown: names are shown literally, never interpreted as Markdown or HTML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

__all__ = ["escape_markdown", "markdown_table"]

_MARKS = re.compile(r"[\\`*\[\]|~$#]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_BLOCK_START = re.compile(r"^(?:[+\-=]|\d+(?=[.)]))")


def escape_markdown(text: str) -> str:
    r"""Escape a text to one line that Markdown and HTML show literally, also in a table.

    >>> escaped("a|b <i> snake_case")
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
