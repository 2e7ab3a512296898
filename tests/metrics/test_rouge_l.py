"""ROUGE-L against hand-made fractions and the rouge-score package."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auepora_eval.metrics.generation_overlap import RougeLAnswer, rouge_l
from parts import need, need_data

ROWS = [  # reference, answer, want, why
    ("the cat sat", "the cat sat", 1.0, "identical"),
    ("the cat sat on the mat", "the cat", 2 * 1 * (2 / 6) / (1 + 2 / 6), "all of a short answer"),
    ("a b c d", "d c b a", 1 / 4, "order counts: one in common"),
    ("police killed the gunman", "police kill the gunman", 1.0, "stemming makes killed and kill one word"),
    ("cats", "cat", 1.0, "words longer than three letters are stemmed"),
    ("his", "hi", 0.0, "words of three letters are not"),
    ("", "anything", 0.0, "empty reference"),
    ("anything", "", 0.0, "empty answer"),
    ("日本", "日本", 0.0, "no token of a-z0-9"),
    ("It's 5 o'clock!", "its 5 o clock", 2 * (3 / 4) * (3 / 5) / (3 / 4 + 3 / 5), "an apostrophe separates"),
]


@pytest.mark.parametrize(("reference", "answer", "want"), [row[:3] for row in ROWS], ids=[row[3] for row in ROWS])
def test_by_hand(reference: str, answer: str, want: float) -> None:
    assert rouge_l(reference, answer) == pytest.approx(want, abs=1e-15)


def test_the_stemmer_is_an_option() -> None:
    assert rouge_l("cats", "cat", use_stemmer=False) == 0.0
    assert str(RougeLAnswer(use_stemmer=False).signature) == "rougeL_answer|stem:none|v1"


TEXT = st.lists(
    st.sampled_from(["the", "cats", "sat", "running", "quickly", "5", "o'clock", "Naïve", "-\n", "a.b"]), max_size=12
).map(" ".join)


@pytest.mark.parametrize("stem", [True, False])
def test_agrees_with_rouge_score(stem: bool) -> None:
    scorer = need("rouge_score.rouge_scorer").RougeScorer(["rougeL"], use_stemmer=stem)

    @given(TEXT | st.text(max_size=40), TEXT | st.text(max_size=40))
    def agrees(reference: str, answer: str) -> None:
        want = scorer.score(reference, answer)["rougeL"].fmeasure
        assert rouge_l(reference, answer, use_stemmer=stem) == pytest.approx(want, abs=1e-12)

    agrees()


def test_agrees_with_rouge_score_on_real_summaries() -> None:
    folder = need_data("rouge_score")
    scorer = need("rouge_score.rouge_scorer").RougeScorer(["rougeL"], use_stemmer=True)
    targets = (folder / "target_large.txt").read_text(encoding="utf-8").splitlines()
    predictions = (folder / "prediction_large.txt").read_text(encoding="utf-8").splitlines()
    for target, prediction in list(zip(targets, predictions, strict=True))[:300]:
        want = scorer.score(target, prediction)["rougeL"].fmeasure
        assert rouge_l(target, prediction) == pytest.approx(want, abs=1e-12)
