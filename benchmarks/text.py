"""Text metrics on made-up texts: ours against rouge-score, sacrebleu and the plain logic of SQuAD's script.

    python -m benchmarks.text [--quick] [--processes]

Prints Markdown: microseconds a pair, and how many times as long the peer takes. Peers are timed on a part of the pairs
where they are slow, and that is said. All contenders run in one process, in turn; the best round of each counts.
Passages are used once each; in a second workload, for evidence overlap, each is used by 20 samples in random order.
"""

import argparse
import platform
import random
import resource
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs, evaluate

from .made_texts import make_texts
from .text_peers import distinct, evidence_overlap, squad
from .timing import best_times

ROUGE: list[Any] = ["rouge1_answer", "rouge2_answer", "rougeL_answer"]
SQUAD: list[Any] = ["exact_match", "token_f1"]
SHARED, SHARED_PEER = 20, "evidence overlap with shared passages, plainly"
OVERLAP: list[Any] = ["evidence_overlap", {"evidence_overlap": {"n": 2, "as": "evidence_overlap_2"}}]
BUNDLE: list[Any] = [*ROUGE, "bleu", *SQUAD, *OVERLAP, "distinct_n"]
BUNDLE_ROW = "all of these, no passage shared"


def objects(
    answers: list[str], references: list[str], evidence: list[list[str]]
) -> tuple[list[EvaluationSample], list[SystemOutputs]]:
    samples = [EvaluationSample(str(i), "", reference_answer=Response(text)) for i, text in enumerate(references)]
    outputs = [
        SystemOutputs(
            [RetrievedDocument(Document(f"{i}-{n}", text), None, n) for n, text in enumerate(texts, 1)],
            Response(answer),
        )
        for i, (answer, texts) in enumerate(zip(answers, evidence, strict=True))
    ]
    return samples, outputs


def peers(
    answers: list[str], references: list[str], evidence: list[list[str]], shared: list[list[str]]
) -> dict[str, Callable[[], Any]]:
    from rouge_score.rouge_scorer import RougeScorer
    from sacrebleu.metrics.bleu import BLEU

    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=True)
    return {
        "rouge-score": lambda: [scorer.score(r, a) for r, a in zip(references, answers, strict=True)],
        # A fresh object each time: its tokeniser remembers lines it has seen.
        "sacrebleu": lambda: BLEU().corpus_score(answers, [references]),
        "SQuAD's script": lambda: squad(answers, references),
        "evidence overlap, plainly": lambda: evidence_overlap(answers, evidence),
        SHARED_PEER: lambda: evidence_overlap(answers, shared),
        "distinct-n, plainly": lambda: distinct(answers, 2),
    }


def share(evidence: list[list[str]]) -> list[list[str]]:
    """Five passages for each answer, of which every one is used ``SHARED`` times."""
    passages = [text for texts in evidence[: len(evidence) // SHARED] for text in texts] * SHARED
    random.Random(1).shuffle(passages)
    return [passages[start : start + 5] for start in range(0, len(passages), 5)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the data")
    parser.add_argument("--processes", action="store_true", help="one process against two, on 200,000 pairs, instead")
    options = parser.parse_args()
    print(f"Python {platform.python_version()}, {platform.machine()}")
    if options.processes:
        from .processes import compare

        compare(20_000 if options.quick else 200_000)
        return
    count = 2_000 if options.quick else 20_000
    part = count // 10
    texts = make_texts(count)
    samples, outputs = objects(*texts)
    memory(samples, outputs, texts)
    shared = share(texts[2])
    _, shared_outputs = objects(*texts[:2], shared)
    theirs = peers(texts[0][:part], texts[1][:part], texts[2][:part], shared[:part])
    ours = {
        "ROUGE-1, -2, -L": lambda: evaluate(samples, outputs, ROUGE),
        "BLEU": lambda: evaluate(samples, outputs, ["bleu"]),
        "EM and F1": lambda: evaluate(samples, outputs, SQUAD),
        "evidence overlap, n = 1 and 2": lambda: evaluate(samples, outputs, OVERLAP),
        "the same, each passage used by 20 samples": lambda: evaluate(samples, shared_outputs, OVERLAP),
        "distinct-2": lambda: evaluate(samples, outputs, ["distinct_n"]),
        BUNDLE_ROW: lambda: evaluate(samples, outputs, BUNDLE),
    }
    against = dict(zip(ours, [[name] for name in theirs], strict=False))
    against[BUNDLE_ROW] = [name for name in theirs if name != SHARED_PEER]
    check(samples[:part], outputs[:part], texts, part)
    check_overlap(evaluate(samples[:part], shared_outputs[:part], OVERLAP), texts[0][:part], shared[:part])
    times = best_times(ours | theirs, dict.fromkeys(ours, 9) | dict.fromkeys(theirs, 4))
    micros = {name: seconds / (count if name in ours else part) * 1e6 for name, seconds in times.items()}
    print(f"\n### {count:,} pairs of 10 to 60 words, five passages of 100 words each (peers on {part:,})\n")
    print("| | ours, µs a pair | peer, µs a pair | times |\n|---|---|---|---|")
    for name, names in against.items():
        peer = sum(micros[one] for one in names)
        print(f"| {name} | {micros[name]:.1f} | {peer:.1f} | {peer / micros[name]:.1f} |")


def check(samples: Any, outputs: Any, texts: tuple[list[str], list[str], list[list[str]]], part: int) -> None:
    """Check that the numbers agree."""
    from rouge_score.rouge_scorer import RougeScorer
    from sacrebleu.metrics.bleu import BLEU

    answers, references, evidence = texts[0][:part], texts[1][:part], texts[2][:part]
    found = evaluate(samples, outputs, BUNDLE).by_name
    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=True)
    rouge = [scorer.score(r, a) for r, a in zip(references, answers, strict=True)]
    for name in ("rouge1", "rouge2", "rougeL"):
        mean = sum(row[name].fmeasure for row in rouge) / part
        assert abs(found[f"{name}_answer"].value - mean) < 1e-12
    assert found["bleu"].value == BLEU().corpus_score(answers, [references]).score
    matches, f1 = zip(*squad(answers, references), strict=True)
    assert abs(found["exact_match"].value - sum(matches) / part) < 1e-12
    assert abs(found["token_f1"].value - sum(f1) / part) < 1e-12
    check_overlap(evaluate(samples, outputs, OVERLAP), answers, evidence)
    assert found["distinct_n"].value == distinct(answers, 2)


def check_overlap(results: Any, answers: list[str], evidence: list[list[str]]) -> None:
    """Check that every score is that of the peer."""
    for result, scores in zip(results, zip(*evidence_overlap(answers, evidence), strict=True), strict=True):
        assert result.scores.values.tolist() == list(scores)


def memory(samples: Any, outputs: Any, texts: Any) -> None:
    """Growth of this process while everything is scored for the first time, and the size of the texts."""
    answers, references, evidence = texts
    size = sum(map(sys.getsizeof, [*answers, *references, *(text for row in evidence for text in row)]))
    before, highest, done = resident(), 0, threading.Event()

    def watch() -> None:
        nonlocal highest
        while not done.wait(0.005):
            highest = max(highest, resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    evaluate(samples, outputs, BUNDLE)
    done.set()
    watcher.join()
    allowed = size / 2 + 200e6
    print(f"\nTexts: {size / 1e6:.0f} MB. Scoring them takes {(highest - before) / 1e6:.0f} MB more", end=" ")
    print(f"(half the texts and 200 MB would be {allowed / 1e6:.0f} MB).")


def resident() -> int:
    """The resident size of this process in bytes (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    main()
