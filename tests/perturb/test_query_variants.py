"""Query variants from Python: linked, reproducible, counted; and custom perturbers."""

import asyncio
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from auepora_eval import Document, EvaluationSample, Response, evaluate
from auepora_eval.errors import AueporaError, BadTypeError, BadValueError, DuplicateIdError
from auepora_eval.examples.quickstart.systems import bm25, dataset_path
from auepora_eval.io.jsonl import load_jsonl_dataset
from auepora_eval.perturb.edits import (
    DropWords,
    Keyboard,
    LowerCase,
    NoPunctuation,
    RandomCase,
    SwapWords,
    Typo,
    UpperCase,
)
from auepora_eval.perturb.queries import Paraphraser, QueryPerturber, VariantCounts, as_perturber, perturb_queries

ALL: list[Any] = [
    Typo(0.1),
    Keyboard(0.1),
    DropWords(0.2),
    SwapWords(0.2),
    LowerCase(),
    UpperCase(),
    RandomCase(0.3),
    NoPunctuation(),
]


def sample(sample_id: str = "q1", query: str = "Which river flows through Vienna?", **more: Any) -> EvaluationSample:
    return EvaluationSample(sample_id, query, **more)


def test_variant_keeps_sample_fields() -> None:
    base = sample(
        relevant_docs=[Document("d1", metadata={"relevance": 2})],
        candidate_docs=[Document("d2")],
        reference_answer=Response("The Danube"),
        reference_answers=["Danube"],
        labels={"lang": "en", "scenario": "plain"},
        metadata={"source": "atlas"},
        history=[{"role": "user", "content": "Hello"}],
        cluster_id="talk",
    )
    kept = replace(base, labels=dict(base.labels), metadata=dict(base.metadata))
    original, typo, keyboard = perturb_queries([base], [Typo(0.1), Keyboard(0.1)], seed=3)
    assert original is base
    assert base == kept
    assert typo.query not in (base.query, keyboard.query)
    assert typo == replace(
        base,
        sample_id="q1~typo-1",
        query=typo.query,
        labels={"lang": "en", "variant_of": "q1", "scenario": "typo"},
        metadata={"source": "atlas", "perturbed": {"by": "typo", "number": 1, "seed": 3}},
    )
    assert keyboard.sample_id == "q1~keyboard-1"
    assert keyboard.labels["scenario"] == ["typo", "keyboard"]
    assert (typo.cluster, keyboard.cluster) == ("talk", "talk")


def test_variant_depends_on_seed_id_kind_and_number_only() -> None:
    samples = [sample(f"q{n}", f"Question number {n} about rivers and their towns") for n in range(20)]
    whole = {one.sample_id: one.query for one in perturb_queries(samples, ALL, variants=3)}
    alone = {one.sample_id: one.query for one in perturb_queries(samples[7:5:-1], Typo(0.1), variants=2)}
    assert len(whole) == 20 * (1 + 5 * 3 + 3) - 20  # without punctuation in them, nothing can be left out
    assert alone.items() <= whole.items()
    for n in range(20):
        typos = [query for name, query in whole.items() if name.startswith(f"q{n}~typo")]
        assert len({*typos, samples[n].query}) == 4
    other = {one.sample_id: one.query for one in perturb_queries(samples, Typo(0.1), seed=1)}
    assert all(other[f"q{n}~typo-1"] != whole[f"q{n}~typo-1"] for n in range(20))


def test_same_question_with_other_id_differs() -> None:
    variants = perturb_queries([sample("a"), sample("b")], Keyboard(0.2), only_variants=True)
    assert len({one.query for one in variants}) == 2


def test_seeded_variants_are_stable() -> None:
    # Recorded once: the variants of a seed must never change.
    variants = perturb_queries([sample()], ALL, seed=7, only_variants=True)
    assert {one.sample_id: one.query for one in variants} == {
        "q1~typo-1": "Which river flows thruogh Viienn?",
        "q1~keyboard-1": "Which river fllws throjgh Vienns?",
        "q1~drop_words-1": "river flows through Vienna?",
        "q1~swap_words-1": "Which river flows Vienna? through",
        "q1~lower_case-1": "which river flows through vienna?",
        "q1~upper_case-1": "WHICH RIVER FLOWS THROUGH VIENNA?",
        "q1~random_case-1": "WhIch riVEr flOws throuGH VienNA?",
        "q1~no_punctuation-1": "Which river flows through Vienna",
    }


