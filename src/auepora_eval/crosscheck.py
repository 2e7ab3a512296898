"""Cross-check of every metric: the fast path compared with the plain definition and with other installed tools."""

from __future__ import annotations

import inspect
import math
import random
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import product, zip_longest
from typing import Any

from .core.conventions import MATCHES, PRESETS
from .core.metric_hooks import repeats_needed
from .core.metrics_base import BatchMetric
from .core.registry import MetricInfo, metric, metric_infos
from .core.scores import Scores
from .core.types import Document, EvaluationSample, MetricResult, Response, RetrievedDocument, SystemOutputs
from .engine.evaluate import evaluate, evaluate_rankings
from .errors import AueporaWarning
from .judge.metric import judged_parts
from .stats.calibration import threshold_counts

# --- results: compared metric and method, number of cases, largest deviation -----------------------------------------

TOLERANCE = 1e-9
MODEL_TOLERANCE = 1e-4
"""For float32 models, whose last digits depend on the batch."""


def relative_deviation(ours: float | None, theirs: float | None) -> float:
    """|a − b| / max(1, |b|); infinite where one side has a number and the other has none."""
    if ours is None or theirs is None:
        return 0.0 if ours is theirs else math.inf
    if math.isnan(ours) or math.isnan(theirs):
        return math.inf
    return abs(ours - theirs) / max(1.0, abs(theirs))


@dataclass(slots=True)
class CrossCheck:
    """One metric compared with another way to compute it."""

    metric: str
    against: str
    cases: int = 0
    largest: float = 0.0
    worst_case: str = ""
    """The case with the largest deviation."""
    tolerance: float = TOLERANCE

    @property
    def agrees(self) -> bool:
        """Whether no case deviates by more than the tolerance."""
        return self.largest <= self.tolerance

    def add(self, ours: float | None, theirs: float | None, case: str) -> None:
        """Add one case."""
        self.cases += 1
        distance = relative_deviation(ours, theirs)
        if distance > self.largest:
            self.largest, self.worst_case = distance, f"{case}: {ours} against {theirs}"


def merge_checks(checks: Iterable[CrossCheck]) -> list[CrossCheck]:
    """One result per metric and method: the sum of the cases, the largest deviation."""
    rows: dict[tuple[str, str], CrossCheck] = {}
    for check in checks:
        key = (check.metric, check.against)
        seen = rows.get(key)
        if seen is None:
            rows[key] = check
        else:
            worst = check if check.largest > seen.largest else seen
            rows[key] = replace(worst, cases=seen.cases + check.cases)
    return list(rows.values())


# --- ROC measures compared with their definitions, pair by pair and threshold by threshold ---------------------------


def generate_scores(rng: random.Random) -> tuple[list[float], list[int]]:
    """Scores with many ties, and labels of both classes."""
    labels = [1, 0, *(rng.randint(0, 1) for _ in range(rng.randint(0, 30)))]
    rng.shuffle(labels)
    digits = rng.choice([1, 2, 6])
    return [round(rng.random(), digits) for _ in labels], labels


def roc_checks(count: int, *, seed: int) -> Iterator[CrossCheck]:
    """One check per measure."""
    deviations = {name: CrossCheck(name, "plain definition") for name in ("auroc", "auprc", "tpr_at_fpr")}
    rng = random.Random(seed)  # noqa: S311 -- test data
    for number in range(count):
        scores, both = generate_scores(rng)
        one_class = [number % 2] * len(both)
        for labels, case in ((both, f"case {number}"), (one_class, f"case {number}, one class")):
            counts = threshold_counts(scores, labels)
            deviations["auroc"].add(counts.auroc(), _auroc(scores, labels), case)
            deviations["auprc"].add(counts.average_precision(), _average_precision(scores, labels), case)
            for most in (0.03, 0.05, 0.1, 0.5):
                deviations["tpr_at_fpr"].add(counts.tpr_at_fpr(most), _tpr_at_fpr(scores, labels, most), case)
    yield from deviations.values()


