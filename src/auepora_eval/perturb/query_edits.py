"""Edits of a question that need no model: typing errors, wrong keys, words lost or swapped, case, punctuation."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Literal

from ..core.errors import BadTypeError, BadValueError
from .graphemes import grapheme_clusters, word_ranges
from .keyboard_layouts import neighbours, require_layout

__all__ = ["DropWords", "Keyboard", "LowerCase", "NoPunctuation", "RandomCase", "SwapWords", "Typo", "UpperCase"]

Scenario = str | tuple[str, ...]
TRIES = 20
"""How often an edit is redrawn while it leaves the question unchanged or repeats a variant."""


def _require_rate(rate: Any, owner: object) -> None:
    what = type(owner).__name__
    if isinstance(rate, bool) or not isinstance(rate, (int, float)):
        raise BadTypeError(f"the rate of {what} must be a number from 0 to 1, not {rate!r}")
    if not 0 <= rate <= 1:  # NaN is not either
        raise BadValueError(f"the rate of {what} must be from 0 to 1, not {rate}")


def _sample_positions(positions: list[int], rate: float, rng: Random) -> list[int]:
    """The positions to edit, sorted: the rate's proportion of them, its fraction at random, at least one."""
    if not positions or not rate:
        return []
    whole, fraction = divmod(rate * len(positions), 1)
    # Rounded, since 0.1 * 30 is a little more than 3 and must never become 4.
    count = int(whole) + (rng.random() < round(fraction, 9))
    return sorted(rng.sample(positions, min(max(1, count), len(positions))))


def _is_letter(cell: str) -> bool:
    return unicodedata.category(cell[0])[0] in "LN"


def _has_number(cells: list[str], word: range) -> bool:
    return any(unicodedata.category(character)[0] == "N" for position in word for character in cells[position])


@dataclass(frozen=True, slots=True)
class _LetterEdit:
    """Base of edits of single letters and digits of a question."""

    rate: float
    keep_numbers: bool = False
    """Whether words with a digit stay unchanged."""

    tries: ClassVar[int] = TRIES

    def __post_init__(self) -> None:
        _require_rate(self.rate, self)

    def _edited(self, query: str, rng: Random, edit: Callable[[list[str], int, range, Random], None]) -> str:
        cells = grapheme_clusters(query)
        word_at = {
            position: word
            for word in word_ranges(cells)
            if not (self.keep_numbers and _has_number(cells, word))
            for position in word
            if _is_letter(cells[position])
        }
        # From the right, so that a letter swapped with the next one does not meet its own edit again.
        for position in reversed(_sample_positions(list(word_at), self.rate, rng)):
            edit(cells, position, word_at[position], rng)
        return "".join(cells)


@dataclass(frozen=True, slots=True)
class Typo(_LetterEdit):
    """Typing errors: a letter swapped with the next, left out, or typed twice; ``rate`` is the proportion of letters.

    It needs no alphabet and so works in every script.
    """

    name: str = "typo"
    scenario: Scenario = "typo"

    def perturb(self, query: str, rng: Random) -> str:
        """The question with typing errors."""
        return self._edited(query, rng, _make_typo)


@dataclass(frozen=True, slots=True)
class Keyboard(_LetterEdit):
    """Wrong keys: a letter replaced by its neighbour on the keyboard, a digit by a digit; ``rate`` is their proportion.

    A letter that the layout does not have, such as one of another script, gets a typing error as in ``Typo``.
    """

    layout: str = "qwerty"
    name: str = "keyboard"
    scenario: Scenario = ("typo", "keyboard")

    def __post_init__(self) -> None:
        _require_rate(self.rate, self)
        require_layout(self.layout)

    def perturb(self, query: str, rng: Random) -> str:
        """The question with wrong keys hit."""
        adjacent_keys = neighbours(self.layout)

        def press_neighbour(cells: list[str], position: int, word: range, rng: Random) -> None:
            typed = unicodedata.normalize("NFC", cells[position])
            others = adjacent_keys.get(typed.lower(), "")
            if typed != typed.lower():
                others = "".join(one.upper() for one in others if len(one.upper()) == 1)
            if others:
                cells[position] = rng.choice(others)
            else:
                _make_typo(cells, position, word, rng)

        return self._edited(query, rng, press_neighbour)


def _make_typo(cells: list[str], position: int, word: range, rng: Random) -> None:
    """One typing error at a place of a word."""
    kinds: list[Literal["swap", "drop", "double"]] = ["double"]
    following = position + 1
    if following in word and cells[following] not in ("", cells[position]) and _is_letter(cells[following]):
        kinds.append("swap")
    if sum(bool(cells[other]) and _is_letter(cells[other]) for other in word) > 1:
        kinds.append("drop")
    kind = rng.choice(kinds)
    if kind == "swap":
        cells[position], cells[following] = cells[following], cells[position]
    else:
        cells[position] = "" if kind == "drop" else cells[position] * 2


