"""Support by citations: hand-made transcripts with exact values, skips, failures and requests."""

import random
from contextlib import nullcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import (
    Document,
    EvaluationSample,
    MetricResult,
    Response,
    RetrievedDocument,
    SystemOutputs,
    evaluate,
    metric,
)
from auepora_eval.core.metrics_base import BatchMetric
from auepora_eval.core.registry import use_resources
from auepora_eval.errors import AueporaWarning, BadTypeError, BadValueError, DataFileError, JudgeError
from auepora_eval.judge.critic import JudgePolicy, JudgeRequest
from auepora_eval.judge.nli import EntailmentFunction, NliModel
from auepora_eval.judge.preview import preview
from auepora_eval.metrics.citation_support import (
    CitationSupportF1,
    CitationSupportPrecision,
    CitationSupportRecall,
    SentenceSupport,
    WeightedSupportPrecision,
    WeightedSupportRecall,
    citation_f1,
    citation_precision,
    citation_recall,
    weighted_precision,
    weighted_recall,
)
from helpers.critics import ScriptedBareCritic, ScriptedCritic, framed
from helpers.tiny_models import made

ALCE = (CitationSupportRecall, CitationSupportPrecision, CitationSupportF1)
TREC = (WeightedSupportPrecision, WeightedSupportRecall)
HALF = Fraction(1, 2)

TEXTS = ["Goethe wrote Faust.", "Faust has two parts.", "Goethe lived in Weimar.", "Cats sleep a lot."]
# Per sentence what supports it, each as a set of documents counted from 1: those it needs together. In part: below.
SUPPORTED: dict[str, list[set[int]]] = {
    "Goethe wrote Faust.": [{1}],
    "Faust has two parts.": [{2}],
    "The author of the two parts lived in Weimar.": [{1, 2, 3}],
    "Goethe of Weimar wrote Faust.": [{1, 3}],
    "Goethe wrote something.": [{1}, {3}],
    "Dogs bark.": [],
}
IN_PART = {("Goethe of Weimar wrote Faust.", 1), ("Goethe of Weimar wrote Faust.", 3), ("Dogs bark.", 4)}


def level(evidence: list[str], statement: str) -> str:
    shown = {TEXTS.index(text) + 1 for text in evidence}
    if any(needed <= shown for needed in SUPPORTED[statement]):
        return "full"
    return "partial" if any((statement, place) in IN_PART for place in shown) else "none"


def reply_to(request: JudgeRequest) -> dict[str, Any]:
    (statement,) = framed(request.prompt, "statement")
    verdict = level(framed(request.prompt, "evidence"), statement)
    return {"verdicts": [{"number": 1, "why": "so", "verdict": verdict}]}


def entails(premise: str, hypothesis: str) -> bool:
    return level(premise.split("\n"), hypothesis) == "full"


def answered(text: str | None, texts: list[str] = TEXTS, **fields: Any) -> SystemOutputs:
    sentences = fields.pop("sentences", None)
    found = [RetrievedDocument(Document(f"d{rank}", one), None, rank) for rank, one in enumerate(texts, 1)]
    return SystemOutputs(found, None if text is None else Response(text, sentences=sentences), **fields)


def results(metrics: list[Any], *outputs: SystemOutputs | None, repeats: int = 1) -> dict[str, MetricResult]:
    samples = [EvaluationSample(str(number), "Who wrote Faust?") for number in range(len(outputs))]
    found = evaluate(samples, list(outputs), metrics, judging=JudgePolicy(repeats=repeats, retries=0))
    return {one.name: one for one in found}


def result_of(one: Any, *outputs: SystemOutputs | None, repeats: int = 1) -> MetricResult:
    return results([one], *outputs, repeats=repeats)[one.name]


