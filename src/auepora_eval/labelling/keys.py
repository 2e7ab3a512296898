"""Decoding of keyboard bytes into keys: characters, named keys, and pasted text."""

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
    """Text that was pasted, not typed."""

    text: str


class KeyDecoder:
    """Decodes bytes, in chunks of any size, into keys."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._buffer = ""

    @property
    def is_incomplete(self) -> bool:
        """Whether the buffer may be the beginning of an escape sequence."""
        return bool(self._buffer) and not self._buffer.startswith(_PASTE)

    def feed(self, data: bytes) -> list[str | PastedText]:
        """The keys completed by these bytes."""
        self._buffer += self._decoder.decode(data)
        keys: list[str | PastedText] = []
        while self._buffer:
            if self._buffer.startswith(_PASTE):
                text, end, rest = self._buffer[len(_PASTE) :].partition(_PASTE_END)
                if not end:
                    break
                self._buffer = rest
                keys.append(PastedText(text))
                continue
            if self._buffer[0] != _ESCAPE:
                keys += self._plain(self._buffer[0])
                self._buffer = self._buffer[1:]
                continue
            if _PREFIX.fullmatch(self._buffer):
                break
            sequence = _SEQUENCE.match(self._buffer)
            keys += _decode_sequence(sequence[0]) if sequence else ["escape"]
            self._buffer = self._buffer[sequence.end() if sequence else 1 :]
        return keys

    def flush(self) -> list[str | PastedText]:
        """The buffered key when no more bytes follow: a lone escape."""
        if not self.is_incomplete:
            return []
        lone, self._buffer = self._buffer == _ESCAPE, ""
        return ["escape"] if lone else []

    @staticmethod
    def _plain(character: str) -> list[str]:
        if character in _NAMES:
            return [_NAMES[character]]
        return [character] if character.isprintable() else []


def _decode_sequence(sequence: str) -> list[str]:
    """The key of an escape sequence; empty for an unknown one."""
    final = sequence[-1]
    if sequence[1:2] in ("[", "O"):
        if final == "~":
            number = sequence[2:-1].partition(";")[0]
            return [_NUMBERED[number]] if number in _NUMBERED else []
        if sequence == f"{_ESCAPE}OP":
            return ["f1"]
        return [_FINALS[final]] if final in _FINALS else []
    return []  # alt and a letter: neither a known key nor that letter
