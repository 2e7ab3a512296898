"""What each kind of perturbation does to one list: how much, to which documents, always alike, never in place."""

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
from hypothesis import given
from hypothesis import strategies as st

from auepora_eval import Document, EvaluationSample, PerturbedRetriever, Response, RetrievedDocument
from auepora_eval.calling.systems import as_system
from auepora_eval.core.errors import BadTypeError, BadValueError
from auepora_eval.io.corpus import Corpus
from auepora_eval.perturb.kinds import KINDS, Perturbation, Sweep
from auepora_eval.perturb.noise import NoisePool
from auepora_eval.perturb.perturber import Perturber
from auepora_eval.perturb.samples import arm_variant, label_sample
from auepora_eval.perturb.seeded_random import count_for_rate, hash_uniform, seeded_permutation

NOISE = [Document(f"n{n}", f"nothing of note, number {n}") for n in range(30)]
SAMPLE = EvaluationSample(
    "s1",
    "Where were the 2004 Olympics?",
    relevant_docs=[Document("d2"), Document("d4")],
    reference_answer=Response("Athens"),
    metadata={"wrong_answer": ["New York"]},
)


def found(n: int = 5) -> list[RetrievedDocument]:
    return [
        RetrievedDocument(Document(f"d{k}", f"In 2004 it was Athens, says {k}."), 1 / k, k) for k in range(1, n + 1)
    ]


def perturbed(
    items: Sequence[RetrievedDocument], sample: EvaluationSample = SAMPLE, **rates: Any
) -> tuple[list[str], dict[str, Any]]:
    pool = NoisePool.of(NOISE)
    made, done = Perturber(Perturbation(**rates), pool).apply(sample, items)
    return [one.doc.doc_id for one in made], done


@pytest.mark.parametrize("kind", KINDS)
def test_at_rate_0_the_list_is_the_very_same(kind: str) -> None:
    items = found()
    rates: dict[str, Any] = {kind: 0.0}
    made, done = Perturber(Perturbation(**rates), NoisePool.of(NOISE)).apply(SAMPLE, items)
    assert made is items
    assert done == {}


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_retriever_holds_is_not_touched(kind: str) -> None:
    items = found()
    before = copy.deepcopy(items)
    rates: dict[str, Any] = {kind: 1.0}
    perturbed(items, **rates)
    assert items == before


SHARES = [  # rate, list length, noise documents, why
    (0.2, 5, 1, "a fifth of five"),
    (0.4, 5, 2, "two fifths"),
    (0.5, 5, 3, "a half is one more"),
    (0.3, 10, 3, "0.3 as it is written"),
    (0.35, 10, 4, "3.5 is four"),
    (1.0, 5, 5, "all of them"),
    (0.4, 1, 0, "less than a half of one"),
    (1.0, 0, 0, "nothing stays nothing"),
]


@pytest.mark.parametrize(("rate", "n", "want", "why"), SHARES, ids=[row[-1] for row in SHARES])
def test_the_rate_is_the_share_of_noise_and_the_length_stays(rate: float, n: int, want: int, why: str) -> None:
    ids, done = perturbed(found(n), noise=rate)
    assert len(ids) == n
    assert sum(one.startswith("n") for one in ids) == want == len(done.get("injected", []))


def test_noise_takes_the_place_of_the_last_and_the_first_keep_their_order() -> None:
    ids, done = perturbed(found(10), noise=0.4)
    assert [one for one in ids if one.startswith("d")] == ["d1", "d2", "d3", "d4", "d5", "d6"]
    assert done["displaced"] == ["d7", "d8", "d9", "d10"]


def test_noise_of_a_low_rate_stands_in_the_same_place_at_a_high_one() -> None:
    lists = [perturbed(found(10), noise=rate)[0] for rate in (0.2, 0.4, 0.8, 1.0)]
    for low, high in itertools.pairwise(lists):
        kept = [(place, one) for place, one in enumerate(low) if one.startswith("n")]
        assert kept
        assert all(high[place] == one for place, one in kept)


