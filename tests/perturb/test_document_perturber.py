"""The perturbations of a ranking: their rates, targets, determinism and records."""

import asyncio
import copy
import itertools
import json
import threading
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from auepora_eval import Document, EvaluationSample, PerturbedRetriever, Response, RetrievedDocument
from auepora_eval.errors import BadTypeError, BadValueError
from auepora_eval.io.corpus import Corpus
from auepora_eval.perturb.documents import KINDS, NoisePool, Perturbation, Perturber, Sweep, arm_variant, label_sample
from auepora_eval.perturb.edits import count_for_rate, hash_uniform, seeded_permutation
from auepora_eval.systems.interfaces import as_system

NOISE = [Document(f"n{n}", f"nothing of note, number {n}") for n in range(30)]
SAMPLE = EvaluationSample(
    "s1",
    "Where were the 2004 Olympics?",
    relevant_docs=[Document("d2"), Document("d4")],
    reference_answer=Response("Athens"),
    metadata={"wrong_answer": ["New York"]},
)


def ranking(n: int = 5) -> list[RetrievedDocument]:
    return [
        RetrievedDocument(Document(f"d{k}", f"In 2004 it was Athens, says {k}."), 1 / k, k) for k in range(1, n + 1)
    ]


def perturb_ids(
    items: Sequence[RetrievedDocument], sample: EvaluationSample = SAMPLE, **rates: Any
) -> tuple[list[str], dict[str, Any]]:
    pool = NoisePool.from_documents(NOISE)
    result, record = Perturber(Perturbation(**rates), pool).apply(sample, items)
    return [one.doc.doc_id for one in result], record


@pytest.mark.parametrize("kind", KINDS)
def test_rate_0_returns_the_same_list(kind: str) -> None:
    items = ranking()
    rates: dict[str, Any] = {kind: 0.0}
    result, record = Perturber(Perturbation(**rates), NoisePool.from_documents(NOISE)).apply(SAMPLE, items)
    assert result is items
    assert record == {}


@pytest.mark.parametrize("kind", KINDS)
def test_input_documents_are_not_modified(kind: str) -> None:
    items = ranking()
    before = copy.deepcopy(items)
    rates: dict[str, Any] = {kind: 1.0}
    perturb_ids(items, **rates)
    assert items == before


RATE_ROWS = [  # rate, list length, noise documents, why
    (0.2, 5, 1, "a fifth of five"),
    (0.4, 5, 2, "two fifths"),
    (0.5, 5, 3, "a half is one more"),
    (0.3, 10, 3, "0.3 as it is written"),
    (0.35, 10, 4, "3.5 is four"),
    (1.0, 5, 5, "all of them"),
    (0.4, 1, 0, "less than a half of one"),
    (1.0, 0, 0, "nothing stays nothing"),
]


@pytest.mark.parametrize(("rate", "n", "want", "why"), RATE_ROWS, ids=[row[-1] for row in RATE_ROWS])
def test_noise_rate_is_a_proportion_of_the_list(rate: float, n: int, want: int, why: str) -> None:
    ids, record = perturb_ids(ranking(n), noise=rate)
    assert len(ids) == n
    assert sum(one.startswith("n") for one in ids) == want == len(record.get("injected", []))


def test_noise_displaces_the_last_documents() -> None:
    ids, record = perturb_ids(ranking(10), noise=0.4)
    assert [one for one in ids if one.startswith("d")] == ["d1", "d2", "d3", "d4", "d5", "d6"]
    assert record["displaced"] == ["d7", "d8", "d9", "d10"]


def test_noise_is_nested_over_rates() -> None:
    lists = [perturb_ids(ranking(10), noise=rate)[0] for rate in (0.2, 0.4, 0.8, 1.0)]
    for low, high in itertools.pairwise(lists):
        kept = [(place, one) for place, one in enumerate(low) if one.startswith("n")]
        assert kept
        assert all(high[place] == one for place, one in kept)


