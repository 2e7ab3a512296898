"""Decoding of keyboard bytes: characters, named keys, pastes, in any chunks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auepora_eval.annotate.terminal import KeyDecoder, PastedText

ROWS: list[tuple[bytes, list[str | PastedText], str]] = [
    (b"rw", ["r", "w"], "letters"),
    ("é日".encode(), ["é", "日"], "letters of several bytes"),
    (b"\x1b[A\x1b[B\x1bOC\x1b[D", ["up", "down", "right", "left"], "arrows, in both modes"),
    (b"\x1b[5~\x1b[6~\x1b[1~\x1b[4~\x1b[H\x1b[F", ["pageup", "pagedown", "home", "end", "home", "end"], "around them"),
    (b"\x1b[1;5A\x1b[6;2~", ["up", "pagedown"], "with shift or control"),
    (b"\r\n\t\x7f\x08", ["enter", "enter", "tab", "backspace", "backspace"], "the rest of the keyboard"),
    (b"\x15\x17\x04", ["ctrl-u", "ctrl-w", "ctrl-d"], "with control"),
    (b"\x1b[200~rrr\nq\x1b[201~w", [PastedText("rrr\nq"), "w"], "a paste is no typing"),
    (b"\x1br", [], "alt and a letter is not that letter"),
    (b"\x1b[99~\x1b[?1;2c\x1b[M", [], "what means nothing here"),
    (b"\x1b\x1b[A", ["escape", "up"], "escape, and then another key"),
    (b"\x00\x01\x0e", [], "other controls"),
    (b"\xff", ["\ufffd"], "no UTF-8"),
    (b"\x1bOP", ["f1"], "help"),
]


@pytest.mark.parametrize(("data", "keys"), [row[:2] for row in ROWS], ids=[row[2] for row in ROWS])
def test_keys(data: bytes, keys: list[str | PastedText]) -> None:
    assert KeyDecoder().feed(data) == keys


@pytest.mark.parametrize(("data", "keys"), [row[:2] for row in ROWS], ids=[row[2] for row in ROWS])
def test_byte_by_byte_is_the_same(data: bytes, keys: list[str | PastedText]) -> None:
    reader = KeyDecoder()
    assert [key for byte in data for key in reader.feed(bytes([byte]))] == keys


def test_an_escape_is_a_key_when_nothing_follows() -> None:
    reader = KeyDecoder()
    assert reader.feed(b"\x1b") == []
    assert reader.is_incomplete
    assert reader.flush() == ["escape"]
    assert not reader.is_incomplete
    assert reader.feed(b"\x1b[") == []
    assert reader.flush() == []  # the beginning of something, which never came
    assert reader.feed(b"A") == ["A"]


def test_a_long_paste_is_buffered() -> None:
    reader = KeyDecoder()
    assert reader.feed(b"\x1b[200~a long te") == []
    assert not reader.is_incomplete
    assert reader.flush() == []
    assert reader.feed(b"xt\x1b[201~") == [PastedText("a long text")]


@given(st.binary())
def test_any_bytes_are_decoded(data: bytes) -> None:
    reader = KeyDecoder()
    for key in [*reader.feed(data), *reader.flush()]:
        assert isinstance(key, PastedText) or key.isprintable()
