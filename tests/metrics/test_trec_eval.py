"""Every figure that trec_eval's own expected outputs give for a measure of ours, on its own test files."""

import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from math import lcm
from statistics import fmean
from typing import Any

import pytest

from auepora_eval import MetricResult, evaluate_rankings
from auepora_eval.core.registry import canonical_name
from auepora_eval.io.trec import load_qrels, load_run, trec_rankings
from helpers.requirements import need_data

Gold = list[dict[str, int]]
Ranked = list[list[str]]

FILES: list[tuple[str, str, str, dict[str, Any], int, int]] = [  # figures, qrels, run, conventions, compared, left out
    ("out.test", "qrels.test", "results.test", {}, 13, 17),
    ("out.test.a", "qrels.test", "results.test", {}, 53, 46),
    ("out.test.aq", "qrels.test", "results.test", {}, 212, 175),
    ("out.test.aqc", "qrels.test", "results.trunc", {"missing": "zero"}, 212, 175),
    ("out.test.aqcM", "qrels.test", "results.trunc", {"missing": "zero", "depth": 100}, 212, 175),
    ("out.test.aql", "qrels.rel_level", "results.test", {"min_relevance": 2}, 210, 177),
    ("out.test.meas_params", "qrels.test", "results.test", {}, 48, 40),
]

NOT_OURS = {  # trec_eval's names -> why we have no such measure
    r"runid": "the name of the run",
    r"relstring(_\d+)?": "a text that shows the first levels",
    r"num_(q|ret|rel|rel_ret|nonrel_judged_ret)": "counts of lines, of which rates are made",
    r"gm_(map|bpref)": "means over queries are arithmetic here",
    r"infAP": "estimates from a sample of a pool",
    r"iprec_at_recall_[\d.]+|11pt_avg(_[\d.,]+)?": "interpolated precision at levels of recall",
    r"Rprec_mult_(?!1\.00)[\d.]+": "cut-offs at multiples of |G| other than 1",
    r"utility(_[-\d.,]+)?": "the user's own weights of a contingency table, without a range",
    r"binG|G": "gain discounted by the number of non-relevant documents above",
    r"ndcg_rel|Rndcg": "nDCG averaged over cut-offs that depend on the query",
    r"relative_P_\d+|set_relative_P": "precision over the highest that can be reached",
    r"set_map": "precision times recall of the whole list",
}

# trec_eval 10's rbp looks at levels, not at -l: a document gains its level over the highest of its query (scaled by a
# minimum and a maximum that it never initialises). Ours is binary, so the one query whose relevant documents are of
# several levels differs, as test_rbp_of_graded_judgements_is_a_mean_of_ours explains.
DIFFERENT = {("out.test.aql", "rbp", "301"), ("out.test.aql", "rbp", "all")}


def same_measure(name: str) -> tuple[str, dict[str, Any]] | None:
    """Our metric and options for trec_eval's name, or ``None`` for one that we do not have."""
    if name in ("rbp", "rbp_resid"):
        return "rbp", {"p": 0.9}  # trec_eval's reader goes on with this probability
    if name.startswith("unj_"):
        return f"judged@{name.removeprefix('unj_')}", {}
    if name in (whole_list := {"set_P": "precision", "set_recall": "recall", "set_F": "f1"}):
        return whole_list[name], {"k": None}
    if name == "Rprec_mult_1.00":
        return "r_precision", {}
    if re.fullmatch(r"ndcg_\d+=.*", name):
        return "ndcg", {}  # over other levels: see regraded
    return canonical_name(name)


def regraded(name: str, gold: Gold) -> Gold:
    """Levels that are the gains in the name (``ndcg_1=3,4=4.5``), times a number that makes all of them whole."""
    if "=" not in name:
        return gold
    pairs = (pair.split("=") for pair in name.removeprefix("ndcg_").split(","))
    gains = {int(level): Fraction(gain) for level, gain in pairs}
    whole = lcm(*(gain.denominator for gain in gains.values()))
    return [{doc: int(gains.get(level, level) * whole) for doc, level in levels.items()} for levels in gold]


def unjudged(name: str, result: MetricResult, gold: Gold, ranked: Ranked) -> list[float]:
    """Theirs divides by k where ours divides by what was returned: nothing returned is nothing unjudged."""
    k = int(name.removeprefix("unj_"))
    return [(1 - judged) * min(k, len(docs)) / k for judged, docs in zip(scored(result), ranked, strict=True)]


