"""The query edits: their effects and invariants."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from auepora_eval.errors import BadValueError
from auepora_eval.perturb.edits import (
    LAYOUTS,
    DropWords,
    Keyboard,
    LowerCase,
    NoPunctuation,
    RandomCase,
    SwapWords,
    Typo,
    UpperCase,
    grapheme_clusters,
    neighbours,
    word_ranges,
)


def edit_many(perturber: Any, query: str, times: int = 200) -> set[str]:
    return {perturber.perturb(query, Random(seed)) for seed in range(times)}


PLAIN = [  # perturber, question, every text it may become, why
    (LowerCase(), "Wien ÉTÉ", {"wien été"}, "lower case, whatever the letters"),
    (UpperCase(), "straße ǆ", {"STRASSE Ǆ"}, "capitals, two for one where need be"),
    (Typo(1e-9), "ab", {"ba", "aab", "abb", "a", "b"}, "every slip of two letters, and never none"),
    (Typo(1e-9), "a ?", {"aa ?"}, "the only letter of a word does not get lost"),
    (Typo(1), "42", {"42", "24", "4422", "442", "422", "2", "4", "44", "22", "224", "244"}, "digits are typed as well"),
    (Typo(1, keep_numbers=True), "42 B2B", {"42 B2B"}, "words with a digit stay"),
    (Typo(0), "abc", {"abc"}, "nothing at rate 0"),
    (Typo(1), "?! 👩‍🚀", {"?! 👩‍🚀"}, "no letter to mistype"),
    (Keyboard(1e-9), "q", {"w", "a"}, "a neighbour on the keyboard"),
    (Keyboard(1e-9), "Q", {"W", "A"}, "and a capital one for a capital"),
    (Keyboard(1e-9, layout="azerty"), "q", {"a", "z", "s", "w"}, "another keyboard, other neighbours"),
    (Keyboard(1e-9, layout="qwertz"), "o\u0308", {"l", "ä", "p", "ü"}, "an umlaut written apart has its key"),
    (Keyboard(1e-9), "1", {"2"}, "a digit for a digit"),
    (
        Keyboard(1e-9),
        "дa",
        {"дд", "ддa", "aд", "a", "дq", "дw", "дs", "дz"} - {"дд"},
        "a letter without a key gets a slip",
    ),
    (DropWords(1e-9), "one two", {"one", "two"}, "one word lost"),
    (DropWords(1), "a b c", {"a", "b", "c"}, "one word stays"),
    (DropWords(1), "word", {"word"}, "of a single one, that one"),
    (DropWords(0.5, keep_numbers=True), "in 2019 we", {"2019 we", "in 2019"}, "numbers stay"),
    (SwapWords(1e-9), "a  b c", {"b  a c", "a  c b"}, "two words swapped, spaces where they were"),
    (SwapWords(1), "no no", {"no no"}, "swapping the same is no edit"),
    (RandomCase(1), "aB1", {"Ab1"}, "all letters in the other case"),
    (RandomCase(1e-9), "ab", {"Ab", "aB"}, "at least one letter"),
    (NoPunctuation(), "¿What's 3.5 — e.g. A/B?", {"What's 3.5 e.g A/B"}, "marks within words stay"),
    (NoPunctuation(), "- a", {"a"}, "a mark that stands first goes with its space"),
    (NoPunctuation(), "#️⃣ !", {"#️⃣"}, "a keycap is no punctuation"),
    (NoPunctuation(), "?!", {"?!"}, "what is all punctuation stays"),
]


@pytest.mark.parametrize(("perturber", "query", "texts", "why"), PLAIN, ids=[row[3] for row in PLAIN])
def test_edited_questions(perturber: Any, query: str, texts: set[str], why: str) -> None:
    found = edit_many(perturber, query)
    assert found <= texts
    if len(texts) <= 5:
        assert found == texts


@pytest.mark.parametrize("kind", [Keyboard, RandomCase])
def test_rate_is_proportion_of_letters(kind: Any) -> None:
    query = "abcdefghij" * 10
    for seed in range(20):
        text = kind(0.1).perturb(query, Random(seed))
        assert sum(one != other for one, other in zip(text, query, strict=True)) == 10


def test_fractional_edit_is_random() -> None:
    counts = [
        sum(one != other for one, other in zip(Keyboard(0.25).perturb("abcdef", Random(seed)), "abcdef", strict=True))
        for seed in range(400)
    ]
    assert set(counts) == {1, 2}  # 0.25 * 6 = 1.5
    assert 150 < counts.count(1) < 250


ANY = st.text(st.sampled_from("aé1 .\u0301\u200d👩🚀🏽🇫🇷🇩\u1100\u1161각कष्\u0600กำß\u00a0"), max_size=15)


@given(ANY, st.integers(0, 100))
def test_edits_keep_grapheme_clusters_whole(query: str, seed: int) -> None:
    whole = grapheme_clusters(query)
    kinds: list[Any] = [Typo(0.5), DropWords(0.4), SwapWords(0.5), NoPunctuation()]
    for one in kinds:
        rest = one.perturb(query, Random(seed))
        # Every piece of the variant can be taken off its front as one piece of the question: nothing was torn apart.
        assert is_made_of(rest, set(whole)), (one, query, rest)


def is_made_of(text: str, pieces: set[str]) -> bool:
    reachable = {0}
    for start in range(len(text)):
        if start in reachable:
            reachable |= {start + len(piece) for piece in pieces if piece and text.startswith(piece, start)}
    return len(text) in reachable


@given(ANY, st.integers(0, 100))
def test_keep_numbers(query: str, seed: int) -> None:
    def with_digits(text: str) -> list[str]:
        cells = grapheme_clusters(text)
        words = ["".join(cells[word.start : word.stop]) for word in word_ranges(cells)]
        return [word for word in words if "1" in word]

    for one in (Typo(1, keep_numbers=True), Keyboard(1, keep_numbers=True), DropWords(1, keep_numbers=True)):
        assert with_digits(one.perturb(query, Random(seed))) == with_digits(query)


def test_keyboard_neighbours_are_symmetric() -> None:
    for layout in LAYOUTS:
        neighbours_of = neighbours(layout)
        assert all(key in neighbours_of[other] for key in neighbours_of for other in neighbours_of[key])
        assert all(neighbours_of.values())
    assert set(neighbours("qwerty")["g"]) == set("fhtyvb")


BAD: list[tuple[Any, Any, str]] = [
    (lambda: Typo(1.5), BadValueError, "rate must be a number >= 0 and <= 1, not 1.5"),
    (lambda: Keyboard(0.1, layout="dvorak"), BadValueError, "choose one of: qwerty, qwertz, azerty"),
]


@pytest.mark.parametrize(("make", "error", "message"), BAD, ids=[row[2] for row in BAD])
def test_invalid_arguments(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
