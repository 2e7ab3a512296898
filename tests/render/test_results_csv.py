"""Results as CSV: all digits, slices as rows, escaped cells."""

import csv
import io
import json
from pathlib import Path

import pytest

from auepora_eval import evaluate
from auepora_eval.core.frames import METRIC_COLUMNS
from auepora_eval.core.types import MetricResult, TargetCategory
from auepora_eval.render.tables import results_csv
from helpers.builders import output, sample


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_csv_has_all_digits_and_groups() -> None:
    langs = ["de", "de", 'e,"n\n']
    asked = [sample("ab", sample_id=str(i), labels={"lang": lang}) for i, lang in enumerate(langs)]
    results = evaluate(asked, [output("a"), output("ab"), None], ["recall@2"], slices=["labels.lang"])
    whole, german, other = rows(results_csv(results))
    assert list(whole) == [name for name in METRIC_COLUMNS if name != "coverage"]  # it follows from the counts
    assert (whole["metric"], whole["target"], whole["slice"], whole["group"]) == (
        "recall@2",
        "RETRIEVAL_RELEVANCE",
        "",
        "",
    )
    assert float(whole["value"]) == 1 / 2  # 1/2, 1 and a missing output
    interval = results[0].interval
    assert interval is not None
    assert (float(whole["low"]), float(whole["high"])) == interval
    assert (whole["num_samples"], whole["skipped"], whole["failed"]) == ("3", "0", "1")
    assert (german["slice"], german["group"], float(german["value"])) == ("labels.lang", "de", 3 / 4)
    assert (other["group"], float(other["value"])) == ('e,"n\n', 0.0)
    assert {row["signature"] for row in (whole, german, other)} == {"recall@2|empty:skip|v1"}


def test_unknown_values_are_empty() -> None:
    nothing = MetricResult("mine", TargetCategory.LATENCY, 0.0, defined=False)
    assert results_csv([nothing]).splitlines()[1] == "mine,LATENCY,,,,,,,,,"


@pytest.mark.parametrize("k", [1, 2])
def test_csv_matches_the_document(k: int, tmp_path: Path) -> None:
    results = evaluate([sample("abc")], [output("axb")], [f"recall@{k}", "mrr"])
    document = json.loads(results.to_json())["results"]
    assert [float(row["value"]) for row in rows(results_csv(results))] == [one["value"] for one in document]
