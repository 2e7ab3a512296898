"""Results as Parquet (extra ``parquet``): a row per metric and group of each slice, or a row per sample."""

from __future__ import annotations

from pathlib import Path

from ..core.results import Results
from ..io.files import atomic_write

__all__ = ["save_results_parquet", "save_scores_parquet"]


def save_results_parquet(results: Results, path: str | Path) -> None:
    """Write ``results.to_frame(slices=True)`` atomically."""
    _save(results.to_frame("arrow", slices=True), Path(path))


def save_scores_parquet(results: Results, path: str | Path) -> None:
    """Write ``results.to_frame(per_query=True)`` atomically."""
    _save(results.to_frame("arrow", per_query=True), Path(path))


def _save(table: object, path: Path) -> None:
    from pyarrow import parquet

    with atomic_write(path) as file:
        parquet.write_table(table, file, compression="zstd", write_page_checksum=True)