# Per answer: recall and precision of ALCE; weighted precision and recall of TREC by first citations, and by all.
Rows = list[tuple[str, tuple[Fraction | int, ...], str]]
TRANSCRIPTS: Rows = [
    ("Goethe wrote Faust [1].", (1, 1, 1, 1, 1, 1), "one sentence, one citation"),
    ("Goethe wrote Faust [4].", (0, 0, 0, 0, 0, 0), "the wrong document"),
    ("Goethe wrote Faust.", (0, 0, 0, 0, 0, 0), "no citation"),
    ("Goethe wrote Faust [9].", (0, 0, 0, 0, 0, 0), "a citation out of range"),
    ("Goethe wrote Faust [1][4].", (1, HALF, 1, 1, HALF, HALF), "a superfluous citation"),
    ("Goethe wrote Faust [4][1].", (1, HALF, 0, 0, HALF, HALF), "the superfluous one first"),
    ("Goethe wrote Faust [1][9].", (0, 0, 1, 1, HALF, HALF), "a right one and one out of range"),
    ("Goethe wrote Faust [1][1].", (1, 1, 1, 1, 1, 1), "a document cited twice counts once"),
    ("Goethe wrote something [1, 3].", (1, 1, 1, 1, 1, 1), "each supports it alone: neither is needless"),
    ("Goethe of Weimar wrote Faust [1, 3].", (1, 1, HALF, HALF, HALF, HALF), "only both together support it"),
    ("Goethe of Weimar wrote Faust [1].", (0, 0, HALF, HALF, HALF, HALF), "in part is not supported for ALCE"),
    (
        "Goethe of Weimar wrote Faust [4, 1, 3].",
        (1, Fraction(2, 3), 0, 0, Fraction(1, 3), Fraction(1, 3)),
        "two needed, one needless",
    ),
    ("Goethe of Weimar wrote Faust [4, 2, 1, 3].", (0, 0, 0, 0, Fraction(1, 4), Fraction(1, 4)), "the fourth is cut"),
    (
        "Goethe wrote Faust [1][4]. Faust has two parts. Dogs bark [9]. Dogs bark [4].",
        # Supported: the first of four. Citations: 1 of 4 is right and needed. Firsts: 1, -, 0, 1/2. All: 1/2, -, 0, 1/2.
        (Fraction(1, 4), Fraction(1, 4), HALF, Fraction(3, 8), Fraction(1, 3), Fraction(1, 4)),
        "superfluous, without, out of range and in part together",
    ),
    (
        "Goethe wrote Faust [1]. Faust has two parts [2]. Dogs bark [3].",
        (Fraction(2, 3), Fraction(2, 3), Fraction(2, 3), Fraction(2, 3), Fraction(2, 3), Fraction(2, 3)),
        "two of three",
    ),
]


def f1(recall: Fraction | int, precision: Fraction | int) -> Fraction:
    return 2 * Fraction(recall) * precision / (recall + precision) if recall + precision else Fraction(0)


@pytest.mark.parametrize(("text", "want", "why"), TRANSCRIPTS, ids=[row[-1] for row in TRANSCRIPTS])
@pytest.mark.parametrize("judge", ["critic", "bare critic", "function"])
def test_transcripts(text: str, want: tuple[Fraction, ...], why: str, judge: str) -> None:
    critics: dict[str, Any] = {
        "critic": ScriptedCritic(reply_to),
        "bare critic": ScriptedBareCritic(_bare),
        "function": entails,
    }
    by = critics[judge]
    recall, precision, first_precision, first_recall, all_precision, all_recall = want
    found = results([kind(by) for kind in ALCE], answered(text))
    assert [found[kind.name].value for kind in ALCE] == [
        float(recall),
        float(precision),
        pytest.approx(float(f1(recall, precision)), abs=1e-15),
    ]
    if judge == "function":  # which knows no support in part
        return
    weighted = results([kind(by) for kind in TREC], answered(text))
    assert [weighted[kind.name].value for kind in TREC] == [float(first_precision), float(first_recall)]
    every = results([kind(by, judged="all") for kind in TREC], answered(text))
    assert [every[kind.name].value for kind in TREC] == [
        pytest.approx(float(all_precision), abs=1e-15),
        pytest.approx(float(all_recall), abs=1e-15),
    ]


def _bare(prompt: str, metadata: dict[str, Any]) -> float:
    (statement,) = framed(prompt, "statement")
    return {"full": 1.0, "partial": 0.5, "none": 0.0}[level(framed(prompt, "evidence"), statement)]


def test_arithmetic_alone() -> None:
    sentences = [SentenceSupport(3, True, 1), SentenceSupport(2), SentenceSupport(), SentenceSupport(1, True)]
    assert citation_recall(sentences) == Fraction(2, 4)
    assert citation_precision(sentences) == Fraction(3, 6)
    assert citation_f1(sentences) == Fraction(1, 2)
    assert citation_precision([SentenceSupport()]) == citation_f1([SentenceSupport()]) == 0.0


