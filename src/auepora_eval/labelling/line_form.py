"""The form line by line, for screen readers and pipes: the same keys, each with Enter."""

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
    state: FormState, label_file: LabelFile, *, lines: Iterator[str], echo: Callable[[str], None], title: str = ""
) -> FormState:
    """Run the form until the annotator leaves or the input ends; otherwise like ``run_form``."""
    last_shown: tuple[object, ...] = ()
    while not state.is_over:
        shown_state = (state.position, state.mode, state.reference_shown)
        width = shutil.get_terminal_size().columns
        parts = render_lines(state, width, title=title, whole=shown_state != last_shown)
        echo("\n".join(parts))
        last_shown = shown_state
        if state.mode == "help":
            state = replace(state, mode="form")
            continue
        typed = next(lines, None)
        state = replace(state, mode="over") if typed is None else _handle_line(state, label_file, typed.strip())
    return state


def _handle_line(state: FormState, label_file: LabelFile, typed: str) -> FormState:
    """The state after one line: a key, or ``c`` and a comment."""
    key, _, rest = typed.partition(" ")
    if key == "c" and state.item is not None:
        return set_comment(state, rest)
    if len(key) == 1 and not rest:
        return handle_key(state, label_file, key)
    return replace(state, message="type one key and Enter; ? and Enter tells which" if typed else "")