def test_places_keep_their_scores_and_ranks_are_counted_anew() -> None:
    made, _ = Perturber(Perturbation(noise=0.6, drop=1.0), NoisePool.of(NOISE)).apply(SAMPLE, found())
    assert [one.rank for one in made] == [1, 2, 3]
    assert [one.score for one in made] == [1, 1 / 3, 1 / 5]


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
def test_what_may_be_relevant_is_no_noise(document: Document, why: str) -> None:
    sample = EvaluationSample(
        "s",
        "q",
        relevant_docs=[Document("d2", parent_id="p"), Document("d4")],
        reference_answers=["Athens", "the Hellenic capital"],
        metadata={"expected_doc_ids": ["e"]},
    )
    pool = NoisePool.of([document, Document("n", "Athensian is another word")])
    assert [one.doc_id for one in pool.draw(sample, 0, {"d1"})] == ["n"]


def test_a_candidate_of_level_0_is_noise() -> None:
    sample = EvaluationSample("s", "q", relevant_docs=[Document("a", "x", {"relevance": 0}), Document("b", "y")])
    assert [one.doc_id for one in NoisePool.from_samples([sample]).draw(sample, 0)] == ["a"]


def test_the_samples_documents_are_noise_for_each_other() -> None:
    samples = [EvaluationSample(str(n), "q", relevant_docs=[Document(f"g{n}", f"text {n}")]) for n in range(4)]
    pool = NoisePool.from_samples([*samples, EvaluationSample("bare", "q", relevant_docs=[Document("id alone")])])
    assert sorted(one.doc_id for one in pool.draw(samples[0], 0)) == ["g1", "g2", "g3"]


def test_dropping_takes_out_what_is_relevant_and_nothing_else() -> None:
    ids, done = perturbed(found(), drop=1.0)
    assert ids == ["d1", "d3", "d5"]
    assert done == {"dropped": ["d2", "d4"]}


def test_chunks_of_a_relevant_document_go_together() -> None:
    items = [RetrievedDocument(Document(f"c{k}", "t", parent_id="d2"), None, k) for k in (1, 2, 3)]
    for seed in range(20):
        made, _ = Perturber(Perturbation(drop=0.5, seed=seed)).apply(SAMPLE, items)
        assert len(made) in (0, 3)


def test_what_is_dropped_at_a_low_rate_is_dropped_at_a_high_one() -> None:
    samples = [EvaluationSample(str(n), "q", relevant_docs=[Document("d1")]) for n in range(400)]
    dropped = [
        {one.sample_id for one in samples if perturbed(found(), one, drop=rate)[1]} for rate in (0.0, 0.25, 0.5, 1.0)
    ]
    for low, high in itertools.pairwise(dropped):
        assert low <= high
    assert not dropped[0]
    assert len(dropped[3]) == 400
    assert 70 < len(dropped[1]) < 130  # a quarter of 400, five standard deviations each side
    assert 150 < len(dropped[2]) < 250


def test_false_documents_say_the_wrong_answer_and_keep_their_ids() -> None:
    made, done = Perturber(Perturbation(counterfactual=1.0)).apply(SAMPLE, found())
    assert [one.doc.doc_id for one in made] == ["d1", "d2", "d3", "d4", "d5"]
    assert [("New York" in one.doc.text, "Athens" in one.doc.text) for one in made] == [
        (False, True),
        (True, False),
        (False, True),
        (True, False),
        (False, True),
    ]
    assert done == {"edited": ["d2", "d4"]}


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
def test_the_right_answer_is_replaced(text: str, references: list[str], want: str | None, why: str) -> None:
    sample = EvaluationSample(
        "s", "q", relevant_docs=[Document("d")], reference_answers=references, metadata={"wrong_answer": "X"}
    )
    made, done = Perturber(Perturbation(counterfactual=1.0)).apply(
        sample, [RetrievedDocument(Document("d", text), 1.0, 1)]
    )
    assert made[0].doc.text == (text if want is None else want)
    assert done == ({"unedited": ["d"]} if want is None else {"edited": ["d"]})


def test_a_function_may_make_documents_false() -> None:
    def edit(sample: EvaluationSample, document: Document) -> str | Document | None:
        return {"d2": "all lies", "d4": None}[document.doc_id]

    made, done = Perturber(Perturbation(counterfactual=1.0), edit=edit).apply(SAMPLE, found())
    assert made[1].doc.text == "all lies"
    assert done == {"edited": ["d2"], "unedited": ["d4"]}