def test_arithmetic_of_the_track_on_its_own_example() -> None:
    """Full; in part; none and then full; no citation: as the track's evaluation counts them, first ones and all."""
    firsts, every = [[1.0], [0.5], [0.0], []], [[1.0], [0.5], [0.0, 1.0], []]
    assert (weighted_precision(firsts), weighted_recall(firsts)) == (0.5, float(Fraction(3, 8)))
    assert (weighted_precision(every), weighted_recall(every)) == (float(Fraction(2, 3)), 0.5)
    assert weighted_precision([[], []]) == weighted_recall([[], []]) == 0.0


def by_loops(sentences: list[list[int]], holds: Any, most: int) -> tuple[Fraction, Fraction]:
    """Recall and precision as the paper defines them, one citation after the other."""
    supported, cited, right = 0, 0, 0
    for number, citations in enumerate(sentences):
        own = citations[:most]
        cited += len(own)
        known = all(one < 5 for one in citations)
        if not own or not known or not holds(number, set(own)):
            continue
        supported += 1
        for one in own:
            needless = not holds(number, {one}) and len(own) > 1 and holds(number, set(own) - {one})
            right += not needless
    return Fraction(supported, len(sentences)), Fraction(right, cited) if cited else Fraction(0)


def test_definitions_as_loops() -> None:
    rng = random.Random(3)
    outputs, want = [], []
    texts = [f"text {place}" for place in range(5)]

    def holds(number: int, places: set[int]) -> bool:
        # More documents are not always better, as with real judges.
        return random.Random(f"{number} {sorted(places)}").random() < 0.6

    def entailed(premise: str, hypothesis: str) -> bool:
        return holds(int(hypothesis.split()[1]), {int(one.split()[1]) for one in premise.split("\n")})

    for _ in range(150):
        cited = [rng.sample(range(6), rng.randint(0, 4)) for _ in range(rng.randint(1, 4))]
        want.append(by_loops(cited, holds, 3))
        marks = ["".join(f"[{one + 1}]" for one in own) for own in cited]
        text = "\n".join(f"Sentence {number} here {mark}." for number, mark in enumerate(marks))
        outputs.append(answered(text, texts))
    found = results([CitationSupportRecall(entailed), CitationSupportPrecision(entailed)], *outputs)
    assert list(found["citation_support_recall"].scores or ()) == [float(recall) for recall, _ in want]
    assert list(found["citation_support_precision"].scores or ()) == [float(precision) for _, precision in want]


def test_all_citations_are_checked_on_request() -> None:
    text = "Goethe of Weimar wrote Faust [4, 2, 1, 3]."
    found = results([kind(ScriptedCritic(reply_to), at_most_citations=None) for kind in ALCE], answered(text))
    assert [found[kind.name].value for kind in ALCE] == [1.0, 0.5, float(f1(1, HALF))]


def test_counts_are_in_the_details() -> None:
    outputs = answered("Goethe wrote Faust [1][9]. Dogs bark. Faust has two parts [2]."), answered("Dogs bark.")
    for kind in (*ALCE, *TREC):
        details = result_of(kind(ScriptedCritic(reply_to)), *outputs).details
        counts = [details[name] for name in ("num_sentences", "num_citations", "num_uncited", "num_out_of_range")]
        assert counts == [4, 3, 2, 1]


def test_listed_sentences_take_precedence_over_markers() -> None:
    listed = [
        {"text": "Goethe wrote Faust.", "citations": ["d1", "gone"]},
        {"text": "Faust has two parts.", "citations": ["d2"]},
    ]
    output = answered("Whatever [1].", sentences=listed)
    assert result_of(WeightedSupportRecall(ScriptedCritic(reply_to)), output).value == 1.0
    assert result_of(CitationSupportRecall(ScriptedCritic(reply_to)), output).value == 0.5
    marked = answered("Dogs bark [1].", sentences=listed)
    assert result_of(CitationSupportRecall(ScriptedCritic(reply_to), citations="brackets"), marked).value == 0.0