def test_positions_keep_scores_and_ranks_are_renumbered() -> None:
    result, _ = Perturber(Perturbation(noise=0.6, drop=1.0), NoisePool.from_documents(NOISE)).apply(SAMPLE, ranking())
    assert [one.rank for one in result] == [1, 2, 3]
    assert [one.score for one in result] == [1, 1 / 3, 1 / 5]


NO_NOISE = [  # document, why it is not drawn
    (Document("d2", "whatever"), "it is relevant"),
    (Document("c", "whatever", parent_id="p"), "another part of a relevant document"),
    (Document("p", "whatever"), "the whole that something relevant is from"),
    (Document("c", "whatever", parent_id="d4"), "part of a relevant one"),
    (Document("c", "whatever", parent_id="e"), "part of an expected document"),
    (Document("c", "It was ATHENS."), "it holds the answer"),
    (Document("c", "It was the\nHellenic  capital!"), "it holds another acceptable answer"),
    (Document("d1", "whatever"), "it was found anyway"),
]


@pytest.mark.parametrize(("document", "why"), NO_NOISE, ids=[row[-1] for row in NO_NOISE])
def test_possibly_relevant_documents_are_not_noise(document: Document, why: str) -> None:
    sample = EvaluationSample(
        "s",
        "q",
        relevant_docs=[Document("d2", parent_id="p"), Document("d4")],
        reference_answers=["Athens", "the Hellenic capital"],
        metadata={"expected_doc_ids": ["e"]},
    )
    pool = NoisePool.from_documents([document, Document("n", "Athensian is another word")])
    assert [one.doc_id for one in pool.draw(sample, 0, {"d1"})] == ["n"]


def test_candidate_of_level_0_is_noise() -> None:
    sample = EvaluationSample("s", "q", relevant_docs=[Document("a", "x", {"relevance": 0}), Document("b", "y")])
    assert [one.doc_id for one in NoisePool.from_samples([sample]).draw(sample, 0)] == ["a"]


def test_pool_from_samples() -> None:
    samples = [EvaluationSample(str(n), "q", relevant_docs=[Document(f"g{n}", f"text {n}")]) for n in range(4)]
    pool = NoisePool.from_samples([*samples, EvaluationSample("bare", "q", relevant_docs=[Document("id alone")])])
    assert sorted(one.doc_id for one in pool.draw(samples[0], 0)) == ["g1", "g2", "g3"]


def test_drop_removes_only_relevant_documents() -> None:
    ids, record = perturb_ids(ranking(), drop=1.0)
    assert ids == ["d1", "d3", "d5"]
    assert record == {"dropped": ["d2", "d4"]}


def test_chunks_of_a_relevant_document_are_dropped_together() -> None:
    items = [RetrievedDocument(Document(f"c{k}", "t", parent_id="d2"), None, k) for k in (1, 2, 3)]
    for seed in range(20):
        result, _ = Perturber(Perturbation(drop=0.5, seed=seed)).apply(SAMPLE, items)
        assert len(result) in (0, 3)


def test_dropped_documents_are_nested_over_rates() -> None:
    samples = [EvaluationSample(str(n), "q", relevant_docs=[Document("d1")]) for n in range(400)]
    dropped = [
        {one.sample_id for one in samples if perturb_ids(ranking(), one, drop=rate)[1]}
        for rate in (0.0, 0.25, 0.5, 1.0)
    ]
    for low, high in itertools.pairwise(dropped):
        assert low <= high
    assert not dropped[0]
    assert len(dropped[3]) == 400
    assert 70 < len(dropped[1]) < 130  # a quarter of 400, five standard deviations each side
    assert 150 < len(dropped[2]) < 250


def test_counterfactual_documents_keep_their_ids() -> None:
    result, record = Perturber(Perturbation(counterfactual=1.0)).apply(SAMPLE, ranking())
    assert [one.doc.doc_id for one in result] == ["d1", "d2", "d3", "d4", "d5"]
    assert [("New York" in one.doc.text, "Athens" in one.doc.text) for one in result] == [
        (False, True),
        (True, False),
        (False, True),
        (True, False),
        (False, True),
    ]
    assert record == {"edited": ["d2", "d4"]}


