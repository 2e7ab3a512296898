"""Checks of text metrics against rouge-score and sacrebleu, on difficult generated texts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from ..core.engine import evaluate
from ..core.types import EvaluationSample, MetricResult, Response, SystemOutputs
from .report import CrossCheck, DeviationTally

__all__ = ["rouge_checks", "sacrebleu_checks"]

_WORDS = [
    "the", "cats", "sat", "running", "quickly", "on", "mats", "it's", "U.S.", "naïve", "organization", "-\n", "3.14",
    "2-3", "(so)", "&quot;", "日本", "THE", "\n", "a", "1,000", "…",
]  # fmt: skip


def _generate_texts(count: int, seed: int) -> list[tuple[list[str], str]]:
    """References and an answer that usually overlaps with them."""
    rng = random.Random(seed)  # noqa: S311 -- test data
    pairs = []
    for _ in range(count):
        references = [rng.choices(_WORDS, k=rng.randint(0, 14)) for _ in range(rng.choice([1, 1, 2, 3]))]
        answer = [word for word in references[0] if rng.random() < 0.8] + rng.choices(_WORDS, k=rng.randint(0, 5))
        pairs.append((list(dict.fromkeys(" ".join(words) for words in references)), " ".join(answer)))
    return pairs


def _text_result(texts: list[tuple[list[str], str]], spec: Any) -> MetricResult:
    samples = [EvaluationSample(str(n), "", reference_answers=references) for n, (references, _) in enumerate(texts)]
    (result,) = evaluate(samples, [SystemOutputs([], Response(answer)) for _, answer in texts], [spec])
    return result


def rouge_checks(count: int, seed: int) -> Iterator[CrossCheck]:
    """Every variant, stemmed and not, best of the references."""
    from rouge_score.rouge_scorer import RougeScorer

    texts = _generate_texts(count, seed)
    for name in ("rouge1", "rouge2", "rougeL", "rougeLsum"):
        tally = DeviationTally(f"{name}_answer", "rouge-score")
        for stem in (True, False):
            scorer = RougeScorer([name], use_stemmer=stem)
            result = _text_result(texts, {f"{name}_answer": {"use_stemmer": stem}})
            for (references, answer), mine in zip(texts, result.scores or (), strict=True):
                theirs = scorer.score_multi(references, answer)[name].fmeasure
                tally.add(mine, theirs, f"{references!r} / {answer!r}")
        yield tally.check()


def sacrebleu_checks(count: int, seed: int) -> Iterator[CrossCheck]:
    """Corpus values and sentence scores of BLEU and chrF under several options."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    texts = _generate_texts(count, seed)
    most = max(len(references) for references, _ in texts)
    columns = [[refs[n] if n < len(refs) else None for refs, _ in texts] for n in range(most)]
    answers = [answer for _, answer in texts]
    bleu: list[dict[str, Any]] = [
        {},
        {"lowercase": True},
        {"smooth_method": "floor"},
        {"smooth_method": "add-k"},
        {"tokenize": "char"},
    ]
    chrf: list[dict[str, Any]] = [{}, {"word_order": 2}, {"lowercase": True, "whitespace": True}]
    rows: list[tuple[str, dict[str, Any], Any, Any]]
    rows = [("bleu", options, BLEU(force=True, **options), BLEU(effective_order=True, **options)) for options in bleu]
    rows += [("chrf", options, CHRF(**options), CHRF(**options)) for options in chrf]
    deviations = {name: DeviationTally(name, "sacrebleu") for name in ("bleu", "chrf")}
    for name, options, corpus, sentence in rows:
        result = _text_result(texts, {name: options})
        deviations[name].add(result.value, corpus.corpus_score(answers, columns).score, f"{options}, all together")
        for (references, answer), mine in zip(texts, result.scores or (), strict=True):
            deviations[name].add(mine, sentence.sentence_score(answer, references).score, f"{options}, {answer!r}")
    for tally in deviations.values():
        yield tally.check()