SETTLED: list[tuple[dict[str, Any], SystemOutputs | None, str, float | None, str]] = [
    ({}, answered(None), "skipped:no_response", None, "no answer was asked for"),
    ({}, answered(" \n"), "skipped:empty_answer", None, "an empty answer"),
    ({}, answered("[1]"), "skipped:empty_answer", None, "a mark and nothing else"),
    ({}, answered("I cannot say.", refused=True), "skipped:refused", None, "a refusal that is marked as one"),
    ({}, answered("Dogs bark."), "scored", 0.0, "no citation at all"),
    ({}, answered("Dogs bark [7]."), "scored", 0.0, "a citation of nothing alone"),
    ({}, answered("Dogs bark [1].", []), "scored", 0.0, "nothing was retrieved"),
    ({}, answered("Dogs bark.", citations=["d1"]), "skipped:whole_answer", None, "cited as a whole"),
    ({}, answered("Dogs bark.", citations=[]), "scored", 0.0, "an empty list of citations"),
    ({}, answered("Dogs bark [1].", ["", "text"]), "skipped:no_text", None, "the cited document has no text"),
    ({}, answered("Dogs bark.", sentences=[]), "skipped:empty_answer", None, "an empty list of sentences"),
    ({"citations": "sentences"}, answered("Dogs bark [1]."), "skipped:no_sentences", None, "no list of sentences"),
    ({}, answered("x", sentences=[{"text": "x", "citations": "d1"}]), "measure_failed:bad_citations", None, "no list"),
    ({}, SystemOutputs([], error="timeout"), "system_failed:timeout", 0.0, "the system failed"),
    (
        {},
        SystemOutputs([], Response(""), error="timeout"),
        "system_failed:timeout",
        0.0,
        "a crash hides behind nothing",
    ),
    ({}, None, "system_failed:missing_output", 0.0, "there is no output"),
]


@pytest.mark.parametrize(("options", "output", "outcome", "value", "why"), SETTLED, ids=[row[-1] for row in SETTLED])
@pytest.mark.parametrize("kind", [*ALCE, *TREC], ids=lambda kind: kind.__name__)
def test_no_request_if_the_outcome_is_known(
    kind: Any, options: dict[str, Any], output: SystemOutputs, outcome: str, value: float | None, why: str
) -> None:
    critic = ScriptedCritic(reply_to)
    warned = pytest.warns(AueporaWarning, match="not 'd1'") if "bad_" in outcome else nullcontext()
    with warned:
        found = result_of(kind(critic, **options), output)
    assert (list(found.outcomes or ()), list(found.scores or ())) == ([outcome], [value])
    assert critic.asked == []


def test_uncited_documents_without_text_are_ignored() -> None:
    output = answered("Goethe wrote Faust [1].", [TEXTS[0], ""])
    assert result_of(CitationSupportRecall(ScriptedCritic(reply_to)), output).value == 1.0


def test_same_request_is_made_once_for_all_metrics() -> None:
    critic = ScriptedCritic(reply_to)
    text = "Goethe of Weimar wrote Faust [4, 1, 3]. Dogs bark [4]."
    results([kind(critic) for kind in (*ALCE, *TREC)], answered(text))
    asked = [(tuple(framed(one.prompt, "evidence")), framed(one.prompt, "statement")[0]) for one in critic.asked]
    weimar, dogs = "Goethe of Weimar wrote Faust.", "Dogs bark."
    four, one, three = TEXTS[3], TEXTS[0], TEXTS[2]
    assert sorted(set(asked)) == sorted(
        [
            ((four, one, three), weimar),
            *[((text,), weimar) for text in (four, one, three)],
            *[(pair, weimar) for pair in ((one, three), (four, three), (four, one))],
            ((four,), dogs),
        ]
    )
    assert len(asked) == len(set(asked))


def test_function_is_called_once_for_all_metrics() -> None:
    asked: list[tuple[str, str]] = []

    def counting(premise: str, hypothesis: str) -> bool:
        asked.append((premise, hypothesis))
        return entails(premise, hypothesis)

    text = "Goethe of Weimar wrote Faust [4, 1, 3]. Dogs bark [4]."
    by = EntailmentFunction(counting)
    results([kind(by) for kind in (*ALCE, *TREC)], answered(text), repeats=3)
    assert len(asked) == len(set(asked)) == 8


def test_failed_judgement_fails_only_its_answer() -> None:
    def sometimes(request: JudgeRequest) -> Any:
        failed = request.sample_id == "1" and "bark" in request.prompt
        return JudgeError("refused", "no") if failed else reply_to(request)

    good, bad = "Goethe wrote Faust [1].", "Goethe wrote Faust [1]. Dogs bark [4]."
    with pytest.warns(AueporaWarning, match=r"no judgement \(refused\)"):
        found = result_of(CitationSupportPrecision(ScriptedCritic(sometimes)), answered(good), answered(bad))
    assert list(found.outcomes or ()) == ["scored", "measure_failed:refused"]
    assert (found.value, found.details["bounds"]) == (1.0, [0.5, 1.0])


