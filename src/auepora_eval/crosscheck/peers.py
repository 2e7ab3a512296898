"""Checks against other installed tools, on cases all of them can read, and their known defects."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from ..core.evaluate_ids import evaluate_rankings
from .report import CrossCheck, DeviationTally
from .roc import generate_scores
from .text_peers import rouge_checks, sacrebleu_checks

__all__ = ["DEFECTS", "PEERS", "Defect", "Peer", "peer_checks"]


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


def _ranking_scores(gold: Gold, ranked: Ranked, specs: list[Any]) -> dict[str, list[float | None]]:
    results = evaluate_rankings(gold, ranked, specs, conventions="trec")
    return {result.name: list(result.scores or ()) for result in results}


_RANX = {
    **{f"{ours}@{k}": f"{theirs}@{k}" for k in (1, 5, 20) for ours, theirs in (
        ("recall", "recall"), ("precision", "precision"), ("hit_rate", "hit_rate"), ("mrr", "mrr"), ("map", "map"),
        ("ndcg", "ndcg"), ("f1", "f1"),
    )},
    "mrr": "mrr", "map": "map", "ndcg": "ndcg", "r_precision": "r-precision", "rbp": "rbp.80",
}  # fmt: skip


def _ranx(count: int, seed: int) -> Iterator[CrossCheck]:
    from ranx import Qrels, Run
    from ranx import evaluate as ranx_evaluate

    gold, ranked = _generate_rankings(count, seed, graded=False)
    names = [f"q{number:06d}" for number in range(count)]
    qrels = {q: {i: level for i, level in judged.items() if level > 0} for q, judged in zip(names, gold, strict=True)}
    runs = {q: {i: float(len(ids) - n) for n, i in enumerate(ids)} for q, ids in zip(names, ranked, strict=True)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of its compiler
        theirs = ranx_evaluate(Qrels(qrels), Run(runs), list(_RANX.values()), return_mean=False)
    ours = _ranking_scores(gold, ranked, list(_RANX))
    for name, their_name in _RANX.items():
        tally = DeviationTally(name.partition("@")[0], "ranx")
        for case, (mine, other) in enumerate(zip(ours[name], theirs[their_name], strict=True)):
            tally.add(mine, float(other), f"{name}, query {case}")
        yield tally.check()


_PYTREC = {
    "map": "map", "mrr": "recip_rank", "r_precision": "Rprec", "bpref": "bpref", "ndcg": "ndcg",
    **{f"{ours}@{k}": f"{theirs}_{k}" for k in (5, 10) for ours, theirs in (
        ("recall", "recall"), ("precision", "P"), ("hit_rate", "success"), ("map", "map_cut"), ("ndcg", "ndcg_cut"),
    )},
}  # fmt: skip


def _pytrec(count: int, seed: int) -> Iterator[CrossCheck]:
    import pytrec_eval

    gold, ranked = _generate_rankings(count, seed, graded=True)
    qrels = {str(n): judged for n, judged in enumerate(gold)}
    runs = {str(n): {i: float(len(ids) - at) for at, i in enumerate(ids)} for n, ids in enumerate(ranked)}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, set(_PYTREC.values())).evaluate(runs)
    ours = _ranking_scores(gold, ranked, list(_PYTREC))
    for name, their_name in _PYTREC.items():
        tally = DeviationTally(name.partition("@")[0], "pytrec_eval")
        for case in range(count):
            tally.add(ours[name][case], theirs[str(case)][their_name], f"{name}, query {case}")
        yield tally.check()


def _sklearn(count: int, seed: int) -> Iterator[CrossCheck]:
    from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

    from ..stats.roc import auroc, average_precision, tpr_at_fpr

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
