"""The golden table of conventions: ranking x metric x preset -> value, made from the plain definitions.

``python -m helpers.golden_rankings`` writes it anew; a change of any line is a change of a published number.
"""

import json
from pathlib import Path
from typing import Any

from auepora_eval import metric
from auepora_eval.core.conventions import PRESETS
from auepora_eval.metrics.ranking import RankingMetric

PATH = Path(__file__).resolve().parents[1] / "metrics" / "golden_rankings.json"

RANKINGS: dict[str, tuple[Any, list[str]]] = {
    "two of three found": (["a", "b", "c"], ["a", "x", "b", "y"]),
    "more gold than k": (list("abcdefgh"), list("abcde")),
    "one hit, late": (["a"], [*"xyzuvwrst", "q", "a"]),
    "nothing found": (["a", "b"], ["x", "y"]),
    "nothing returned": (["a"], []),
    "nothing relevant, nothing judged": ([], ["x"]),
    "nothing relevant, one judged": ({"x": 0}, ["x", "y"]),
    "graded, best last": ({"a": 3, "b": 1, "c": 0}, ["c", "b", "a"]),
    "not annotated": (None, ["x"]),
}
SPECS = [
    "recall@3",
    "recall@10",
    "precision@3",
    "precision@10",
    "hit_rate@3",
    "mrr",
    "map",
    "map@3",
    "ndcg@3",
    "ndcg@10",
]


def compute() -> dict[str, Any]:
    table: dict[str, Any] = {}
    for title, (gold, ranked) in RANKINGS.items():
        for spec in SPECS:
            for preset in PRESETS:
                built = metric(spec, conventions=preset)
                assert isinstance(built, RankingMetric)
                score = built.score_plain(gold, ranked)
                table.setdefault(title, {}).setdefault(spec, {})[preset] = (
                    score.value if not score.reason else score.reason
                )
    return table


def write() -> None:
    PATH.write_text(json.dumps(compute(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