def test_such_a_function_must_give_a_text() -> None:
    perturber = Perturber(Perturbation(counterfactual=1.0), edit=lambda *_: 7)  # type: ignore[arg-type]
    with pytest.raises(BadTypeError, match="gave a int, not a text"):
        perturber.apply(SAMPLE, found())


def test_nothing_is_returned() -> None:
    assert perturbed(found(), empty=1.0) == ([], {"dropped": ["d1", "d2", "d3", "d4", "d5"]})


def test_documents_come_twice_one_after_the_other_and_the_last_go() -> None:
    ids, done = perturbed(found(), duplicate=1.0)
    assert ids == ["d1", "d1", "d2", "d2", "d3"]
    assert done == {"duplicated": ["d1", "d2"], "displaced": ["d4", "d5"]}


def test_a_second_copy_that_finds_no_place_is_no_duplicate() -> None:
    items = found(1)
    assert Perturber(Perturbation(duplicate=1.0)).apply(SAMPLE, items) == (items, {})


def test_what_noise_and_duplicates_push_out_is_told_together() -> None:
    ids, done = perturbed(found(), noise=0.2, duplicate=1.0)
    assert done["displaced"][0] == "d5"
    assert {*done["displaced"], *ids} == {"d1", "d2", "d3", "d4", "d5", *done["injected"]}


def test_shuffling_moves_everything_at_1_and_some_at_a_half() -> None:
    items = found(40)
    ids, done = perturbed(items, shuffle=1.0)
    assert sorted(ids) == sorted(one.doc.doc_id for one in items)
    assert done["shuffled"] == ids
    still = sum(one == f"d{place}" for place, one in enumerate(ids, 1))
    half = sum(one == f"d{place}" for place, one in enumerate(perturbed(items, shuffle=0.5)[0], 1))
    assert still < half < 40


def test_what_is_no_list_of_documents_is_left_to_who_asked() -> None:
    for wrong in (None, "text", ["d1"], 7):
        assert Perturber(Perturbation(empty=1.0)).apply(SAMPLE, wrong) == (wrong, {})


def test_it_depends_on_seed_sample_and_kind_alone() -> None:
    rates: dict[str, Any] = {"noise": 0.4, "drop": 0.5, "shuffle": 0.7}
    first = perturbed(found(10), **rates)
    assert perturbed(found(10), **rates) == first
    assert perturbed(found(10), **rates, seed=1) != first
    other = EvaluationSample("s2", SAMPLE.query, relevant_docs=SAMPLE.relevant_docs)
    assert perturbed(found(10), other, **rates) != first


@given(st.integers(), st.lists(st.text(), max_size=3))
def test_chance_lies_below_1(seed: int, key: list[str]) -> None:
    assert 0 <= hash_uniform(seed, *key) < 1


@given(st.integers(0, 60), st.integers(), st.text())
def test_a_permutation_has_each_number_once(n: int, seed: int, key: str) -> None:
    order = list(seeded_permutation(n, seed, key))
    assert sorted(order) == list(range(n))
    assert list(seeded_permutation(n, seed, key)) == order


@given(st.integers(0, 100), st.integers(0, 100))
def test_shares_are_exact_and_grow(hundredths: int, n: int) -> None:
    got = count_for_rate(hundredths / 100, n)
    assert got == int(Fraction(hundredths, 100) * n + Fraction(1, 2))
    assert 0 <= got <= n


# --- the retriever by itself -----------------------------------------------------------------------------------------


class Finder:
    name = "mine"

    def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:
        return found(top_k)


class LaterFinder:
    async def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:
        return found(top_k)


class BothFinder(Finder):
    async def aretrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:
        return found(top_k)


def ids(items: Sequence[RetrievedDocument]) -> list[str]:
    return [one.doc.doc_id for one in items]


