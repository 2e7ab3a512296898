"""Cross-check with other installed tools, for rankings and texts."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from ..core.registry import metric_infos
from ..core.types import EvaluationSample, MetricResult, Response, SystemOutputs
from ..engine.evaluate import evaluate, evaluate_rankings
from .checks import CrossCheck, DeviationTally, generate_scores

# --- text metrics compared with rouge-score and sacrebleu, on difficult generated texts ------------------------------

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


def _compare_rankings(
    tool: str, compared: Mapping[str, str], gold: Gold, ranked: Ranked, theirs: Mapping[str, Sequence[float]]
) -> Iterator[CrossCheck]:
    """A check per metric: our scores and those of a tool under its own name of the metric, query by query."""
    for result in evaluate_rankings(gold, ranked, list(compared), conventions="trec"):
        tally = DeviationTally(result.name.partition("@")[0], tool)
        for case, (mine, other) in enumerate(zip(result.scores or (), theirs[compared[result.name]], strict=True)):
            tally.add(mine, float(other), f"{result.name}, query {case}")
        yield tally.check()


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
    from ranx import Qrels, Run
    from ranx import evaluate as ranx_evaluate

    compared = _peer_names("ranx", (1, 5, 20))
    gold, ranked = _generate_rankings(count, seed, graded=False)
    names = [f"q{number:06d}" for number in range(count)]
    qrels = {q: {i: level for i, level in judged.items() if level > 0} for q, judged in zip(names, gold, strict=True)}
    runs = {q: {i: float(len(ids) - n) for n, i in enumerate(ids)} for q, ids in zip(names, ranked, strict=True)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of its compiler
        theirs = ranx_evaluate(Qrels(qrels), Run(runs), list(compared.values()), return_mean=False)
    yield from _compare_rankings("ranx", compared, gold, ranked, theirs)


def _pytrec(count: int, seed: int) -> Iterator[CrossCheck]:
    import pytrec_eval

    compared = _peer_names("pytrec_eval", (5, 10))
    gold, ranked = _generate_rankings(count, seed, graded=True)
    qrels = {str(n): judged for n, judged in enumerate(gold)}
    runs = {str(n): {i: float(len(ids) - at) for at, i in enumerate(ids)} for n, ids in enumerate(ranked)}
    by_query = pytrec_eval.RelevanceEvaluator(qrels, set(compared.values())).evaluate(runs)
    theirs = {name: [by_query[query][name] for query in qrels] for name in compared.values()}
    yield from _compare_rankings("pytrec_eval", compared, gold, ranked, theirs)


def _sklearn(count: int, seed: int) -> Iterator[CrossCheck]:
    from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

    from ..stats.calibration import auroc, average_precision, tpr_at_fpr

    tallies = {name: DeviationTally(name, "scikit-learn") for name in ("auroc", "auprc", "tpr_at_fpr")}
    rng = random.Random(seed)  # noqa: S311 -- test data
    for case in range(count):
        scores, labels = generate_scores(rng)
        tallies["auroc"].add(auroc(scores, labels), float(roc_auc_score(labels, scores)), f"case {case}")
        want = float(average_precision_score(labels, scores))
        tallies["auprc"].add(average_precision(scores, labels), want, f"case {case}")
        fpr, tpr, _ = roc_curve(labels, scores, drop_intermediate=False)
        for most in (0.03, 0.05, 0.1):
            want = float(tpr[fpr <= most].max())
            tallies["tpr_at_fpr"].add(tpr_at_fpr(scores, labels, most), want, f"case {case} at {most}")
    for tally in tallies.values():
        yield tally.check()


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
