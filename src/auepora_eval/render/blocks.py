"""The content blocks of a report as dataclasses: sections, texts, tables, figures; no markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

if TYPE_CHECKING:
    from markupsafe import Markup

    class SupportsSvg(Protocol):
        """An object that renders itself as SVG."""

        def to_svg(self, *, width: int | None = None, theme: Literal["light", "dark"] | None = None) -> str:
            """The SVG."""


PartT = TypeVar("PartT")
Tone = Literal["", "good", "bad", "open", "muted"]
"""The meaning of a text, shown as a colour; words or signs always say the same."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The content of one table cell."""

    text: str
    tone: Tone = ""
    sign: str = ""
    """Shown before the text, so that a tone is visible without colour."""
    href: str = ""
    """A link inside this page."""
    note: str = ""
    """Small print below the text."""
    code: bool = False
    bar: tuple[float, float, float] | None = None
    """An interval bar next to the text: low end, value and high end as fractions of the width."""


Row = list[Cell | str]


@dataclass(frozen=True, slots=True)
class TableColumn:
    """The heading of a column."""

    title: str
    number: bool = False
    """Aligned to the right."""
    minor: bool = False
    """May be left out where there is little room."""
    brief: bool = False
    """Contains a word or two and may be narrow."""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Rows of a table with an optional heading."""

    rows: Sequence[Row]
    title: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under columns; the first cell of a row names it."""

    columns: Sequence[TableColumn]
    groups: Sequence[RowGroup]
    caption: str = ""
    grouped_by: str = "target"
    """The column name of the group titles in Markdown."""

    @property
    def rows(self) -> list[Row]:
        """The rows of all groups."""
        return list(chain.from_iterable(group.rows for group in self.groups))


def without_none(*parts: PartT | None) -> list[PartT]:
    """The blocks or sections without ``None``."""
    return [part for part in parts if part is not None]


def simple_table(columns: Sequence[TableColumn | str], rows: Sequence[Row], *, caption: str = "") -> Table:
    """A table of one group."""
    return Table([_named_column(column) for column in columns], [RowGroup(rows)], caption)


def _named_column(column: TableColumn | str) -> TableColumn:
    return TableColumn(column) if isinstance(column, str) else column


def without_empty_columns(block: Table) -> Table:
    """The table without columns that have no text in any row; the first one stays."""
    filled = {at for row in block.rows for at, cell in enumerate(row) if cell != ""}
    return select_columns(block, sorted(filled | {0}))


def select_columns(block: Table, places: Sequence[int]) -> Table:
    """The table with the columns at these places, in this order."""

    groups = []
    for group in block.groups:
        rows = [_cells_at(row, places) for row in group.rows]
        groups.append(replace(group, rows=rows))
    return replace(block, columns=[block.columns[at] for at in places], groups=groups)


def _cells_at(row: Row, places: Sequence[int]) -> Row:
    return [row[at] for at in places]


def table_rows(block: Table) -> tuple[list[str], list[Row], list[int]]:
    """The headers, rows and right-aligned columns of a table in which group titles are a column of their own."""
    grouped = any(group.title for group in block.groups)
    headers = [*([block.grouped_by] if grouped else []), *(column.title for column in block.columns)]
    rows: list[Row] = []
    for group in block.groups:
        titles = [group.title, *[""] * len(group.rows)]
        rows += [[title, *row] for title, row in zip(titles, group.rows, strict=False)] if grouped else group.rows
    return headers, rows, [at + grouped for at, column in enumerate(block.columns) if column.number]


@dataclass(frozen=True, slots=True)
class Prose:
    """A paragraph."""

    text: str
    tone: Tone = ""
    """``open`` makes it a note, ``bad`` a warning."""


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list."""

    items: Sequence[str]


@dataclass(frozen=True, slots=True)
class DefinitionList:
    """A list of names and values."""

    pairs: Sequence[tuple[str, str | Cell]]


@dataclass(frozen=True, slots=True)
class Code:
    """A preformatted text."""

    text: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with its caption."""

    chart: SupportsSvg
    caption: str
    width: int = 820
    """The width in pixels; narrow screens get a narrower rendering."""
    field: str = ""
    """What the axis of the chart shows of a query: a metric, ``seconds``, ``rank`` or a label. Lists filter by it."""


@dataclass(frozen=True, slots=True)
class Gallery:
    """Small figures side by side."""

    figures: Sequence[Figure]

    @property
    def is_compact(self) -> bool:
        """Whether the figures are small enough for three side by side."""
        return all(figure.width < 400 for figure in self.figures)


@dataclass(frozen=True, slots=True)
class Details:
    """Blocks that can be collapsed, as the HTML element ``details``."""

    summary: str
    blocks: Sequence[Block]
    is_open: bool = False
    anchor: str = ""
    """The id for links inside this page."""


@dataclass(frozen=True, slots=True)
class DetailsGrid:
    """Collapsible blocks in a grid."""

    details: Sequence[Details]


Block = Prose | Bullets | DefinitionList | Code | Figure | Gallery | Table | Details | DetailsGrid


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A section of the report; ``#s/<name>`` links to it."""

    name: str
    title: str
    blocks: Sequence[Block]
    lead: str = ""


@dataclass(frozen=True, slots=True)
class ReportVerdict:
    """The verdict of the report in one sentence, and further points."""

    sentence: str
    tone: Tone = ""
    points: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """The content of a report, before rendering."""

    title: str
    subtitle: str
    verdict: ReportVerdict
    sections: Sequence[ReportSection] = field(default_factory=list)
    build_info: str = ""
    """Creation time and version."""


@dataclass(frozen=True, slots=True)
class PageFragment:
    """Markup, style, script and data that a page embeds."""

    html: Markup
    """The content of the section until the script fills it."""
    css: str
    script: str
    data: Iterable[tuple[str, str, str]]
    """The id, type and text of each block of data; may be a generator, which the page is written from."""