TEXTS = [  # text, references, what it becomes, why
    ("Athens, ATHENS and athens", ["Athens"], "X, X and X", "whatever the case, everywhere"),
    ("Athensian Athens", ["Athens"], "Athensian X", "whole words alone"),
    ("in New\nYork City", ["New York", "New York City"], "in X", "the longest first, whatever the white space"),
    ("It costs 5 €.", ["5 €"], "It costs X.", "signs are no letters"),
    ("We say: yes", ["Yes."], "We say: X", "without the full stop of the reference"),
    ("a (b) c", ["(b)"], "a X c", "no regular expression"),
    ("nothing of it", ["Athens"], None, "the answer is not there"),
    ("a text", [""], None, "no answer at all"),
]


@pytest.mark.parametrize(("text", "references", "want", "why"), TEXTS, ids=[row[-1] for row in TEXTS])
def test_right_answer_is_replaced(text: str, references: list[str], want: str | None, why: str) -> None:
    sample = EvaluationSample(
        "s", "q", relevant_docs=[Document("d")], reference_answers=references, metadata={"wrong_answer": "X"}
    )
    result, record = Perturber(Perturbation(counterfactual=1.0)).apply(
        sample, [RetrievedDocument(Document("d", text), 1.0, 1)]
    )
    assert result[0].doc.text == (text if want is None else want)
    assert record == ({"unedited": ["d"]} if want is None else {"edited": ["d"]})


def test_custom_edit_function() -> None:
    def edit(sample: EvaluationSample, document: Document) -> str | Document | None:
        return {"d2": "all lies", "d4": None}[document.doc_id]

    result, record = Perturber(Perturbation(counterfactual=1.0), edit=edit).apply(SAMPLE, ranking())
    assert result[1].doc.text == "all lies"
    assert record == {"edited": ["d2"], "unedited": ["d4"]}


def test_custom_edit_must_return_a_string() -> None:
    perturber = Perturber(Perturbation(counterfactual=1.0), edit=lambda *_: 7)  # type: ignore[arg-type]
    with pytest.raises(BadTypeError, match="returned int, not a string"):
        perturber.apply(SAMPLE, ranking())


def test_empty_returns_no_documents() -> None:
    assert perturb_ids(ranking(), empty=1.0) == ([], {"dropped": ["d1", "d2", "d3", "d4", "d5"]})


def test_duplicates_are_adjacent_and_displace_the_last() -> None:
    ids, record = perturb_ids(ranking(), duplicate=1.0)
    assert ids == ["d1", "d1", "d2", "d2", "d3"]
    assert record == {"duplicated": ["d1", "d2"], "displaced": ["d4", "d5"]}


def test_copy_without_room_is_not_recorded() -> None:
    items = ranking(1)
    assert Perturber(Perturbation(duplicate=1.0)).apply(SAMPLE, items) == (items, {})


def test_displaced_documents_are_recorded_together() -> None:
    ids, record = perturb_ids(ranking(), noise=0.2, duplicate=1.0)
    assert record["displaced"][0] == "d5"
    assert {*record["displaced"], *ids} == {"d1", "d2", "d3", "d4", "d5", *record["injected"]}


def test_shuffle_rate() -> None:
    items = ranking(40)
    ids, record = perturb_ids(items, shuffle=1.0)
    assert sorted(ids) == sorted(one.doc.doc_id for one in items)
    assert record["shuffled"] == ids
    still = sum(one == f"d{place}" for place, one in enumerate(ids, 1))
    half = sum(one == f"d{place}" for place, one in enumerate(perturb_ids(items, shuffle=0.5)[0], 1))
    assert still < half < 40


def test_non_list_is_returned_unchanged() -> None:
    for wrong in (None, "text", ["d1"], 7):
        assert Perturber(Perturbation(empty=1.0)).apply(SAMPLE, wrong) == (wrong, {})


