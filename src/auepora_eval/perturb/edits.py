"""Edits of a question that need no model, on grapheme clusters, with seeded random numbers."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from random import Random
from typing import Annotated, ClassVar, Literal, get_args

from ..errors import BadValueError
from ..options import Ge, Le, check_options

# --- grapheme clusters: user-perceived characters, which no edit splits ----------------------------------------------

_ZWJ = "\u200d"
_MARKS = frozenset({"Mn", "Mc", "Me", "Cn"})  # one that this Python does not know yet may be a mark
# What Unicode joins to the character before it, although its category does not say so: a joiner's opposite, the tails
# of Thai and Lao vowels, half-width voicing marks.
_JOINED = frozenset("\u200c\u0e33\u0eb3\uff9e\uff9f")
_PREPENDED = frozenset(
    "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\u0d4e\u1cf5\u1cf6\U000110bd\U000110cd"
    "\U000111c2\U000111c3\U000113d1\U0001193f\U00011941\U00011a3a\U00011a84\U00011a85\U00011a86\U00011a87\U00011a88"
    "\U00011a89\U00011d46\U00011f02"
)
_VIRAMA = 9
"""The combining class of signs that bind the consonant before them to the one that follows."""
_SYLLABLES, _LAST_SYLLABLE = 0xAC00, 0xD7A3
_KIRAT_RAI_VOWELS = frozenset({0x16D63, 0x16D67, 0x16D68, 0x16D69, 0x16D6A})  # which Unicode joins by the same rule


def grapheme_clusters(text: str) -> list[str]:
    """Split a text into grapheme clusters: letters with their marks, emoji sequences, flags, Hangul syllables.

    Every break is allowed by Unicode's rules for extended grapheme clusters. Where the rules need tables that Python
    does not have, clusters are too long rather than too short.
    """
    if text.isascii() and "\r" not in text:
        return list(text)
    pieces: list[str] = []
    flag_half = False
    """Whether the last piece ends in an indicator that waits for its other half."""
    for character in text:
        half = "\U0001f1e6" <= character <= "\U0001f1ff"
        if pieces and ((half and flag_half) or _joins(pieces[-1], character)):
            pieces[-1] += character
            flag_half = False
        else:
            pieces.append(character)
            flag_half = half
    return pieces


def _joins(piece: str, character: str) -> bool:
    """Whether a character belongs to the piece before it."""
    last = piece[-1]
    if last in "\r\n":
        return piece == "\r" and character == "\n"
    if unicodedata.category(character) == "Cc" or unicodedata.category(last) in ("Cc", "Zl", "Zp"):
        return False
    if _extends(character) or last in _PREPENDED:
        return True
    if last == _ZWJ:  # what it joins: emoji, and letters that take their joined form
        return not character.isspace()
    if unicodedata.category(character) == "Lo" and _bound_by_virama(piece):
        return True
    return _same_syllable(_hangul(last), _hangul(character))


def _extends(character: str) -> bool:
    return (
        unicodedata.category(character) in _MARKS
        or character == _ZWJ
        or character in _JOINED
        or "\U0001f3fb" <= character <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= character <= "\U000e007f"  # the tags that spell out flags of regions
    )


def _bound_by_virama(piece: str) -> bool:
    """Whether a piece ends in a sign that binds the next consonant, whatever other marks stand between."""
    for character in reversed(piece):
        if unicodedata.combining(character) == _VIRAMA:
            return True
        if not _extends(character):
            return False
    return False


def _hangul(character: str) -> str:
    """Which part of a syllable this is: leading (L), vowel (V), trailing (T), or LV and LVT; else empty."""
    code = ord(character)
    if _SYLLABLES <= code <= _LAST_SYLLABLE:
        return "LVT" if (code - _SYLLABLES) % 28 else "LV"
    if 0x1100 <= code <= 0x115F or 0xA960 <= code <= 0xA97C:
        return "L"
    if 0x1160 <= code <= 0x11A7 or 0xD7B0 <= code <= 0xD7C6 or code in _KIRAT_RAI_VOWELS:
        return "V"
    return "T" if 0x11A8 <= code <= 0x11FF or 0xD7CB <= code <= 0xD7FB else ""


def _same_syllable(before: str, after: str) -> bool:
    if not before or not after:
        return False
    if before == "L":
        return after != "T"
    return after == "T" or (after == "V" and before[-1] == "V")


def word_ranges(cells: list[str]) -> list[range]:
    """The ranges of clusters between spaces."""
    ranges, start = [], None
    for position, cell in enumerate([*cells, " "]):
        if cell.isspace():
            if start is not None:
                ranges.append(range(start, position))
            start = None
        elif start is None:
            start = position
    return ranges


# --- keyboard layouts and the neighbours of each key -----------------------------------------------------------------

Layout = Literal["qwerty", "qwertz", "azerty"]
LAYOUTS: tuple[str, ...] = get_args(Layout)

# Per layout its rows of keys: which row, how far the first key is shifted, and the keys; a space is one that is no
# letter. Two lines with the same row number are what one row gives with and without shift.
_ROWS: dict[str, list[tuple[int, float, str]]] = {
    "qwerty": [(0, 0.0, "1234567890"), (1, 0.5, "qwertyuiop"), (2, 0.75, "asdfghjkl"), (3, 1.25, "zxcvbnm")],
    "qwertz": [(0, 0.0, "1234567890ß"), (1, 0.5, "qwertzuiopü"), (2, 0.75, "asdfghjklöä"), (3, 1.25, "yxcvbnm")],
    "azerty": [
        (0, 0.0, "1234567890"),
        (0, 0.0, " é    è çà"),
        (1, 0.5, "azertyuiop"),
        (2, 0.75, "qsdfghjklmù"),
        (3, 1.25, "wxcvbn"),
    ],
}


def require_layout(layout: str) -> None:
    """Raise for an unknown layout."""
    if layout not in LAYOUTS:
        raise BadValueError(f"unknown keyboard layout {layout!r}; choose one of: {', '.join(LAYOUTS)}")


@cache
def neighbours(layout: str) -> dict[str, str]:
    """Per letter the letters whose keys touch its own, per digit the digits; all in lower case."""
    require_layout(layout)
    keys = [
        (key, row, shift + position)
        for row, shift, line in _ROWS[layout]
        for position, key in enumerate(line)
        if not key.isspace()
    ]
    return {
        key: "".join(
            other
            for other, other_row, other_position in keys
            if other != key
            and other.isdigit() == key.isdigit()
            and abs(row - other_row) <= 1
            and abs(position - other_position) <= 1
        )
        for key, row, position in keys
    }


# --- edits: typing errors, wrong keys, words dropped or swapped, case, punctuation -----------------------------------

Scenario = str | tuple[str, ...]
TRIES = 20
"""How often an edit is redrawn while it leaves the question unchanged or repeats a variant."""


Rate = Annotated[float, Ge(0), Le(1)]
"""The proportion of the letters or words that are edited."""


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
    return any(unicodedata.category(character)[0] == "N" for character in "".join(cells[word.start : word.stop]))


class _RandomEdit:
    """Base of edits that are redrawn while they change nothing."""

    __slots__ = ()
    tries: ClassVar[int] = TRIES

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True, slots=True)
class _LetterEdit(_RandomEdit):
    """Base of edits of single letters and digits of a question."""

    rate: Rate
    keep_numbers: bool = False
    """Whether words with a digit stay unchanged."""

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
        check_options(self)
        require_layout(self.layout)

    def perturb(self, query: str, rng: Random) -> str:
        """The question with wrong keys hit."""
        adjacent_keys = neighbours(self.layout)

        def press_neighbour(cells: list[str], position: int, word: range, rng: Random) -> None:
            typed = unicodedata.normalize("NFC", cells[position])
            others = adjacent_keys.get(typed.lower(), "")
            if typed != typed.lower():
                others = "".join(other.upper() for other in others if len(other.upper()) == 1)
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
class DropWords(_RandomEdit):
    """Words left out; ``rate`` is their proportion. One word always stays, so a one-word question is unchanged."""

    rate: Rate
    keep_numbers: bool = False
    """Whether words with a digit in them stay."""
    name: str = "drop_words"
    scenario: Scenario = ("typo", "drop_words")

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
class SwapWords(_RandomEdit):
    """Words swapped with the one after them; ``rate`` is the proportion of neighbouring pairs."""

    rate: Rate
    name: str = "swap_words"
    scenario: Scenario = ("typo", "swap_words")

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
class RandomCase(_RandomEdit):
    """Letters in the other case; ``rate`` is the proportion of cased letters."""

    rate: Rate = 0.5
    name: str = "random_case"
    scenario: Scenario = ("typo", "random_case")

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


# --- random numbers from a seed and a key, whatever the order or number of calls -------------------------------------


def hash_uniform(seed: int, *key: str) -> float:
    """A number in [0, 1) for this seed and key.

    An event that occurs where it lies below a rate also occurs at every higher rate, and always at rate 1.
    """
    digest = hashlib.blake2b(_text(seed, key).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return (int.from_bytes(digest) >> 11) / 2**53  # as many bits as a float holds: with more it might round to 1


def seeded_permutation(n: int, seed: int, *key: str) -> Iterator[int]:
    """Yield the numbers below ``n`` in a random order, lazily: taking a few of a million costs only a few steps."""
    rng = Random(_text(seed, key).encode("utf-8", "surrogatepass"))  # noqa: S311 -- no secret
    swapped: dict[int, int] = {}
    for position in range(n):
        other = rng.randrange(position, n)
        yield swapped.get(other, other)
        swapped[other] = swapped.get(position, position)


def count_for_rate(rate: float, n: int) -> int:
    """The number of items of ``n`` for a rate, rounded half up; the rate is taken as its decimal text."""
    return int(Fraction(repr(float(rate))) * n + Fraction(1, 2))


def _text(seed: int, key: tuple[str, ...]) -> str:
    return json.dumps([seed, *key], ensure_ascii=False)
