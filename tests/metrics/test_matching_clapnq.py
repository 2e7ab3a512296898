"""Gold passages of CLAP NQ recognised by text as they are by place, and independent of the chunking."""

from functools import lru_cache

import pytest

from benchmarks.matching import Corpus, read_corpus, recognition, recut_recalls, search_agreement
from helpers.requirements import need_data

QUESTIONS = 40


@lru_cache(maxsize=1)
def clapnq() -> Corpus:
    return read_corpus(need_data("clapnq", "clapnq_dev_answerable.jsonl").parent)


@pytest.mark.parametrize("chunks", [(60, 0.0), (240, 0.25)], ids=["60 words", "240 words with overlap"])
def test_text_finds_in_searched_chunks_what_is_found_by_place(chunks: tuple[int, float]) -> None:
    found = search_agreement(clapnq(), *chunks, questions=QUESTIONS)
    assert abs(found.by_span.mean() - found.by_text.mean()) <= 0.01
    assert found.false <= 0.005
    assert found.missed <= 0.01


def test_the_same_text_cut_again_has_the_same_recall() -> None:
    before, after = recut_recalls(clapnq(), "span", questions=QUESTIONS)
    assert before == after
    before, after = recut_recalls(clapnq(), "text", questions=QUESTIONS)
    assert abs(before - after) <= 0.01


def test_texts_of_ten_words_are_recognised() -> None:
    for _, row in recognition(clapnq(), [(10, 20), (61, 150)], 60):
        assert row.missed == 0.0
        assert row.false <= 0.02
        assert row.agreed >= 0.95
