"""Results as tables at their documented path (re-exports ``render.tables`` and ``core.results``)."""

from ..core.results import coverage, display_name, results_to_dict, results_to_markdown
from ..render.tables import (
    format_value,
    result_note,
    results_markdown,
    results_table,
    runs_table,
    slices_tables,
    table,
)
from ..render.terminal import escape_line_breaks

__all__ = [
    "coverage",
    "display_name",
    "escape_line_breaks",
    "format_value",
    "result_note",
    "results_markdown",
    "results_table",
    "results_to_dict",
    "results_to_markdown",
    "runs_table",
    "slices_tables",
    "table",
]
