"""Explanations of stored runs: metric cards, sample counts, and the derivation of one query."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import EvaluationSample, Metric, MetricResult, SystemOutputs, TargetCategory
from auepora_eval.core.derivation import NO_CONTEXT, Derivation, ExplainContext
from auepora_eval.core.metrics_base import SampleMetric, declare
from auepora_eval.core.scores import Score, Scores
from auepora_eval.errors import BadValueError, UnknownMetricError
from auepora_eval.report.cards import Card, card
from auepora_eval.report.explain import Explanation, explain
from auepora_eval.runs.scoring import rescore
from auepora_eval.store import RunRecord, RunStore
from helpers.builders import output, sample
from helpers.explanations import explanation_markdown, explanation_text
from helpers.golden_runs import put_run

SAMPLES = [
    sample(["a", "b"], sample_id="right", answer="the cat sat"),
    sample(["a"], sample_id="half", answer="a cat"),
    sample([], sample_id="nothing relevant", answer="cat"),
    sample(["a"], sample_id="crashed", answer="cat"),
    sample(["a"], sample_id="never came", answer="cat"),
    sample(sample_id="not annotated"),
]
OUTPUTS: list[SystemOutputs | None] = [
    output("ab", answer="The cat sat.", timings={"end_to_end": 1.0}),
    output("xa", answer="a dog", timings={"end_to_end": 3.0}),
    output("x", answer="cat", timings={"end_to_end": 2.0}),
    output(error="timeout: 30 s"),
    None,
    output("a", answer="cat"),
]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    with RunStore.open(tmp_path / "runs.sqlite") as opened:
        yield opened


@pytest.fixture
def run(store: RunStore) -> RunRecord:
    record = put_run(store, "one", SAMPLES, OUTPUTS)
    rescore(record, ["recall@5", "mrr", "token_f1", "bleu", "mean_latency", "quantile_latency"], store=store)
    return record


def explain_query(store: RunStore, metric: str, query: str, **options: Any) -> Explanation:
    explanation = explain(store, "run_one", metric, query=query, **options)
    assert explanation.query is not None
    return explanation


def test_card_describes_the_metric(store: RunStore, run: RunRecord) -> None:
    card = explain(store, "one", "recall@5").card
    assert card.formula == "|G ∩ R_k| / |G|"
    assert [(one.key, one.value, one.words) for one in card.choices] == [
        ("empty", "skip", "a query with nothing relevant is left out")
    ]
    assert (card.range_text, card.direction) == ("from 0 to 1", "higher is better")
    assert card.reducer == "the mean of the samples' scores"
    assert card.convention == "auepora (the framework's own)"
    assert card.target == "RETRIEVAL_RELEVANCE"
    assert card.value == pytest.approx((1 + 1 + 0 + 0) / 4)
    assert card.value_completed == 1.0
    assert card.interval is not None
    assert card.interval.method == "t"


def test_card_counts_samples(store: RunStore, run: RunRecord) -> None:
    counts = explain(store, "one", "recall@5").card.samples
    assert counts is not None
    assert (counts.total, counts.counted, counts.scored, counts.skipped, counts.system_failed) == (6, 4, 2, 2, 2)
    assert counts.failed_counts_as == 0.0
    assert [(one.reason, one.count) for one in counts.skips] == [("empty_gold", 1), ("no_gold", 1)]
    assert {one.reason for one in counts.failures} == {"missing_output", "timeout"}
    assert counts.skips[1].needed == "annotate `relevant_docs` for the sample ([] if nothing is relevant)"


def test_latency_failures_are_excluded_from_the_mean(store: RunStore, run: RunRecord) -> None:
    counts = explain(store, "one", "mean_latency[end_to_end]").card.samples
    assert counts is not None
    assert (counts.counted, counts.failed_counts_as) == (3, None)


def test_mean_is_sum_over_count(store: RunStore, run: RunRecord) -> None:
    reduction = explain(store, "one", "mrr").reduction
    assert reduction is not None
    assert (reduction.total, reduction.n) == (1.5, 4)
    assert (reduction.check.verdict, reduction.check.computed) == ("equal", 0.375)
    assert [one.sample_id for one in reduction.lowest] == ["crashed", "never came"]
    assert [one.sample_id for one in reduction.highest] == ["right", "half"]
    assert reduction.lowest[0].outcome == "system_failed:timeout"


@pytest.mark.parametrize("metric", ["bleu", "quantile_latency[end_to_end,0.95]"])
def test_metrics_that_are_not_means_are_recomputed(store: RunStore, run: RunRecord, metric: str) -> None:
    reduction = explain(store, "one", metric).reduction
    assert reduction is not None
    assert "not a mean" in reduction.words
    assert reduction.total is None
    assert reduction.check.verdict == "equal"


OUTCOMES = [
    ("right", "recall@5", "scored", 1.0, ""),
    ("half", "mrr", "scored", 0.5, ""),
    ("nothing relevant", "recall@5", "skipped:empty_gold", None, "conventions skip such queries"),
    ("not annotated", "token_f1", "skipped:no_reference", None, "no reference answer"),
    ("crashed", "recall@5", "system_failed:timeout", 0.0, "timeout: 30 s"),
    ("never came", "recall@5", "system_failed:missing_output", 0.0, "there is no output"),
    ("crashed", "mean_latency[end_to_end]", "system_failed:timeout", None, "did not answer in time"),
    ("not annotated", "mean_latency[end_to_end]", "skipped:no_timing", None, "no such timing"),
]


@pytest.mark.parametrize(("query", "metric", "outcome", "counts", "words"), OUTCOMES)
def test_every_outcome_is_explained(
    store: RunStore, run: RunRecord, query: str, metric: str, outcome: str, counts: float | None, words: str
) -> None:
    explanation = explain_query(store, metric, query).query
    assert explanation is not None
    (answer,) = explanation.answers
    assert (answer.outcome, answer.counts_as, explanation.check.verdict) == (outcome, counts, "equal")
    assert words in answer.words
    assert (answer.derivation is not None) == (outcome == "scored")


def test_repeats_are_derived_one_by_one(store: RunStore) -> None:
    again = [output("xxa", answer="sat"), *OUTPUTS[1:]]
    record = put_run(store, "one", SAMPLES, OUTPUTS, again)
    rescore(record, ["mrr", "bleu", "token_f1"], store=store)
    explanation = explain_query(store, "mrr", "right").query
    assert explanation is not None
    assert [answer.counts_as for answer in explanation.answers] == [1.0, 1 / 3]
    assert (explanation.check.verdict, explanation.check.stored) == ("equal", (1 + 1 / 3) / 2)
    whole = explain(store, "one", "bleu").reduction
    assert whole is not None
    assert (whole.check.verdict, "mean of the repeats" in whole.check.why) == ("not computed", True)
    assert "Answer 2" in explanation_text(explain_query(store, "mrr", "right"))


def test_stored_value_that_differs_is_reported(store: RunStore, run: RunRecord) -> None:
    result = store.result(run.run_id, "mrr")
    assert isinstance(result.scores, Scores)
    values = result.scores.values.copy()
    values[0] = 0.25
    store.put_result(run.run_id, MetricResult(**{**vars(result), "scores": replace(result.scores, values=values)}))
    explanation = explain_query(store, "mrr", "right")
    assert explanation.query is not None
    assert (explanation.query.check.verdict, explanation.query.check.stored, explanation.query.check.computed) == (
        "differs",
        0.25,
        1.0,
    )
    assert "They differ: the outputs were replaced since" in explanation_text(explanation)
    whole = explain(store, "one", "mrr").reduction
    assert whole is not None
    assert whole.check.verdict == "differs"


def test_outputs_replaced_after_scoring_are_detected(store: RunStore, run: RunRecord) -> None:
    from auepora_eval.store import StoredOutput

    store.append(run.run_id, [StoredOutput(0, 0, "right", output("xxa"))], replace=True)
    explanation = explain_query(store, "mrr", "right").query
    assert explanation is not None
    assert (explanation.check.verdict, explanation.check.computed) == ("differs", 1 / 3)


def test_each_signature_is_explained_by_its_own_conventions(store: RunStore, run: RunRecord) -> None:
    rescore(run, ["map"], store=store)
    rescore(run, ["map"], conventions="trec", store=store)
    rescore(run, [{"ndcg@3": {"gain_scheme": "linear", "as": "mine"}}], store=store)
    latest = explain_query(store, "map", "right")
    assert latest.card.convention.startswith("trec")
    by_signature = explain_query(
        store, store.results(run.run_id, every_signature=True).by_name["map"].signature or "", "right"
    )
    assert by_signature.card.signature == latest.card.signature
    older = next(one for one in store.results(run.run_id, every_signature=True) if one.name == "map")
    explanation = explain_query(store, older.signature or "", "right")
    assert explanation.card.convention.startswith("auepora")
    assert explanation.query is not None
    assert explanation.query.check.verdict == "equal"
    named = explain_query(store, "mine", "half")
    assert named.query is not None
    assert (named.card.choices[0].value, named.query.check.verdict) == ("linear", "equal")


class Shouting(SampleMetric):
    """Whether the answer shouts.

    .. math:: [\\text{answer ends with !}]
    """

    target = TargetCategory.GENERATION_RELEVANCE
    higher_is_better = False

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        return Score(float((output.response.text if output.response else "").endswith("!")))


class OnlyComputes(Metric):
    """Counts samples."""

    name = "counting"
    target = TargetCategory.DIVERSITY

    def required_fields(self) -> list[str]:
        return []

    def compute(self, samples: list[EvaluationSample], outputs: list[SystemOutputs]) -> MetricResult:
        return MetricResult(self.name, self.target, float(len(samples)))


def test_custom_metrics(store: RunStore, run: RunRecord) -> None:
    rescore(run, [Shouting(), OnlyComputes()], store=store)
    given = {"shouting": Shouting(), "counting": OnlyComputes()}
    explanation = explain_query(store, "shouting", "right", metrics=given)
    assert explanation.card.summary == "Whether the answer shouts."
    assert explanation.query is not None
    assert explanation.query.check.verdict == "equal"
    unknown = explain_query(store, "shouting", "right")
    assert unknown.card.summary == "A metric that is not known in this process."
    assert unknown.card.direction == "lower is better"
    assert unknown.query is not None
    assert (unknown.query.check.verdict, unknown.query.check.stored) == ("not computed", 0.0)
    for one in (None, given):
        counted = explain(store, "one", "counting", metrics=one)
        assert (counted.card.value, counted.card.samples, counted.reduction) == (6.0, None, None)
    assert explanation_text(explain_query(store, "counting", "right", metrics=given))


class Broken(Shouting):
    """Whether the answer shouts; its derivation fails."""

    name = "broken"
    metadata = declare(
        option_help={"by": "me"},
    )

    def explain(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        raise ZeroDivisionError


def test_failing_custom_derivation_is_ignored(store: RunStore, run: RunRecord) -> None:
    rescore(run, [Broken()], store=store)
    explanation = explain_query(store, "broken", "right", metrics={"broken": Broken()})
    assert explanation.query is not None
    assert (explanation.query.answers[0].derivation, explanation.query.check.verdict) == (None, "equal")
    assert explanation.card.choices[0].words == "me"
    assert "scored; it counts as 0" in explanation_text(explanation)


def test_card_without_store() -> None:
    from auepora_eval import evaluate, metric

    (result,) = evaluate(SAMPLES, OUTPUTS, ["recall@5"])
    alone = card(result)
    assert isinstance(alone, Card)
    assert (alone.name, alone.value, alone.formula) == ("recall@5", 0.5, "|G ∩ R_k| / |G|")
    assert alone.convention == "not known"
    assert card(result, metric("recall@5")).convention == "auepora (the framework's own)"
    assert json.loads(json.dumps(alone.to_dict()))["samples"]["counted"] == 4


def test_unknown_names_are_suggested(store: RunStore, run: RunRecord) -> None:
    with pytest.raises(UnknownMetricError, match=r"recall@5"):
        explain(store, "one", "recal@5")
    with pytest.raises(BadValueError, match="has no sample 'rigth'; did you mean 'right'"):
        explain(store, "one", "mrr", query="rigth")


def test_model_output_is_escaped(store: RunStore) -> None:
    nasty = "::error::x\n##[error]x\n# not a heading\n| cell | \x1b[2J <script>alert(1)</script> \u202e " + "x" * 5000
    rows = [sample(["a|b"], sample_id="q|1", answer=nasty, query=nasty)]
    record = put_run(store, "one", rows, [output(["a|b", nasty], answer=nasty)])
    rescore(record, ["recall@5", "token_f1", "support_density", "exact_match"], store=store)
    for name in ("recall@5", "token_f1", "exact_match"):
        explanation = explain_query(store, name, "q|1")
        page = explanation_markdown(explanation)
        assert "<script>" not in page
        assert "\x1b" not in page
        assert not [line for line in page.splitlines() if line.startswith("# not")]
        assert max(map(len, page.splitlines())) < 12000
        lines = explanation_text(explanation).splitlines()
        assert not [line for line in lines if line.lstrip().startswith(("| cell", "::", "##["))]
        assert not {"\x1b", "\u202e"} & set("".join(lines))
        json.dumps(explanation.to_dict(), allow_nan=False)


def test_empty_run(store: RunStore) -> None:
    record = put_run(store, "one", SAMPLES[2:3], [OUTPUTS[2]])
    rescore(record, ["recall@5"], store=store)
    explanation = explain(store, "one", "recall@5")
    assert explanation.card.value is None
    assert explanation.card.notes == ("There is no value: no sample is in it",)
    assert explanation.reduction is not None
    assert (explanation.reduction.n, explanation.reduction.check.verdict) == (0, "equal")
    assert "There is no value" in explanation_text(explanation)


def test_explain_command(
    store: RunStore, run: RunRecord, auepora: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    where = ("--store", str(tmp_path / "runs.sqlite"))
    code, out, _ = auepora("explain", "one", "recall@5", *where)
    assert code == 0
    assert "|G ∩ R_k| / |G|" in out
    assert "sum of scores 2 / 4 samples = 0.5" in out
    code, out, _ = auepora("explain", "one", "recall@5", "--query", "right", *where)
    assert code == 0
    assert "Recall: hits / |G| = 2 / 2 = 1" in out
    assert "computed again, it is equal to the last digit" in out
    code, out, _ = auepora("explain", "one", "recall@5", "--query", "right", "--json", *where)
    document = json.loads(out)
    assert (document["schema"], document["query"]["check"]["verdict"]) == (1, "equal")
    assert document["query"]["answers"][0]["derivation"]["value"] == 1.0
    page = tmp_path / "why.md"
    assert auepora("explain", "one", "mrr", "--query", "half", "-o", str(page), *where)[0] == 0
    assert page.read_text().startswith("# mrr of one")
    code, _, err = auepora("explain", "one", "mrr", "-o", str(tmp_path / "x.csv"), *where)
    assert (code, "cannot be written as CSV" in err) == (2, True)
    code, _, err = auepora("explain", "one", "mmr", *where)
    assert (code, "did you mean 'mrr'" in err) == (2, True)
