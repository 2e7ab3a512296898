"""What a report is made of, as plain values: sections of text, tables, figures and folds; no markup anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from typing import Protocol

    class SupportsSvg(Protocol):
        """What draws itself."""

        def to_svg(self, *, width: int | None = None) -> str:
            """The drawing."""
            ...


__all__ = [
    "Block",
    "Bullets",
    "Cell",
    "Code",
    "DefinitionList",
    "Details",
    "DetailsGrid",
    "Figure",
    "Gallery",
    "Prose",
    "Report",
    "ReportSection",
    "ReportVerdict",
    "Row",
    "RowGroup",
    "Table",
    "TableColumn",
    "Tone",
    "simple_table",
    "without_none",
]

Tone = Literal["", "good", "bad", "open", "muted"]
"""What a text comes to. It is never told by its colour alone: words or signs say the same."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What stands in one cell of a table."""

    text: str
    tone: Tone = ""
    sign: str = ""
    """Stands before the text, so that a tone can be told without colour."""
    href: str = ""
    """A place in this page."""
    note: str = ""
    """Small print below the text."""
    code: bool = False
    bar: tuple[float, float, float] | None = None
    """Drawn beside the text: from where to where an interval reaches, and the value, as shares of the width."""


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
    """Holds a word or two, and needs no room for sentences."""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Rows that belong together, under a heading of their own where there is one."""

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
    """What the titles of its groups are."""


def without_none(*blocks: Block | None) -> list[Block]:
    """The blocks that are there."""
    return [one for one in blocks if one is not None]


def simple_table(columns: Sequence[TableColumn | str], rows: Sequence[Row], *, caption: str = "") -> Table:
    """A table of one group."""
    named = [TableColumn(one) if isinstance(one, str) else one for one in columns]
    return Table(named, [RowGroup(rows)], caption)


@dataclass(frozen=True, slots=True)
class Prose:
    """A paragraph."""

    text: str
    tone: Tone = ""
    """``open`` makes it a remark, ``bad`` a warning."""


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list."""

    items: Sequence[str]


@dataclass(frozen=True, slots=True)
class DefinitionList:
    """Names and what they stand for."""

    pairs: Sequence[tuple[str, str | Cell]]


@dataclass(frozen=True, slots=True)
class Code:
    """A text as it is written."""

    text: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with its caption."""

    chart: SupportsSvg
    caption: str
    width: int = 820
    """How wide it is drawn; on a narrow screen a narrow drawing takes its place."""


@dataclass(frozen=True, slots=True)
class Gallery:
    """Small figures side by side."""

    figures: Sequence[Figure]

    @property
    def is_compact(self) -> bool:
        """Whether the figures are so small that three go side by side."""
        return all(one.width < 400 for one in self.figures)


@dataclass(frozen=True, slots=True)
class Details:
    """Blocks that are shown when somebody asks for them."""

    summary: str
    blocks: Sequence[Block]
    is_open: bool = False
    anchor: str = ""
    """The place in this page that links lead to."""


@dataclass(frozen=True, slots=True)
class DetailsGrid:
    """Many folds, side by side where there is room."""

    details: Sequence[Details]


Block = Prose | Bullets | DefinitionList | Code | Figure | Gallery | Table | Details | DetailsGrid


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A part of the report; ``#s/<name>`` leads to it."""

    name: str
    title: str
    blocks: Sequence[Block]
    lead: str = ""


@dataclass(frozen=True, slots=True)
class ReportVerdict:
    """What it all comes to, in one sentence, and what one should know besides."""

    sentence: str
    tone: Tone = ""
    points: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """All that a report says, before it becomes a page."""

    title: str
    subtitle: str
    verdict: ReportVerdict
    sections: Sequence[ReportSection] = field(default_factory=list)
    build_info: str = ""
    """When, and by which version."""
