"""Words as numbers: the batch path against each rule's plain definition, on any text, in any number of calls."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from auepora_eval.text import vocabulary
from auepora_eval.text.tokenizers import (
    CharacterTokenizer,
    Tokenizer,
    bleu_tokenizer,
    chrf_tokenizer,
    custom_tokenizer,
    rouge_tokenizer,
    word_tokenizer,
)
from auepora_eval.text.vocabulary import TokenFilter, TokenIds, Vocabulary, character_ids
from helpers.requirements import examples
from helpers.texts import TEXT

RULES = [
    *(
        word_tokenizer(case=case, punctuation=punctuation, articles=articles)
        for case in (True, False)
        for punctuation in (True, False)
        for articles in (True, False)
    ),
    *(rouge_tokenizer(stem=stem, script=script) for stem in (True, False) for script in ("latin", "unicode")),
    *(bleu_tokenizer(tokenize=tokenize, lowercase=lower) for tokenize in ("13a", "none") for lower in (True, False)),
    *(chrf_tokenizer(lowercase=lower) for lower in (True, False)),
    custom_tokenizer("reversed", lambda text: text[::-1].split()),
]


def spelled(coder: Vocabulary, coded: TokenIds) -> list[list[str]]:
    """The words behind the numbers."""
    words = coder.words(np.arange(coder.count))
    return [
        [words[i] for i in coded.ids[start:end]] for start, end in zip(coded.bounds, coded.bounds[1:], strict=False)
    ]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
@given(calls=st.lists(st.lists(TEXT, max_size=5), max_size=3))
@settings(max_examples=examples(150))
@example([["the a\nan"], ["the-a a.b THE—Cat"]])
@example([["", " ", "\n"], []])
def test_words_are_those_of_the_plain_definition(rule: Tokenizer, calls: list[list[str]]) -> None:
    coder = Vocabulary(rule.byte_tokenizer)
    refiner = TokenFilter(rule, coder)
    coded = [refiner.transform(coder.encode(texts)) for texts in calls]
    for texts, one in zip(calls, coded, strict=True):
        assert spelled(coder, one) == [rule.tokenize(text) for text in texts]
    words = coder.words(np.arange(coder.count))
    assert len(set(words)) == len(words) == coder.count  # equal words, equal numbers, and the other way round


@pytest.mark.parametrize("whitespace", [True, False])
@pytest.mark.parametrize("lowercase", [True, False])
@given(texts=st.lists(TEXT, max_size=5))
def test_characters(lowercase: bool, whitespace: bool, texts: list[str]) -> None:
    rule = CharacterTokenizer(lowercase=lowercase, whitespace=whitespace)
    coded = character_ids(texts, rule)
    for text, start, end in zip(texts, coded.bounds, coded.bounds[1:], strict=False):
        assert list(map(chr, coded.ids[start:end])) == rule.tokenize(text)


@given(st.lists(TEXT, min_size=1, max_size=6), st.data())
def test_taking_texts(texts: list[str], data: st.DataObject) -> None:
    coder = Vocabulary(word_tokenizer().byte_tokenizer)
    coded = coder.encode(texts)
    chosen = data.draw(st.lists(st.integers(0, len(texts) - 1), max_size=8))
    taken = coded.take(np.array(chosen, dtype=np.int64))
    assert spelled(coder, taken) == [word_tokenizer().tokenize(texts[i]) for i in chosen]
    assert taken.counts.tolist() == [len(word_tokenizer().tokenize(texts[i])) for i in chosen]


@given(st.lists(TEXT, max_size=5), st.lists(TEXT, max_size=5))
def test_looking_up_numbers_nothing(known: list[str], texts: list[str]) -> None:
    coder = Vocabulary(word_tokenizer().byte_tokenizer)
    coder.encode(known)
    there = {word for text in known for word in word_tokenizer().tokenize(text)}
    before, found = coder.count, coder.lookup([*texts, *known])
    assert coder.count == before
    words = [*coder.words(np.arange(coder.count)), None]
    for text, start, end in zip([*texts, *known], found.bounds, found.bounds[1:], strict=False):
        want = [word if word in there else None for word in word_tokenizer().tokenize(text)]
        assert [words[i] for i in found.ids[start:end]] == want


@given(calls=st.lists(st.lists(TEXT, max_size=5), max_size=3))
def test_words_whose_hashes_are_equal(calls: list[list[str]]) -> None:
    usual = vocabulary._hash_halves
    vocabulary._hash_halves = lambda heads, tails: (heads + tails) % np.uint64(3)
    try:
        coder = Vocabulary(word_tokenizer().byte_tokenizer)
        for texts in calls:
            words = ["abcdefghi abcdefghj abcdefghk abcdefghijklmnop abcdefghijklmnoq", *texts]
            assert spelled(coder, coder.encode(words)) == [word_tokenizer().tokenize(text) for text in words]
            found = coder.lookup(words)
            assert spelled(coder, found) == [word_tokenizer().tokenize(text) for text in words]
        words = coder.words(np.arange(coder.count))
        assert len(set(words)) == len(words)
    finally:
        vocabulary._hash_halves = usual


def test_a_coder_that_does_not_remember_numbers_alike() -> None:
    texts = ["one two one", "two three internationalization " + "x" * 100]
    forgetful = Vocabulary(word_tokenizer().byte_tokenizer, remember=False)
    assert (
        forgetful.encode(texts).ids.tolist() == Vocabulary(word_tokenizer().byte_tokenizer).encode(texts).ids.tolist()
    )


def test_a_hundred_thousand_words_in_one_text() -> None:
    words = [f"word{i % 7919} {'long' * (i % 9)}" for i in range(100_000)]
    coder = Vocabulary(word_tokenizer().byte_tokenizer)
    (found,) = spelled(coder, coder.encode([" ".join(words)]))
    assert found == " ".join(words).split()