def test_a_retriever_alone_knows_what_is_relevant_by_its_samples() -> None:
    made = PerturbedRetriever(Finder(), drop=1.0, samples=[SAMPLE])
    assert ids(made.retrieve(SAMPLE.query, top_k=5)) == ["d1", "d3", "d5"]
    assert made.done == {"s1": {"dropped": ["d2", "d4"]}}
    assert ids(made.retrieve("Something else?", top_k=3)) == ["d1", "d2", "d3"]
    assert made.perturbation == Perturbation(drop=1.0)
    assert made.name == "mine"  # what else a system may want of its retriever


def test_a_system_may_ask_as_it_likes_and_hold_the_retriever_itself() -> None:
    class Loose:
        def retrieve(self, query: str, top_k: int = 5, lang: str = "en") -> list[RetrievedDocument]:
            return found(top_k)

    made = PerturbedRetriever(Loose(), drop=1.0, samples=[SAMPLE])
    assert ids(made.retrieve(SAMPLE.query, 3, lang="de")) == ["d1", "d3"]
    assert ids(made.retrieve(query=SAMPLE.query, top_k=3)) == ["d1", "d3"]
    output = as_system((made, None)).call(SAMPLE, 3)
    assert ids(output.retrieved) == ["d1", "d3"]


def test_an_asynchronous_retriever_stays_one() -> None:
    plain = ids(PerturbedRetriever(Finder(), noise=0.4, corpus=NOISE, seed=3).retrieve("q"))
    later = PerturbedRetriever(LaterFinder(), noise=0.4, corpus=NOISE, seed=3)
    both = PerturbedRetriever(BothFinder(), noise=0.4, corpus=NOISE, seed=3)
    assert (
        ids(asyncio.run(later.retrieve("q")))
        == ids(asyncio.run(both.aretrieve("q")))
        == plain
        == ids(both.retrieve("q"))
    )


def test_threads_and_their_order_change_nothing() -> None:
    samples = [EvaluationSample(str(n), f"q{n}", relevant_docs=[Document(f"d{n % 5 + 1}")]) for n in range(50)]
    made = PerturbedRetriever(Finder(), noise=0.4, drop=0.5, shuffle=1.0, corpus=NOISE, samples=samples)
    alone = {one.query: ids(made.retrieve(one.query)) for one in samples}
    seen: dict[str, list[str]] = {}

    def ask(part: Sequence[EvaluationSample]) -> None:
        for one in part:
            seen[one.query] = ids(made.retrieve(one.query))

    threads = [threading.Thread(target=ask, args=(samples[::-1][start::4],)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == alone


def test_noise_from_a_corpus_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps({"doc_id": one.doc_id, "text": one.text}) + "\n" for one in NOISE))
    with Corpus.open(path) as corpus:
        made = PerturbedRetriever(Finder(), noise=1.0, corpus=corpus)
        assert ids(made.retrieve("q")) == ids(PerturbedRetriever(Finder(), noise=1.0, corpus=NOISE).retrieve("q"))


ARM_ROWS = [("none", []), ("original", ["d1", "d2"]), ("edited", ["d1", "d2"])]


@pytest.mark.parametrize(("arm", "want"), ARM_ROWS, ids=[row[0] for row in ARM_ROWS])
def test_an_arm_stands_for_rates(arm: str, want: list[str]) -> None:
    got = PerturbedRetriever(Finder(), arm=arm, samples=[SAMPLE]).retrieve(SAMPLE.query, top_k=2)
    assert ids(got) == want
    assert any("New York" in one.doc.text for one in got) is (arm == "edited")


BAD = [  # options, error, message, why
    ({"noise": 1.5}, BadValueError, "the rate of noise must be a number from 0 to 1, not 1.5", "above 1"),
    ({"drop": -0.1}, BadValueError, "the rate of drop must be", "below 0"),
    ({"empty": float("nan")}, BadValueError, "the rate of empty must be", "no number"),
    ({"shuffle": True}, BadValueError, "the rate of shuffle must be", "a truth value"),
    ({"duplicate": "much"}, BadValueError, "not 'much'", "a word"),
    ({"noise": 0.5}, BadValueError, "nothing to draw it from", "noise out of nothing"),
    ({"noise": 0.5, "corpus": "corpus.jsonl"}, BadTypeError, "Corpus.open", "a path is no corpus"),
    ({"arm": "edit"}, BadValueError, "there is no arm 'edit'; did you mean 'edited'?", "an arm there is not"),
    ({"arm": "none", "drop": 1.0}, BadValueError, "an arm or rates, not both", "an arm and a rate"),
    ({"seed": "x"}, BadTypeError, "the seed of a perturbation must be a whole number", "a seed that is none"),
]


