"""Twenty ranking metrics on generated rankings: ours from ids and from objects, against ranx, pytrec_eval, ir_measures.

    python -m benchmarks.retrieval [--only wide|deep|chunks] [--quick] [--ours]

Prints Markdown: the best wall time of each, in seconds and in units of ours, and how far the numbers are apart. Peers
that are not installed are left out, and named. The workload of chunks has parents and spans, and one to three gold
passages a query: the processor time to match gold by id, by parent document and by span.
"""

import argparse
import platform
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

from auepora_eval import Document, EvaluationSample, RetrievedDocument, SystemOutputs, evaluate, evaluate_rankings
from auepora_eval.core.conventions import Conventions

from .peers import print_missing_peers
from .rankings import make_rankings
from .timing import best_times

KS = (1, 3, 5, 10, 20)
METRICS = [f"{name}@{k}" for k in KS for name in ("recall", "precision", "hit_rate")]
METRICS += ["mrr", "map", "ndcg@5", "ndcg@10", "ndcg@20"]
CONVENTIONS = "client"  # P@k over k and AP over |G|, as ranx computes them
RANX_PREPARED = "ranx, from its prepared objects"


def objects(gold: list[list[str]], ranked: list[list[str]]) -> tuple[list[EvaluationSample], list[SystemOutputs]]:
    samples = [EvaluationSample(str(i), "", [Document(d) for d in ids]) for i, ids in enumerate(gold)]
    outputs = [
        SystemOutputs([RetrievedDocument(Document(d), 1.0 / rank, rank) for rank, d in enumerate(ids, 1)])
        for ids in ranked
    ]
    return samples, outputs


def ranx_contenders(gold: list[list[str]], ranked: list[list[str]]) -> dict[str, Callable[[], Any]]:
    """ranx from dictionaries and from its own prepared objects, compiled beforehand; nothing without ranx."""
    if find_spec("ranx") is None:
        return {}
    from ranx import Qrels, Run, evaluate as ranx_evaluate

    qrels = {f"q{i}": dict.fromkeys(ids, 1) for i, ids in enumerate(gold)}
    runs = {f"q{i}": {d: float(len(ids) - place) for place, d in enumerate(ids)} for i, ids in enumerate(ranked)}
    few = list(qrels)[:8]
    ranx_evaluate(Qrels({q: qrels[q] for q in few}), Run({q: runs[q] for q in few}), METRICS)
    prepared = Qrels(qrels), Run(runs)
    return {
        "ranx, from dicts": lambda: ranx_evaluate(Qrels(qrels), Run(runs), METRICS),
        RANX_PREPARED: lambda: ranx_evaluate(*prepared, METRICS),
    }


def trec_contenders(gold: list[list[str]], ranked: list[list[str]]) -> dict[str, Callable[[], Any]]:
    """pytrec_eval and ir_measures from dictionaries, where they are installed; reading the run included."""
    qrels = {f"q{i}": dict.fromkeys(ids, 1) for i, ids in enumerate(gold)}
    runs = {f"q{i}": {d: float(len(ids) - place) for place, d in enumerate(ids)} for i, ids in enumerate(ranked)}
    found: dict[str, Callable[[], Any]] = {}
    if find_spec("pytrec_eval"):
        import pytrec_eval

        cuts = ",".join(map(str, KS))
        measures = {f"recall.{cuts}", f"P.{cuts}", f"success.{cuts}", "recip_rank", "map", "ndcg_cut.5,10,20"}
        evaluator = pytrec_eval.RelevanceEvaluator(qrels, measures)
        found["pytrec_eval, judgements prepared"] = lambda: evaluator.evaluate(runs)
    if find_spec("ir_measures"):
        import ir_measures

        names = [f"{name}@{k}" for k in KS for name in ("R", "P", "Success")] + [
            "RR",
            "AP",
            "nDCG@5",
            "nDCG@10",
            "nDCG@20",
        ]
        chosen = [ir_measures.parse_measure(name) for name in names]
        found["ir_measures, from dicts"] = lambda: ir_measures.calc_aggregate(chosen, qrels, runs)
    return found