def test_result_depends_on_seed_sample_and_kind_only() -> None:
    rates: dict[str, Any] = {"noise": 0.4, "drop": 0.5, "shuffle": 0.7}
    first = perturb_ids(ranking(10), **rates)
    assert perturb_ids(ranking(10), **rates) == first
    assert perturb_ids(ranking(10), **rates, seed=1) != first
    other = EvaluationSample("s2", SAMPLE.query, relevant_docs=SAMPLE.relevant_docs)
    assert perturb_ids(ranking(10), other, **rates) != first


@given(st.integers(), st.lists(st.text(), max_size=3))
def test_hash_uniform_is_below_1(seed: int, key: list[str]) -> None:
    assert 0 <= hash_uniform(seed, *key) < 1


@given(st.integers(0, 60), st.integers(), st.text())
def test_permutation_has_each_number_once(n: int, seed: int, key: str) -> None:
    order = list(seeded_permutation(n, seed, key))
    assert sorted(order) == list(range(n))
    assert list(seeded_permutation(n, seed, key)) == order


@given(st.integers(0, 100), st.integers(0, 100))
def test_count_for_rate_is_exact_and_monotone(hundredths: int, n: int) -> None:
    got = count_for_rate(hundredths / 100, n)
    assert got == int(Fraction(hundredths, 100) * n + Fraction(1, 2))
    assert 0 <= got <= n


# --- the retriever by itself -----------------------------------------------------------------------------------------


class FakeRetriever:
    name = "mine"

    def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:
        return ranking(top_k)


class AsyncRetriever:
    async def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:
        return ranking(top_k)


class SyncAndAsyncRetriever(FakeRetriever):
    async def aretrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:
        return ranking(top_k)


def ids(items: Sequence[RetrievedDocument]) -> list[str]:
    return [one.doc.doc_id for one in items]


def test_retriever_finds_gold_by_query() -> None:
    result = PerturbedRetriever(FakeRetriever(), drop=1.0, samples=[SAMPLE])
    assert ids(result.retrieve(SAMPLE.query, top_k=5)) == ["d1", "d3", "d5"]
    assert result.done == {"s1": {"dropped": ["d2", "d4"]}}
    assert ids(result.retrieve("Something else?", top_k=3)) == ["d1", "d2", "d3"]
    assert result.perturbation == Perturbation(drop=1.0)
    assert result.name == "mine"  # what else a system may want of its retriever


def test_retriever_passes_arguments_and_attributes_through() -> None:
    class FlexibleRetriever:
        def retrieve(self, query: str, top_k: int = 5, lang: str = "en") -> list[RetrievedDocument]:
            return ranking(top_k)

    result = PerturbedRetriever(FlexibleRetriever(), drop=1.0, samples=[SAMPLE])
    assert ids(result.retrieve(SAMPLE.query, 3, lang="de")) == ["d1", "d3"]
    assert ids(result.retrieve(query=SAMPLE.query, top_k=3)) == ["d1", "d3"]
    output = as_system((result, None)).call(SAMPLE, 3)
    assert ids(output.retrieved) == ["d1", "d3"]


def test_async_retriever_stays_async() -> None:
    plain = ids(PerturbedRetriever(FakeRetriever(), noise=0.4, corpus=NOISE, seed=3).retrieve("q"))
    later = PerturbedRetriever(AsyncRetriever(), noise=0.4, corpus=NOISE, seed=3)
    both = PerturbedRetriever(SyncAndAsyncRetriever(), noise=0.4, corpus=NOISE, seed=3)
    assert (
        ids(asyncio.run(later.retrieve("q")))
        == ids(asyncio.run(both.aretrieve("q")))
        == plain
        == ids(both.retrieve("q"))
    )


