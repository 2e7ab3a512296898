"""The two small examples: they run as they are, as scripts too, and teach what is so."""

import subprocess
import sys

import pytest

from auepora_eval import TargetCategory
from auepora_eval.examples import example_plan, simple_rag

SCRIPTS = [
    ("auepora_eval.examples.simple_rag", "It flows into the Black Sea."),
    ("auepora_eval.examples.example_plan", "Retrieval relevance  recall@1"),
]


@pytest.mark.parametrize(("module", "shown"), SCRIPTS, ids=[module.rpartition(".")[2] for module, _ in SCRIPTS])
def test_it_runs_as_a_script(module: str, shown: str) -> None:
    done = subprocess.run([sys.executable, "-m", module], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert shown in done.stdout
    assert done.stderr == ""


def test_simple_rag_ranks_by_shared_words() -> None:
    output = simple_rag.main()
    # into, sea, danube against into, sea
    assert [(found.doc.doc_id, found.score) for found in output.retrieved] == [("danube", 3.0), ("rhine", 2.0)]
    assert output.response is not None
    assert output.response.text == "It flows into the Black Sea."


def test_simple_rag_declines_without_documents() -> None:
    assert simple_rag.FirstSentenceGenerator().generate("Who?", []).text == "I don't know."


def test_plan_covers_retrieval_and_generation() -> None:
    targets = set(example_plan.build_plan().grouped_by_target())
    assert targets >= {
        TargetCategory.RETRIEVAL_RELEVANCE,
        TargetCategory.RETRIEVAL_ACCURACY,
        TargetCategory.GENERATION_FAITHFULNESS,
        TargetCategory.GENERATION_CORRECTNESS,
        TargetCategory.NEGATIVE_REJECTION,
        TargetCategory.LATENCY,
    }


ROWS = [  # metric, value, why
    ("recall@3", 13 / 14, "one of two relevant documents shares no word with its question"),
    ("mrr", 1.0, "the first document is always a right one"),
    ("empty_result_rate", 1 / 8, "the cup shares no word with any document"),
    ("support_density", 7 / 8, "all answers are quotes but for the refusal"),
    ("negative_rejection_rate", 1.0, "the one question without an answer is declined"),
    ("over_refusal_rate", 0.0, "and no other"),
]


@pytest.mark.parametrize(("name", "value"), [row[:2] for row in ROWS], ids=[row[2] for row in ROWS])
def test_values_of_the_example(name: str, value: float) -> None:
    results = example_plan.main()
    assert results.by_name[name].value == pytest.approx(value, abs=1e-15)


def test_lowest_score_is_printed_with_its_question(capsys: pytest.CaptureFixture[str]) -> None:
    scores = example_plan.main().by_name["token_f1"].scores or []
    lowest = min(range(len(scores)), key=lambda at: scores[at] or 0.0)
    shown = capsys.readouterr().out
    assert example_plan.QUESTIONS[lowest][0] in shown.rpartition("The lowest token_f1")[2]