def workload(queries: int, depth: int, *, with_peers: bool, rounds: int = 12, peer_rounds: int = 3) -> None:
    gold, ranked = make_rankings(queries, depth)
    sets = [set(ids) for ids in gold]
    levels = [dict.fromkeys(ids, 1) for ids in gold]
    samples, outputs = objects(gold, ranked)
    contenders: dict[str, Callable[[], Any]] = {
        "ours, from id lists": lambda: evaluate_rankings(gold, ranked, METRICS, conventions=CONVENTIONS),
        "ours, gold as sets": lambda: evaluate_rankings(sets, ranked, METRICS, conventions=CONVENTIONS),
        "ours, gold as {id: level}": lambda: evaluate_rankings(levels, ranked, METRICS, conventions=CONVENTIONS),
        "ours, from objects": lambda: evaluate(samples, outputs, METRICS, conventions=CONVENTIONS),
        "ours, one metric more": lambda: evaluate_rankings(gold, ranked, [*METRICS, "ndcg@7"], conventions=CONVENTIONS),
        "ours, half the queries": lambda: evaluate_rankings(
            gold[: queries // 2], ranked[: queries // 2], METRICS, conventions=CONVENTIONS
        ),
    }
    peers = ranx_contenders(gold, ranked) | trec_contenders(gold, ranked) if with_peers else {}
    counts = dict.fromkeys(contenders, rounds) | dict.fromkeys(peers, peer_rounds)
    times = best_times(contenders | peers, counts)
    ours = times["ours, from id lists"]
    print(f"\n### {queries:,} queries x {depth:,} results, {len(METRICS)} metrics\n")
    print("| | seconds | in units of ours from id lists |\n|---|---|---|")
    for name, seconds in times.items():
        print(f"| {name} | {seconds:.3f} | {seconds / ours:.2f} |")
    if RANX_PREPARED in peers:
        numbers = {r.name: r.value for r in contenders["ours, from id lists"]()}
        theirs = peers[RANX_PREPARED]()
        print(f"\nLargest difference between the numbers: {max(abs(numbers[m] - theirs[m]) for m in METRICS):.1e}")


def chunk(doc_id: str, *, shift: int = 0) -> Document:
    """A chunk of 800 characters of a document of eight; a gold passage may start a little later."""
    number = int(doc_id.removeprefix("doc"))
    start = number % 8 * 800 + shift
    return Document(doc_id, parent_id=f"parent{number // 8:06d}", span=(start, start + 800))


def chunk_workload(queries: int, depth: int, *, rounds: int = 6) -> None:
    gold, ranked = make_rankings(queries, depth)
    samples, outputs = objects(gold, ranked)
    for place, (sample, output) in enumerate(zip(samples, outputs, strict=True)):
        sample.relevant_docs = [chunk(doc_id, shift=200) for doc_id in gold[place][: 1 + place % 3]]
        for item in output.retrieved:
            item.doc = chunk(item.doc.doc_id)
    contenders: dict[str, Callable[[], Any]] = {}
    for match in ("id", "parent", "span"):
        rules = Conventions.of("golden", match=match)
        contenders[match] = partial(evaluate, samples, outputs, METRICS, conventions=rules)
    times = best_times(contenders, dict.fromkeys(contenders, rounds), time.process_time)
    print(f"\n### {queries:,} queries x {depth:,} chunks with parents and spans, {len(METRICS)} metrics\n")
    print("| gold matched by | seconds | in units of id |\n|---|---|---|")
    for match, seconds in times.items():
        print(f"| {match} | {seconds:.3f} | {seconds / times['id']:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=["wide", "deep", "chunks"], help="one of the workloads")
    parser.add_argument("--quick", action="store_true", help="a tenth of the data")
    parser.add_argument("--ours", action="store_true", help="ours alone, which takes a few minutes less")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # ranx's compiler remarks
    scale = 10 if options.quick else 1
    print(f"Python {platform.python_version()}, {platform.machine()}")
    if not options.ours:
        print_missing_peers("ranx", "pytrec_eval", "ir_measures")
    if options.only in (None, "wide"):
        workload(50_000 // scale, 100, with_peers=not options.ours)
    if options.only in (None, "deep"):
        workload(5_000 // scale, 1_000, with_peers=not options.ours)
    if options.only in (None, "chunks"):
        chunk_workload(20_000 // scale, 100)


if __name__ == "__main__":
    main()