def _auroc(scores: Sequence[float], labels: Sequence[int]) -> float:
    """Proportion of (positive, negative) pairs in the right order; a tie counts half; 0.5 without pairs."""
    positive = [s for s, label in zip(scores, labels, strict=True) if label]
    negative = [s for s, label in zip(scores, labels, strict=True) if not label]
    right = sum(1.0 if p > n else 0.5 if p == n else 0.0 for p in positive for n in negative)
    return right / (len(positive) * len(negative)) if positive and negative else 0.5


def _rates(scores: Sequence[float], labels: Sequence[int], threshold: float) -> tuple[int, int]:
    """True and false positives at a threshold."""
    called = [label for s, label in zip(scores, labels, strict=True) if s >= threshold]
    return sum(called), len(called) - sum(called)


def _average_precision(scores: Sequence[float], labels: Sequence[int]) -> float:
    """Precision at each threshold, weighted by the recall it adds; with one class the proportion of positives."""
    if len(set(labels)) == 1:
        return float(labels[0])
    total, before = 0.0, 0
    for threshold in sorted(set(scores), reverse=True):
        true, false = _rates(scores, labels, threshold)
        total += (true - before) / sum(labels) * true / (true + false)
        before = true
    return total


def _tpr_at_fpr(scores: Sequence[float], labels: Sequence[int], most: float) -> float:
    """The highest true positive rate among thresholds whose false positive rate is low enough; with one class 0."""
    best, negatives = 0.0, len(labels) - sum(labels)
    if len(set(labels)) == 1:
        return best
    for threshold in set(scores):
        true, false = _rates(scores, labels, threshold)
        if false / negatives <= most:
            best = max(best, true / sum(labels))
    return best


# --- generated cases: repeats, levels below 0, empty lists, chunks ---------------------------------------------------

_IDS = [f"d{number}" for number in range(14)]
_WHOLE = {12, 13}
_LENGTHS = {4: 0, 5: 1, 9: 1}
"""The lengths of short chunks, by number."""
_WORDS = [
    "the", "cats", "sat", "running", "quickly", "on", "a", "mat", "2024", "3.5", "naïve", "it's", "-\n", "\n", "犬",
    "—the", "internationally", "U.S.", "&amp;",
]  # fmt: skip
_SCENARIOS = ["typo", "paraphrase", "counterfactual"]
_REFUSALS = ["I don’t know.", "Sorry, I CAN NOT\nanswer that", "Ski don't know", "无法回答", " \n", "cannot answered"]
_LABELS: list[dict[str, Any]] = [{}, {"label": "cats"}, {"kind": True}]
_MARKS: list[dict[str, Any]] = [{}, {}, {"scenario": "unanswerable"}, {"answerable": False}, {"answerable": "?"}]
_NOISE: list[dict[str, Any]] = [{}, *({"noise_ratio": share} for share in (0.0, 0.6, 1, "half"))]
_ANSWER_ENDINGS = ["", " There are factual errors in the documents.", " I have insufficient information."]
_STRUCTURED = [None, {}, {"label": "Cats", "n": 1}, {"label": "mat"}, {"n": 1.0, "kind": True}]


def generate_pairs(count: int, *, seed: int, repeats: bool = True) -> list[tuple[EvaluationSample, SystemOutputs]]:
    """Answered samples: every annotation is present in some and missing in others. ``repeats`` allows duplicate ids.

    Only the later half has graded judgements.
    """
    rng = random.Random(seed)  # noqa: S311 -- test data
    pairs = [_pair(rng, f"case {number}", repeats, graded=2 * number >= count) for number in range(count)]
    # One sample has every annotation: data in which no sample has a field that a metric needs are refused.
    complete = pairs[0][0]
    complete.relevant_docs = complete.relevant_docs or [Document(_IDS[0])]
    complete.reference_answer = complete.reference_answer or Response(" ".join(_WORDS[:3]))
    # Two of three are variants of the one before them.
    for number, (sample, _) in enumerate(pairs):
        if number % 3:
            base = pairs[number - number % 3][0].sample_id
            sample.labels = {"scenario": rng.choice(_SCENARIOS), **sample.labels, "variant_of": base}
    return pairs