def test_unchanged_and_repeated_variants_are_counted() -> None:
    variants = perturb_queries(
        [sample("a", "all small"), sample("b", "A"), sample("c", "  "), sample("d", "?!")],
        [LowerCase(), RandomCase(1.0), Typo(0.5)],
        variants=2,
    )
    assert (variants.bases, variants.without_query, variants.variants_left) == (3, 1, 0)
    assert variants.counts["lower_case"] == VariantCounts(made=1, unchanged=2)
    assert variants.counts["random_case"] == VariantCounts(made=2, unchanged=2, repeated=2)
    assert variants.counts["typo"] == VariantCounts(made=3, unchanged=2, repeated=1)  # of "A" there is only "AA"
    assert [one.sample_id for one in variants if one.sample_id.startswith("b")] == [
        "b",
        "b~lower_case-1",
        "b~random_case-1",
        "b~typo-1",
    ]


def test_variants_are_perturbed_only_on_request() -> None:
    base = sample("q")
    (variant,) = perturb_queries([base], Typo(0.1), only_variants=True)
    left = perturb_queries([base, variant], Keyboard(0.1))
    assert [one.sample_id for one in left] == ["q", "q~keyboard-1", "q~typo-1"]
    assert left.variants_left == 1
    too = perturb_queries([base, variant], Keyboard(0.1), variants_too=True, only_variants=True)
    assert [one.sample_id for one in too] == ["q~keyboard-1", "q~typo-1~keyboard-1"]
    assert too[1].labels["variant_of"] == "q~typo-1"
    assert {one.cluster for one in [base, variant, *too]} == {"q"}


def test_duplicate_id_is_rejected() -> None:
    variants = perturb_queries([sample()], Typo(0.1))
    with pytest.raises(DuplicateIdError, match="'q1~typo-1' of a variant is already the id of a sample"):
        perturb_queries(variants, Typo(0.1), seed=9)
    with pytest.raises(DuplicateIdError, match="two samples have the id 'q1'"):
        perturb_queries([sample(), sample()], Typo(0.1))


# --- perturbers of the user's own -------------------------------------------------------------------------------------


def test_paraphraser_calls_model_and_links_variants() -> None:
    prompts: list[str] = []

    def llm(prompt: str) -> str:
        prompts.append(prompt)
        return ' "Through Vienna flows which river?" \n'

    _, variants = perturb_queries([sample()], Paraphraser(llm))
    assert variants.query == "Through Vienna flows which river?"
    assert (variants.sample_id, variants.labels["scenario"]) == ("q1~paraphrase-1", "paraphrase")
    assert len(prompts) == 1
    assert prompts[0].endswith("Question: Which river flows through Vienna?")


@pytest.mark.parametrize("concurrency", [1, 4])
def test_model_failures_are_counted(concurrency: int) -> None:
    def llm(prompt: str) -> Any:
        if "1" in prompt:
            raise ConnectionError("no route")
        return {"2": " ", "3": None, "4": prompt}.get(prompt[-1], f"{prompt} please")

    samples = [sample(str(n), f"number {n}") for n in range(6)]
    variants = perturb_queries(samples, Paraphraser(llm, prompt="{query}"), concurrency=concurrency)
    assert [one.sample_id for one in variants if one.labels] == ["0~paraphrase-1", "5~paraphrase-1"]
    assert variants.counts["paraphrase"] == VariantCounts(
        made=2, unchanged=1, failed=3, failure="ConnectionError: no route"
    )


def test_coroutines_share_one_event_loop() -> None:
    loops: set[int] = set()
    running = most = 0

    async def llm(prompt: str) -> str:
        nonlocal running, most
        loops.add(id(asyncio.get_running_loop()))
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        if prompt == "number 3":
            raise TimeoutError
        return f"{prompt}, {len(prompt) + most}"

    async def notebook() -> Any:
        samples = [sample(str(n), f"number {n}") for n in range(9)]
        return perturb_queries(samples, Paraphraser(llm, prompt="{query}"), concurrency=3, variants=2)

    variants = asyncio.run(notebook())
    assert most == 3
    assert len(loops) == 1
    assert variants.counts["paraphrase"].failed == 2
    assert variants.counts["paraphrase"].failure == "TimeoutError"


class Shouting:
    """A perturber that takes all questions at once."""

    name, scenario = "shout", "typo"

    def __init__(self, given: Any = None) -> None:
        self.given, self.calls = given, 0

    def perturb(self, query: str, rng: Random) -> str:
        raise AssertionError("all at once, please")

    def perturb_batch(self, queries: list[str], rngs: list[Random]) -> Any:
        self.calls += 1
        return [f"{query}!" for query in queries] if self.given is None else self.given


