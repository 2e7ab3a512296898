"""Diagnoses of systems with planted faults: each is attributed to the part that has it."""

import inspect
import itertools
import json
import math
import random
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, RunStore, SystemOutputs, metric
from auepora_eval.core.rag_interface import SimpleRAGSystem
from auepora_eval.core.types import UnknownRanking
from auepora_eval.errors import BadTypeError, BadValueError, MissingFieldError, UnknownRunError
from auepora_eval.perturb.given import GoldTexts, diagnosable, mixed_documents
from auepora_eval.runs.diagnose import Diagnosis, diagnose, parse_arms, single_document_samples
from auepora_eval.runs.replay import ReplayContext
from auepora_eval.runs.run import run_system
from auepora_eval.systems.command import CommandSystem
from auepora_eval.systems.http import HttpSystem
from helpers.fault_server import serving
from helpers.scripted_critic import Scripted

N = 12


def text(number: int) -> str:
    return f"The code of item {number:02} is A{number:02}."


def questions(n: int = N) -> list[EvaluationSample]:
    return [
        EvaluationSample(
            f"q{one:02}", f"What is the code of item {one:02}?",
            relevant_docs=[Document(f"d{one:02}", text(one), {"relevance": 2})], reference_answer=Response(f"A{one:02}"),
        )
        for one in range(n)
    ]  # fmt: skip


class Finder:
    """Returns the gold document and the four after it; misses gold where ``misses`` says so."""

    def __init__(self, misses: Callable[[int], bool] = lambda _: False) -> None:
        self.misses = misses
        self.calls = 0

    def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:
        self.calls += 1
        number = int(query[-3:-1])
        start = 1 if self.misses(number) else 0
        numbers = [(number + shift) % 100 for shift in range(start, start + top_k)]
        return [RetrievedDocument(Document(f"d{one:02}", text(one)), 1.0, at) for at, one in enumerate(numbers, 1)]


class Reader:
    """Reads the code of the item in its documents; a subclass has a fault."""

    def generate(self, query: str, documents: list[Document]) -> Response:
        number = query[-3:-1]
        for one in documents:
            assert "relevance" not in one.metadata, "the generator must not see annotations"
            if f"item {number} is" in one.text:
                return Response(one.text[-4:-1])
        return Response("I don't know.")


class IgnoresContext(Reader):
    """Answers from memory, which is right on even items."""

    def generate(self, query: str, documents: list[Document]) -> Response:
        number = int(query[-3:-1])
        return Response(f"A{number:02}" if number % 2 == 0 else "B")


class FollowsDistractors(Reader):
    """Quotes the last document."""

    def generate(self, query: str, documents: list[Document]) -> Response:
        return Response(documents[-1].text[-4:-1] if documents else "I don't know.")


class Misreads(Reader):
    """Knows the answer, and is confused by any document."""

    def generate(self, query: str, documents: list[Document]) -> Response:
        return Response("confused" if documents else f"A{query[-3:-1]}")


class Guesses(Reader):
    """Is right half of the time, whatever its documents are."""

    def __init__(self) -> None:
        self.random = random.Random(7)

    def generate(self, query: str, documents: list[Document]) -> Response:
        return Response(f"A{query[-3:-1]}" if self.random.random() < 0.5 else "B")


def by(
    system: object, store: Path | RunStore, arms: str = "none,oracle,retrieved", *, n: int = N, **options: Any
) -> Diagnosis:
    standard = {"name": "s", "top_k": 5, "concurrency": 8}
    return diagnose(system, questions(n), ["containment"], arms=arms, store=store, **{**standard, **options})


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with RunStore.open(tmp_path / "runs.sqlite") as opened:
        yield opened