def letter_counts(texts: list[str]) -> list[list[float]]:
    """Letter counts as vectors, for metrics with an embedder."""
    return [[float(text.lower().count(letter)) for letter in "acegilmnorstu"] for text in texts]


def _pair(rng: random.Random, name: str, repeats: bool, *, graded: bool) -> tuple[EvaluationSample, SystemOutputs]:
    length = rng.choice([0, 1, 2, 5, 11, 14])
    ids = rng.choices(_IDS, k=length) if repeats and rng.random() < 0.4 else rng.sample(_IDS, length)
    relevant = None
    if rng.random() < 0.95:
        # Half of the time only returned ids, so that short lists have hits too.
        candidates_for_gold = ids if ids and rng.random() < 0.5 else _IDS
        relevant = [_chunk(rng, i) for i in rng.choices(candidates_for_gold, k=rng.choice([0, 1, 1, 2, 3, 4, 6]))]
        for document in relevant:
            if graded and rng.random() < 0.6:
                document.metadata["relevance"] = rng.choice([-2, -1, 0, 0, 1, 1, 2, 3, 4])
    candidates = [Document(i) for i in rng.sample(_IDS, rng.randint(0, 8))] if rng.random() < 0.6 else None
    sample = EvaluationSample(
        name,
        _text(rng),
        relevant_docs=relevant,
        candidate_docs=candidates,
        reference_answer=Response(_text(rng), structured=rng.choice(_STRUCTURED)) if rng.random() < 0.8 else None,
        reference_answers=[_text(rng)] if rng.random() < 0.3 else [],
        labels=rng.choice(_LABELS) | rng.choice(_MARKS) | rng.choice(_NOISE),
        metadata=_metadata(rng),
    )
    output = SystemOutputs(
        [RetrievedDocument(_chunk(rng, i), 1.0 / rank, rank) for rank, i in enumerate(ids, 1)],
        Response(_answer(rng), structured=rng.choice(_STRUCTURED)) if rng.random() < 0.9 else None,
        timings={"end_to_end": rng.random()} if rng.random() < 0.8 else {},
        citations=rng.choice([None, [], rng.choices(_IDS, k=3)]),
        refused=rng.choice([None, False, True]),
    )
    _add_measurements(random.Random(name), output)  # noqa: S311 -- test data
    return sample, output


def _add_measurements(rng: random.Random, output: SystemOutputs) -> None:
    """Add timings and document vectors; in some outputs one of them is invalid."""
    if output.timings:
        output.timings |= rng.choice([{}, {"started": rng.uniform(0, 9), "retrieval": rng.choice([0, 0.25, -1.0])}])
    size, invalid = rng.choice([1, 3, 20]), rng.choice([None] * 6 + [[], [0.0] * 3, [1.0] * 4, [True]])
    for item in output.retrieved if rng.random() < 0.9 else []:
        item.doc.metadata["embedding"] = [rng.gauss(0.5, 1) for _ in range(size)]
    if output.retrieved and invalid is not None:
        rng.choice(output.retrieved).doc.metadata["embedding"] = invalid
    tokens = {"prompt_tokens": rng.randint(0, 900), "completion_tokens": rng.randint(0, 90)}
    output.usage = rng.choice([{}, tokens, {"by_model": {"large": tokens}}])
    if output.timings:
        output.timings |= rng.choice([{}, {"first_token": rng.random()}])


def _metadata(rng: random.Random) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    if rng.random() < 0.3:
        metadata["expected_doc_ids"] = rng.sample(["p0", "p1", "p2"], rng.randint(0, 3))
    if rng.random() < 0.3:
        metadata |= {"must_contain": rng.sample(_WORDS, 1), "forbidden": rng.sample(_WORDS, 1)}
    if rng.random() < 0.5:
        metadata["wrong_answer"] = rng.choice(["cats", ["mat", "running"], "the", 5])
    if rng.random() < 0.3:
        metadata["output_schema"] = {"type": "object", "required": ["n"]}
    return metadata