def test_repeats_are_averaged_and_their_spread_is_in_the_details() -> None:
    def wavers(request: JudgeRequest) -> Any:
        verdict = ["full", "none", "none"][request.repeat]
        return {"verdicts": [{"number": 1, "why": "", "verdict": verdict}]}

    found = result_of(CitationSupportRecall(ScriptedCritic(wavers)), answered("Dogs bark [1]."), repeats=3)
    assert found.value == float(Fraction(1, 3))
    assert (found.details["judge"]["repeats"], found.details["judge"]["num_judgements"]) == (3, 3)


def test_repeat_that_fails_leaves_the_others() -> None:
    def fails_once(request: JudgeRequest) -> Any:
        return JudgeError("timeout", "late") if request.repeat == 1 else reply_to(request)

    found = result_of(CitationSupportRecall(ScriptedCritic(fails_once)), answered("Goethe wrote Faust [1]."), repeats=2)
    assert (found.value, found.details["judge"]["num_failed"]) == (1.0, 1)


def test_preview_counts_the_first_requests() -> None:
    sample, output = EvaluationSample("1", "?"), answered("Goethe wrote Faust [1, 2]. Dogs bark [4].")
    chosen: list[Any] = [kind(ScriptedCritic(reply_to)) for kind in (*ALCE, *TREC)]
    forecast = preview([sample], [output], chosen, JudgePolicy())
    assert {name: share.judgements for name, share in forecast.metrics.items()} == dict.fromkeys(
        (one.name for one in chosen), 2
    )
    assert forecast.lower_bound_metrics == ["citation_support_precision", "citation_support_f1"]


@pytest.mark.part("models")
def test_nli_model_replaces_the_judge() -> None:
    path = str(made("nli"))
    one = CitationSupportRecall(NliModel(path, threshold=0.01))
    found = result_of(one, answered("Goethe wrote Faust [1]. Dogs bark."))
    assert found.value in (0.0, 0.5)
    again = metric({"citation_support_recall": {"critic": {"nli": {"model": path, "threshold": 0.01}}}})
    assert again == one
    assert "nli" in (found.signature or "")
    assert "prompt" not in (found.signature or "")


def test_signature_shows_what_changes_the_number() -> None:
    critic = ScriptedCritic(reply_to)
    kinds: list[BatchMetric] = [
        CitationSupportRecall(critic),
        CitationSupportRecall(critic, at_most_citations=None),
        CitationSupportRecall(critic, citations="hash"),
        CitationSupportRecall(entails),
        WeightedSupportRecall(critic),
        WeightedSupportRecall(critic, judged="all"),
    ]
    assert len({str(one.signature) for one in kinds}) == len(kinds)
    assert str(kinds[0].signature).startswith("citation_support_recall|critic:scripted|prompt:support/1/")


def test_critic_must_be_a_judge() -> None:
    with pytest.raises(BadTypeError, match="critic must be"):
        CitationSupportRecall(5)


def test_error_without_a_judge_explains_the_options() -> None:
    with pytest.raises(BadValueError, match="--judge-model"):
        result_of(CitationSupportRecall(), answered("Dogs bark [1]."))
    with use_resources({"judge": None}), pytest.raises(BadValueError, match="not available"):
        metric({"citation_support_recall": {"critic": {"use": "judge"}}}).require_ready()  # type: ignore[attr-defined]


def test_custom_prompt_replaces_the_built_in_one(tmp_path: Path) -> None:
    own = tmp_path / "own.md"
    own.write_text("# Prompt\n\n{{evidence}}\n\nHolds it?\n\n{{statements}}\n\n{{form}}\n")
    critic = ScriptedCritic(reply_to)
    one = CitationSupportRecall(critic, prompt=own)
    assert result_of(one, answered("Goethe wrote Faust [1].")).value == 1.0
    assert "Holds it?" in critic.asked[0].prompt
    own.write_text("# Prompt\n\n{{evidence}} {{form}}\n")
    with pytest.raises(DataFileError, match="lacks"):
        CitationSupportRecall(critic, prompt=own)
