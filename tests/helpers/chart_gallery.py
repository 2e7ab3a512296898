"""Charts of every kind, of ordinary data and of data that is hard to draw, by what is special about them."""

import math
import random
from collections.abc import Callable
from typing import Any

from auepora_eval.render.charts.chart import Chart
from auepora_eval.render.charts.curves import (
    curve_over_k,
    distribution_chart,
    latency_chart,
    looks_chart,
    noise_curve,
    quality_by_rank,
    trend_chart,
)
from auepora_eval.render.charts.intervals import forest_chart, interval_chart, slices_chart, split_chart
from auepora_eval.render.charts.points import pareto_chart
from auepora_eval.render.charts.queries import causes_chart, scatter_chart, wins_losses_chart

HOSTILE = [
    "</text><script>alert(1)</script>",
    "]]>",
    '" onload="alert(1)',
    "javascript:alert(1)",
    "null\x00byte \x1b[2J \x7f \x9f",
    "lone \ud800 surrogate \udfff",
    "noncharacter \uffff \ufffe",
    "right-to-left \u202e override \u2066",
    "two\nlines\tand a tab\u2028",
    "العربية 日本語 👩‍👩‍👧 é",
    "x" * 5000,
    "#4269d0",
    "",
    " ",
]
"""Names that break what does not expect them."""


UNRELIABLE = {"doubt": True}
"""The key of a row whose interval may be too narrow."""


def row(name: Any, value: Any, half: float = 0.1, **more: Any) -> dict[str, Any]:
    return {"name": name, "value": value, "low": value - half, "high": value + half, **more}


def numbers(count: int, seed: int = 0) -> list[float]:
    drawn = random.Random(seed)
    return [drawn.random() for _ in range(count)]


def curve(start: float, step: float, levels: list[Any], key: str = "k") -> list[dict[str, Any]]:
    return [
        {
            key: level,
            "value": start + step * place,
            "low": start + step * place - 0.05,
            "high": start + step * place + 0.05,
        }
        for place, level in enumerate(levels)
    ]


def trend(month: str, changes: list[str]) -> list[dict[str, Any]]:
    return [
        {**row("", 0.4 + day / 10, 0.05), "time": f"{month}-{day:02} 10:00", "run": f"run {day}", "change": change}
        for day, change in enumerate(changes, 1)
    ]


LOOKS: list[dict[str, Any]] = [
    {
        "units": 25 * at,
        "mean": 0.08,
        "low": 0.08 - 0.5 / at,
        "high": 0.08 + 0.5 / at,
        "verdict": "better" if at == 7 else None,
    }
    for at in range(1, 8)
]
"""The looks of a sequential test that stops at the seventh."""