def test_perturb_batch() -> None:
    shouting = Shouting()
    variants = perturb_queries([sample("a", "x"), sample("b", "y")], shouting, only_variants=True)
    assert [one.query for one in variants] == ["x!", "y!"]
    assert shouting.calls == 1
    one_failed = perturb_queries([sample("a", "x"), sample("b", "y")], Shouting([ValueError("no"), "fine"]))
    assert one_failed.counts["shout"] == VariantCounts(made=1, failed=1, failure="ValueError: no")
    too_few = perturb_queries([sample("a", "x"), sample("b", "y")], Shouting(["z"]))
    assert too_few.counts["shout"].failure == "BadTypeError: perturb_batch returned 1 texts for 2 questions"
    assert too_few.counts["shout"].failed == 2
    none_at_all = perturb_queries([sample("a", "x")], Shouting(3))
    assert none_at_all.counts["shout"].failed == 1


def test_function_as_perturber() -> None:
    def politely(query: str, rng: Random) -> str:
        return f"Please: {query}"

    (variants,) = perturb_queries([sample()], politely, only_variants=True)
    assert (variants.sample_id, variants.labels["scenario"]) == ("q1~politely-1", "paraphrase")
    assert isinstance(as_perturber(politely), QueryPerturber)
    assert as_perturber(ALL[0]) is ALL[0]


class Fickle:
    name, scenario, tries = "fickle", "typo", 3

    def __init__(self) -> None:
        self.asked = 0

    def perturb(self, query: str, rng: Random) -> str:
        self.asked += 1
        return query if self.asked < 3 else "otherwise"


def test_perturber_tries() -> None:
    fickle = Fickle()
    (variants,) = perturb_queries([sample()], fickle, only_variants=True)
    assert (variants.query, fickle.asked) == ("otherwise", 3)


def named(name: Any = "mine", scenario: Any = "typo") -> Any:
    return type("Own", (), {"name": name, "scenario": scenario, "perturb": lambda self, query, rng: query[::-1]})()


BAD: list[tuple[Any, dict[str, Any], type[AueporaError], str]] = [
    ([], {}, BadValueError, "no perturber is given"),
    (Typo, {}, BadTypeError, "is not a perturber"),
    ([object()], {}, BadTypeError, "is not a perturber"),
    ("typo", {}, BadTypeError, "'typo' is not a perturber"),
    (lambda query, rng: query, {}, BadValueError, "becomes part of ids.*<lambda>"),
    ([named(name="with space")], {}, BadValueError, "becomes part of ids"),
    ([named(name=None)], {}, BadValueError, "becomes part of ids"),
    ([named(scenario="")], {}, BadValueError, "must name its scenario"),
    ([named(scenario=None)], {}, BadValueError, "must name its scenario"),
    ([Typo(0.1), Typo(0.2)], {}, BadValueError, "two perturbers have the name 'typo'"),
    (Typo(0.1), {"variants": 0}, BadValueError, "variants must be an integer >= 1"),
    (
        Typo(0.1),
        {"seed": "x", "concurrency": 0},
        BadTypeError,
        "seed must be an integer.*; concurrency must be an integer >= 1",
    ),
]


@pytest.mark.parametrize(("perturbers", "options", "error", "message"), BAD, ids=[row[3] for row in BAD])
def test_invalid_arguments(perturbers: Any, options: dict[str, Any], error: type[AueporaError], message: str) -> None:
    with pytest.raises(error, match=message):
        perturb_queries([sample()], perturbers, **options)


def test_invalid_paraphraser() -> None:
    with pytest.raises(BadTypeError, match="llm must be a function"):
        Paraphraser("gpt")  # type: ignore[arg-type]
    with pytest.raises(BadValueError, match=r"must contain \{query"):
        Paraphraser(str, prompt="Reword this.")


# --- what it is for ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_noise_robustness_of_bundled_system_is_defined() -> None:
    plain = [one for one in load_jsonl_dataset(dataset_path()) if one.labels.get("variant_of") is None]
    samples = perturb_queries(plain, [Typo(0.1), Keyboard(0.1), DropWords(0.3), LowerCase()], seed=1)
    system = bm25()
    outputs = [system.run(one, top_k=5) for one in samples]
    kinds = ["typo", "keyboard", "drop_words", "lower_case"]
    by_default, by_kind = evaluate(
        samples,
        outputs,
        [
            {"noise_robustness": {"base": "recall@5"}},
            {"noise_robustness": {"base": "recall@5", "noise_scenarios": kinds, "as": "by_kind"}},
        ],
        slices=["labels.scenario"],
    )
    assert by_default.defined
    assert by_default.interval is not None
    assert by_default.value == by_kind.value
    assert by_default.details["noisy_score"] < by_default.details["base_score"]
    scenarios = by_kind.details["scenarios"]
    assert set(scenarios) == set(kinds)
    assert scenarios["lower_case"]["value"] == 1.0  # words are compared in lower case there
    assert 0.3 < scenarios["keyboard"]["value"] < 1.0
    assert by_default.slices["labels.scenario"]["keyboard"].value == scenarios["keyboard"]["value"]
