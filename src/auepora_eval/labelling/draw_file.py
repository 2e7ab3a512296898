"""The record of a draw, stored next to the label file: it shows that the labels are a random sample."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..core.errors import DataFileError
from ..io.files import plain_stem, read_bytes, write_lines
from .draw import DrawnItem, LabelDraw

__all__ = ["draw_path", "read_draws", "record_draw"]


def draw_path(labels: str | Path) -> Path:
    """Path of the draws of a label file: ``labels.draw.json`` for ``labels.jsonl``."""
    labels = Path(labels)
    return labels.with_name(f"{plain_stem(labels)}.draw.json")


def read_draws(labels: str | Path) -> dict[str, LabelDraw]:
    """The draws of a label file by run; empty if none was recorded."""
    path = draw_path(labels)
    if not path.exists():
        return {}
    try:
        rows = json.loads(read_bytes(path))["draws"]
        draws = [_draw_of(row) for row in rows]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        problem = f"is no record of a draw ({type(error).__name__}: {error}); restore it, or label into another file"
        raise DataFileError(path, None, problem) from error
    return {one.run: one for one in draws}


def record_draw(labels: str | Path, draw: LabelDraw) -> LabelDraw:
    """Record a draw and return the one in force: the longer of two with the same beginning.

    Another draw from the same run (another seed, other strata) is an error: together their labels would not be a random
    sample.
    """
    known = read_draws(labels)
    before = known.get(draw.run)
    if before is not None:
        _require_same(draw_path(labels), before, draw)
        if len(before.drawn_items) >= len(draw.drawn_items):
            return before
    rows = [one.to_dict() for one in {**known, draw.run: draw}.values()]
    text = json.dumps({"draws": rows}, indent=1, ensure_ascii=False)
    write_lines(draw_path(labels), [text.encode("utf-8", "backslashreplace")])
    return draw


def _require_same(path: Path, before: LabelDraw, now: LabelDraw) -> None:
    if before.seed != now.seed or before.stratify != now.stratify:
        was = f"--seed {before.seed}" + (f" --stratify {before.stratify}" if before.stratify else " without --stratify")
        raise DataFileError(
            path, None, f"the samples were drawn with {was}; draw them so again, or label into another file"
        )
    shorter = min(len(before.drawn_items), len(now.drawn_items))
    if before.drawn_items[:shorter] != now.drawn_items[:shorter]:
        problem = "the run has other answers now than when the samples were drawn; label into another file"
        raise DataFileError(path, None, problem)


def _draw_of(row: Any) -> LabelDraw:
    return LabelDraw(
        str(row["run"]),
        int(row["seed"]),
        None if row["stratify"] is None else str(row["stratify"]),
        {str(name): int(stratum["population"]) for name, stratum in row["strata"].items()},
        tuple(DrawnItem(str(one["sample_id"]), str(one["stratum"])) for one in row["drawn"]),
        {str(reason): int(count) for reason, count in row["left_out"].items()},
    )
