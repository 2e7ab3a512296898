"""The form line by line, for terminals that are read aloud and for pipes: the same keys, each with Enter."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace

from .form import handle_key
from .label_file import LabelFile
from .session import FormState, set_comment
from .view import render_lines

__all__ = ["run_line_form"]


def run_line_form(
    state: FormState, sheet: LabelFile, *, lines: Iterator[str], tell: Callable[[str], None], title: str = ""
) -> FormState:
    """Let somebody go through the items until they leave or there are no more lines; as ``fill_in`` otherwise."""
    seen: tuple[object, ...] = ()
    while not state.is_over:
        showing = (state.place, state.mode, state.reference_shown)
        width = shutil.get_terminal_size().columns
        parts = render_lines(state, width, title=title, whole=showing != seen)
        tell("\n".join(parts))
        seen = showing
        if state.mode == "help":
            state = replace(state, mode="form")
            continue
        typed = next(lines, None)
        state = replace(state, mode="over") if typed is None else _handle_line(state, sheet, typed.strip())
    return state


def _handle_line(state: FormState, sheet: LabelFile, typed: str) -> FormState:
    """The state after one line: a key, or ``c`` and a comment."""
    key, _, rest = typed.partition(" ")
    if key == "c" and state.item is not None:
        return set_comment(state, rest)
    if len(key) == 1 and not rest:
        return handle_key(state, sheet, key)
    return replace(state, message="type one key and Enter; ? and Enter tells which" if typed else "")
