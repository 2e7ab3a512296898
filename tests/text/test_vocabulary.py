"""Token ids: the batch path against each tokenizer's plain definition, on any text, in any number of calls."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from auepora_eval.text import vocabulary as vocabulary_module
from auepora_eval.text.tokenizers import (
    CharacterTokenizer,
    Tokenizer,
    bleu_tokenizer,
    chrf_tokenizer,
    custom_tokenizer,
    rouge_tokenizer,
    word_tokenizer,
)
from auepora_eval.text.vocabulary import TokenCache, TokenFilter, TokenIds, Vocabulary, character_ids
from helpers.requirements import examples
from helpers.texts import TEXT

TOKENIZERS = [
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


def spelled(vocabulary: Vocabulary, token_ids: TokenIds) -> list[list[str]]:
    """The words behind the numbers."""
    words = vocabulary.store.words(np.arange(vocabulary.count))
    return [
        [words[i] for i in token_ids.ids[start:end]]
        for start, end in zip(token_ids.bounds, token_ids.bounds[1:], strict=False)
    ]


@pytest.mark.parametrize("tokenizer", TOKENIZERS, ids=lambda tokenizer: tokenizer.name)
@given(calls=st.lists(st.lists(TEXT, max_size=5), max_size=3))
@settings(max_examples=examples(150))
@example([["the a\nan"], ["the-a a.b THE—Cat"]])
@example([["", " ", "\n"], []])
def test_token_ids_equal_the_plain_definition(tokenizer: Tokenizer, calls: list[list[str]]) -> None:
    vocabulary = Vocabulary(tokenizer.byte_tokenizer)
    token_filter = TokenFilter(tokenizer, vocabulary)
    token_ids = [token_filter.transform(vocabulary.encode(texts)) for texts in calls]
    for texts, one in zip(calls, token_ids, strict=True):
        assert spelled(vocabulary, one) == [tokenizer.tokenize(text) for text in texts]
    words = vocabulary.store.words(np.arange(vocabulary.count))
    assert len(set(words)) == len(words) == vocabulary.count  # equal words, equal ids, and vice versa


@pytest.mark.parametrize("whitespace", [True, False])
@pytest.mark.parametrize("lowercase", [True, False])
@given(texts=st.lists(TEXT, max_size=5))
def test_characters(lowercase: bool, whitespace: bool, texts: list[str]) -> None:
    tokenizer = CharacterTokenizer(lowercase=lowercase, whitespace=whitespace)
    token_ids = character_ids(texts, tokenizer)
    for text, start, end in zip(texts, token_ids.bounds, token_ids.bounds[1:], strict=False):
        assert list(map(chr, token_ids.ids[start:end])) == tokenizer.tokenize(text)


@given(st.lists(TEXT, min_size=1, max_size=6), st.data())
def test_taking_texts(texts: list[str], data: st.DataObject) -> None:
    vocabulary = Vocabulary(word_tokenizer().byte_tokenizer)
    token_ids = vocabulary.encode(texts)
    chosen = data.draw(st.lists(st.integers(0, len(texts) - 1), max_size=8))
    taken = token_ids.take(np.array(chosen, dtype=np.int64))
    assert spelled(vocabulary, taken) == [word_tokenizer().tokenize(texts[i]) for i in chosen]
    assert taken.counts.tolist() == [len(word_tokenizer().tokenize(texts[i])) for i in chosen]


@given(calls=st.lists(st.lists(TEXT, max_size=5), max_size=3))
def test_tokens_with_equal_keys(calls: list[list[str]]) -> None:
    with patch.object(vocabulary_module, "_hash_heads", lambda heads: heads & np.uint64(1)):
        vocabulary = Vocabulary(word_tokenizer().byte_tokenizer)
        for texts in calls:
            words = ["aaaaaaaab caaaaaaab eaaaaaaab aaaaaaaac eaaaaaaab", "caaaaaaab abcdefghijklmnopq", *texts]
            assert spelled(vocabulary, vocabulary.encode(words)) == [word_tokenizer().tokenize(text) for text in words]
        words = vocabulary.store.words(np.arange(vocabulary.count))
        assert len(set(words)) == len(words)


@given(texts=st.lists(TEXT, max_size=9))
def test_texts_in_parts(texts: list[str]) -> None:
    with patch.object(vocabulary_module, "_PART", 8):
        vocabulary = Vocabulary(word_tokenizer().byte_tokenizer)
        assert spelled(vocabulary, vocabulary.encode(texts)) == [word_tokenizer().tokenize(text) for text in texts]


@pytest.mark.parametrize("size", [0, 600, 1 << 25])
@given(calls=st.lists(st.lists(TEXT, max_size=5, unique=True), max_size=4))
def test_cached_texts(size: int, calls: list[list[str]]) -> None:
    """A cache of any size returns the tokens of the texts, and does not hold more of them than it may."""
    cache = TokenCache(Vocabulary(word_tokenizer().byte_tokenizer))
    with patch.object(vocabulary_module, "_CACHE_SIZE", size):
        for texts in calls:
            cached, numbers = cache.encode(texts)
            found = spelled(cache.vocabulary, cached.take(numbers))
            assert found == [word_tokenizer().tokenize(text) for text in texts]
            assert sum(len(text) + 256 for text in cache._numbers) <= size


def test_cached_text_is_encoded_once() -> None:
    cache = TokenCache(Vocabulary(word_tokenizer().byte_tokenizer))
    first, numbers = cache.encode(["one two", "three"])
    with patch.object(cache.vocabulary, "encode", side_effect=AssertionError):
        again, same = cache.encode(["three", "one two"])
    assert same.tolist() == numbers.tolist()[::-1]
    assert again.ids is first.ids


def test_vocabulary_without_memory_has_the_same_ids() -> None:
    texts = ["one two one", "two three internationalization " + "x" * 100]
    forgetful = Vocabulary(word_tokenizer().byte_tokenizer, remember=False)
    assert (
        forgetful.encode(texts).ids.tolist() == Vocabulary(word_tokenizer().byte_tokenizer).encode(texts).ids.tolist()
    )


def test_hundred_thousand_tokens_in_one_text() -> None:
    words = [f"word{i % 7919} {'long' * (i % 9)}" for i in range(100_000)]
    vocabulary = Vocabulary(word_tokenizer().byte_tokenizer)
    (found,) = spelled(vocabulary, vocabulary.encode([" ".join(words)]))
    assert found == " ".join(words).split()
