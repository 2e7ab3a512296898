"""``auepora validate PLAN``: report every problem in a plan and the files it names, and what would run."""

from __future__ import annotations

import json

__all__ = ["validate_plan"]


def validate_plan(path: str, *, as_json: bool) -> bool:
    """Print the problems and notes of a plan; returns whether it would run. The system is built but not called."""
    from ..planfile.check import check_plan
    from ..reporting.progress import progress
    from .interrupts import stdout_to_stderr
    from .output import write_out

    with progress(f"checking {path}"), stdout_to_stderr():
        checked = check_plan(path)
    if as_json:
        write_out(json.dumps(checked.to_dict(), indent=2, ensure_ascii=False), None)
        return checked.fine
    count = len(checked.problems)
    verdict = f"\n{count or 'no'} problem{'s' if count != 1 else ''}"
    write_out("\n".join([*map(str, checked.problems), *checked.notes, verdict]), None)
    return checked.fine