@pytest.mark.parametrize(("options", "error", "message", "why"), BAD, ids=[row[-1] for row in BAD])
def test_what_cannot_be_meant_is_refused(
    options: dict[str, Any], error: type[Exception], message: str, why: str
) -> None:
    with pytest.raises(error, match=message):
        PerturbedRetriever(Finder(), **options)


@pytest.mark.parametrize("retriever", [Finder, object(), None], ids=["a class", "no retrieve()", "nothing"])
def test_a_retriever_must_be_one(retriever: object) -> None:
    with pytest.raises(BadTypeError, match="an object with a method retrieve"):
        PerturbedRetriever(retriever)


# --- sweeps and what samples say -------------------------------------------------------------------------------------

SWEEPS = [  # given, message, why
    ("noize=0,1", "unknown perturbation 'noize'; did you mean 'noise'?", "a slip"),
    ("frobnicate=1", "choose one of: noise, drop,", "nothing like it"),
    ("noise", "says not at which rates", "no rates"),
    ("noise=", "must be a number from 0 to 1, not ''", "an empty rate"),
    ("noise=0,x", "not 'x'", "a rate that is no number"),
    ("noise=0,1.2", "not '1.2'", "a rate above 1"),
    ("noise=0.2,0.20", "noise=0.2 is there twice", "the same rate in other digits"),
    ("arms=none,none", "arms=none is there twice", "an arm twice"),
    ("arms=nonne", "there is no arm 'nonne'; did you mean 'none'?", "no such arm"),
    ({"noise": []}, "is given no rates", "an empty list"),
    ({"noise": [0], "drop": [0]}, "name one kind", "two kinds"),
]


@pytest.mark.parametrize(("given", "message", "why"), SWEEPS, ids=[row[-1] for row in SWEEPS])
def test_a_sweep_must_be_one(given: object, message: str, why: str) -> None:
    with pytest.raises(BadValueError, match=message.replace("?", r"\?")):
        Sweep.of(given)  # type: ignore[arg-type]


def test_a_sweep_as_text_and_back() -> None:
    sweep = Sweep.of(" noise = 1, 0.20 ,0")
    assert str(sweep) == "noise=1,0.2,0"
    assert sweep.base == 0
    assert [sweep.label(one) for one in sweep.levels] == ["noise=1", "noise=0.2", "noise=0"]
    assert Sweep.of({"noise": [1, 0.2, 0]}) == sweep
    assert Sweep.of("drop=0.5,1").base == 0.5
    arms = Sweep.of("arms=original,edited")
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
def test_samples_say_what_became_of_their_documents(sweep: str, level: float, labels: dict[str, Any], why: str) -> None:
    got = label_sample(SAMPLE, Sweep.of(sweep), level)
    assert got.labels == labels
    assert (got is SAMPLE) is (not labels)
    if "answerable" in labels:
        assert "nothing relevant is left" in got.metadata["perturbation"]
    assert got.relevant_docs == SAMPLE.relevant_docs


def test_one_relevant_document_left_is_enough_to_answer() -> None:
    sweep = Sweep.of("drop=0,0.5")
    for n in range(60):
        sample = EvaluationSample(str(n), "q", relevant_docs=[Document("d1"), Document("d2")])
        left = list(perturbed(found(2), sample, drop=0.5)[0])
        assert label_sample(sample, sweep, 0.5).labels.get("answerable", True) is bool(left)


def test_a_question_without_an_answer_stays_one() -> None:
    sample = EvaluationSample("s", "q", labels={"scenario": "unanswerable"})
    assert label_sample(sample, Sweep.of("empty=0,1"), 1.0) is sample


def test_only_the_edited_arm_keeps_its_wrong_answer() -> None:
    sweep = Sweep.of("arms=original,edited")
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