GALLERY: dict[str, Callable[[], Chart]] = {
    "values in two groups": lambda: interval_chart(
        [row("recall@5", 0.6, group="Retrieval"), row("mrr", 0.5, group="Retrieval"), row("f1", 0.3, group="Answers")]
    ),
    "a value below zero": lambda: interval_chart([row("aqwv@10", -3.0, 1.0, range=(-40, 1)), row("mrr", 0.5)]),
    "no value": lambda: interval_chart(
        [row("mrr", 0.5), {"name": "f1", "value": None}, {"name": "g", "value": math.nan}]
    ),
    "no value at all": lambda: interval_chart([{"name": "f1", "value": None}]),
    "no rows": lambda: interval_chart([]),
    "one row without an interval": lambda: interval_chart([{"name": "f1", "value": 0.5}]),
    "ten thousand rows": lambda: interval_chart([row(f"m{i}", 0.5) for i in range(10_000)]),
    "intervals in doubt": lambda: interval_chart([row("a", 0.5, **UNRELIABLE), row("b", 0.5)]),
    "hostile names": lambda: interval_chart([row(name, 0.5, group=name) for name in HOSTILE]),
    "huge values": lambda: interval_chart(
        [row("a", 1e280, 1e279), row("b", -1e280, 1e279), {"name": "c", "value": 1e308}]
    ),
    "tiny values": lambda: interval_chart([row("a", 1e-12, 1e-13, scale="tiny")]),
    "slices": lambda: slices_chart(
        [row("", 0.5, slice="lang", group="de"), row("", 0.7, slice="lang", group="en", **UNRELIABLE)],
        "mrr",
        whole=0.6,
    ),
    "no slices": lambda: slices_chart([], "mrr"),
    "hostile slices": lambda: slices_chart([row("", 0.5, slice=name, group=name) for name in HOSTILE], HOSTILE[0]),
    "differences of every verdict": lambda: forest_chart(
        [
            {"name": verdict, "delta": delta, "low": delta - 0.1, "high": delta + 0.1, "verdict": verdict}
            for verdict, delta in [("better", 0.3), ("worse", -0.3), ("equal", 0.0), ("inconclusive", 0.05)]
        ]
    ),
    "exploratory differences below a line": lambda: forest_chart(
        [
            {"name": "hit@5", "delta": 0.1, "low": -0.1, "high": 0.3, "primary": False, "group": "Retrieval"},
            {"name": "f1", "delta": 0.2, "low": 0.1, "high": 0.3, "verdict": "better", "group": "Answers"},
            {"name": "seconds", "delta": 2.0, "low": 1.0, "high": 3.0, "primary": False, "scale": "seconds"},
        ],
        exploratory_below=True,
    ),
    "a difference that is not there": lambda: forest_chart([{"name": "f1", "delta": None, "note": "other rules"}]),
    "a difference without an interval": lambda: forest_chart([{"name": "f1", "delta": 0.1, "verdict": "inconclusive"}]),
    "no differences": lambda: forest_chart([]),
    "hostile differences": lambda: forest_chart(
        [{"name": name, "delta": 0.1, "verdict": name, "group": name} for name in HOSTILE],
        names=(HOSTILE[0], HOSTILE[4]),
    ),
    "a split": lambda: split_chart(
        [
            {
                "name": "f1",
                "retrieval": {"value": 0.1, "low": 0.0, "high": 0.2},
                "generation": -0.1,
                "delta": None,
            }
        ]
    ),
    "no split": lambda: split_chart([]),
    "a distribution": lambda: distribution_chart([*numbers(300), None, math.nan], "f1"),
    "two distributions": lambda: distribution_chart({"a": numbers(50), "b": numbers(50, 1)}, "f1"),
    "a distribution of noughts and ones": lambda: distribution_chart([0.0, 1.0, 1.0], "hit"),
    "a distribution of one value": lambda: distribution_chart([0.5] * 9, "f1"),
    "a distribution below zero": lambda: distribution_chart(
        [-9 + 10 * x for x in numbers(99)], "aqwv", bounds=(-40, 1)
    ),
    "a distribution of nothing": lambda: distribution_chart([], "f1"),
    "a distribution of what has no score": lambda: distribution_chart([None, math.nan, math.inf], "f1"),
    "a distribution of ten thousand": lambda: distribution_chart(numbers(10_000), HOSTILE[0]),
    "latency": lambda: latency_chart(numbers(200)),
    "latency far apart": lambda: latency_chart([10 ** (5 * x - 3) for x in numbers(200)]),
    "latency of one answer": lambda: latency_chart([0.25]),
    "latency of two runs": lambda: latency_chart({"a": numbers(20), HOSTILE[0]: numbers(20, 1)}),
    "latency of nothing at all": lambda: latency_chart([0.0, 0.0, 0.0]),
    "no latency": lambda: latency_chart([None]),
    "curves over k": lambda: curve_over_k(
        {"recall": curve(0.2, 0.1, [1, 3, 5, 10]), "ndcg": curve(0.3, 0.1, [1, 3, 5])}
    ),
    "curves by metric and run": lambda: curve_over_k(
        {"recall": {"a": curve(0.2, 0.1, [1, 3]), "b": curve(0.3, 0.1, [1, 3])}}
    ),
    "a curve over large k": lambda: curve_over_k({"recall": curve(0.1, 0.1, [1, 10, 100, 1000])}),
    "a curve of one point": lambda: curve_over_k({"recall": curve(0.1, 0.1, [5])}),
    "a curve with a gap": lambda: curve_over_k(
        {"recall": [*curve(0.1, 0.1, [1, 2]), {"k": 3, "value": None}, *curve(0.5, 0.1, [4, 5])]}
    ),
    "many curves": lambda: curve_over_k({name or "empty": curve(0.1, 0.1, [1, 2]) for name in HOSTILE}),
    "a curve of ten thousand points": lambda: curve_over_k(
        {"recall": [{"k": k, "value": k / 10_000} for k in range(10_000)]}
    ),
    "no curves": lambda: curve_over_k({}),
    "noise": lambda: noise_curve(
        {"f1": curve(0.8, -0.1, [0, 0.5, 1.0], "level"), "latency": curve(1.2, 0.5, [0, 0.5, 1.0], "level")},
        scaled=["latency"],
    ),
    "looks": lambda: looks_chart(LOOKS, margin=0.05),
    "looks of a gate": lambda: looks_chart([{**one, "mean": one["mean"] + 0.8} for one in LOOKS], null=0.8),
    "one look": lambda: looks_chart(LOOKS[:1]),
    "looks without a number": lambda: looks_chart([{"units": 25, "mean": math.nan, "low": None}]),
    "a trend with changes": lambda: trend_chart(
        {
            "faq": trend("2026-03", ["", "", "other questions", ""]),
            "tickets": trend("2026-04", ["", "gain exponential"]),
        },
        "ndcg@10",
    ),
    "a trend of one run": lambda: trend_chart({"faq": trend("2026-03", [""])}, "f1"),
    "a trend of seconds": lambda: trend_chart(
        {"faq": [{**one, "high": 2.5} for one in trend("2026-03", [""] * 3)]}, "s"
    ),
    "a trend of nothing": lambda: trend_chart({"faq": [{"value": None, "time": "2026-03-01"}]}, "f1"),
    "a hostile trend": lambda: trend_chart(
        {name: [{**one, "run": name, "change": name} for one in trend(name[:7], ["", ""])] for name in HOSTILE},
        HOSTILE[0],
    ),
    "arms": lambda: noise_curve({"f1": curve(0.8, -0.1, ["none", "original"], "level")}, axis="arm"),
    "quality by rank": lambda: quality_by_rank(
        [{**row("", 0.6), "rank": 1, "n": 9}, {"rank": "none", "value": 0.1, "n": 1}, {"rank": 2, "value": None}], "f1"
    ),
    "no quality by rank": lambda: quality_by_rank([], "f1"),
    "causes": lambda: causes_chart({"lost": 3, "refused": {"count": 1, "low": 0.1, "high": 0.4}, HOSTILE[0]: 0}),
    "causes as shares": lambda: causes_chart({"lost": 0.75, "refused": 0.25}),
    "no causes": lambda: causes_chart({}),
    "queries side by side": lambda: scatter_chart(
        [*numbers(50), 1.0, 1.0], [*numbers(50, 1), 0.0, 0.0], [f"q{i}" for i in range(52)], links=True
    ),
    "hostile queries": lambda: scatter_chart(
        numbers(len(HOSTILE)),
        numbers(len(HOSTILE), 1),
        HOSTILE,
        name=HOSTILE[0],
        names=(HOSTILE[1], HOSTILE[2]),
        links=True,
    ),
    "queries by a metric with an endless name": lambda: scatter_chart([0.1], [0.2], ["q"], name="name " * 50),
    "a distribution of a metric with an endless name": lambda: distribution_chart(numbers(50), "name_" * 50),
    "thousands of queries": lambda: scatter_chart(numbers(3000), numbers(3000, 1), [f"q{i}" for i in range(3000)]),
    "queries all alike": lambda: scatter_chart([5.0] * 3000, [5.0] * 3000, [f"q{i}" for i in range(3000)]),
    "configurations": lambda: pareto_chart(
        [
            {"name": f"c{place}", "value": value, "cost": place, "efficient": value > 0.5}
            for place, value in enumerate(numbers(9))
        ],
        "f1",
        "cost",
    ),
    "hostile configurations": lambda: pareto_chart(
        [{"name": name, "value": 0.5, "cost": None if name == "" else 1e-7, "efficient": True} for name in HOSTILE],
        HOSTILE[0],
        HOSTILE[1],
    ),
    "no configurations": lambda: pareto_chart([{"name": "a", "value": None, "cost": 1}], "f1", "cost"),
    "no queries": lambda: scatter_chart([None], [0.5], ["q"]),
    "wins and losses": lambda: wins_losses_chart(
        [
            {"name": "first hit", "wins": 5, "losses": 3, "draws": 9, "regressions": 2},
            {"name": "f1", "wins": 0, "losses": 0},
        ]
    ),
    "no wins and losses": lambda: wins_losses_chart([]),
}
