"""The form: a session shown on the terminal, its keys read, every label on the disk before the next answer is shown."""

from __future__ import annotations

from dataclasses import replace

from ..core.errors import AueporaError
from .keys import Pasted
from .session import State, paste, press, settled
from .sheet import Sheet
from .terminal import Terminal
from .view import screen_of

__all__ = ["fill_in", "handled"]


def fill_in(state: State, sheet: Sheet, *, title: str = "") -> State:
    """Let somebody go through the items until they leave; what was said is in the sheet's file."""
    with Terminal() as terminal:
        while not state.is_over:
            screen = screen_of(state, *terminal.size(), title=title)
            terminal.show(screen)
            state = settled(
                state,
                scroll=screen.scroll,
                page=screen.page,
                last_scroll=screen.last_scroll,
                anchors=screen.anchors,
            )
            for key in terminal.pressed():
                if key is None:
                    continue
                shown, state = state.place, handled(state, sheet, key)
                if state.place != shown or state.is_over:
                    # A key pressed before an answer was on the screen is not about that answer.
                    terminal.forget()
                    break
    return state


def handled(state: State, sheet: Sheet, key: str | Pasted) -> State:
    """The state after a key, with the file having followed; where it could not, nothing was said."""
    if isinstance(key, Pasted):
        return paste(state, key.text)
    following, change = press(state, key)
    if change is not None:
        try:
            sheet.follow(change)
        except AueporaError as error:
            return replace(state, message=f"not written: {error}")
    return following