FAULTS: list[tuple[str, Any, dict[str, int], dict[str, int], list[str]]] = [
    (
        "the generator ignores context",
        lambda: (Finder(), IgnoresContext()),
        {"ignores_context": N // 2},
        {"context_acceptability": N // 2, "context_insensitivity": N // 2},
        ["ignores_context"],
    ),
    (
        "the generator follows distractors",
        lambda: (Finder(), FollowsDistractors()),
        {"distractors": N},
        {"noise_vulnerability": N},
        ["distractors"],
    ),
    (
        "the retriever misses every third gold",
        lambda: (Finder(lambda one: one % 3 == 0), Reader()),
        {"retrieval": N // 3},
        {"noise_vulnerability": N // 3, "context_acceptability": N - N // 3},
        ["retrieval"],
    ),
    (
        "documents confuse the generator",
        lambda: (Finder(), Misreads()),
        {"misreads_context": N},
        {"context_misinterpretation": N},
        ["misreads_context"],
    ),
    ("there is no fault", lambda: (Finder(), Reader()), {}, {"context_acceptability": N}, []),
]


@pytest.mark.parametrize(
    ("build", "causes", "classes", "named"), [one[1:] for one in FAULTS], ids=[one[0] for one in FAULTS]
)
def test_a_planted_fault_is_attributed(
    store: RunStore, build: Any, causes: dict[str, int], classes: dict[str, int], named: list[str]
) -> None:
    numbers = by(build(), store).numbers
    assert numbers is not None
    assert {name: one.proportion.count for name, one in numbers.causes.items() if one.proportion.count} == causes
    assert {name: one.proportion.count for name, one in numbers.mirage.items() if one.proportion.count} == classes
    assert [name for name, one in numbers.causes.items() if one.is_named] == named
    assert sum(Fraction(one.proportion.count or 0, one.proportion.n) for one in numbers.mirage.values()) == 1
    assert numbers.wrong == sum(causes.values())
    for name, count in classes.items():
        low, high = numbers.mirage[name].proportion.interval or (1, 0)
        assert low <= count / N <= high


def test_a_generator_that_guesses_has_no_named_cause(store: RunStore) -> None:
    found = by((Finder(), Guesses()), store, n=40, concurrency=1)
    assert found.numbers is not None
    assert 0.3 < (found.numbers.retest["oracle"].value or 0) < 0.7
    assert not any(one.is_named for one in found.numbers.causes.values())
    assert not found.numbers.mirage["noise_vulnerability"].is_named
    assert found.numbers.headroom is not None
    assert not found.numbers.headroom.excludes_zero


def test_two_faults_lie_in_their_intervals(store: RunStore) -> None:
    """The retriever misses a third of the gold, and the generator is wrong on every fifth item."""

    class Partly(Reader):
        def generate(self, query: str, documents: list[Document]) -> Response:
            return Response("B") if query[-2] in "05" else super().generate(query, documents)

    numbers = by((Finder(lambda one: one % 3 == 0), Partly()), store, n=30).numbers
    assert numbers is not None
    planted = {"retrieval": 8 / 14, "ignores_context": 6 / 14}
    for name, share in planted.items():
        low, high = numbers.causes[name].proportion.interval or (1, 0)
        assert low <= share <= high
        assert numbers.causes[name].is_named


class Fixed:
    def __init__(self, documents: Callable[[str], Sequence[Document]]) -> None:
        self.documents = documents

    def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:
        return [RetrievedDocument(one, None, rank) for rank, one in enumerate(self.documents(query), 1)]


def test_none_and_oracle_equal_runs_made_by_hand(store: RunStore) -> None:
    metrics = ["containment", "token_f1", "recall@5"]
    found = diagnose(
        (Finder(), IgnoresContext()),
        questions(),
        metrics,
        arms="none,oracle,retrieved",
        store=store,
        name="s",
        top_k=5,
        concurrency=8,
    )
    texts = GoldTexts()
    gold = {one.query: texts.documents(one) for one in questions()}
    hand: dict[str, Callable[[str], Sequence[Document]]] = {"none": lambda _: [], "oracle": gold.__getitem__}
    for arm, documents in hand.items():
        want = run_system(
            (Fixed(documents), IgnoresContext()), questions(), metrics, store=store, name=arm, top_k=5, concurrency=8
        )
        got = found.outcomes[f"arm={arm}"].results
        assert want.results is not None
        assert got is not None
        assert [(one.name, one.value, one.interval, list(one.scores or ())) for one in got] == [
            (one.name, one.value, one.interval, list(one.scores or ())) for one in want.results
        ]
        outputs = [
            [(row.sample_id, row.output.retrieved, row.output.response) for row in store.outputs(run.record.run_id)]
            for run in (want, found.outcomes[f"arm={arm}"])
        ]
        assert outputs[0] == outputs[1]


@pytest.mark.slow
def test_runs_are_stored_and_two_systems_can_be_compared(store: RunStore) -> None:
    by((Finder(), Reader()), store, "retrieved", name="good")
    by((Finder(), FollowsDistractors()), store, "retrieved", name="bad")
    good, bad = (store.find(f"{name} [arm=retrieved]") for name in ("good", "bad"))
    assert good.fingerprint == bad.fingerprint
    assert {"perturbed", "arm=retrieved"} <= set(good.tags)
    with pytest.raises(UnknownRunError):
        store.find("latest")  # runs of a diagnosis are not meant


@pytest.mark.slow
def test_resume_repeats_no_call_and_may_add_arms(store: RunStore) -> None:
    finder = Finder()
    first = by((finder, Reader()), store)
    calls = finder.calls
    again = by((finder, Reader()), store, resume=True)
    assert finder.calls == calls
    assert first.numbers is not None
    assert again.numbers is not None
    assert again.numbers.to_dict() == first.numbers.to_dict()
    more = by((finder, Reader()), store, "none,oracle,retrieved,mixed,each", resume=True)
    assert finder.calls == calls
    assert {label: one.asked for label, one in more.outcomes.items() if one.asked} == {
        "arm=mixed": N,
        "arm=each": 5 * N,
    }
    with pytest.raises(BadValueError, match=r"the plan has changed since \(run.top_k: 5 -> 4\)"):
        by((finder, Reader()), store, resume=True, top_k=4, k=5)
    with pytest.raises(BadValueError, match=r"the plan has changed since \(metrics"):
        by((finder, Reader()), store, resume=True, correct="exact_match")
    graded = by((finder, Reader()), store, "retrieved,each", resume=True, utility="token_f1").numbers
    assert finder.calls == calls
    assert graded is not None
    assert graded.utility is not None
    with pytest.raises(BadValueError, match="its samples or documents have changed"):
        by((finder, Reader()), store, "none,oracle,retrieved", n=N - 1, resume=True)
    with pytest.raises(UnknownRunError, match="with a diagnosis with k=5 and seed 8 to resume"):
        by((finder, Reader()), store, resume=True, seed=8)


# --- mixed, and one document at a time -------------------------------------------------------------------------------


def test_mixed_documents() -> None:
    (asked,) = questions(1)
    gold = GoldTexts().documents(asked)
    others = [Document(f"x{one}", f"Text {one}.") for one in range(5)]
    also = [Document("d00", text(0)), Document("p", "part", parent_id="d00"), Document("a", "It is A00, they say.")]
    orders = [mixed_documents(asked, gold, [*also, *others], 4, seed) for seed in range(40)]
    for order in orders:
        ids = [one.doc_id for one in order]
        assert [one for one in ids if one != "d00"] == ["x0", "x1", "x2"], "distractors in order of rank"
        assert ids.count("d00") == 1
    positions = {[one.doc_id for one in order].index("d00") for order in orders}
    assert positions == {0, 1, 2, 3}, "the position is drawn"
    assert mixed_documents(asked, gold, [], 4, 0) == gold
    assert mixed_documents(asked, gold * 5, others, 2, 0) == gold * 2, "never more than k"


def test_mixed_measures_the_position_of_gold(store: RunStore) -> None:
    class FirstOnly(Reader):
        def generate(self, query: str, documents: list[Document]) -> Response:
            return super().generate(query, documents[:1])

    numbers = by((Finder(), FirstOnly()), store, "none,oracle,retrieved,mixed", mirage_from="mixed").numbers
    assert numbers is not None
    assert set(numbers.positions) == {1, 2, 3, 4, 5}
    assert {at: one.value for at, one in numbers.positions.items()} == {1: 1.0, 2: 0.0, 3: 0.0, 4: 0.0, 5: 0.0}
    assert sum(one.n for one in numbers.positions.values()) == N
    assert numbers.mirage["noise_vulnerability"].proportion.count == N - numbers.positions[1].n


def test_single_documents(store: RunStore) -> None:
    found = by((Finder(lambda one: one % 2 == 1), Reader()), store, "retrieved,each", measures=("precision", "mrr"))
    assert found.numbers is not None
    utility = found.numbers.utility
    assert utility is not None
    assert utility.documents == 5 * N
    # Gold is first for half of the questions, and useful alone; nothing else is, and the reader abstains from it.
    assert list(utility.measures) == ["erag precision@5", "erag mrr@5 (within list)", "udcg_sampled"]
    assert [one.value for one in utility.measures.values()][:2] == pytest.approx([1 / 10, 1 / 2], abs=1e-12)
    assert utility.distractors == []
    misled = by((Finder(), FollowsDistractors()), store, "retrieved,each", name="m").numbers
    assert misled is not None
    assert misled.utility is not None
    assert (misled.utility.distractors[0].misled, misled.utility.distractors[0].questions) == (4, 4)


class Confident:
    """A system that takes documents, and tells how likely it is to abstain."""

    def run(
        self, sample: EvaluationSample, *, top_k: int = 5, documents: Sequence[Document] | None = None
    ) -> SystemOutputs:
        found = Finder().retrieve(sample.query, top_k=top_k)
        answer = Reader().generate(sample.query, [one.doc for one in found] if documents is None else list(documents))
        return SystemOutputs(found, answer, extra={"abstain_logprob": -0.5 if documents else -1})


def test_udcg_from_log_probabilities(store: RunStore) -> None:
    numbers = by(Confident(), store, "retrieved,each").numbers
    assert numbers is not None
    assert numbers.utility is not None
    assert "udcg" in numbers.utility.measures
    # Gold is first of five: (u - 4 u / 3) / 5 with u = 1 - exp(-0.5)
    inner = -(1 - math.exp(-0.5)) / 15
    assert numbers.utility.measures["udcg"].value == pytest.approx(1 / (1 + math.exp(-inner)), abs=1e-12)
    assert numbers.mirage == {}
    assert numbers.headroom is None


@pytest.mark.slow
def test_a_log_probability_above_zero_is_an_error(store: RunStore) -> None:
    class Odd(Confident):
        def run(self, sample: EvaluationSample, **options: Any) -> SystemOutputs:
            return replace(super().run(sample, **options), extra={"abstain_logprob": 0.5})

        run.__signature__ = inspect.signature(Confident.run)  # type: ignore[attr-defined]

    with pytest.raises(BadValueError, match=r"abstain_logprob .* a number up to 0, not 0\.5"):
        by(Odd(), store, "retrieved,each", n=2)


def test_samples_of_single_documents_belong_together() -> None:
    asked = questions(2)
    contexts = {one.sample_id: ReplayContext(Finder().retrieve(one.query, top_k=3)) for one in asked}
    samples, given = single_document_samples(asked, contexts, 2)
    assert [one.sample_id for one in samples] == [f"q0{q} [document {rank}]" for q in (0, 1) for rank in (1, 2)]
    assert [one.cluster for one in samples] == ["q00", "q00", "q01", "q01"]
    assert [item.rank for context in given.values() for item in context.retrieved] == [1] * 4


# --- what is refused -------------------------------------------------------------------------------------------------


def test_systems_that_cannot_take_documents_are_refused_before_any_call(store: RunStore) -> None:
    calls = []

    class Whole:
        def run(self, sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
            calls.append(sample)
            return SystemOutputs([], Response(""))

    class Alone:
        def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:
            return []

    for system, why in (
        (Whole(), "Whole has a run() of its own and no 'retriever'"),
        (Alone(), "not a Alone"),
        (HttpSystem("http://127.0.0.1:1/"), "HttpSystem does not take documents"),
    ):
        with pytest.raises(BadTypeError, match=r"^a diagnosis gives a system its documents") as caught:
            by(system, store)
        assert why in str(caught.value)
    assert calls == []
    assert list(store.runs()) == []


REFUSED = [
    ({"arms": "none,oracel"}, "there is no arm 'oracel'; did you mean 'oracle'"),
    ({"arms": "none,oracle"}, "the arm 'retrieved' is missing"),
    ({"arms": "retrieved,retrieved"}, "listed twice"),
    ({"mirage_from": "mixed"}, "the arm 'mixed'"),
    ({"correct": "token_f1"}, "from which score on is an answer right"),
    ({"correct": "hallucination_rate", "correct_from": 0.5}, "less is better"),
    ({"correct": "recall@5"}, "does not score single answers"),
    ({"arms": "retrieved,each", "measures": ("ndcg@5",), "utility": "token_f1"}, "graded labels"),
    ({"arms": "retrieved,each", "measures": ("ndcg@5",), "repeats": 2}, "graded labels"),
    ({"k": 0}, "k must be a positive integer"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED, ids=[row[1] for row in REFUSED])
def test_bad_options_are_refused_before_any_call(store: RunStore, options: dict[str, Any], message: str) -> None:
    finder = Finder()
    with pytest.raises(BadValueError, match=message):
        by((finder, Reader()), store, **options)
    assert finder.calls == 0


def test_a_metric_that_no_sample_has_annotations_for_is_refused(store: RunStore) -> None:
    finder, bare = Finder(), [replace(one, reference_answer=None) for one in questions(2)]
    with pytest.raises(MissingFieldError, match="'reference_answer' for metric 'containment'"):
        diagnose((finder, Reader()), bare, ["recall@5"], store=store)
    assert finder.calls == 0


def test_samples_without_gold_are_left_out(store: RunStore) -> None:
    plain = [EvaluationSample("x", "?", reference_answer=Response("A")), EvaluationSample("y", "?", relevant_docs=[])]
    assert diagnosable(plain) == []
    with pytest.raises(BadValueError, match="no sample has gold documents"):
        diagnose((Finder(), Reader()), plain, store=store)
    found = diagnose((Finder(), Reader()), [*questions(5), *plain], arms="retrieved", store=store)
    assert found.numbers is not None
    assert (found.numbers.n, found.notes) == (
        5,
        ["2 of 7 samples have no gold documents or no answer, and are left out"],
    )


def test_texts_of_gold_come_from_samples_a_corpus_or_what_was_retrieved(store: RunStore, tmp_path: Path) -> None:
    bare = [
        EvaluationSample(
            one.sample_id, one.query, [Document(f"d{int(one.sample_id[1:]):02}")], reference_answer=one.reference_answer
        )
        for one in questions(4)
    ]
    unknown = r"the texts of 4 gold documents are not known \(first: 'd00' of sample 'q00'"
    with pytest.raises(BadValueError, match=unknown):
        diagnose((Finder(), Reader()), bare, store=store, name="mine")
    assert store.runs() == [], "nothing is called"
    assert diagnose((Finder(), Reader()), bare, arms="none,retrieved", store=store).numbers is not None
    run_system((Finder(), Reader()), bare, store=store, name="mine")
    assert diagnose((Finder(), Reader()), bare, store=store, name="mine").numbers is not None  # retrieved before
    blind = Finder(lambda one: True)
    run_system((blind, Reader()), bare, store=store, name="blind", top_k=4)
    with pytest.raises(BadValueError, match="the texts of 1 gold documents are not known"):
        diagnose((blind, Reader()), bare, store=store, name="blind", top_k=4)
    assert store.runs()[0].name == "blind", "nothing is called"
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(json.dumps({"doc_id": f"d{one:02}", "text": text(one)}) + "\n" for one in range(4)))
    found = diagnose((blind, Reader()), bare, store=store, top_k=4, corpus=corpus)
    assert found.numbers is not None
    assert found.numbers.causes["retrieval"].proportion.value == 1


def test_a_system_must_return_its_documents(store: RunStore) -> None:
    class Silent:
        def run(self, sample: EvaluationSample, *, top_k: int = 5, documents: Any = None) -> SystemOutputs:
            return SystemOutputs(UnknownRanking(), Response("A"))

    with pytest.raises(BadValueError, match="has no 'retrieved' for sample 'q00', so it is unknown whether gold"):
        diagnose(Silent(), questions(2), store=store)


def test_parse_arms() -> None:
    for order in itertools.permutations(("none", "oracle", "retrieved")):
        assert parse_arms(order) == ("none", "oracle", "retrieved")


# --- other forms of systems ------------------------------------------------------------------------------------------


def test_an_endpoint_with_documents(store: RunStore) -> None:
    def answer(reply: Any, asked: Any) -> None:
        query, given = asked.json["query"], asked.json.get("documents")
        found = Finder(lambda one: one % 2 == 1).retrieve(query, top_k=3)
        documents = [one.doc for one in found] if given is None else [Document(**one) for one in given]
        shown = [{"doc": {"doc_id": one.doc.doc_id, "text": one.doc.text}, "score": 1.0} for one in found]
        reply.send({"retrieved": shown, "response": Reader().generate(query, documents).text})

    with serving(answer) as server:
        system = HttpSystem(server.url, documents=True)
        found = diagnose(system, questions(6), ["containment"], store=store, top_k=3, concurrency=8)
        system.close()
    assert found.numbers is not None
    assert {name: one.value for name, one in found.numbers.accuracy.items()} == {
        "retrieved": 1 / 2, "none": 0.0, "oracle": 1.0, "mixed": 1.0,
    }  # fmt: skip
    assert found.numbers.causes["retrieval"].proportion.value == 1


COMMAND = """
import json, sys
sys.path[:0] = PATH
from runs.test_diagnose import Document, Finder, Reader

for line in sys.stdin:
    asked = json.loads(line)
    given = asked.get("documents")
    found = [one.doc for one in Finder().retrieve(asked["query"], top_k=3)]
    answer = Reader().generate(asked["query"], found if given is None else [Document(**one) for one in given])
    shown = [{"doc": {"doc_id": one.doc_id, "text": one.text}, "score": 1} for one in found]
    print(json.dumps({"sample_id": asked["sample_id"], "retrieved": shown, "response": answer.text}))
"""


@pytest.mark.slow
def test_a_command_with_documents(store: RunStore, tmp_path: Path) -> None:
    script = tmp_path / "system.py"
    script.write_text(COMMAND.replace("PATH", repr(sys.path)))
    system = CommandSystem([sys.executable, str(script)], documents=True)
    found = diagnose(system, questions(6), ["containment"], store=store, top_k=3)
    system.close()
    assert found.numbers is not None
    assert [one.value for one in found.numbers.accuracy.values()] == [1.0, 0.0, 1.0, 1.0]


@pytest.mark.slow
def test_a_system_with_a_retriever_of_its_own(store: RunStore) -> None:
    class Own(SimpleRAGSystem):
        def run(self, sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
            return super().run(sample, top_k=top_k)

    system = Own(Finder(lambda one: one % 3 == 0), Reader())  # type: ignore[arg-type]
    numbers = by(system, store).numbers
    assert numbers is not None
    assert numbers.causes["retrieval"].proportion.count == N // 3


def test_a_judge_of_the_plan_decides_on_sufficiency(store: RunStore) -> None:
    def verdict(request: Any, _: int) -> str:
        number = re.search(r"What is the code of item (\d\d)", request.prompt)
        return "yes" if number is not None and int(number[1]) % 3 else "no"

    judged = metric("llm_context_sufficiency@5", critic=Scripted(verdict))
    found = diagnose((Finder(), Reader()), questions(9), ["containment", judged], arms="retrieved", store=store)
    assert found.numbers is not None
    assert [row["correct"].count for row in found.numbers.sufficiency.values()] == [6, 3]
    assert found.notes == [f"whether documents are sufficient is the verdict of {judged.name}"]


@pytest.mark.slow
def test_failures_of_the_system_are_a_cause(store: RunStore) -> None:
    class Breaks(Reader):
        def generate(self, query: str, documents: list[Document]) -> Response:
            if len(documents) > 1 and query[-2] in "05":
                raise RuntimeError("out of memory")
            return super().generate(query, documents)

    numbers = by((Finder(), Breaks()), store).numbers
    assert numbers is not None
    assert numbers.causes["system_failed"].proportion.count == numbers.wrong == 3
