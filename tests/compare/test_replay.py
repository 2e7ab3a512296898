"""Swap replay: B's generator on A's documents, stored as a run, and a difference that splits exactly."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from auepora_eval.compare.runs import split_difference
from auepora_eval.core.metrics_base import BatchMetric, SampleMetric
from auepora_eval.core.rag_interface import SimpleRAGSystem
from auepora_eval.core.registry import metric
from auepora_eval.core.scores import Score, Scores
from auepora_eval.core.types import (
    Document,
    EvaluationSample,
    Response,
    RetrievedDocument,
    SystemOutputs,
    TargetCategory,
)
from auepora_eval.errors import BadTypeError, BadValueError
from auepora_eval.examples.quickstart.systems import baseline
from auepora_eval.runs.replay import swap_replay
from auepora_eval.runs.run import run_system
from auepora_eval.store.records import RunRecord, RunStatus, StoredOutput
from auepora_eval.store.rows import REPLAY_TAG
from auepora_eval.store.runs import RunStore
from auepora_eval.systems.policy import CallPolicy

RIGHT, WRONG = Document("right", "paris"), Document("wrong", "london")
METRICS = ["exact_match", "recall@1"]


@dataclass
class Table:
    """A retriever that looks up which documents a query gets; a query that is not in it fails."""

    documents: Mapping[str, Sequence[Document]]

    def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:
        return [RetrievedDocument(doc, None, rank) for rank, doc in enumerate(self.documents[query], 1)]


@dataclass
class Quoting:
    """A generator that quotes the first document, or the last."""

    place: int = 0
    asked: list[str] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)

    def generate(self, query: str, documents: list[Document]) -> Response:
        self.asked.append(query)
        if query in self.broken:
            raise ValueError("out of words")
        return Response(documents[self.place].text if documents else "nothing")


FIRST, LAST = 0, -1
UP, DOWN = [RIGHT, WRONG], [WRONG, RIGHT]


def questions(number: int, **fields: Any) -> list[EvaluationSample]:
    return [
        EvaluationSample(f"q{n}", f"query {n}", relevant_docs=[RIGHT], reference_answer=Response("paris"), **fields)
        for n in range(number)
    ]


def table(contexts: Sequence[Sequence[Document]]) -> Table:
    return Table({f"query {n}": documents for n, documents in enumerate(contexts)})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    with RunStore.open(tmp_path / "runs.sqlite") as opened:
        yield opened


Run = Callable[..., RunRecord]


@pytest.fixture
def run(store: RunStore) -> Run:
    """Runs a retriever and a generator on as many questions as there are contexts."""

    def make(name: str, contexts: Sequence[Sequence[Document]], generator: object, **options: Any) -> RunRecord:
        samples = options.pop("samples", None) or questions(len(contexts))
        metrics = options.pop("metrics", METRICS)
        return run_system((table(contexts), generator), samples, metrics, store=store, name=name, **options).record

    return make


class TestTheParts:
    @pytest.mark.parametrize(
        ("a", "b", "parts"),
        [
            pytest.param((DOWN, FIRST), (UP, FIRST), (1, 1, 0), id="only the documents differ"),
            pytest.param((DOWN, FIRST), (DOWN, LAST), (1, 0, 1), id="only the generator differs"),
            pytest.param((UP, FIRST), (DOWN, LAST), (0, 1, -1), id="both differ and cancel out"),
            pytest.param((UP, FIRST), (UP, FIRST), (0, 0, 0), id="nothing differs"),
        ],
    )
    def test_known_cases(self, run: Run, store: RunStore, a: Any, b: Any, parts: Any) -> None:
        first = run("a", [a[0]] * 4, Quoting(a[1]))
        second = run("b", [b[0]] * 4, Quoting(b[1]))
        report = swap_replay(Quoting(b[1]), store, first, second)
        split = report.by_name["exact_match"]
        assert (split.delta.value, split.retrieval.value, split.generation.value) == parts
        assert (split.n, split.units, split.left_out) == (4, 4, 0)
        # The replayed documents are A's, so whatever retrieval measures does not change until the last step.
        of_documents = report.by_name["recall@1"]
        assert of_documents.generation.value == 0
        assert of_documents.retrieval.value == of_documents.delta.value

    def test_each_sample_adds_up_and_each_part_has_its_interval(self, run: Run, store: RunStore) -> None:
        contexts_a = [UP if n % 3 else DOWN for n in range(30)]
        contexts_b = [UP if n % 4 else DOWN for n in range(30)]
        first, second = run("a", contexts_a, Quoting(FIRST)), run("b", contexts_b, Quoting(LAST))
        split = swap_replay(Quoting(LAST), store, first, second).by_name["exact_match"]
        expected = [
            (float(a is UP), float(a is DOWN), float(b is DOWN)) for a, b in zip(contexts_a, contexts_b, strict=True)
        ]
        assert list(split.scores.values()) == expected
        assert list(split.scores) == [f"q{n}" for n in range(30)]
        exact = [tuple(map(Fraction, row)) for row in expected]
        assert split.delta.value == float(sum(b - a for a, _, b in exact) / 30)
        assert split.retrieval.value == float(sum(b - r for _, r, b in exact) / 30)
        assert split.generation.value == float(sum(r - a for a, r, _ in exact) / 30)
        for part in (split.delta, split.retrieval, split.generation):
            assert part.interval is not None
            assert part.value is not None
            assert part.interval[0] < part.value < part.interval[1]
            assert part.p_value is not None
            assert 0 < part.p_value <= 1
        assert split.retrieval.p_value != split.generation.p_value

    def test_clusters_are_the_units(self, run: Run, store: RunStore) -> None:
        samples = [replace(one, cluster_id=f"c{n // 4}") for n, one in enumerate(questions(12))]
        first = run("a", [DOWN] * 12, Quoting(FIRST), samples=samples)
        second = run("b", [UP] * 12, Quoting(FIRST), samples=samples)
        split = swap_replay(Quoting(FIRST), store, first, second).by_name["exact_match"]
        assert (split.n, split.units) == (12, 3)
        assert split.retrieval.p_value == 0.25  # three clusters have eight flips, two of them as extreme

    def test_metrics_that_are_not_means_add_up_in_total(self, run: Run, store: RunStore) -> None:
        long = Document("long", "the cat sat on the mat and slept"), Document("cut", "the cat sat on a chair and slept")
        samples = [
            EvaluationSample(f"q{n}", f"query {n}", reference_answer=Response("the cat sat on the mat and slept"))
            for n in range(8)
        ]
        contexts = [[long[n % 2], long[(n + 1) % 2]] for n in range(8)]
        options: dict[str, Any] = {"samples": samples, "metrics": ["bleu"]}
        first = run("a", contexts, Quoting(FIRST), **options)
        second = run("b", contexts[::-1][:7] + contexts[:1], Quoting(LAST), **options)
        split = swap_replay(Quoting(LAST), store, first, second).by_name["bleu"]
        assert split.a is not None
        assert split.b is not None
        assert split.retrieval.value is not None
        assert split.generation.value is not None
        assert split.delta.value == pytest.approx(split.b - split.a)
        assert split.retrieval.value + split.generation.value == pytest.approx(split.delta.value)
        assert split.delta.p_value is None
        assert split.generation.interval is not None


numbers = st.none() | st.floats(0, 1, allow_subnormal=False)


@given(st.lists(st.tuples(numbers, numbers, numbers), max_size=12))
def test_the_parts_add_up_exactly(rows: list[tuple[float | None, float | None, float | None]]) -> None:
    """Held against fractions, which know no rounding."""
    a, r, b = (
        Scores.from_list([Score.skip("none") if row[run] is None else Score(row[run]) for row in rows])
        for run in range(3)
    )
    built = metric("token_f1")
    assert isinstance(built, BatchMetric)
    split = split_difference(built, [str(n) for n in range(len(rows))], a, r, b)
    whole = [tuple(map(Fraction, row)) for row in rows if None not in row]  # type: ignore[arg-type]
    assert list(split.scores.values()) == [row for row in rows if None not in row]
    assert split.left_out == len(rows) - len(whole)
    if not whole:
        assert split.delta.value is split.retrieval.value is split.generation.value is None
        return
    delta = sum((b - a for a, _, b in whole), Fraction())
    retrieval = sum((b - r for _, r, b in whole), Fraction())
    generation = sum((r - a for a, r, _ in whole), Fraction())
    assert delta == retrieval + generation
    for part, exact in ((split.delta, delta), (split.retrieval, retrieval), (split.generation, generation)):
        assert part.value == float(exact) / len(whole)  # rounded once, from the exact sum


class Whole(SimpleRAGSystem):
    """A system that does something of its own around its parts."""

    def run(self, sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
        return replace(super().run(sample, top_k=top_k), citations=["mine"])


class Awaiting:
    """A system that awaits its retriever."""

    def __init__(self) -> None:
        self.retriever = self

    async def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:
        raise AssertionError("its own retriever is not to be asked")

    async def arun(self, sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
        found = await self.retriever.retrieve(sample.query, top_k=top_k)
        return SystemOutputs(found[:1], Response(found[-1].doc.text))


class AsyncQuoting:
    async def generate(self, query: str, documents: list[Document]) -> Response:
        return Response(documents[-1].text)


class BothParts(Quoting):
    def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:
        raise AssertionError("its own retriever is not to be asked")


NOBODY: Any = Table({})


@pytest.mark.slow
@pytest.mark.parametrize(
    "system",
    [
        pytest.param(Quoting(LAST), id="a generator alone"),
        pytest.param((NOBODY, Quoting(LAST)), id="a pair"),
        pytest.param(BothParts(LAST), id="retrieve and generate in one object"),
        pytest.param(SimpleRAGSystem(NOBODY, Quoting(LAST)), id="a simple system"),  # type: ignore[arg-type]
        pytest.param(SimpleRAGSystem(NOBODY, AsyncQuoting()), id="with an async generator"),  # type: ignore[arg-type]
        pytest.param(Whole(NOBODY, Quoting(LAST)), id="a system with a run of its own"),  # type: ignore[arg-type]
        pytest.param(Awaiting(), id="a system that awaits its retriever"),
    ],
)
@pytest.mark.parametrize("concurrency", [1, 4])
def test_systems_in_two_parts(run: Run, store: RunStore, system: object, concurrency: int) -> None:
    contexts = [UP, DOWN] * 5
    generator = getattr(system, "generator", Quoting(LAST))
    first, second = run("a", contexts, Quoting(FIRST)), run("b", [DOWN] * 10, generator)
    report = swap_replay(system, store, first, second, policy=CallPolicy(concurrency=concurrency))
    record = report.outcome.record
    assert (record.name, record.status, record.tags) == ("a|b-generator", RunStatus.FINISHED, (REPLAY_TAG,))
    rows = [row.output for row in store.outputs(record.run_id)]
    assert [[item.doc for item in output.retrieved] for output in rows] == contexts
    assert [output.response and output.response.text for output in rows] == ["london", "paris"] * 5
    assert [output.citations for output in rows] == [["mine"] if isinstance(system, Whole) else None] * 10
    assert report.by_name["exact_match"].replayed == 0.5


class Locked:
    """A system whose retriever cannot be replaced."""

    @property
    def retriever(self) -> Any:
        return NOBODY

    def run(self, sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
        return SystemOutputs([])


class OnePiece:
    def run(self, sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
        return SystemOutputs([])


@pytest.mark.parametrize(
    ("system", "words"),
    [
        pytest.param(OnePiece(), "OnePiece has a run\\(\\) of its own and no 'retriever'", id="one piece"),
        pytest.param(Locked(), "that of Locked cannot be replaced", id="a locked retriever"),
        pytest.param(Quoting, "Quoting is a class", id="a class"),
        pytest.param(NOBODY, "not a Table", id="a retriever alone"),
        pytest.param(lambda sample, *, top_k: None, "not a function", id="a function"),
        pytest.param((NOBODY, NOBODY), "a generator is an object with a method generate", id="two retrievers"),
    ],
)
def test_systems_in_one_piece_are_refused(run: Run, store: RunStore, system: object, words: str) -> None:
    first, second = run("a", [UP], Quoting()), run("b", [UP], Quoting())
    with pytest.raises(BadTypeError, match=words):
        swap_replay(system, store, first, second)
    assert len(store.runs()) == 2


def test_a_system_replayed_on_its_own_documents_answers_as_before(store: RunStore) -> None:
    """The bundled system cites and declines in a run of its own; all of that is replayed."""
    samples = [EvaluationSample(str(n), text) for n, text in enumerate(["How long is the trial?", "Who pays?", "zzz"])]
    record = run_system(baseline(), samples, ["citation_coverage"], store=store, name="a").record
    report = swap_replay(baseline(), store, record, record)
    before, after = (
        [replace(row.output, timings={}) for row in store.outputs(run_id)]
        for run_id in (record.run_id, report.outcome.record.run_id)
    )
    assert before == after
    assert any(output.citations for output in after)


class TestTheReplayAsARun:
    def test_replayed_run_names_its_sources(self, run: Run, store: RunStore) -> None:
        first = run("a", [UP], Quoting(), config={"chunker_version": "1", "model": "old", "embedding": "small"})
        second = run("b", [UP], Quoting(), config={"chunker_version": "2", "model": "new"})
        record = swap_replay(Quoting(), store, first, second).outcome.record
        assert record.config == {"chunker_version": "1", "embedding": "small", "model": "new"}
        made_by = {"object": f"{Quoting.__module__}.Quoting"}
        replayed = {"contexts": first.run_id, "generator": second.run_id, "system": made_by}
        assert record.plan["system"] == {"replay": replayed}
        assert record.fingerprint == first.fingerprint

    def test_stopped_replay_resumes_and_a_finished_one_makes_no_calls(self, run: Run, store: RunStore) -> None:
        contexts = [UP] * 5
        first, second = run("a", contexts, Quoting()), run("b", contexts, Quoting())
        broken = Quoting(broken={"query 2"})
        report = swap_replay(broken, store, first, second, policy=CallPolicy(max_failures=0))
        assert (report.outcome.ended, report.splits) == ("failed", [])
        assert len(broken.asked) == 3
        working = Quoting()
        report = swap_replay(working, store, first, second, retry_failed=True)
        assert sorted(working.asked) == ["query 2", "query 3", "query 4"]
        assert report.by_name["exact_match"].n == 5
        again = swap_replay(working, store, first, second, ["token_f1"])
        assert len(working.asked) == 3
        assert again.outcome.record.run_id == report.outcome.record.run_id
        assert list(again.by_name) == ["token_f1"]
        anew = swap_replay(working, store, first, second, fresh=True)
        assert len(working.asked) == 8
        assert anew.outcome.record.run_id != report.outcome.record.run_id

    def test_a_generator_that_fails_is_a_worse_generator(self, run: Run, store: RunStore) -> None:
        first, second = run("a", [UP] * 4, Quoting()), run("b", [UP] * 4, Quoting())
        split = swap_replay(Quoting(broken={"query 1"}), store, first, second).by_name["exact_match"]
        assert (split.generation.value, split.retrieval.value, split.delta.value) == (-0.25, 0.25, 0.0)

    def test_repeats(self, run: Run, store: RunStore) -> None:
        first, second = run("a", [DOWN] * 3, Quoting(), repeats=2), run("b", [UP] * 3, Quoting(), repeats=2)
        generator = Quoting()
        split = swap_replay(generator, store, first, second).by_name["exact_match"]
        assert len(generator.asked) == 6
        assert (split.n, split.retrieval.value, split.generation.value) == (3, 1.0, 0.0)
        # Computed anew where it is not stored, by the same rules.
        fresh = swap_replay(generator, store, first, second, ["token_f1"]).by_name["token_f1"]
        assert (fresh.retrieval.value, fresh.generation.value) == (1.0, 0.0)


class TestWhatAIsLike:
    def test_failed_before_it_had_documents(self, run: Run, store: RunStore) -> None:
        samples = questions(3)
        first = run("a", [UP, UP], Quoting(), samples=samples)  # the third query is not in the table
        second = run("b", [UP] * 3, Quoting())
        generator = Quoting()
        report = swap_replay(generator, store, first, second)
        split = report.by_name["exact_match"]
        assert split.scores["q2"] == (0.0, 0.0, 1.0)
        assert generator.asked == ["query 0", "query 1"]
        assert "no documents for 1 of 3 samples" in report.notes[0]
        assert "q2" in report.notes[0]

    def test_failed_after_it_had_documents(self, run: Run, store: RunStore) -> None:
        first = run("a", [UP] * 2, Quoting(broken={"query 1"}))
        second = run("b", [UP] * 2, Quoting())
        report = swap_replay(Quoting(), store, first, second)
        assert report.by_name["exact_match"].scores["q1"] == (0.0, 1.0, 1.0)
        assert not report.notes

    def test_documents_without_texts(self, run: Run, store: RunStore) -> None:
        first = run("a", [[Document("right")]], Quoting())
        second = run("b", [UP], Quoting())
        with pytest.raises(BadValueError, match=r"documents without their texts \(sample 'q0': 'right'\)"):
            swap_replay(Quoting(), store, first, second)
        some = run("some", [[RIGHT, Document("wrong")]], Quoting())
        assert swap_replay(Quoting(), store, some, second).notes == ["1 of the replayed documents have an empty text"]

    def test_empty_ranking_is_a_context(self, run: Run, store: RunStore) -> None:
        first, second = run("a", [[]], Quoting()), run("b", [UP], Quoting())
        split = swap_replay(Quoting(), store, first, second).by_name["exact_match"]
        assert split.scores["q0"] == (0.0, 0.0, 1.0)

    def test_repeats_with_other_documents(self, run: Run, store: RunStore) -> None:
        first, second = run("a", [UP], Quoting(), repeats=2), run("b", [UP], Quoting())
        other = SystemOutputs(table([DOWN]).retrieve("query 0"), Response("london"), repeat=1)
        store.append(first.run_id, [StoredOutput(0, 1, "q0", other)], replace=True)
        assert swap_replay(Quoting(), store, first, second).notes == [
            "run A's repeats differ in their documents on 1 samples; the first are replayed"
        ]

    def test_saved_outputs_can_be_replayed(self, run: Run, store: RunStore) -> None:
        second = run("b", [UP] * 2, Quoting(), metrics=["exact_match", "recall@10"], top_k=10)
        samples = questions(2)
        first = store.create_run("saved", samples, dataset_name="dataset", plan={"version": 1})
        outputs = [SystemOutputs(table([DOWN]).retrieve("query 0"), Response("london")) for _ in samples]
        store.append(first.run_id, [StoredOutput(n, 0, f"q{n}", one) for n, one in enumerate(outputs)])
        store.finish(first.run_id)
        report = swap_replay(Quoting(), store, store.get(first.run_id), second)
        assert report.by_name["exact_match"].retrieval.value == 1.0

    def test_unfinished(self, run: Run, store: RunStore) -> None:
        second = run("b", [UP], Quoting())
        first = store.create_run("going", questions(1), dataset_name="dataset", plan={"version": 1})
        with pytest.raises(BadValueError, match=r"\(going\) is running; wait for it"):
            swap_replay(Quoting(), store, first, second)


class Length(SampleMetric):
    """Known to nobody but this test."""

    name = "length"
    target = TargetCategory.GENERATION_RELEVANCE
    range = (0.0, 100.0)

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        assert output.response is not None
        return Score(len(output.response.text))


class TestMetrics:
    def test_metric_that_was_not_stored_is_computed(self, run: Run, store: RunStore) -> None:
        first, second = run("a", [UP] * 2, Quoting(FIRST)), run("b", [UP] * 2, Quoting(LAST))
        split = swap_replay(Quoting(LAST), store, first, second, [Length()]).by_name["length"]
        assert (split.a, split.replayed, split.b, split.generation.value) == (5.0, 6.0, 6.0, 1.0)

    @pytest.mark.slow
    def test_without_a_plan_the_metrics_of_the_results(self, run: Run, store: RunStore) -> None:
        first = run("a", [UP] * 2, Quoting(), metrics=())
        second = run("b", [UP] * 2, Quoting(), metrics=())
        report = swap_replay(Quoting(), store, first, second)
        assert {"exact_match", "token_f1", "bleu"} <= set(report.by_name)
        assert report.refused["throughput"] == "the latency of a replay is that of neither run"

    def test_other_signatures_are_refused(self, run: Run, store: RunStore) -> None:
        first = run("a", [UP] * 2, Quoting(), metrics=["recall@5", "exact_match"], top_k=2)
        second = run("b", [UP] * 2, Quoting(), metrics=["recall@5", "exact_match"], top_k=5)
        report = swap_replay(Quoting(), store, first, second)
        assert list(report.by_name) == ["exact_match"]
        assert "signatures of the runs differ (in: " in report.refused["recall@5"]

    def test_nothing_to_split_by(self, run: Run, store: RunStore) -> None:
        first = run("a", [UP], Quoting())
        second = run("b", [UP], Quoting())
        with pytest.raises(BadValueError, match="no metric to split a difference by; mean_latency"):
            swap_replay(Quoting(), store, first, second, ["mean_latency[end_to_end]"])


@dataclass
class Configured(Quoting):
    config: dict[str, Any] = field(default_factory=dict)


class TestTheSystemMustBeRunBs:
    @pytest.mark.parametrize(
        ("system", "words"),
        [
            pytest.param(AsyncQuoting(), r"system\.object: .*Configured -> .*AsyncQuoting", id="another class"),
            pytest.param((NOBODY, AsyncQuoting()), r"-> .*AsyncQuoting", id="another class in a pair"),
            pytest.param(Configured(config={"model": "new"}), r"system\.config\.model: old -> new", id="another model"),
        ],
    )
    def test_another_live_system_is_refused(self, run: Run, store: RunStore, system: object, words: str) -> None:
        made_by = Configured(config={"model": "old"})
        first, second = run("a", [UP], Quoting()), run("b", [UP], made_by)
        with pytest.raises(BadValueError, match=words):
            swap_replay(system, store, first, second)
        assert len(store.runs()) == 2
        assert not swap_replay(Configured(config={"model": "old"}), store, first, second).notes

    def test_unknown_system_version_is_a_note(self, run: Run, store: RunStore) -> None:
        first = run("a", [UP], Quoting())
        whole = Whole(table([UP]), Quoting())  # type: ignore[arg-type]
        second = run_system(whole, questions(1), METRICS, store=store, name="b").record
        assert not swap_replay(whole, store, first, second).notes
        (note,) = swap_replay(Quoting(), store, first, second).notes
        assert "is unknown" in note

    def test_another_plan_is_refused(self, run: Run, store: RunStore) -> None:
        first, made = run("a", [UP], Quoting()), run("b", [UP], Quoting())
        plan = {"python": "my:build", "args": {"model": "old"}, "config": {}}
        second = replace(made, plan={**made.plan, "system": plan})
        other = {**plan, "args": {"model": "new"}}
        with pytest.raises(BadValueError, match=r"not the system of .* \(b\).*system\.args\.model: old -> new"):
            swap_replay(Quoting(), store, first, second, planned=other)
        assert not swap_replay(Quoting(), store, first, second, planned=plan).notes

    def test_outputs_of_another_system_are_refused(self, run: Run, store: RunStore) -> None:
        """The same two runs, and a replay of them that is stored: by a system that the plan says is another."""
        first, made = run("a", [UP], Quoting()), run("b", [UP], Quoting())
        generator = Quoting()
        for model in ("old", "new", "new"):
            plan = {"python": "my:build", "args": {"model": model}, "config": {}}
            second = replace(made, plan={**made.plan, "system": plan})
            swap_replay(generator, store, first, second, planned=plan)
        assert len(generator.asked) == 2


def test_only_samples_that_both_have(run: Run, store: RunStore) -> None:
    first = run("a", [UP, DOWN, UP], Quoting())
    second = run("b", [UP, UP], Quoting(), samples=questions(3)[:2])
    report = swap_replay(Quoting(), store, first, second)
    assert list(report.by_name["exact_match"].scores.items()) == [("q0", (1.0, 1.0, 1.0)), ("q1", (0.0, 0.0, 1.0))]
    other = run("c", [UP], Quoting(), samples=[replace(questions(1)[0], sample_id="other")])
    with pytest.raises(BadValueError, match="no sample in common"):
        swap_replay(Quoting(), store, first, other)


class Deaf(SimpleRAGSystem):
    """Has a retriever, and does not always ask it."""

    always = False

    def run(self, sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
        if self.always or sample.sample_id == "q0":
            return SystemOutputs([], Response("paris"))
        return super().run(sample, top_k=top_k)


def test_retriever_that_is_not_called(run: Run, store: RunStore) -> None:
    system = Deaf(table([UP] * 3), Quoting())  # type: ignore[arg-type]
    first = run("a", [UP] * 3, Quoting())
    second = run_system(system, questions(3), METRICS, store=store, name="b").record
    assert swap_replay(system, store, first, second).notes == [
        "1 of 3 answers were given without calling the retriever"
    ]
    system.always = True
    with pytest.raises(BadValueError, match="without calling its 'retriever'"):
        swap_replay(system, store, first, second, fresh=True)


def test_written_down(run: Run, store: RunStore) -> None:
    first, second = run("a", [UP, DOWN], Quoting()), run("b", [UP, UP], Quoting())
    report = swap_replay(Quoting(), store, first, second)
    document = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert document["metrics"]["exact_match"]["retrieval"]["value"] == 0.5
    assert (document["run_a"], document["run_b"]) == (first.run_id, second.run_id)
    line = report.to_markdown().splitlines()[2]
    assert line.startswith("| exact_match | 0.5000 | 1.0000 | +0.5000 (")
    assert line.endswith("| 2 |")
    assert np.isfinite(document["metrics"]["exact_match"]["delta"]["interval"]).all()


def test_output_lists_excluded_and_refused(run: Run, store: RunStore) -> None:
    first, second = run("a", [UP, DOWN], Quoting()), run("b", [UP, UP], Quoting())
    report = swap_replay(Quoting(), store, first, second)
    assert "| left out |" not in report.to_markdown()
    partial = replace(report.splits[0], label="a|b", left_out=7)
    changed = replace(report, splits=[partial], refused={"x|y": "<why>"}, notes=["*note*"])
    page = changed.to_markdown()
    assert page.splitlines()[2].startswith("| a\\|b | ")
    assert page.splitlines()[2].endswith("| 2 | 7 |")
    assert "\n- \\*note\\*\n- left out: samples without a score" in page
    assert page.endswith("\n- not split: x\\|y (&lt;why&gt;)")


def test_rounding_alone_is_no_difference() -> None:
    built = metric("token_f1")
    assert isinstance(built, BatchMetric)
    before, after = Scores.of([0.3] * 8), Scores.of([0.1 + 0.2] * 8)
    split = split_difference(built, [str(n) for n in range(8)], before, after, after)
    assert split.delta.p_value == split.generation.p_value == split.retrieval.p_value == 1.0