def test_threads_do_not_change_the_result() -> None:
    samples = [EvaluationSample(str(n), f"q{n}", relevant_docs=[Document(f"d{n % 5 + 1}")]) for n in range(50)]
    result = PerturbedRetriever(FakeRetriever(), noise=0.4, drop=0.5, shuffle=1.0, corpus=NOISE, samples=samples)
    alone = {one.query: ids(result.retrieve(one.query)) for one in samples}
    seen: dict[str, list[str]] = {}

    def ask(part: Sequence[EvaluationSample]) -> None:
        for one in part:
            seen[one.query] = ids(result.retrieve(one.query))

    threads = [threading.Thread(target=ask, args=(samples[::-1][start::4],)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == alone


def test_noise_from_corpus_file(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps({"doc_id": one.doc_id, "text": one.text}) + "\n" for one in NOISE))
    with Corpus.open(path) as corpus:
        result = PerturbedRetriever(FakeRetriever(), noise=1.0, corpus=corpus)
        assert ids(result.retrieve("q")) == ids(
            PerturbedRetriever(FakeRetriever(), noise=1.0, corpus=NOISE).retrieve("q")
        )


ARM_ROWS = [("none", []), ("original", ["d1", "d2"]), ("edited", ["d1", "d2"])]


@pytest.mark.parametrize(("arm", "want"), ARM_ROWS, ids=[row[0] for row in ARM_ROWS])
def test_arm_sets_rates(arm: str, want: list[str]) -> None:
    got = PerturbedRetriever(FakeRetriever(), arm=arm, samples=[SAMPLE]).retrieve(SAMPLE.query, top_k=2)
    assert ids(got) == want
    assert any("New York" in one.doc.text for one in got) is (arm == "edited")


BAD = [  # options, error, message, why
    ({"noise": 1.5}, BadValueError, "the rate of noise must be a number from 0 to 1, not 1.5", "above 1"),
    ({"drop": -0.1}, BadValueError, "the rate of drop must be", "below 0"),
    ({"empty": float("nan")}, BadValueError, "the rate of empty must be", "no number"),
    ({"shuffle": True}, BadValueError, "the rate of shuffle must be", "a truth value"),
    ({"duplicate": "much"}, BadValueError, "not 'much'", "a word"),
    ({"noise": 0.5}, BadValueError, "no documents to draw noise from", "noise out of nothing"),
    ({"noise": 0.5, "corpus": "corpus.jsonl"}, BadTypeError, "Corpus.open", "a path is no corpus"),
    ({"arm": "edit"}, BadValueError, "there is no arm 'edit'; did you mean 'edited'?", "an arm there is not"),
    ({"arm": "none", "drop": 1.0}, BadValueError, "an arm or rates, not both", "an arm and a rate"),
    ({"seed": "x"}, BadTypeError, "seed must be an integer", "a seed that is none"),
]


@pytest.mark.parametrize(("options", "error", "message", "why"), BAD, ids=[row[-1] for row in BAD])
def test_invalid_arguments_are_rejected(
    options: dict[str, Any], error: type[Exception], message: str, why: str
) -> None:
    with pytest.raises(error, match=message):
        PerturbedRetriever(FakeRetriever(), **options)


@pytest.mark.parametrize("retriever", [FakeRetriever, object(), None], ids=["a class", "no retrieve()", "nothing"])
def test_invalid_retriever_is_rejected(retriever: object) -> None:
    with pytest.raises(BadTypeError, match="an object with a method retrieve"):
        PerturbedRetriever(retriever)


# --- sweeps and what samples say -------------------------------------------------------------------------------------

SWEEPS = [  # given, message, why
    ("noize=0,1", "unknown perturbation 'noize'; did you mean 'noise'?", "a slip"),
    ("frobnicate=1", "choose one of: noise, drop,", "nothing like it"),
    ("noise", "has no rates", "no rates"),
    ("noise=", "must be a number from 0 to 1, not ''", "an empty rate"),
    ("noise=0,x", "not 'x'", "a rate that is no number"),
    ("noise=0,1.2", "not '1.2'", "a rate above 1"),
    ("noise=0.2,0.20", "noise=0.2 is listed twice", "the same rate in other digits"),
    ("arms=none,none", "arms=none is listed twice", "an arm twice"),
    ("arms=nonne", "there is no arm 'nonne'; did you mean 'none'?", "no such arm"),
    ({"noise": []}, "has no rates", "an empty list"),
    ({"noise": [0], "drop": [0]}, "name one kind", "two kinds"),
]


@pytest.mark.parametrize(("given", "message", "why"), SWEEPS, ids=[row[-1] for row in SWEEPS])
def test_invalid_sweep_is_rejected(given: object, message: str, why: str) -> None:
    with pytest.raises(BadValueError, match=message.replace("?", r"\?")):
        Sweep.parse(given)  # type: ignore[arg-type]


def test_sweep_round_trip() -> None:
    sweep = Sweep.parse(" noise = 1, 0.20 ,0")
    assert str(sweep) == "noise=1,0.2,0"
    assert sweep.base == 0
    assert [sweep.label(one) for one in sweep.levels] == ["noise=1", "noise=0.2", "noise=0"]
    assert Sweep.parse({"noise": [1, 0.2, 0]}) == sweep
    assert Sweep.parse("drop=0.5,1").base == 0.5
    arms = Sweep.parse("arms=original,edited")
    assert (arms.base, arms.label("edited"), arms.perturbs) == ("original", "arm=edited", {"counterfactual"})


MARKS = [  # sweep, level, labels beside the sample's own, why
    ("noise=0,1", 0.0, {"noise_ratio": 0.0}, "no noise is a share of noise too"),
    ("noise=0,0.8", 0.8, {"noise_ratio": 0.8}, "something may be left"),
    ("noise=0,1", 1.0, {"noise_ratio": 1.0, "answerable": False}, "nothing but noise"),
    ("drop=0,1", 1.0, {"answerable": False}, "all that is relevant is gone"),
    ("drop=0,1", 0.0, {}, "nothing is done"),
    ("empty=0,1", 1.0, {"answerable": False}, "no documents"),
    ("shuffle=0,1", 1.0, {}, "all are there"),
    ("counterfactual=0,1", 1.0, {}, "what it says of itself stays"),
]


@pytest.mark.parametrize(("sweep", "level", "labels", "why"), MARKS, ids=[row[-1] for row in MARKS])
def test_label_sample(sweep: str, level: float, labels: dict[str, Any], why: str) -> None:
    got = label_sample(SAMPLE, Sweep.parse(sweep), level)
    assert got.labels == labels
    assert (got is SAMPLE) is (not labels)
    if "answerable" in labels:
        assert "nothing relevant is left" in got.metadata["perturbation"]
    assert got.relevant_docs == SAMPLE.relevant_docs


def test_answerable_while_one_relevant_document_is_left() -> None:
    sweep = Sweep.parse("drop=0,0.5")
    for n in range(60):
        sample = EvaluationSample(str(n), "q", relevant_docs=[Document("d1"), Document("d2")])
        left = list(perturb_ids(ranking(2), sample, drop=0.5)[0])
        assert label_sample(sample, sweep, 0.5).labels.get("answerable", True) is bool(left)


def test_unanswerable_sample_stays_unanswerable() -> None:
    sample = EvaluationSample("s", "q", labels={"scenario": "unanswerable"})
    assert label_sample(sample, Sweep.parse("empty=0,1"), 1.0) is sample


def test_only_edited_arm_keeps_wrong_answer() -> None:
    sweep = Sweep.parse("arms=original,edited")
    original, edited = (label_sample(SAMPLE, sweep, arm) for arm in sweep.levels)
    assert "wrong_answer" not in original.metadata
    assert edited.metadata["wrong_answer"] == ["New York"]
    base = arm_variant(original, of_base=True, is_false=False)
    variant = arm_variant(edited, of_base=False, is_false=True)
    assert (variant.sample_id, variant.labels["variant_of"], variant.cluster) == (
        "s1 [edited]",
        base.sample_id,
        base.cluster,
    )
    assert variant.scenarios == ("false_documents",)
    unmoved = arm_variant(edited, of_base=False, is_false=False)
    assert "wrong_answer" not in unmoved.metadata
