"""The evaluator: the library's first example as written, failures recorded, warnings about depth."""

import asyncio
import time

import pytest

from auepora_eval import AueporaWarning, Metric, MetricResult, SampleMetric, Score
from auepora_eval.core.dataset import InMemoryDataset
from auepora_eval.core.plan import EvaluationPlan
from auepora_eval.core.rag_interface import Generator, RAGSystem, Retriever, SimpleRAGSystem
from auepora_eval.core.registry import metric
from auepora_eval.core.types import (
    Document,
    EvaluationSample,
    Response,
    RetrievedDocument,
    SystemOutputs,
    TargetCategory,
)
from auepora_eval.errors import BadTypeError, BadValueError, DuplicateIdError, MissingFieldError
from auepora_eval.systems.calls import AueporaEvaluator
from helpers.builders import output, sample


def test_the_first_example_runs_as_written(capsys: pytest.CaptureFixture[str]) -> None:
    """The end-to-end example of the library's specification, word for word but for the retriever and the model."""
    from auepora_eval.core.dataset import InMemoryDataset
    from auepora_eval.core.plan import EvaluationPlan
    from auepora_eval.core.rag_interface import RAGSystem, SystemOutputs
    from auepora_eval.core.types import Document, EvaluationSample, Response
    from auepora_eval.metrics.generation_text import RougeLAnswer
    from auepora_eval.metrics.retrieval import RecallAtK
    from auepora_eval.systems.calls import AueporaEvaluator

    class MyRAGSystem(RAGSystem):
        def __init__(self, retriever, llm):  # type: ignore[no-untyped-def]
            self.retriever = retriever
            self.llm = llm

        def run(self, sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
            retrieved = self.retriever.retrieve(sample.query, top_k=top_k)
            context = "\n\n".join(r.doc.text for r in retrieved)
            prompt = f"Question: {sample.query}\n\nContext:\n{context}\n\nAnswer:"
            answer_text = self.llm(prompt)

            resp = Response(text=answer_text)
            return SystemOutputs(retrieved=retrieved, response=resp)

    class OneDocument:
        def retrieve(self, query: str, *, top_k: int) -> list[RetrievedDocument]:
            return [RetrievedDocument(Document("d1", "... Vaswani et al ..."), 1.0, 1)]

    retriever = OneDocument()

    def llm(prompt: str) -> str:
        return "Vaswani et al."

    samples = [
        EvaluationSample(
            sample_id="1",
            query="Who wrote the paper 'Attention Is All You Need'?",
            relevant_docs=[Document(doc_id="d1", text="... Vaswani et al ...")],
            reference_answer=Response(text="Ashish Vaswani et al."),
        ),
    ]

    dataset = InMemoryDataset(name="toy", samples=samples)
    plan = EvaluationPlan(metrics=[RecallAtK(k=5), RougeLAnswer()])
    evaluator = AueporaEvaluator(system=MyRAGSystem(retriever, llm), plan=plan, top_k=5)  # type: ignore[no-untyped-call]
    results = evaluator.evaluate(dataset)

    for r in results:
        print(r.name, r.value, r.details)

    # Three of the reference's four tokens, in order, and nothing else: P = 3/3, R = 3/4.
    assert [r.value for r in results] == [1.0, pytest.approx(2 * 1 * 0.75 / 1.75)]
    assert capsys.readouterr().out.startswith("recall@5 1.0 {'num_samples': 1")


class Replaying(RAGSystem):
    """Answers from a list; raises what is an exception."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)

    def run(self, sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer  # type: ignore[return-value]


def dataset(n: int) -> InMemoryDataset:
    return InMemoryDataset("toy", [sample(["a"], sample_id=f"q{i}") for i in range(n)])


def test_every_behaviour_of_a_system_is_an_outcome() -> None:
    system = Replaying(output(["a"]), ValueError("no index"), None, {"retrieved": []})
    evaluator = AueporaEvaluator(system, EvaluationPlan([metric("recall@5")]))
    with pytest.warns(AueporaWarning, match="failed on 3 of 4 samples; the first error: raised: ValueError: no index"):
        (got,) = evaluator.evaluate(dataset(4))
    assert list(got.outcomes or ()) == [
        "scored",
        "system_failed:raised",
        "system_failed:bad_output",
        "system_failed:bad_output",
    ]
    assert got.value == 1 / 4
    assert [o.error for o in evaluator.outputs][1:3] == [
        "raised: ValueError: no index",
        "bad_output: what run() returned is a NoneType, not a SystemOutputs",
    ]
    assert all(o.timings["end_to_end"] >= 0 for o in evaluator.outputs)
    assert evaluator.results.by_name["recall@5"] is got
    assert [s.sample_id for s in evaluator.samples] == ["q0", "q1", "q2", "q3"]


def test_progress_includes_failed_samples() -> None:
    progress: list[int] = []
    evaluator = AueporaEvaluator(Replaying(output(["a"]), ValueError("no index"), output()), ["recall@5"])
    with pytest.warns(AueporaWarning, match="failed on 1 of 3"):
        evaluator.evaluate(dataset(3), progress=progress.append)
    assert progress == [1, 1, 1]


def test_a_timing_of_the_systems_own_is_kept() -> None:
    evaluator = AueporaEvaluator(
        Replaying(output(timings={"end_to_end": 9.0})), EvaluationPlan([metric("mean_latency")])
    )
    (got,) = evaluator.evaluate(dataset(1))
    assert got.value == 9.0
    assert got.signature == "mean_latency[end_to_end]|concurrency:1|v1"


@pytest.mark.parametrize(
    "bad",
    [
        SystemOutputs(["a"]),  # type: ignore[list-item]
        SystemOutputs([RetrievedDocument("a", 1.0, 1)]),  # type: ignore[arg-type]
        SystemOutputs([RetrievedDocument(Document(7), 1.0, 1)]),  # type: ignore[arg-type]
        SystemOutputs(None),  # type: ignore[arg-type]
        SystemOutputs([], "text"),  # type: ignore[arg-type]
        SystemOutputs([], timings=None),  # type: ignore[arg-type]
        SystemOutputs([], error=ValueError("x")),  # type: ignore[arg-type]
        SystemOutputs([RetrievedDocument(Document("a"), float("nan"), 1)]),
    ],
    ids=["bare id", "id as document", "number as id", "no list", "text as response", "no timings", "exception", "NaN"],
)
def test_one_malformed_output_is_one_failure(bad: SystemOutputs) -> None:
    evaluator = AueporaEvaluator(Replaying(bad, output(["a"])), ["recall@5"])
    with pytest.warns(AueporaWarning, match="failed on 1 of 2 samples; the first error: bad_output: what run"):
        (got,) = evaluator.evaluate(dataset(2))
    assert list(got.outcomes or ()) == ["system_failed:bad_output", "scored"]


def test_system_that_returns_one_object_twice_has_separate_timings() -> None:
    cached = output(["a"])
    evaluator = AueporaEvaluator(Replaying(cached, cached), ["recall@5"])
    evaluator.evaluate(dataset(2))
    assert cached.timings == {}
    assert evaluator.outputs[0] is not evaluator.outputs[1]


@pytest.mark.parametrize("top_k", [0, None, True, 2.5])
def test_top_k_must_be_a_number(top_k: int) -> None:
    with pytest.raises(BadValueError, match="top_k must be an integer >= 1"):
        AueporaEvaluator(Replaying(), [], top_k=top_k)


def test_interrupting_is_not_swallowed() -> None:
    with pytest.raises(KeyboardInterrupt):
        AueporaEvaluator(Replaying(KeyboardInterrupt()), EvaluationPlan([])).evaluate(dataset(1))


class Calm(RAGSystem):
    """Answers each sample with its own id, the first last."""

    async def arun(self, sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
        await asyncio.sleep(0.4 if sample.sample_id == "q0" else 0)
        return output([sample.sample_id])

    def run(self, sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
        time.sleep(0.4 if sample.sample_id == "q0" else 0)
        return output([sample.sample_id])


class CalmThreads(RAGSystem):
    run = Calm.run


@pytest.mark.parametrize("system", [Calm(), CalmThreads(), Calm().arun], ids=["coroutines", "threads", "a function"])
def test_many_calls_at_once_and_outputs_in_the_order_of_the_dataset(system: object) -> None:
    progress: list[int] = []
    evaluator = AueporaEvaluator(system, ["mean_latency"], concurrency=4, timeout=30)
    (got,) = evaluator.evaluate(dataset(12), progress=progress.append)
    assert [o.retrieved[0].doc.doc_id for o in evaluator.outputs] == [f"q{n}" for n in range(12)]
    assert progress == [1] * 12
    assert got.signature == "mean_latency[end_to_end]|concurrency:4|v1"


def test_transient_errors_are_retried_and_a_timeout_is_a_failure() -> None:
    evaluator = AueporaEvaluator(Replaying(ConnectionError("reset"), output(["a"])), ["recall@5"], retries=1)
    (got,) = evaluator.evaluate(dataset(1))
    assert (got.value, evaluator.outputs[0].extra) == (1.0, {"attempts": 2})
    slow = AueporaEvaluator(Calm(), ["recall@5"], timeout=0.2)
    with pytest.warns(
        AueporaWarning, match=r"failed on 1 of 2 samples; the first error: timeout: no answer within 0\.2 s"
    ):
        (got,) = slow.evaluate(dataset(2))
    assert list(got.outcomes or ()) == ["system_failed:timeout", "scored"]


def test_no_calls_after_max_failures() -> None:
    system = Replaying(output(["a"]), ValueError("no index"), ValueError("no index"))  # a fourth would be an IndexError
    evaluator = AueporaEvaluator(system, ["recall@5"], max_failures=1)
    with pytest.warns(AueporaWarning) as caught:
        (got,) = evaluator.evaluate(dataset(5))
    assert [str(one.message)[:61] for one in caught] == [
        "not every sample was asked: stopped after 2 of 3 answers fail",
        "the system failed on 4 of 5 samples; the first error: raised:",
    ]
    assert list(got.outcomes or ())[3:] == ["system_failed:not_asked"] * 2
    assert evaluator.outputs[4].error == "not_asked: stopped after 2 failures"
    assert got.value == 1 / 5


def test_invalid_system_is_reported_before_the_dataset_is_read() -> None:
    with pytest.raises(BadTypeError, match="Replaying is a class: give an object of it"):
        AueporaEvaluator(Replaying, ["recall@5"])


def test_the_plan_is_checked_before_the_system_is_called() -> None:
    system = Replaying()  # would fail with IndexError if asked
    with pytest.raises(MissingFieldError):
        AueporaEvaluator(system, EvaluationPlan([metric("rougeL_answer")])).evaluate(dataset(2))
    twice = InMemoryDataset("toy", [sample(["a"]), sample(["a"])])
    with pytest.raises(DuplicateIdError, match="two samples have the id '1'"):
        AueporaEvaluator(system, EvaluationPlan([metric("recall@5")])).evaluate(twice)


def test_cut_off_beyond_top_k_warns_and_is_in_the_signature() -> None:
    plan = EvaluationPlan([metric(name) for name in ("recall@3", "recall@5", "recall@10", "mrr")])
    with pytest.warns(AueporaWarning, match=r"^recall@10: the system is asked for top_k=5 documents"):
        results = AueporaEvaluator(Replaying(output(["a"])), plan, top_k=5).evaluate(dataset(1))
    assert [r.signature for r in results] == [
        "recall@3|empty:skip|v1",
        "recall@5|empty:skip|v1",
        "recall@10|empty:skip|top_k:5|v1",
        "mrr|empty:skip|top_k:5|v1",
    ]


def test_users_own_metrics_run_in_the_same_plan() -> None:
    class OnlyCompute(Metric):
        name = "answers"
        target = TargetCategory.DIVERSITY

        def required_fields(self) -> list[str]:
            return []

        def compute(self, samples: list[EvaluationSample], outputs: list[SystemOutputs]) -> MetricResult:
            return MetricResult(self.name, self.target, float(len({o.response.text for o in outputs if o.response})))

    class OnlyScoreOne(SampleMetric):
        target = TargetCategory.GENERATION_RELEVANCE

        def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
            assert output.response is not None
            return Score(len(output.response.text) > 2)

    plan = EvaluationPlan([metric("recall@5"), OnlyCompute(), OnlyScoreOne()])
    system = Replaying(output(["a"], answer="yes"), output(["b"], answer="no"))
    results = AueporaEvaluator(system, plan).evaluate(dataset(2))
    assert [(r.name, r.value) for r in results] == [("recall@5", 0.5), ("answers", 2.0), ("only_score_one", 0.5)]


def test_a_retriever_and_a_generator_make_a_system() -> None:
    class Fixed(Retriever, Generator):
        def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:
            return [RetrievedDocument(Document("a", "alpha"), 1.0, 1)][:top_k]

        def generate(self, query: str, context_docs: list[Document]) -> Response:
            return Response(f"{query} {context_docs[0].text}")

    out = SimpleRAGSystem(Fixed(), Fixed()).run(sample(["a"], query="q"), top_k=1)
    assert (out.retrieved[0].doc.doc_id, out.response) == ("a", Response("q alpha"))


def test_plans_group_by_target() -> None:
    plan = EvaluationPlan([metric("recall@5"), metric("map"), metric("precision@5")])
    groups = plan.grouped_by_target()
    assert [m.name for m in groups[TargetCategory.RETRIEVAL_RELEVANCE]] == ["recall@5", "precision@5"]
    assert list(groups) == [TargetCategory.RETRIEVAL_RELEVANCE, TargetCategory.RETRIEVAL_ACCURACY]
    plan.validate_dataset([])
    plan.validate_dataset([sample(None), sample([])])  # one annotated sample is enough
