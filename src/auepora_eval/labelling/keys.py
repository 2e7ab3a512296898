"""The bytes of a keyboard as keys: letters, names for the others, and a paste as one thing."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

__all__ = ["KeyDecoder", "PastedText"]

_ESCAPE = "\x1b"
_PASTE, _PASTE_END = f"{_ESCAPE}[200~", f"{_ESCAPE}[201~"
_SEQUENCE = re.compile(r"\x1b(?:\[[0-9:;<=>?]*[ -/]*[@-~]|O[ -~]|[^\[O\x1b])")
_PREFIX = re.compile(r"\x1b(?:\[[0-9:;<=>?]*[ -/]*|O)?")
_NAMES = {
    "\r": "enter",
    "\n": "enter",
    "\t": "tab",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x04": "ctrl-d",
    "\x15": "ctrl-u",
    "\x17": "ctrl-w",
}
_FINALS = {"A": "up", "B": "down", "C": "right", "D": "left", "H": "home", "F": "end"}
_NUMBERED = {"1": "home", "4": "end", "5": "pageup", "6": "pagedown", "7": "home", "8": "end", "11": "f1"}


@dataclass(frozen=True, slots=True)
class PastedText:
    """A text that was pasted, and not typed."""

    text: str


class KeyDecoder:
    """Takes bytes as they come, in whatever pieces, and gives keys."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""

    @property
    def is_incomplete(self) -> bool:
        """Whether what has come so far may go on: an escape is a key, or the beginning of one."""
        return bool(self._held) and not self._held.startswith(_PASTE)

    def feed(self, data: bytes) -> list[str | PastedText]:
        """The keys that are complete with these bytes."""
        self._held += self._decoder.decode(data)
        found: list[str | PastedText] = []
        while self._held:
            if self._held.startswith(_PASTE):
                text, end, rest = self._held[len(_PASTE) :].partition(_PASTE_END)
                if not end:
                    break
                self._held = rest
                found.append(PastedText(text))
                continue
            if self._held[0] != _ESCAPE:
                found += self._plain(self._held[0])
                self._held = self._held[1:]
                continue
            if _PREFIX.fullmatch(self._held):
                break
            sequence = _SEQUENCE.match(self._held)
            found += _named(sequence[0]) if sequence else ["escape"]
            self._held = self._held[sequence.end() if sequence else 1 :]
        return found

    def flush(self) -> list[str | PastedText]:
        """What is held back, when nothing more comes: a lone escape."""
        if not self.is_incomplete:
            return []
        lone, self._held = self._held == _ESCAPE, ""
        return ["escape"] if lone else []

    @staticmethod
    def _plain(character: str) -> list[str]:
        if character in _NAMES:
            return [_NAMES[character]]
        return [character] if character.isprintable() else []


def _named(sequence: str) -> list[str]:
    """The key of an escape sequence; none for one that means nothing here."""
    final = sequence[-1]
    if sequence[1:2] in ("[", "O"):
        if final == "~":
            number = sequence[2:-1].partition(";")[0]
            return [_NUMBERED[number]] if number in _NUMBERED else []
        if sequence == f"{_ESCAPE}OP":
            return ["f1"]
        return [_FINALS[final]] if final in _FINALS else []
    return []  # a letter with alt: no key of ours, and not that letter either