@dataclass(frozen=True, slots=True)
class DropWords:
    """Words left out; ``rate`` is their proportion. One word always stays, so a one-word question is unchanged."""

    rate: float
    keep_numbers: bool = False
    """Whether words with a digit in them stay."""
    name: str = "drop_words"
    scenario: Scenario = ("typo", "drop_words")

    tries: ClassVar[int] = TRIES

    def __post_init__(self) -> None:
        _require_rate(self.rate, self)

    def perturb(self, query: str, rng: Random) -> str:
        """The question with words left out, each together with the space after it."""
        cells = grapheme_clusters(query)
        words = word_ranges(cells)
        free = [at for at, word in enumerate(words) if not (self.keep_numbers and _has_number(cells, word))]
        dropped = _sample_positions(free, self.rate, rng)
        if len(dropped) == len(words):
            dropped = sorted(rng.sample(dropped, len(dropped) - 1)) if dropped else []
        for at in dropped:
            end = words[at + 1].start if at + 1 < len(words) else len(cells)
            cells[words[at].start : end] = [""] * (end - words[at].start)
        return "".join(cells).rstrip() if dropped else query


@dataclass(frozen=True, slots=True)
class SwapWords:
    """Words swapped with the one after them; ``rate`` is the proportion of neighbouring pairs."""

    rate: float
    name: str = "swap_words"
    scenario: Scenario = ("typo", "swap_words")

    tries: ClassVar[int] = TRIES

    def __post_init__(self) -> None:
        _require_rate(self.rate, self)

    def perturb(self, query: str, rng: Random) -> str:
        """The question with words swapped; the spaces between stay where they are."""
        cells = grapheme_clusters(query)
        words = word_ranges(cells)
        texts = ["".join(cells[word.start : word.stop]) for word in words]
        pairs = [at for at in range(len(words) - 1) if texts[at] != texts[at + 1]]
        for at in reversed(_sample_positions(pairs, self.rate, rng)):
            texts[at], texts[at + 1] = texts[at + 1], texts[at]
        parts, end = [], 0
        for word, text in zip(words, texts, strict=True):
            parts += ["".join(cells[end : word.start]), text]
            end = word.stop
        return "".join([*parts, *cells[end:]])


@dataclass(frozen=True, slots=True)
class LowerCase:
    """Everything in lower case."""

    name: str = "lower_case"
    scenario: Scenario = ("typo", "lower_case")

    deterministic: ClassVar[bool] = True

    def perturb(self, query: str, rng: Random) -> str:
        """The question in lower case."""
        return query.lower()


@dataclass(frozen=True, slots=True)
class UpperCase:
    """Everything in capitals."""

    name: str = "upper_case"
    scenario: Scenario = ("typo", "upper_case")

    deterministic: ClassVar[bool] = True

    def perturb(self, query: str, rng: Random) -> str:
        """The question in capitals."""
        return query.upper()


@dataclass(frozen=True, slots=True)
class RandomCase:
    """Letters in the other case; ``rate`` is the proportion of cased letters."""

    rate: float = 0.5
    name: str = "random_case"
    scenario: Scenario = ("typo", "random_case")

    tries: ClassVar[int] = TRIES

    def __post_init__(self) -> None:
        _require_rate(self.rate, self)

    def perturb(self, query: str, rng: Random) -> str:
        """The question with letters in the other case."""
        cells = grapheme_clusters(query)
        cased = [position for position, cell in enumerate(cells) if cell.swapcase() != cell]
        for position in _sample_positions(cased, self.rate, rng):
            cells[position] = cells[position].swapcase()
        return "".join(cells)


@dataclass(frozen=True, slots=True)
class NoPunctuation:
    """No punctuation, except within words and numbers: "What's 3.5 %?" becomes "What's 3.5"."""

    name: str = "no_punctuation"
    scenario: Scenario = ("typo", "no_punctuation")

    deterministic: ClassVar[bool] = True

    def perturb(self, query: str, rng: Random) -> str:
        """The question without punctuation; a mark that stands alone goes with the space before it."""
        cells = grapheme_clusters(query)
        parts: list[str] = []
        end = 0
        for word in word_ranges(cells):
            text = "".join(cells[position] for position in word if not _is_loose_mark(cells, position))
            if text:
                parts += ["".join(cells[end : word.start]) if parts or not end else "", text]
            end = word.stop
        return "".join([*parts, *cells[end:]]) if parts else query


def _is_loose_mark(cells: list[str], position: int) -> bool:
    """Whether this is punctuation that is not between two letters. A keycap or another cluster is not."""
    cell = cells[position]
    if len(cell) > 1 or unicodedata.category(cell)[0] != "P":
        return False
    return not (0 < position < len(cells) - 1 and _is_letter(cells[position - 1]) and _is_letter(cells[position + 1]))
