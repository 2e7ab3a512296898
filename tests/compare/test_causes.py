"""Why a query got worse: real stored runs, one cause each, and the causes as a partition."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from auepora_eval.compare.chunks import GoldRanks, QueryOutput
from auepora_eval.compare.queries import Cause, MetricScope, QueryChange, cause_counts, cause_of, explain_changes
from auepora_eval.core.types import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.errors import BadValueError, SignatureMismatchError
from auepora_eval.runs.run import run_system
from auepora_eval.runs.scoring import rescore
from auepora_eval.store.records import RunRecord
from auepora_eval.store.runs import RunStore
from helpers.builders import output, sample

RIGHT, WRONG = "paris", "london"


@dataclass
class Scripted:
    """A system that answers by a script; an output may be a list, one for each repeat."""

    script: Mapping[str, Any]
    asked: dict[str, int] = field(default_factory=dict)

    def run(self, sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
        turn = self.asked.get(sample.sample_id, 0)
        self.asked[sample.sample_id] = turn + 1
        planned = self.script[sample.sample_id]
        given: SystemOutputs = planned[turn] if isinstance(planned, list) else planned
        if given.error is not None:
            raise ValueError(given.error)
        return replace(given)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    with RunStore.open(tmp_path / "runs.sqlite") as opened:
        yield opened


@pytest.fixture
def run(store: RunStore) -> Callable[..., RunRecord]:
    """Runs a scripted system on samples and stores it."""

    def make(samples: list[EvaluationSample], script: Mapping[str, Any], **options: Any) -> RunRecord:
        metrics = options.pop("metrics", ["token_f1", "recall@3", "ndcg@3"])
        return run_system(Scripted(script), samples, metrics, store=store, top_k=5, keep_going=True, **options).record

    return make


def one(gold: Any, **fields: Any) -> EvaluationSample:
    return sample(gold, sample_id="q", answer=RIGHT, **fields)


BROKEN = output(error="no answer")
CASES: list[Any] = [
    # reason, gold, A's output, B's output, metric, cause, ranks, words of the detail
    ("b failed", ["g"], output(["g"], answer=RIGHT), BROKEN, "token_f1", Cause.FAILED, (1, None), "B failed (raised: "),
    (
        "b declined although it lost the document too",
        ["g"],
        output(["g"], answer=RIGHT),
        output(["x"], answer="I don't know."),
        "token_f1",
        Cause.REFUSED,
        (1, None),
        "A answered and B declined to",
    ),
    (
        "b says itself that it declined",
        ["g"],
        output(["g"], answer=RIGHT),
        output(["g"], answer=WRONG, refused=True),
        "token_f1",
        Cause.REFUSED,
        (1, 1),
        "declined",
    ),
    (
        "the gold document is gone",
        ["g"],
        output(["x", "g"], answer=RIGHT),
        output(["x", "y", "z"], answer=WRONG),
        "token_f1",
        Cause.LOST,
        (2, None),
        "A has gold at rank 2, B has none among its 3 documents",
    ),
    (
        "one of two gold documents is gone",
        ["g", "h"],
        output(["g", "h"], answer=RIGHT),
        output(["g", "x"], answer=WRONG),
        "token_f1",
        Cause.LOST,
        (1, 1),
        "A returned 2 gold documents, B 1",
    ),
    (
        "another gold document in its place is not a loss",
        ["g", "h"],
        output(["x", "g"], answer=RIGHT),
        output(["x", "h"], answer=WRONG),
        "token_f1",
        Cause.IGNORED,
        (2, 2),
        "made less of it",
    ),
    (
        "the best gold document gives way to a lesser one",
        {"best": 3, "good": 1},
        output(["best", "x"], answer=RIGHT),
        output(["good", "x"], answer=WRONG),
        "token_f1",
        Cause.LOST,
        (1, 1),
        "a higher level",
    ),
    (
        "further down",
        ["g"],
        output(["g", "x"], answer=RIGHT),
        output(["x", "y", "g"], answer=WRONG),
        "token_f1",
        Cause.RANKED_LOWER,
        (1, 3),
        "at rank 1 in A stands at rank 3 in B",
    ),
    (
        "the second gold document further down",
        ["g", "h"],
        output(["g", "h", "x"], answer=RIGHT),
        output(["g", "x", "h"], answer=WRONG),
        "ndcg@3",
        Cause.RANKED_LOWER,
        (1, 1),
        "at rank 2 in A stands at rank 3 in B",
    ),
    (
        "levels swapped",
        {"best": 3, "good": 1},
        output(["best", "good"], answer=RIGHT),
        output(["good", "best"], answer=RIGHT),
        "graded",
        Cause.RANKED_LOWER,
        (1, 1),
        "at rank 1 in A stands at rank 2 in B",
    ),
    (
        "the same context",
        ["g"],
        output(["g", "x"], answer=RIGHT),
        output(["g", "x"], answer=WRONG),
        "token_f1",
        Cause.ANSWER_CHANGED,
        (1, 1),
        "the same 2 documents",
    ),
    (
        "the same context without gold",
        None,
        output(["x"], answer=RIGHT),
        output(["x"], answer=WRONG),
        "token_f1",
        Cause.ANSWER_CHANGED,
        (None, None),
        "another answer",
    ),
    (
        "gold further up and the answer worse",
        ["g"],
        output(["x", "g"], answer=RIGHT),
        output(["g", "y"], answer=WRONG),
        "token_f1",
        Cause.IGNORED,
        (2, 1),
        "B has gold at rank 1 (A at rank 2)",
    ),
    (
        "gold only in b and the answer worse",
        ["g"],
        output(["x"], answer=RIGHT),
        output(["g"], answer=WRONG),
        "token_f1",
        Cause.IGNORED,
        (None, 1),
        "(A nowhere)",
    ),
    (
        "other documents and no gold annotated",
        None,
        output(["x"], answer=RIGHT),
        output(["y"], answer=WRONG),
        "token_f1",
        Cause.CONTEXT_CHANGED,
        (None, None),
        "no gold is annotated",
    ),
    (
        "nothing is relevant",
        [],
        output(["x"], answer=RIGHT),
        output(["y"], answer=WRONG),
        "token_f1",
        Cause.CONTEXT_CHANGED,
        (None, None),
        "no gold is annotated",
    ),
    (
        "neither found gold",
        ["g"],
        output(["x"], answer=RIGHT),
        output(["y"], answer=WRONG),
        "token_f1",
        Cause.CONTEXT_CHANGED,
        (None, None),
        "neither returned gold",
    ),
    (
        "a metric of retrieval does not ask who declined",
        ["g"],
        output(["g"], answer=RIGHT),
        output(["x"], answer="I don't know."),
        "recall@3",
        Cause.LOST,
        (1, None),
        "none among its 1 documents",
    ),
    (
        "slower and nothing else",
        ["g"],
        output(["g"], answer=RIGHT, timings={"end_to_end": 1.0}),
        output(["g"], answer=RIGHT, timings={"end_to_end": 2.0}),
        "mean_latency[end_to_end]",
        Cause.UNEXPLAINED,
        (1, 1),
        "the same documents and the same answer",
    ),
    (
        "failed under a metric that leaves failures out",
        ["g"],
        output(["g"], answer=RIGHT, timings={"end_to_end": 1.0}),
        BROKEN,
        "mean_latency[end_to_end]",
        Cause.FAILED,
        (1, None),
        "no answer",
    ),
]


@pytest.mark.parametrize(
    ("gold", "a", "b", "metric", "cause", "ranks", "words"), [row[1:] for row in CASES], ids=[row[0] for row in CASES]
)
def test_the_cause(
    run: Callable[..., RunRecord],
    store: RunStore,
    gold: Any,
    a: SystemOutputs,
    b: SystemOutputs,
    metric: str,
    cause: Cause,
    ranks: tuple[int | None, int | None],
    words: str,
) -> None:
    metrics: list[Any] = ["token_f1", "mean_latency[end_to_end]"]
    if gold:
        metrics += ["recall@3", "ndcg@3", {"ndcg@3": {"gain_scheme": "linear", "as": "graded"}}]
    first, second = run([one(gold)], {"q": a}, metrics=metrics), run([one(gold)], {"q": b}, metrics=metrics)
    (change,) = explain_changes(store, first, second, metric=metric)
    assert (change.sample_id, change.cause, (change.a_rank, change.b_rank)) == ("q", cause, ranks)
    assert words in change.detail
    assert change.a_score is not None
    if change.b_score is not None:
        assert change.a_score != change.b_score


MIRRORED = {
    Cause.FAILED: Cause.RECOVERED,
    Cause.REFUSED: Cause.ANSWERED,
    Cause.LOST: Cause.FOUND,
    Cause.RANKED_LOWER: Cause.RANKED_HIGHER,
    Cause.IGNORED: Cause.USED,
}


class TestWholeRuns:
    def test_only_what_got_worse_in_dataset_order_and_counted(
        self, run: Callable[..., RunRecord], store: RunStore
    ) -> None:
        samples = [sample(["g"], sample_id=f"q{n}", answer=RIGHT) for n in range(6)]
        good, bad = output(["g"], answer=RIGHT), output(["g"], answer=WRONG)
        gone = output(["x"], answer=WRONG)
        first = run(samples, {"q0": good, "q1": bad, "q2": good, "q3": good, "q4": good, "q5": gone})
        second = run(samples, {"q0": bad, "q1": good, "q2": good, "q3": BROKEN, "q4": gone, "q5": good})
        worse = explain_changes(store, first, second)
        assert [(one.sample_id, one.cause) for one in worse] == [
            ("q0", Cause.ANSWER_CHANGED),
            ("q3", Cause.FAILED),
            ("q4", Cause.LOST),
        ]
        assert list(cause_counts(worse).items()) == [(Cause.FAILED, 1), (Cause.LOST, 1), (Cause.ANSWER_CHANGED, 1)]
        both = explain_changes(store, first, second, worse_only=False)
        assert [(one.sample_id, one.cause) for one in both if one not in worse] == [
            ("q1", Cause.ANSWER_CHANGED),
            ("q5", Cause.FOUND),
        ]

    def test_better_mirrors_worse(self, run: Callable[..., RunRecord], store: RunStore) -> None:
        rows = [row for row in CASES if row[4] == "token_f1" and row[1]]
        samples = [sample(row[1], sample_id=row[0], answer=RIGHT) for row in rows]
        first = run(samples, {row[0]: row[2] for row in rows})
        second = run(samples, {row[0]: row[3] for row in rows})
        worse = explain_changes(store, first, second)
        better = explain_changes(store, second, first, worse_only=False)
        assert len(worse) == len(rows)
        assert [(one.cause, one.a_rank, one.b_rank) for one in better] == [
            (MIRRORED.get(one.cause, one.cause), one.b_rank, one.a_rank) for one in worse
        ]
        assert not explain_changes(store, second, first)

    def test_samples_of_one_run_only_are_left_alone(self, run: Callable[..., RunRecord], store: RunStore) -> None:
        both, old, new = (sample(["g"], sample_id=name, answer=RIGHT) for name in ("both", "old", "new"))
        good, bad = output(["g"], answer=RIGHT), output(["g"], answer=WRONG)
        first = run([old, both], {"old": good, "both": good})
        second = run([both, new], {"both": bad, "new": bad})
        assert [one.sample_id for one in explain_changes(store, first, second)] == ["both"]
        with pytest.raises(BadValueError, match="no sample in common"):
            explain_changes(store, run([old], {"old": good}), run([new], {"new": bad}))

    def test_proportion_of_failed_and_refused_repeats(self, run: Callable[..., RunRecord], store: RunStore) -> None:
        good, no = output(["g"], answer=RIGHT), output(["g"], answer="I don't know.")
        samples = [sample(["g"], sample_id=name, answer=RIGHT) for name in ("fails", "declines", "differs")]
        first = run(samples, {"fails": good, "declines": good, "differs": good}, repeats=2)
        other = output(["g"], answer=WRONG)
        script = {"fails": [good, BROKEN], "declines": [no, good], "differs": [good, other]}
        changes = explain_changes(store, first, run(samples, script, repeats=2))
        assert [one.cause for one in changes] == [Cause.FAILED, Cause.REFUSED, Cause.ANSWER_CHANGED]
        assert changes[0].detail.startswith("B failed 50% of the times")

    def test_a_run_without_an_output_failed(self, run: Callable[..., RunRecord], store: RunStore) -> None:
        good = output(["g"], answer=RIGHT)
        first = run([one(["g"])], {"q": good})
        samples = [one(["g"])]
        second = store.create_run("saved", samples, dataset_name="dataset", plan={"version": 1})
        rescore(second, ["token_f1"], store=store)
        (change,) = explain_changes(store, first, second)
        assert (change.cause, change.detail) == (Cause.FAILED, "B failed (no output is stored)")

    def test_no_text_of_a_document_is_read(
        self, run: Callable[..., RunRecord], store: RunStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = run([one(["g"])], {"q": output(["g"], answer=RIGHT)})
        second = run([one(["g"])], {"q": output(["x"], answer=WRONG)})
        asked: list[Any] = []
        real = store.outputs

        def outputs(*args: Any, **options: Any) -> Any:
            asked.append(options)
            return real(*args, **options)

        monkeypatch.setattr(store, "outputs", outputs)
        explain_changes(store, first, second)
        assert {options["texts"] for options in asked} == {False}


def chunk(doc_id: str, parent: str | None, span: tuple[int, int] | None = None) -> RetrievedDocument:
    return RetrievedDocument(Document(doc_id, parent_id=parent, span=span), None, 1)


class TestAnotherChunker:
    """Ids of chunks mean nothing once the documents were cut anew; their documents do."""

    def explained(
        self,
        run: Callable[..., RunRecord],
        store: RunStore,
        a: list[RetrievedDocument],
        b: list[RetrievedDocument],
        gold: Document,
        versions: tuple[Any, Any] = ("1", "2"),
    ) -> QueryChange:
        samples = [EvaluationSample("q", "why?", relevant_docs=[gold], reference_answer=Response(RIGHT))]
        first, second = (
            run(samples, {"q": SystemOutputs(found, Response(text))}, config={"chunker_version": version})
            for found, text, version in ((a, RIGHT, versions[0]), (b, WRONG, versions[1]))
        )
        (change,) = explain_changes(store, first, second, metric="token_f1")
        return change

    def test_gold_is_any_chunk_of_its_document(self, run: Callable[..., RunRecord], store: RunStore) -> None:
        gold = Document("guide-1", parent_id="guide")
        a = [chunk("guide-1", "guide")]
        change = self.explained(run, store, a, [chunk("x-1", "x"), chunk("guide-7", "guide")], gold)
        assert (change.cause, change.a_rank, change.b_rank) == (Cause.RANKED_LOWER, 1, 2)
        change = self.explained(run, store, a, [chunk("x-1", "x")], gold)
        assert change.cause is Cause.LOST

    def test_the_document_of_gold_is_known_from_a_hit(self, run: Callable[..., RunRecord], store: RunStore) -> None:
        change = self.explained(
            run, store, [chunk("guide-1", "guide")], [chunk("guide-7", "guide")], Document("guide-1")
        )
        assert (change.cause, change.a_rank, change.b_rank) == (Cause.IGNORED, 1, 1)

    def test_the_same_id_is_not_the_same_context(self, run: Callable[..., RunRecord], store: RunStore) -> None:
        gold, same = Document("guide-1", parent_id="guide"), [chunk("guide-1", "guide")]
        assert self.explained(run, store, same, same, gold).cause is Cause.IGNORED
        assert self.explained(run, store, same, same, gold, (1, "1")).cause is Cause.ANSWER_CHANGED
        assert self.explained(run, store, same, same, gold, (None, "1")).cause is Cause.ANSWER_CHANGED

    def test_the_same_place_is(self, run: Callable[..., RunRecord], store: RunStore) -> None:
        gold = Document("guide-1", parent_id="guide")
        a, b = [chunk("guide-1", "guide", (0, 9))], [chunk("guide-0", "guide", (0, 9))]
        assert self.explained(run, store, a, b, gold).cause is Cause.ANSWER_CHANGED


class TestWhichMetric:
    def changes(self, run: Callable[..., RunRecord], store: RunStore, metrics: list[str], **plan: Any) -> list[Any]:
        """Recall falls and the answer stays right for q0; the other way round for q1."""
        samples = [sample(["g"], sample_id=f"q{n}", answer=RIGHT) for n in range(2)]
        good = output(["g"], answer=RIGHT)
        first = run(samples, {"q0": good, "q1": good}, metrics=metrics)
        script = {"q0": output(["x"], answer=RIGHT), "q1": output(["g"], answer=WRONG)}
        second = run(samples, script, metrics=metrics)
        return [one.sample_id for one in explain_changes(store, first, replace(second, plan={**second.plan, **plan}))]

    @pytest.mark.parametrize(
        ("metrics", "primary", "changed"),
        [
            pytest.param(["recall@1", "token_f1"], None, ["q1"], id="answers before retrieval"),
            pytest.param(
                ["recall@1", "exact_match"], ["recall@1"], ["q0"], id="a primary metric before one of answers"
            ),
            pytest.param(["recall@1", "rougeL_answer"], None, ["q1"], id="any answer metric"),
            pytest.param(["mean_latency[end_to_end]", "recall@1"], None, ["q0"], id="retrieval before latency"),
        ],
    )
    def test_without_a_name(
        self,
        run: Callable[..., RunRecord],
        store: RunStore,
        metrics: list[str],
        primary: list[str] | None,
        changed: list[str],
    ) -> None:
        assert self.changes(run, store, metrics, primary=primary) == changed

    def test_metric_where_lower_is_better(self, run: Callable[..., RunRecord], store: RunStore) -> None:
        metrics = [{"mean_latency[end_to_end]": {"as": "speed"}}]
        first = run([one(["g"])], {"q": output(["g"], answer=RIGHT, timings={"end_to_end": 1.0})}, metrics=metrics)
        second = run([one(["g"])], {"q": output(["g"], answer=RIGHT, timings={"end_to_end": 2.0})}, metrics=metrics)
        assert len(explain_changes(store, first, second)) == 1
        assert not explain_changes(store, second, first)

    def test_bad_arguments(self, run: Callable[..., RunRecord], store: RunStore) -> None:
        good = output(["g"], answer=RIGHT)
        first = run([one(["g"])], {"q": good}, metrics=["map@3"])
        second = run([one(["g"])], {"q": good}, metrics=[{"map@3": {"conventions": "trec"}}])
        with pytest.raises(BadValueError, match=r"has no metric 'bleu' but map@3; `auepora rescore"):
            explain_changes(store, first, second, metric="bleu")
        with pytest.raises(SignatureMismatchError):
            explain_changes(store, first, second, metric="map@3")
        with pytest.raises(BadValueError, match="no metric in common"):
            explain_changes(store, first, second)


@st.composite
def sides(draw: st.DrawFn) -> tuple[QueryOutput, QueryOutput]:
    """What two runs gave for one query, with its gold marked in the contexts."""
    levels = draw(st.none() | st.dictionaries(st.sampled_from("abc"), st.integers(1, 2), min_size=1))

    def side() -> QueryOutput:
        failed = draw(st.sampled_from([0.0, 0.5, 1.0]))
        context = None if failed == 1 else tuple(draw(st.permutations("abcxy"))[: draw(st.integers(0, 5))])
        gold = None
        if levels is not None:
            places = {doc: rank for rank, doc in enumerate(context or (), 1) if doc in levels}
            known = sorted(set(levels.values()), reverse=True)
            gold = GoldRanks(tuple(tuple(r for d, r in places.items() if levels[d] >= level) for level in known))
        answers = () if failed == 1 else draw(st.sampled_from([(), ("one",), ("two",)]))
        return QueryOutput(failed, draw(st.sampled_from([0.0, 0.5])) if answers else 0.0, context, answers, gold, "why")

    return side(), side()


@given(sides(), st.sampled_from(MetricScope))
def test_the_causes_are_a_partition(pair: tuple[QueryOutput, QueryOutput], looked: MetricScope) -> None:
    """Each cause by its own definition, without the others: exactly one holds, and it is the one given."""
    a, b = pair
    answers, either = looked is MetricScope.ANSWERS, looked is not MetricScope.NEITHER
    failed = b.failed > a.failed
    refused = answers and b.refused > a.refused
    seen = a.context is not None and b.context is not None
    gold_a, gold_b = (a.gold.levels, b.gold.levels) if a.gold and b.gold else ((), ())
    lost = any(len(new) < len(old) for old, new in zip(gold_a, gold_b, strict=True))
    no_higher = all(old >= new for olds, news in zip(gold_a, gold_b, strict=True) for old, new in zip(olds, news))  # noqa: B905
    has_gold = any(gold_b)
    same = a.context == b.context
    cause_seen = not failed and not refused and either and seen
    holds = {
        Cause.FAILED: failed,
        Cause.REFUSED: not failed and refused,
        Cause.LOST: cause_seen and lost,
        Cause.RANKED_LOWER: cause_seen and not lost and not no_higher,
        Cause.ANSWER_CHANGED: cause_seen and same and answers and a.answers != b.answers,
        Cause.IGNORED: cause_seen and not lost and no_higher and not same and answers and has_gold and b.answers != (),
        Cause.CONTEXT_CHANGED: cause_seen
        and not lost
        and no_higher
        and not same
        and not (answers and has_gold and b.answers != ()),
        Cause.UNEXPLAINED: not failed
        and not refused
        and (not either or not seen or (same and (not answers or a.answers == b.answers))),
    }
    assert [cause for cause, there in holds.items() if there] == [cause_of(a, b, looked)]
