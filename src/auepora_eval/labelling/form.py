"""The form: a session shown on the terminal, its keys read, every label on the disk before the next answer is shown."""

from __future__ import annotations

from dataclasses import replace

from ..core.errors import AueporaError
from .keys import PastedText
from .label_file import LabelFile
from .session import FormState, paste, press, with_layout
from .terminal import Terminal
from .view import render_screen

__all__ = ["handle_key", "run_form"]


def run_form(state: FormState, sheet: LabelFile, *, title: str = "") -> FormState:
    """Let somebody go through the items until they leave; what was said is in the sheet's file."""
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
                shown, state = state.place, handle_key(state, sheet, key)
                if state.place != shown or state.is_over:
                    # A key pressed before an answer was on the screen is not about that answer.
                    terminal.discard_input()
                    break
    return state


def handle_key(state: FormState, sheet: LabelFile, key: str | PastedText) -> FormState:
    """The state after a key, with the file having followed; where it could not, nothing was said."""
    if isinstance(key, PastedText):
        return paste(state, key.text)
    following, change = press(state, key)
    if change is not None:
        try:
            sheet.apply(change)
        except AueporaError as error:
            return replace(state, message=f"not written: {error}")
    return following