def residual(name: str, result: MetricResult, gold: Gold, ranked: Ranked) -> list[float]:
    """Theirs is 0 where nothing unjudged was returned; ours adds what may come behind the end of any list."""
    stats = getattr(result.scores, "stats", None)
    assert stats is not None
    return [
        left if any(levels.get(doc, -1) < 0 for doc in docs) else 0.0
        for left, levels, docs in zip(stats[:, 0].tolist(), gold, ranked, strict=True)
    ]


AS_THEIRS: dict[str, Callable[[str, MetricResult, Gold, Ranked], list[float]]] = {
    "unj": unjudged,
    "rbp_resid": residual,
}


def scored(result: MetricResult) -> list[float]:
    values = list(result.scores or ())
    assert None not in values, result.name
    return [value for value in values if value is not None]


def lines_of(name: str) -> list[tuple[str, str, str]]:
    """Measure, query and printed figure of each line."""
    rows = [line.split() for line in need_data("trec_eval", name).read_text().splitlines()]
    return [(measure, query, figure) for measure, query, figure in rows]


def read(qrels: str, run: str) -> tuple[list[str], Gold, list[list[str] | None]]:
    return trec_rankings(load_qrels(need_data("trec_eval", qrels)), load_run(need_data("trec_eval", run)))


def evaluated(names: Sequence[str], qrels: str, run: str, rules: dict[str, Any]) -> dict[tuple[str, str], float]:
    """Our value by trec_eval's name and by query, ``all`` being the mean over queries."""
    ids, gold, ranked = read(qrels, run)
    returned = [(docs or [])[: rules.get("depth")] for docs in ranked]
    specs: dict[str, Any] = {}
    for name in names:
        ours, options = same_measure(name) or pytest.fail(f"trec_eval's {name} is neither a metric nor in NOT_OURS")
        specs[name] = {ours: {**options, **rules, "conventions": "trec", "as": name}}
    # One evaluation for all measures, and one for each that brings its own gains.
    groups = [[name for name in names if "=" not in name], *([name] for name in names if "=" in name)]
    values: dict[tuple[str, str], float] = {}
    for group in groups:
        plan = [specs[name] for name in group]
        for result in evaluate_rankings(regraded(group[0], gold), ranked, plan, ids=ids):
            convert = AS_THEIRS.get(re.sub(r"_\d+$", "", result.name))
            column = convert(result.name, result, gold, returned) if convert else scored(result)
            values |= {(result.name, query): value for query, value in zip(ids, column, strict=True)}
            values[result.name, "all"] = fmean(column) if convert else result.value
    return values


@pytest.mark.parametrize(("figures", "qrels", "run", "rules", "want", "left_out"), FILES, ids=[row[0] for row in FILES])
def test_every_printed_figure(
    figures: str, qrels: str, run: str, rules: dict[str, Any], want: int, left_out: int
) -> None:
    lines = lines_of(figures)
    compared = [
        (name, query, figure)
        for name, query, figure in lines
        if (figures, name, query) not in DIFFERENT and not any(re.fullmatch(pattern, name) for pattern in NOT_OURS)
    ]
    values = evaluated(list(dict.fromkeys(name for name, _, _ in compared)), qrels, run, rules)
    print(f"{figures}: {len(compared)} of {len(lines)} lines compared")
    wrong = [
        f"{name} of {query}: {values[name, query]:.6f}, trec_eval {figure}"
        for name, query, figure in compared
        if f"{values[name, query]:.4f}" != figure
    ]
    assert wrong == []
    assert (len(compared), len(lines) - len(compared)) == (want, left_out)


def test_unsupported_measures_are_printed_by_trec_eval() -> None:
    names = {name for figures, *_ in FILES for name, _, _ in lines_of(figures)}
    for pattern in NOT_OURS:
        known = [name for name in names if re.fullmatch(pattern, name)]
        assert known, f"{pattern} is in none of the files"
        assert [name for name in known if same_measure(name)] == []


def test_rbp_of_graded_judgements_is_a_mean_of_ours() -> None:
    # level / highest is the share of the thresholds 1 .. highest that the document reaches.
    ids, gold, ranked = read("qrels.rel_level", "results.test")
    highest = [max(levels.values()) for levels in gold]
    thresholds = range(1, max(highest) + 1)
    plan = [{"rbp": {"p": 0.9, "conventions": "trec", "min_relevance": t, "as": f"rbp {t}"}} for t in thresholds]
    columns = zip(*(scored(result) for result in evaluate_rankings(gold, ranked, plan, ids=ids)), strict=True)
    values = {query: sum(column[:top]) / top for query, top, column in zip(ids, highest, columns, strict=True)}
    values["all"] = fmean(values.values())
    printed = {query: figure for name, query, figure in lines_of("out.test.aql") if name == "rbp"}
    assert {query: f"{value:.4f}" for query, value in values.items()} == printed
