"""Grapheme clusters: no break that Unicode forbids."""

from itertools import accumulate

import pytest
from hypothesis import given, strategies as st

from auepora_eval.perturb.edits import grapheme_clusters, word_ranges
from helpers.requirements import need

ROWS = [  # text, pieces, why
    ("abc", ["a", "b", "c"], "plain letters"),
    ("", [], "nothing"),
    ("e\u0301a", ["e\u0301", "a"], "an accent written apart"),
    ("a\r\nb", ["a", "\r\n", "b"], "one line end of two characters"),
    ("👨‍👩‍👧!", ["👨‍👩‍👧", "!"], "a family joined by joiners"),
    ("👍🏽x", ["👍🏽", "x"], "a skin tone"),
    ("🇫🇷🇩🇪", ["🇫🇷", "🇩🇪"], "two flags side by side"),
    ("🇫🇷🇩", ["🇫🇷", "🇩"], "half a flag is left over"),
    ("1️⃣2", ["1️⃣", "2"], "a keycap"),
    ("🏴󠁧󠁢󠁥󠁮󠁧󠁿x", ["🏴󠁧󠁢󠁥󠁮󠁧󠁿", "x"], "a flag spelled in tags"),
    ("\u1112\u1161\u11ab\u1100", ["\u1112\u1161\u11ab", "\u1100"], "a syllable of jamo, then the next begins"),
    ("한글", ["한", "글"], "composed syllables"),
    ("क्षि", ["क्षि"], "consonants bound by a virama, with their vowel"),
    ("กำ", ["กำ"], "a Thai vowel with a tail"),
]


@pytest.mark.parametrize(("text", "pieces", "why"), ROWS, ids=[row[2] for row in ROWS])
def test_grapheme_clusters(text: str, pieces: list[str], why: str) -> None:
    assert grapheme_clusters(text) == pieces


MOTLEY = "aé1 .\u0301\u200d\u200c\r\n👩🚀🏽🇫🇷🇩\u1100\u1161\u11a8각가कष्\u0652\u0600\ufe0fกำ\U000e0067\U000e007f"


@given(st.text(st.sampled_from(MOTLEY), max_size=12))
def test_no_break_that_unicode_forbids(text: str) -> None:
    ours, theirs = grapheme_clusters(text), need("regex").findall(r"\X", text)
    assert "".join(ours) == text
    assert set(accumulate(map(len, ours))) <= set(accumulate(map(len, theirs)))


# All but ideographs, most composed syllables and private use, of which one behaves as the other.
RANGES = [(0, 0x3400), (0xA000, 0xAC40), (0xD780, 0xD800), (0xF900, 0x18800), (0x1B000, 0x20000), (0xE0000, 0xE0200)]


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [("a", "a"), ("क\u094d", "क"), ("👩\u200d", "👩"), ("\u1100", "\u11a8")])
def test_no_forbidden_break_around_any_character(before: str, after: str) -> None:
    every = [chr(code) for start, stop in RANGES for code in range(start, stop)]
    text = "\n".join(f"{before}{one}{after}" for one in every)  # each on a line, so that it meets no other
    ours, theirs = grapheme_clusters(text), need("regex").findall(r"\X", text)
    assert set(accumulate(map(len, ours))) <= set(accumulate(map(len, theirs)))


def test_word_ranges() -> None:
    cells = grapheme_clusters("  one\u00a0two \u0301x ")
    assert ["".join(cells[word.start : word.stop]) for word in word_ranges(cells)] == ["one", "two\u0020\u0301x"]
