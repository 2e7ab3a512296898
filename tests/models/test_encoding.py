"""Batches of similar length, and what happens when memory runs out."""

import random
from typing import Any

import numpy as np
import pytest

from auepora_eval import AueporaWarning, EvaluationSample, Response, SystemOutputs, evaluate, metric
from auepora_eval.features.embeddings import InferenceFailure
from auepora_eval.models.embedders import PairModel, SentenceTransformerEmbedder
from auepora_eval.models.encoding import pad_batch, run_in_batches, tokenise
from auepora_eval.models.loading import ModelSource, load_classifier, load_layers, load_sentence_transformer
from helpers.tiny_models import LONGEST, WORDS, made


def test_batches_start_with_the_longest_and_respect_the_token_limit() -> None:
    asked: list[list[int]] = []

    def run(places: list[int]) -> list[str]:
        asked.append(places)
        return [f"row {place}" for place in places]

    assert run_in_batches([1, 5, 2, 5, 1], run, tokens=10) == [f"row {place}" for place in range(5)]
    assert asked == [[1, 3], [2, 0, 4]]
    asked.clear()
    run_in_batches([1, 5, 2, 50, 1], run, tokens=10, max_texts=2)
    assert asked == [[3], [1, 2], [0, 4]]  # what is longer than a batch is one
    assert run_in_batches([], run, tokens=10) == []


LACKS = [
    (RuntimeError("CUDA out of memory. Tried to allocate"), "on a GPU"),
    (RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried to allocate"), "on the CPU"),
    (MemoryError(), "in Python"),
]


@pytest.mark.parametrize("error", [row[0] for row in LACKS], ids=[row[1] for row in LACKS])
def test_batches_are_halved_when_memory_runs_out(error: Exception) -> None:
    sizes: list[int] = []

    def run(places: list[int]) -> list[int]:
        sizes.append(len(places))
        if len(places) > 3 or 7 in places:
            raise error
        return places

    found = run_in_batches([1] * 16, run, tokens=16)
    assert [one for one in found if not isinstance(one, InferenceFailure)] == [
        place for place in range(16) if place != 7
    ]
    lost = found[7]
    assert isinstance(lost, InferenceFailure)
    assert lost.reason == "out_of_memory"
    assert sizes[:3] == [16, 8, 4]
    assert max(sizes[3:]) <= 2  # once halved, they stay so


def test_other_errors_are_not_out_of_memory() -> None:
    def run(places: list[int]) -> list[int]:
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes do not match"):
        run_in_batches([1, 1], run, tokens=10)


def texts(count: int) -> list[str]:
    rng = random.Random(count)
    return [" ".join(rng.choices(WORDS, k=rng.randint(1, 40))) for _ in range(count)]


@pytest.mark.part("models")
def test_a_model_that_runs_out_of_memory_gives_the_same_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = SentenceTransformerEmbedder(made("sbert"))
    whole = embedder(texts(40))
    model = load_sentence_transformer(embedder, purpose="a test").model
    forward, sizes = model.forward, []

    def small(features: dict[str, Any], **options: Any) -> Any:
        sizes.append(len(features["input_ids"]))
        if sizes[-1] > 4:
            raise RuntimeError("CUDA out of memory")
        return forward(features, **options)

    monkeypatch.setattr(model, "forward", small)
    assert np.abs(embedder(texts(40)) - whole).max() < 1e-5
    assert max(sizes) > 4
    monkeypatch.setattr(model, "forward", lambda *_, **__: (_ for _ in ()).throw(MemoryError()))
    samples = [EvaluationSample("q1", "why?", reference_answer=Response("the cat"))]
    with pytest.warns(AueporaWarning, match="not enough memory for the model to read one of the texts"):
        (result,) = evaluate(
            samples, [SystemOutputs([], Response("a cat"))], [metric("sbert_similarity", model=made("sbert"))]
        )
    assert list(result.outcomes or ()) == ["measure_failed:out_of_memory"]


@pytest.mark.part("models")
@pytest.mark.parametrize("batch_size", [1, 7, None])
def test_batch_size_and_order_do_not_matter(batch_size: int | None) -> None:
    some = texts(30)
    whole = SentenceTransformerEmbedder(made("sbert"))(some)
    again = SentenceTransformerEmbedder(made("sbert"), batch_size=batch_size)(some[::-1])
    assert np.abs(again[::-1] - whole).max() < 1e-5
    for name in ("cross-encoder-roberta", "nli-deberta"):
        pairs = list(zip(some, some[::-1], strict=True))
        first = [one[0] for one in PairModel(made(name)).logits(pairs) if not isinstance(one, InferenceFailure)]
        second = [
            one[0]
            for one in PairModel(made(name), batch_size=batch_size).logits(pairs[::-1])
            if not isinstance(one, InferenceFailure)
        ]
        assert np.abs(np.array(first) - np.array(second[::-1])).max() < 1e-5


@pytest.mark.part("models")
@pytest.mark.parametrize("name", ["bert", "roberta", "deberta"])
def test_tokens_equal_the_tokenizer(name: str) -> None:
    loaded = load_layers(ModelSource(made(name)), None, purpose="a test")
    some = [*texts(5), "cat " * 200, ""]
    tokens = tokenise(loaded, some)
    want = loaded.tokenizer(some, truncation=True, max_length=LONGEST, padding=True, return_tensors="pt")
    given = pad_batch(tokens, range(len(some)), loaded)
    assert all((given[key] == want[key]).all() for key in given)
    assert not any(want[key].any() for key in want.keys() - given.keys())  # types that are all the same are not told
    assert tokens.cut == [False] * 5 + [True, False]
    pair = tokenise(load_classifier(ModelSource(made("nli")), purpose="a test"), ["cat " * 60], ["dog " * 60])
    assert pair.lengths == [LONGEST]
    assert pair.cut == [True]


@pytest.mark.part("models")
@pytest.mark.parametrize("name", ["nli", "nli-roberta", "nli-deberta"])
def test_long_pairs_are_truncated_like_the_tokenizer(name: str) -> None:
    loaded = load_classifier(ModelSource(made(name)), purpose="a test")
    rng = random.Random(name)
    long, longer = (" ".join(rng.choices([*WORDS, "unheardofness"], k=count)) for count in (300, 450))
    pairs = [(long, longer), (longer, "the cat"), ("the cat", long), ("a cat", "a dog"), ("x" * 700, "the cat")]
    tokens = tokenise(loaded, [one for one, _ in pairs], [other for _, other in pairs])
    for place, pair in enumerate(pairs):
        want = loaded.tokenizer(*pair, truncation="longest_first", max_length=LONGEST)["input_ids"]
        assert tokens.ids[place] == want
    assert tokens.cut == [True, True, True, False, False]  # a word of 700 letters is one unknown one
    # What is cut off used to cost its square.
    endless = "word " * 20_000
    assert tokenise(loaded, [endless], [endless]).lengths == [LONGEST]
