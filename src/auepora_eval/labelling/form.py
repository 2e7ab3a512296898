"""The terminal form: shows a session and reads keys; each label is on disk before the next answer is shown."""

from __future__ import annotations

from dataclasses import replace

from ..core.errors import AueporaError
from .keys import PastedText
from .label_file import LabelFile
from .session import FormState, paste, press, with_layout
from .terminal import Terminal
from .view import render_screen

__all__ = ["handle_key", "run_form"]


def run_form(state: FormState, label_file: LabelFile, *, title: str = "") -> FormState:
    """Run the form until the annotator leaves; the labels are in the label file."""
    with Terminal() as terminal:
        while not state.is_over:
            screen = render_screen(state, *terminal.size(), title=title)
            terminal.show(screen)
            state = with_layout(
                state,
                scroll=screen.scroll,
                page=screen.page,
                last_scroll=screen.last_scroll,
                anchors=screen.anchors,
            )
            for key in terminal.read_keys():
                if key is None:
                    continue
                position, state = state.position, handle_key(state, label_file, key)
                if state.position != position or state.is_over:
                    # A key pressed before an answer was shown does not label it.
                    terminal.discard_input()
                    break
    return state


def handle_key(state: FormState, label_file: LabelFile, key: str | PastedText) -> FormState:
    """The state after a key, with the label file updated; unchanged if writing failed."""
    if isinstance(key, PastedText):
        return paste(state, key.text)
    next_state, change = press(state, key)
    if change is not None:
        try:
            label_file.apply(change)
        except AueporaError as error:
            return replace(state, message=f"not written: {error}")
    return next_state
