"""Perturbation sweeps of a live system: stored runs, the curve, resuming, and rejected input."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import (
    AueporaError,
    Document,
    EvaluationSample,
    Response,
    RetrievedDocument,
    RunStore,
    SystemOutputs,
    noise_curve,
    run_perturbed,
    run_plan,
    run_system,
)
from auepora_eval.core.rag_interface import SimpleRAGSystem
from auepora_eval.core.types import TargetCategory
from auepora_eval.errors import BadTypeError, BadValueError, UnknownRunError
from auepora_eval.examples.quickstart.systems import dataset_path, plan_path
from auepora_eval.runs.perturbed import PerturbedRuns
from auepora_eval.runs.run import RunCallbacks
from auepora_eval.systems.calls import Stop
from helpers.requirements import need

Run = Callable[..., tuple[int, str, str]]
CITIES = ["Athens", "Beijing", "London", "Rio", "Tokyo", "Paris", "Sydney", "Atlanta"]
WRONG = "New York"
REMEMBERED = {"0": "Athens", "1": "Beijing", "2": "Berlin"}


def corpus() -> list[Document]:
    return [Document(f"g{n}", f"The games of year {n} were in {city}.") for n, city in enumerate(CITIES)] + [
        Document(f"x{n}", f"Something about year {n} and the weather.") for n in range(12)
    ]


def samples(*, texts: bool = True, wrong: bool = True) -> list[EvaluationSample]:
    return [
        EvaluationSample(
            str(n),
            f"Where were the games of year {n} ?",
            relevant_docs=[Document(f"g{n}", corpus()[n].text if texts else "")],
            reference_answer=Response(city),
            metadata={"wrong_answer": WRONG} if wrong else {},
        )
        for n, city in enumerate(CITIES)
    ]


class KeywordRetriever:
    """Ranks by common words, all of the corpus."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:
        self.asked.append(query)
        words = set(query.split())
        best = sorted(corpus(), key=lambda one: (-len(words & set(one.text.rstrip(".").split())), one.doc_id))
        return [RetrievedDocument(one, 1.0 / rank, rank) for rank, one in enumerate(best[:top_k], 1)]


class AsyncKeywordRetriever(KeywordRetriever):
    async def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:  # type: ignore[override]
        return super().retrieve(query, top_k=top_k)


class FakeGenerator:
    """Answers from the first document on the year, from memory for some years, or declines."""

    def generate(self, query: str, context_docs: list[Document]) -> Response:
        year = query.split()[-2]
        for one in context_docs:
            if f"games of year {year} " in one.text:
                return Response(one.text)
        if context_docs:
            return Response("I don't know.")
        return Response(REMEMBERED.get(year, "I don't know."))


class RetrieverAndGenerator(KeywordRetriever, FakeGenerator):
    pass