def _chunk(rng: random.Random, doc_id: str) -> Document:
    """A chunk of one of a few parents, equal for equal ids except for its text; or a whole document."""
    number = int(doc_id[1:])
    text = _text(rng) if rng.random() < 0.9 else ""
    if number in _WHOLE:
        return Document(doc_id, text)
    start = 7 * (number // 4)
    return Document(doc_id, text, parent_id=f"p{number % 4}", span=(start, start + _LENGTHS.get(number, 10)))


def _answer(rng: random.Random) -> str:
    return rng.choice(_REFUSALS) if rng.random() < 0.2 else _text(rng) + rng.choice(_ANSWER_ENDINGS)


def _text(rng: random.Random) -> str:
    return " ".join(rng.choices(_WORDS, k=rng.randint(0, 9)))


# --- every registered metric compared with its plain definition, under every preset ----------------------------------

MODEL_OPTIONS = {"model", "model_type"}
"""Options that name a model."""

# Values of required options.
_NEEDED: dict[str, Any] = {
    "max_grade": 4,
    "base": "token_f1",
    "of": "exact_match",
    "where": {"labels.label": "cats"},
    "embed_fn": {"python": f"{__name__}:letter_counts"},
}
_NORMALISATIONS: list[dict[str, Any]] = [
    {},
    *({option: False} for option in ("ignore_case", "ignore_punctuation", "ignore_articles")),
]
_PRICES = {"large": {"prompt": 2, "completion": 8}}
_VARIANTS: dict[str, list[dict[str, Any]]] = {
    "aqwv": [{}, {"form": "program"}, {"p_fa": "collection", "corpus_size": 100}, {"beta": 2.5}],
    "bleu": [
        {},
        {"max_order": 2, "lowercase": True},
        *({"smooth_method": method} for method in ("floor", "add-k", "none")),
        *({"tokenize": name} for name in ("none", "char")),
    ],
    "chrf": [{}, {"word_order": 2}, {"char_order": 3, "beta": 1, "lowercase": True}, {"whitespace": True}],
    "citation_coverage": [{}, {"corpus_ids": [f"d{number}" for number in range(7)]}],
    "containment": [{}, {"norm": "lower"}, {"norm": "none"}],
    "context_noise_accuracy": [{}, {"base": "token_f1"}, {"insufficient": "rgb_script"}],
    "cost_per_correct": [{"prices": _PRICES}],
    "counterfactual_consistency": [{}, {"base": "rougeL_answer", "counterfactual_scenarios": _SCENARIOS}],
    "distinct_n": [{}, {"n": 1}, {"n": 3}],
    "error_correction_rate": [
        {},
        {"base": "token_f1", "threshold": 0.1},
        {"over": "all", "insufficient": "rgb_script"},
        {"insufficient": "rgb_fact_script", "cues": ["errors in the documents"]},
    ],
    "error_detection_rate": [{}, {"cues": "rgb_paper"}, {"cues": ["cats", "mat"]}],
    "evidence_overlap": [{}, {"n": 2}, {"n": 3, "k": 2}, {"evidence_source": "relevant"}],
    "exact_match": _NORMALISATIONS,
    "failure_attribution": [{}, {"correct": "token_f1", "correct_from": 0.5, "faithfulness": "evidence_overlap"}],
    "field_accuracy": [{}, {"fields": ["label"]}],
    "label_accuracy": [{}, {"field": "kind"}],
    "misleading_rate": [{}, {"base": "token_f1", "threshold": 0.1}],
    "ndcg": [{}, {"gain_scheme": "exponential"}, {"gain_scheme": "linear"}],
    "noise_robustness": [{}, {"base": "recall@3", "noise_scenarios": _SCENARIOS}, {"base_set": "all"}],
    "quality_given_hit": [{}, {"base": "rouge1_answer"}],
    "quality_given_miss": [{}, {"base": "exact_match"}],
    "negative_rejection_rate": [{}, {"languages": ["en"]}, {"refusal_patterns": ["the mat", "犬"]}],
    "over_refusal_rate": [{}, {"languages": ["ja", "zh"]}],
    "quantile_latency": [{}, {"quantile": 0.5}, {"quantile": 1}, {"quantile": 0.07, "timing_key": "retrieval"}],
    "rbp": [{}, {"p": 0.5}],
    "rejection_f1": [{}, {"languages": ["en"]}, {"refusal_patterns": ["the mat", "犬"]}],
    **{
        f"{name}_{side}": [{}, {"use_stemmer": False}, {"tokenizer": "unicode"}]
        for name, side in product(("rouge1", "rouge2", "rougeL", "rougeLsum"), ("answer", "query"))
    },
    "rouge_scores": [{}, {"variants": ["rouge2", "rougeLsum"]}],
    "structured_validity": [{}, {"schema": {"type": "object", "required": ["n"]}}],
    "support_coverage": [{}, {"k": 2}],
    "throughput": [{}, {"concurrency": 8}, {"by": "clock"}, {"by": "clock", "timing_key": "retrieval"}],
    "token_f1": _NORMALISATIONS,
    "total_cost": [{"prices": _PRICES}],
}
_CHANGES: list[dict[str, Any]] = [{}, {"min_relevance": 2}, {"depth": 4}, {"k_policy": "effective"}]
_KS = (1, 3, 10)
# How many numbers are compared at least, of a metric that has one for many samples together and none for each.
_VALUES = 32


def specs_to_check(info: MetricInfo) -> list[dict[str, dict[str, Any]]]:
    """The checked specs of a metric: several cut-offs, variants, every preset, changed conventions, ways to match."""
    needed = {
        name: _NEEDED[name]
        for name, parameter in info.options.items()
        if parameter.default is inspect.Parameter.empty and name in _NEEDED
    }
    cuts: list[int | None] = [None]
    if info.at is not None:
        optional = info.parameters[info.at].default is not inspect.Parameter.empty
        cuts = [*_KS, None] if optional else list(_KS)
    names = [info.name if cut is None else f"{info.name}@{cut}" for cut in cuts]
    reads = info.metadata.reads
    # Answer and latency metrics do not depend on the conventions of rankings.
    independent = "timings" in reads or ("response" in reads and "citations" not in reads)
    conventions = [("auepora", {})] if independent else list(product(PRESETS, _CHANGES))
    if info.metadata.matches_gold:
        conventions += [("auepora", {"match": match}) for match in MATCHES[1:]]
    return [
        {name: {**needed, **variant, "conventions": preset, **change}}
        for name, variant, (preset, change) in product(names, _VARIANTS.get(info.name, [{}]), conventions)
    ]


def plain_checks(count: int, *, seed: int) -> Iterator[CrossCheck]:
    """One check per registered metric with a plain definition."""
    pairs = {repeats: generate_pairs(count, seed=seed, repeats=repeats) for repeats in (True, False)}
    for info in metric_infos().values():
        # A judge has no plain definition, and no model comes with this library.
        if info.metadata.calls_judge or MODEL_OPTIONS & set(info.options):
            continue
        deviations = CrossCheck(info.name, "plain definition")
        specs = specs_to_check(info)
        for spec in specs:
            built = metric(spec)
            # A definition has one answer.
            if not isinstance(built, BatchMetric) or any(judged_parts(built)) or repeats_needed(built) > 1:
                break
            rows = pairs[built.active_conventions.duplicates == "first"]
            _compare(built, spec, rows, deviations)
            _compare_values(built, spec, rows, deviations, parts=-(-_VALUES // len(specs)))
        if deviations.cases:
            yield deviations


def model_checks(count: int, *, seed: int, model: str) -> Iterator[CrossCheck]:
    """One check per semantic metric with this model: batches against single text pairs."""
    pairs = generate_pairs(count, seed=seed, repeats=True)
    specs: list[dict[str, dict[str, Any]]] = [
        {"sbert_similarity": {"model": model}},
        {"bertscore": {"model_type": model, "num_layers": 4}},
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AueporaWarning)  # texts are truncated in both paths
        for spec in specs:
            built = metric(spec)
            assert isinstance(built, BatchMetric)
            deviations = CrossCheck(built.name, "plain definition", tolerance=MODEL_TOLERANCE)
            _compare(built, spec, pairs, deviations)
            yield deviations


def _compare(
    built: BatchMetric, spec: object, pairs: list[tuple[EvaluationSample, SystemOutputs]], deviations: CrossCheck
) -> None:
    samples, outputs = [sample for sample, _ in pairs], [output for _, output in pairs]
    # Two batches: the first has no graded judgements, for which metrics have a faster path.
    (result,) = evaluate(samples, outputs, [built], batch_size=-(-len(pairs) // 2))
    assert isinstance(result.scores, Scores)
    expected = []
    for row, ((sample, output), computed_score) in enumerate(zip(pairs, result.scores, strict=True)):
        reference = built.reference(sample, output)
        if reference is None:
            return
        deviations.add(computed_score, reference.value, f"{spec}, {sample.sample_id}")
        expected.append(reference.value)
        if reference.value is not None and result.scores.stats is not None:
            statistics = built.reference_stats(sample, output) if hasattr(built, "reference_stats") else ()
            for column, by_definition in enumerate(statistics):
                computed = float(result.scores.stats[row, column])
                deviations.add(
                    computed, by_definition, f"{spec}, {sample.sample_id}, {built.metadata.stat_names[column]}"
                )
    numbers = [value for value in expected if value is not None]
    if built.reducer.name == "mean":
        deviations.add(result.value, math.fsum(numbers) / len(numbers) if numbers else 0.0, f"{spec}, mean")


def _compare_values(
    built: BatchMetric,
    spec: object,
    pairs: list[tuple[EvaluationSample, SystemOutputs]],
    deviations: CrossCheck,
    *,
    parts: int,
) -> None:
    """Compare the values over growing prefixes of the samples."""
    for part in range(1, parts + 1):
        chosen = pairs[: -(-len(pairs) * part // parts)]
        samples, outputs = [sample for sample, _ in chosen], [output for _, output in chosen]
        expected = built.reference_value(samples, outputs) if hasattr(built, "reference_value") else None
        if expected is None:
            return
        ours = built.compute(samples, outputs).known_value
        deviations.add(ours, None if math.isnan(expected) else expected, f"{spec}, the first {len(chosen)}")


# --- text metrics compared with rouge-score and sacrebleu, on difficult generated texts ------------------------------

_PEER_WORDS = [
    "the", "cats", "sat", "running", "quickly", "on", "mats", "it's", "U.S.", "naïve", "organization", "-\n", "3.14",
    "2-3", "(so)", "&quot;", "日本", "THE", "\n", "a", "1,000", "…",
]  # fmt: skip


def _generate_texts(count: int, seed: int) -> list[tuple[list[str], str]]:
    """References and an answer that usually overlaps with them.

    A sample whose references are all empty is skipped here, and counts 0 in other tools: there is none.
    """
    rng = random.Random(seed)  # noqa: S311 -- test data
    pairs = []
    for _ in range(count):
        references = [rng.choices(_PEER_WORDS, k=rng.randint(0, 14)) for _ in range(rng.choice([1, 1, 2, 3]))]
        answer = [word for word in references[0] if rng.random() < 0.8] + rng.choices(_PEER_WORDS, k=rng.randint(0, 5))
        pairs.append((list(dict.fromkeys(" ".join(words) for words in references)), " ".join(answer)))
    return [(references, answer) for references, answer in pairs if "".join(references).strip()]


def _text_result(texts: list[tuple[list[str], str]], spec: Any) -> MetricResult:
    samples = [EvaluationSample(str(n), "", reference_answers=references) for n, (references, _) in enumerate(texts)]
    outputs = [SystemOutputs([], Response(answer)) for _, answer in texts]
    # With the tokenizer of its peer, ROUGE warns that it cuts no letters of Japanese.
    with warnings.catch_warnings(action="ignore", category=AueporaWarning):
        return evaluate(samples, outputs, [spec])[0]


def rouge_checks(count: int, seed: int) -> Iterator[CrossCheck]:
    """Every variant, stemmed and not, best of the references."""
    from rouge_score.rouge_scorer import RougeScorer

    texts = _generate_texts(count, seed)
    for name in ("rouge1", "rouge2", "rougeL", "rougeLsum"):
        tally = CrossCheck(f"{name}_answer", "rouge-score")
        for stem in (True, False):
            scorer = RougeScorer([name], use_stemmer=stem)
            result = _text_result(texts, {f"{name}_answer": {"use_stemmer": stem, "tokenizer": "rouge_score"}})
            for (references, answer), mine in zip(texts, result.scores or (), strict=True):
                theirs = scorer.score_multi(references, answer)[name].fmeasure
                tally.add(mine, theirs, f"{references!r} / {answer!r}")
        yield tally


def sacrebleu_checks(count: int, seed: int) -> Iterator[CrossCheck]:
    """Corpus values and sentence scores of BLEU and chrF under several options."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    texts = _generate_texts(count, seed)
    columns = list(zip_longest(*(references for references, _ in texts)))
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
    deviations = {name: CrossCheck(name, "sacrebleu") for name in ("bleu", "chrf")}
    for name, options, corpus, sentence in rows:
        result = _text_result(texts, {name: options})
        deviations[name].add(result.value, corpus.corpus_score(answers, columns).score, f"{options}, all together")
        for (references, answer), mine in zip(texts, result.scores or (), strict=True):
            deviations[name].add(mine, sentence.sentence_score(answer, references).score, f"{options}, {answer!r}")
    yield from deviations.values()


# --- other installed tools, on cases all of them can read, and their known defects -----------------------------------


@dataclass(frozen=True, slots=True)
class Defect:
    """A known defect of another tool; its cases are left out."""

    peer: str
    metric: str
    what: str


DEFECTS = (
    Defect(
        "ranx", "bpref", "without judged non-relevant documents it divides by zero, where the definition gives recall"
    ),
    Defect("trec_eval 10", "rbp", "with graded judgements it reads uninitialised memory"),
)


@dataclass(frozen=True, slots=True)
class Peer:
    """Another tool: its package, and its checks."""

    package: str
    check: Callable[[int, int], Iterator[CrossCheck]]

    @property
    def installed(self) -> bool:
        """Whether the package is installed, without importing it."""
        return find_spec(self.package) is not None


Gold = list[dict[str, int]]
Ranked = list[list[str]]


def _generate_rankings(count: int, seed: int, *, graded: bool) -> tuple[Gold, Ranked]:
    """Judged queries that every tool accepts: something relevant, something returned, no duplicates."""
    rng = random.Random(seed)  # noqa: S311 -- test data
    ids = [f"d{number:02d}" for number in range(40)]
    gold, ranked = [], []
    for _ in range(count):
        judged = {i: rng.choice([0, 1, 1, 2, 3] if graded else [0, 1]) for i in rng.sample(ids, rng.randint(2, 12))}
        judged[rng.choice(ids)] = 1
        gold.append(judged)
        ranked.append(rng.sample(ids, rng.randint(1, 30)))
    return gold, ranked


def _falling_scores(ids: Sequence[str]) -> dict[str, float]:
    """Scores that give the order of the ids."""
    return {doc_id: float(len(ids) - at) for at, doc_id in enumerate(ids)}


def _compare_rankings(
    tool: str, compared: Mapping[str, str], gold: Gold, ranked: Ranked, theirs: Mapping[str, Sequence[float]]
) -> Iterator[CrossCheck]:
    """A check per metric: our scores and those of a tool under its own name of the metric, query by query."""
    for result in evaluate_rankings(gold, ranked, list(compared), conventions="trec"):
        tally = CrossCheck(result.name.partition("@")[0], tool)
        for case, (mine, other) in enumerate(zip(result.scores or (), theirs[compared[result.name]], strict=True)):
            tally.add(mine, float(other), f"{result.name}, query {case}")
        yield tally


def _peer_names(tool: str, cutoffs: tuple[int, ...]) -> dict[str, str]:
    """Our specs and the names of a tool for the same measures, as the metrics declare them."""
    found: dict[str, str] = {}
    for name, info in metric_infos().items():
        for theirs in info.metadata.peers.get(tool, ()):
            if theirs.endswith(("@k", "_k")):
                found |= {f"{name}@{k}": f"{theirs[:-1]}{k}" for k in cutoffs}
            else:
                found[name] = theirs
    return found


def _ranx(count: int, seed: int) -> Iterator[CrossCheck]:
    from ranx import Qrels, Run, evaluate as ranx_evaluate

    compared = _peer_names("ranx", (1, 5, 20))
    gold, ranked = _generate_rankings(count, seed, graded=False)
    names = [f"q{number:06d}" for number in range(count)]
    qrels = {q: {i: level for i, level in judged.items() if level > 0} for q, judged in zip(names, gold, strict=True)}
    runs = {query: _falling_scores(ids) for query, ids in zip(names, ranked, strict=True)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of its compiler
        theirs = ranx_evaluate(Qrels(qrels), Run(runs), list(compared.values()), return_mean=False)
    yield from _compare_rankings("ranx", compared, gold, ranked, theirs)


def _pytrec(count: int, seed: int) -> Iterator[CrossCheck]:
    import pytrec_eval

    compared = _peer_names("pytrec_eval", (5, 10))
    gold, ranked = _generate_rankings(count, seed, graded=True)
    qrels = {str(n): judged for n, judged in enumerate(gold)}
    runs = {str(n): _falling_scores(ids) for n, ids in enumerate(ranked)}
    by_query = pytrec_eval.RelevanceEvaluator(qrels, set(compared.values())).evaluate(runs)
    theirs = {name: [by_query[query][name] for query in qrels] for name in compared.values()}
    yield from _compare_rankings("pytrec_eval", compared, gold, ranked, theirs)


def _sklearn(count: int, seed: int) -> Iterator[CrossCheck]:
    from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

    tallies = {name: CrossCheck(name, "scikit-learn") for name in ("auroc", "auprc", "tpr_at_fpr")}
    rng = random.Random(seed)  # noqa: S311 -- test data
    for case in range(count):
        scores, labels = generate_scores(rng)
        counts = threshold_counts(scores, labels)
        tallies["auroc"].add(counts.auroc(), float(roc_auc_score(labels, scores)), f"case {case}")
        want = float(average_precision_score(labels, scores))
        tallies["auprc"].add(counts.average_precision(), want, f"case {case}")
        fpr, tpr, _ = roc_curve(labels, scores, drop_intermediate=False)
        for most in (0.03, 0.05, 0.1):
            want = float(tpr[fpr <= most].max())
            tallies["tpr_at_fpr"].add(counts.tpr_at_fpr(most), want, f"case {case} at {most}")
    yield from tallies.values()


PEERS = {
    "ranx": Peer("ranx", _ranx),
    "pytrec_eval": Peer("pytrec_eval", _pytrec),
    "rouge-score": Peer("rouge_score", rouge_checks),
    "sacrebleu": Peer("sacrebleu", sacrebleu_checks),
    "scikit-learn": Peer("sklearn", _sklearn),
}


def peer_checks(name: str, count: int, *, seed: int) -> Iterator[CrossCheck]:
    """The checks of one tool; none if it is not installed."""
    peer = PEERS[name]
    if peer.installed:
        yield from peer.check(count, seed)