class FakeSystem:
    """One with a run() of its own that uses its retriever."""

    def __init__(self, retriever: Any) -> None:
        self.retriever, self.reader = retriever, FakeGenerator()

    def run(self, sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
        found = self.retriever.retrieve(sample.query, top_k=top_k)
        return SystemOutputs(found, self.reader.generate(sample.query, [one.doc for one in found]), citations=[])


class AsyncFakeSystem(FakeSystem):
    async def arun(self, sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
        found = await self.retriever.retrieve(sample.query, top_k=top_k)
        return SystemOutputs(found, self.reader.generate(sample.query, [one.doc for one in found]), citations=[])


def pair() -> tuple[KeywordRetriever, FakeGenerator]:
    return KeywordRetriever(), FakeGenerator()


SHAPES: dict[str, Callable[[], object]] = {
    "a pair": pair,
    "a simple system": lambda: SimpleRAGSystem(*pair()),  # type: ignore[arg-type]
    "retrieve and generate": RetrieverAndGenerator,
    "a run of its own": lambda: FakeSystem(KeywordRetriever()),
    "an asynchronous pair": lambda: (AsyncKeywordRetriever(), FakeGenerator()),
    "an asynchronous run": lambda: AsyncFakeSystem(AsyncKeywordRetriever()),
}
METRICS = ["recall@4", "mrr", "containment", "exact_match"]


def run_sweep(
    perturb: str, system: object | None = None, data: list[EvaluationSample] | None = None, **options: Any
) -> PerturbedRuns:
    options = {"top_k": 4, "name": "mine", **options}
    return noise_curve(pair() if system is None else system, data or samples(), METRICS, perturb=perturb, **options)


def values(runs: PerturbedRuns, name: str) -> list[float | None]:
    assert runs.curve is not None
    return [one.value for one in runs.curve.metrics[name]]


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUEPORA_STORE", raising=False)
    monkeypatch.setattr(sys, "path", sys.path[:])
    yield tmp_path
    sys.modules.pop("swept_rag", None)


# --- the demo --------------------------------------------------------------------------------------------------------


def sweep_demo(folder: Path, changes: dict[str, Any] | None = None) -> dict[str, Any]:
    """The bundled BM25 system, plain and with noise, all in one store."""
    need("bm25s")
    store = str(folder / "runs.sqlite")
    plain = run_plan(plan_path("bm25"), store=store, changes=changes)
    swept = run_perturbed(plan_path("bm25"), "noise=0,0.4,1", store=store, changes=changes)
    return {"plain": plain, "swept": swept, "store": store}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The demo with the metrics that tests look at."""
    metrics = ["recall@5", "mrr@10", "token_f1", "negative_rejection_rate"]
    return sweep_demo(tmp_path_factory.mktemp("demo"), {"metrics": metrics})


@pytest.mark.slow
def test_rate_0_equals_the_unperturbed_run(tmp_path: Path) -> None:
    demo = sweep_demo(tmp_path)
    plain, other = demo["plain"].results, demo["swept"].outcomes[0.0].results
    assert [one.name for one in plain] == [one.name for one in other]
    compared = 0
    for ours, theirs in zip(plain, other, strict=True):
        if ours.target is TargetCategory.LATENCY:
            continue
        compared += 1
        assert (ours.value, ours.interval, ours.signature) == (theirs.value, theirs.interval, theirs.signature)
        assert list(ours.scores) == list(theirs.scores)
        assert list(ours.outcomes) == list(theirs.outcomes)
        assert ours.details == theirs.details
    assert compared > 20


@pytest.mark.slow
def test_rejection_at_rate_1_covers_all_questions(demo: dict[str, Any]) -> None:
    curve = demo["swept"].curve
    rejected = curve.metrics["negative_rejection_rate"]
    assert [one.n for one in rejected] == [14, 14, 135]
    assert rejected[2].value > 0.9
    assert rejected[1].delta is not None
    assert rejected[2].delta is None  # it is over other questions
    assert "declining is right for other questions" in curve.refused["negative_rejection_rate"]
    assert curve.metrics["recall@5"][2].value == 0


@pytest.mark.slow
def test_curve_falls_and_has_intervals(demo: dict[str, Any]) -> None:
    for name in ("recall@5", "mrr@10", "token_f1"):
        first, second, last = demo["swept"].curve.metrics[name]
        assert first.value > second.value > last.value
        assert (first.delta, first.verdict) == (None, None)
        assert second.interval[0] < second.value < second.interval[1]
        assert last.delta == pytest.approx(last.value - first.value, abs=1e-12)
        assert last.delta_interval[0] < last.delta < last.delta_interval[1] < 0
        assert last.verdict == ("exploratory" if name == "mrr@10" else "worse")  # by the primary metrics of the plan


def test_outputs_record_nested_noise(demo: dict[str, Any]) -> None:
    gold = {
        one["sample_id"]: [doc["doc_id"] for doc in one["relevant_docs"]]
        for one in map(json.loads, dataset_path().read_text().splitlines())
    }
    injected: dict[float, dict[str, list[str]]] = {}
    with RunStore.open(demo["store"]) as store:
        for level, outcome in demo["swept"].outcomes.items():
            injected[level] = {}
            for row in store.outputs(outcome.record.run_id):
                record = row.output.extra["perturbation"]
                assert record["rates"] == ({"noise": level} if level else {})
                injected[level][row.sample_id] = record.get("injected", [])
                ids = [one.doc.doc_id for one in row.output.retrieved]
                assert len(set(ids)) == len(ids)
                assert set(record.get("injected", [])) <= set(ids)
                assert not set(record.get("injected", [])) & set(gold[row.sample_id])
    assert not any(injected[0.0].values())
    for name, some in injected[0.4].items():
        assert injected[1.0][name][: len(some)] == some


def test_runs_record_their_rate(demo: dict[str, Any], auepora: Run) -> None:
    name = "quickstart-bm25 [noise=0.4]"
    code, out, _ = auepora("runs", "--store", demo["store"])
    assert (code, name in out, "perturbed, noise=0.4" in out) == (0, True, True)
    _, out, _ = auepora(
        "compare", "quickstart-bm25", name, "--other-dataset", "-m", "recall@5", "--store", demo["store"]
    )
    assert "perturbation: unknown in A, noise=0.4 in B" in out
    _, out, _ = auepora("show", name, "--json", "--store", demo["store"])
    stored = json.loads(out)["run"]
    assert stored["config"]["perturbation"] == "noise=0.4"
    stored_plan = stored["plan"]["perturbation"]
    base = demo["swept"].outcomes[0.0].record.run_id
    assert (stored_plan["kind"], stored_plan["level"], stored_plan["seed"], stored_plan["noise_from"]) == (
        "noise",
        0.4,
        0,
        f"what {base} found",
    )


# --- shapes of systems -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> PerturbedRuns:
    return run_sweep("noise=0,0.5,1", store=str(tmp_path_factory.mktemp("reference") / "runs.sqlite"))


@pytest.mark.parametrize("shape", SHAPES)
def test_systems_with_accessible_retriever(shape: str, reference: PerturbedRuns) -> None:
    plain = run_system(SHAPES[shape](), samples(), METRICS, top_k=4, store="plain.sqlite")
    runs = run_sweep("noise=0,0.5,1", SHAPES[shape](), concurrency=3)
    assert plain.results is not None
    assert [values(runs, one.name)[0] for one in plain.results] == [one.value for one in plain.results]
    assert values(runs, "recall@4") == [1, 1, 0]
    assert values(runs, "containment") == [1, 1, 0]
    assert values(runs, "mrr") == values(reference, "mrr")


def test_retriever_without_generator() -> None:
    runs = noise_curve(KeywordRetriever(), samples(), ["recall@4", "mrr"], perturb="noise=0,1", top_k=4)
    assert values(runs, "recall@4") == [1, 0]


INACCESSIBLE = [  # system, message, why
    (lambda sample, *, top_k=5: SystemOutputs([]), "the retriever must be accessible.*not a function", "a function"),
    (type("Rag", (), {"run": lambda self, sample, *, top_k=5: 1})(), "Rag has a run.. of its own and no 'retriever'", "a run() alone"),
]  # fmt: skip


@pytest.mark.parametrize(("system", "message", "why"), INACCESSIBLE, ids=[row[-1] for row in INACCESSIBLE])
def test_inaccessible_retriever_is_rejected(system: object, message: str, why: str) -> None:
    with pytest.raises(BadTypeError, match=message):
        run_sweep("noise=0,1", system)


def test_retriever_that_is_never_called_is_an_error() -> None:
    class Parrot(FakeSystem):
        def run(self, sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
            return SystemOutputs([], Response("polly"))

    with pytest.raises(BadValueError, match="without calling its 'retriever'"):
        run_sweep("drop=0,1", Parrot(KeywordRetriever()))


def test_generator_failure_keeps_the_perturbation_record() -> None:
    class Choking(FakeGenerator):
        def generate(self, query: str, context_docs: list[Document]) -> Response:
            raise ValueError("cannot read")

    options: dict[str, Any] = {"corpus": corpus(), "store": "runs.sqlite", "keep_going": True}
    runs = run_sweep("noise=0.5,1", (KeywordRetriever(), Choking()), **options)
    with RunStore.open("runs.sqlite") as store:
        rows = list(store.outputs(runs.outcomes[1.0].record.run_id))
    assert all(row.output.error == "raised: ValueError: cannot read" for row in rows)
    assert all(len(row.output.extra["perturbation"]["injected"]) == len(row.output.retrieved) == 4 for row in rows)


# --- kinds -----------------------------------------------------------------------------------------------------------


def test_rates_equal_on_short_lists_are_reported() -> None:
    runs = run_sweep("noise=0,0.2,0.3,1")
    assert runs.curve is not None
    assert runs.curve.notes == [
        "noise=0.2 and noise=0.3 are the same in a list of 4 (1 of noise); a larger top_k separates them"
    ]
    assert len(set(values(runs, "mrr")[1:3])) == 1
    apart = run_sweep("noise=0,0.25,0.5,1", store="apart.sqlite").curve
    assert apart is not None
    assert apart.notes == []


def test_drop_and_empty_make_samples_unanswerable() -> None:
    for perturb in ("drop=0,1", "empty=0,1"):
        runs = noise_curve(pair(), samples(), [*METRICS, "negative_rejection_rate"], perturb=perturb, top_k=4)
        assert values(runs, "recall@4") == [1, 0]
        rate = values(runs, "negative_rejection_rate")
        # Without documents the reader remembers three years; with others it declines.
        assert rate == [None, 1.0 if perturb.startswith("drop") else 5 / 8]


def test_context_noise_accuracy_by_noise_ratio() -> None:
    runs = noise_curve(pair(), samples(), ["context_noise_accuracy"], perturb="noise=0,0.5,1", top_k=4)
    assert values(runs, "context_noise_accuracy") == [1, 1, 0]
    results = runs.outcomes[0.5].results
    assert results is not None
    assert list(results[0].details["by_noise_ratio"]) == ["0.5"]


def test_duplicate_and_shuffle() -> None:
    twice = values(run_sweep("duplicate=0,1"), "mrr")
    assert twice == [1, 1]
    first, second = values(run_sweep("shuffle=0,1", store="other.sqlite"), "mrr")
    assert first == 1
    assert second is not None
    assert second < 1


def test_arms_give_false_document_metrics() -> None:
    runs = run_sweep("arms=none,original,edited")
    assert runs.curve is not None
    assert runs.together is not None
    # Two of the three remembered years are right; the documents have all; the edited ones have the wrong answer.
    assert values(runs, "containment") == [2 / 8, 1, 0]
    assert values(runs, "recall@4") == [0, 1, 1]
    assert runs.curve.together is not None
    rates = {one.name: (one.value, one.details["num_samples"]) for one in runs.curve.together}
    assert rates["misleading_rate"] == (1.0, 2)  # of the two it knew without documents
    assert rates["mistake_reappearance_rate"] == (1.0, 8)
    assert rates["error_detection_rate"] == (0.0, 8)
    results = runs.together.results
    assert results is not None
    assert {name: one.value for name, one in results.by_name["containment"].slices["labels.arm"].items()} == {
        "none": 2 / 8,
        "original": 1,
        "edited": 0,
    }


def test_first_arm_is_the_base() -> None:
    runs = run_sweep("arms=original,edited")
    assert runs.curve is not None
    assert runs.curve.together is not None
    assert {one.name: one.details["num_samples"] for one in runs.curve.together}["misleading_rate"] == 8
    assert runs.curve.metrics["containment"][1].delta == -1


def test_unedited_documents_are_not_counted_as_false() -> None:
    data = samples()
    for one in data[:3]:
        one.reference_answer = Response("elsewhere")
    runs = run_sweep("arms=original,edited", data=data)
    assert runs.curve is not None
    assert runs.curve.together is not None
    assert {one.name: one.details["num_samples"] for one in runs.curve.together}["mistake_reappearance_rate"] == 5
    assert runs.curve.notes == [
        "arm=edited: 5 of 8 answers were given false documents; in relevant documents of 3 the right answer was not "
        "found"
    ]


def test_sweep_with_custom_edit() -> None:
    runs = run_sweep(
        "counterfactual=0,1", data=samples(wrong=False), edit=lambda sample, doc: doc.text.replace("games", "wars")
    )
    assert values(runs, "containment") == [1, 0]


# --- refused beforehand ----------------------------------------------------------------------------------------------

REFUSED = [  # perturb, samples, options, message, why
    ("drop=0,1", [EvaluationSample("1", "q", [], reference_answer=Response("a"))], {}, "no sample has any", "no gold to drop"),
    ("counterfactual=1", samples(wrong=False), {}, "metadata.wrong_answer", "no wrong answers"),
    ("arms=original,edited", samples(wrong=False), {}, "metadata.wrong_answer", "no wrong answers for the arm"),
    ("noise=0.5,1", samples(texts=False), {}, "no sample has documents with a text", "noise out of nothing"),
    ("noise=0.5,1", samples()[:3], {}, "too little noise for sample .0.: it needs 4,", "too few samples to draw noise from"),
    ("noise=0,1", samples(), {"corpus": corpus()[:3]}, "only 2 are certainly not relevant", "a corpus too small"),
    ("noise=0,1", samples(), {"corpus": "there.jsonl"}, "there.jsonl", "a corpus that is not there"),
    ("duplicate=0,1", samples(), {"conventions": "trec"}, "duplicate documents are an error", "conventions without duplicates"),
    ("noise=0,7", samples(), {}, "from 0 to 1", "a rate above 1"),
]  # fmt: skip


@pytest.mark.parametrize(("perturb", "data", "options", "message", "why"), REFUSED, ids=[row[-1] for row in REFUSED])
def test_invalid_sweep_does_not_call_the_system(perturb: str, data: Any, options: Any, message: str, why: str) -> None:
    finder = KeywordRetriever()
    with pytest.raises(AueporaError, match=message):
        run_sweep(perturb, (finder, FakeGenerator()), data, **options)
    assert finder.asked == []


# --- going on --------------------------------------------------------------------------------------------------------


def test_sweep_resumes() -> None:
    stop = Stop()
    seen: list[str] = []

    def count_answers(answers: Any) -> None:
        seen.extend(one.sample_id for one in answers)
        if len(seen) == 12:  # in the middle of the second rate
            stop.finish()

    stopped = run_sweep("noise=0,0.5,1", stop=stop, watcher=RunCallbacks(answered=count_answers))
    assert stopped.curve is None
    assert (list(stopped.outcomes), stopped.last.ended) == ([0.0, 0.5], "stopped")
    finder = KeywordRetriever()
    resumed = run_sweep("noise=0,0.5,1", (finder, FakeGenerator()), resume=True)
    assert len(finder.asked) == 24 - 12
    assert [one.record.run_id for one in resumed.outcomes.values()][:2] == [
        one.record.run_id for one in stopped.outcomes.values()
    ]
    whole = run_sweep("noise=0,0.5,1", store="whole.sqlite")
    assert all(values(resumed, name) == values(whole, name) for name in METRICS)
    again = run_sweep("noise=0,0.5,1", (finder, FakeGenerator()), resume=True)
    assert len(finder.asked) == 12  # all is there: the curve alone
    assert again.curve == resumed.curve
    with RunStore.open("runs.sqlite") as store:
        assert len(store.runs()) == 3


def test_arms_resume_and_are_joined_once() -> None:
    first = run_sweep("arms=none,original,edited")
    again = run_sweep("arms=none,original,edited", resume=True)
    assert first.together is not None
    assert again.together is not None
    assert again.together.record.run_id == first.together.record.run_id
    with RunStore.open("runs.sqlite") as store, pytest.raises(UnknownRunError, match="4 of them replays or perturbed"):
        store.find("latest")


def test_changed_sweep_is_not_resumed() -> None:
    with pytest.raises(UnknownRunError, match="no run of 'mine' with noise=0,1 and seed 0"):
        run_sweep("noise=0,1", resume=True)
    run_sweep("noise=0,1")
    with pytest.raises(BadValueError, match=r"the plan has changed since .*top_k"):
        run_sweep("noise=0,1", top_k=3, resume=True)
    with pytest.raises(BadValueError, match="the dataset has changed since"):
        run_sweep("noise=0,1", data=samples()[:-1], resume=True)
    with pytest.raises(UnknownRunError, match=r"noise=0,0\.5"):
        run_sweep("noise=0,0.5", resume=True)


# --- the command -----------------------------------------------------------------------------------------------------

SYSTEM = """
from pathlib import Path
from auepora_eval import Document, Response, RetrievedDocument

class Finder:
    def retrieve(self, query, *, top_k=5):
        with (Path(__file__).parent / "calls.log").open("a") as log:
            log.write(query + "\\n")
        n = int(query)
        return [RetrievedDocument(Document(f"g{m}", f"it is {m}"), 1.0, k) for k, m in enumerate((n, (n + 1) % 9), 1)][:top_k]

class Sayer:
    def generate(self, query, documents):
        return Response(next((one.text for one in documents if one.text == f"it is {query}"), "I don't know"))

def build():
    return Finder(), Sayer()
"""


@pytest.fixture
def plan(project: Path) -> str:
    rows = [
        {"sample_id": str(n), "query": str(n), "relevant_docs": [f"g{n}"], "reference_answer": f"it is {n}"}
        for n in range(9)
    ]
    (project / "data.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (project / "swept_rag.py").write_text(SYSTEM)
    (project / "plan.yaml").write_text(
        'name: nightly\ndataset: {jsonl: data.jsonl}\nsystem: {python: "swept_rag:build"}\nmetrics: [exact_match, recall@2]\n'
        "run: {top_k: 2}\nstore: runs.sqlite\ngates: [exact_match >= 0.9]\n"
    )
    return "plan.yaml"


def calls() -> int:
    log = Path("calls.log")
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_command_prints_the_curve(plan: str, auepora: Run) -> None:
    code, out, err = auepora("run", plan, "--perturb", "noise=0,0.5,1", "--json")
    assert code == 0, err
    curve = json.loads(out)
    assert (curve["schema"], curve["perturbation"], curve["rates"], curve["base"]) == (1, "noise", [0, 0.5, 1], 0)
    assert len(curve["runs"]) == 3
    points = curve["metrics"]["exact_match"]
    assert [(one["rate"], one["value"], one["delta"]) for one in points] == [(0, 1, None), (0.5, 1, 0), (1, 0, -1)]
    assert points[0]["interval"][0] < 1
    assert calls() == 27
    assert "nightly [noise=0.5]" in err
    assert "the gates of plan.yaml are not checked on perturbed runs" in err


def test_command_draws_and_writes_the_curve(plan: str, auepora: Run) -> None:
    code, out, err = auepora("run", plan, "--perturb", "drop=0,1", "-m", "recall@2")
    assert code == 0, err
    rows = [line.split() for line in out.splitlines()]
    assert rows[0][:4] == ["metric", "drop", "value", "95"]
    first, last = out.splitlines()[2:4]
    assert first.split()[:3] == ["recall@2", "0", "1.0000"]
    assert last.split()[:2] == ["1", "0.0000"]
    assert first.index("●") > last.index("●")
    assert last.rstrip().endswith("worse")
    code, _, err = auepora("run", plan, "--perturb", "drop=0,1", "--resume", "-m", "recall@2", "-o", "curve.md")
    assert code == 0, err
    assert "|  | 1 | 0.0000 |" in Path("curve.md").read_text()
    assert calls() == 18


def test_corpus_from_option_or_plan(plan: str, auepora: Run) -> None:
    Path("noise.jsonl").write_text(
        "".join(json.dumps({"doc_id": f"n{n}", "text": f"noise {n}"}) + "\n" for n in range(5))
    )
    code, out, err = auepora("run", plan, "--perturb", "noise=1", "--perturb-corpus", "noise.jsonl", "--json")
    assert code == 0, err
    with RunStore.open("runs.sqlite") as store:
        record = store.get(json.loads(out)["runs"][0])
        assert record.plan["perturbation"]["noise_from"] == "the corpus noise.jsonl"
        assert all(
            one.doc.doc_id.startswith("n") for row in store.outputs(record.run_id) for one in row.output.retrieved
        )


COMMANDS = [  # arguments, message, why
    (["--perturb", "noize=0,1"], "did you mean 'noise'?", "a slip in the kind"),
    (["--perturb", "drop=0", "--perturb", "noise=0"], "give --perturb once", "two kinds"),
    (["--perturb-corpus", "x.jsonl"], "--perturb-corpus goes with --perturb", "a corpus alone"),
    (
        ["--perturb", "drop=0,1", "--perturb-corpus", "x.jsonl"],
        "drop=0,1 uses none",
        "a corpus for what draws no noise",
    ),
    (["--perturb", "drop=0,1", "--against", "latest"], "--against applies to one run", "gates against a run"),
    (["--perturb", "drop=0,1", "--per-query", "--json"], "--per-query applies to one run", "scores of samples"),
    (["--perturb", "drop=0,1", "-o", "x.csv"], "curves cannot be written as CSV", "a table of another shape"),
    (["--perturb", "counterfactual=1"], "plan.yaml:2: dataset: counterfactual=1", "no wrong answers"),
    (["--perturb", "noise=1"], "--perturb-corpus", "nothing to draw noise from"),
    (["--perturb", "noise=0,1", "--perturb-corpus", "data.jsonl"], "data.jsonl:1", "a file that is no corpus"),
    (["--perturb", "drop=0,1", "--resume"], "to resume", "nothing to go on with"),
]


@pytest.mark.parametrize(("arguments", "message", "why"), COMMANDS, ids=[row[-1] for row in COMMANDS])
def test_bad_input_is_reported_before_any_call(
    plan: str, auepora: Run, arguments: list[str], message: str, why: str
) -> None:
    code, out, err = auepora("run", plan, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert calls() == 0


def test_saved_outputs_and_endpoints_are_rejected(plan: str, auepora: Run) -> None:
    text = Path(plan).read_text()
    Path("http.yaml").write_text(text.replace('{python: "swept_rag:build"}', '{http: {url: "http://127.0.0.1:9/"}}'))
    code, _, err = auepora("run", "http.yaml", "--perturb", "drop=0,1", "-m", "exact_match")
    assert (code, "the retriever must be accessible" in err) == (2, True)
    Path("out.jsonl").write_text('{"sample_id": "0", "response": {"text": "it is 0"}, "retrieved": []}\n')
    Path("saved.yaml").write_text(text.replace('system: {python: "swept_rag:build"}', "outputs: {jsonl: out.jsonl}"))
    code, _, err = auepora("run", "saved.yaml", "--perturb", "drop=0,1")
    assert (code, "has saved outputs and no system" in err) == (2, True)


def test_metrics_applicable_only_when_perturbed(plan: str, auepora: Run) -> None:
    code, out, err = auepora("run", plan, "--perturb", "noise=0,1", "-m", "context_noise_accuracy", "--json")
    assert code == 0, err
    assert "no sample has anything for" not in err
    assert [one["value"] for one in json.loads(out)["metrics"]["context_noise_accuracy"]] == [1, 0]


def test_stopped_sweep_shows_how_to_resume(plan: str, auepora: Run) -> None:
    text = Path(plan).read_text()
    broken = SYSTEM.replace(
        "n = int(query)",
        'if query == "3" and not Path("mended").exists(): raise ValueError("no")\n        n = int(query)',
    )
    Path("swept_rag.py").write_text(broken)
    Path(plan).write_text(text.replace("{top_k: 2}", "{top_k: 2, max_failures: 0, concurrency: 1, retries: 0}"))
    code, out, err = auepora("run", plan, "--perturb", "drop=0,1", "-m", "recall@2")
    assert (code, out) == (3, "")
    assert "To resume: auepora run plan.yaml --perturb drop=0,1 --resume -m recall@2" in err
    Path("mended").write_text("")
    code, out, err = auepora(
        "run", plan, "--perturb", "drop=0,1", "--resume", "--retry-failed", "-m", "recall@2", "--json"
    )
    assert code == 0, err
    assert [one["value"] for one in json.loads(out)["metrics"]["recall@2"]] == [1, 0]
