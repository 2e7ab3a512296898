"""Notebook output of results, comparisons and charts: tables and SVG, with escaped names."""

import json
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import RunStore
from auepora_eval.compare.runs import compare_runs
from auepora_eval.core.results import Results
from auepora_eval.core.types import MetricResult, TargetCategory
from auepora_eval.errors import MissingDependencyError
from helpers.chart_gallery import GALLERY, HOSTILE
from helpers.stored_runs import run, samples


class ParsedHtml(HTMLParser):
    """The tags, attributes and texts of some HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def result(name: str, value: float = 0.5, **fields: Any) -> MetricResult:
    return MetricResult(name, TargetCategory.RETRIEVAL_ACCURACY, value, {"num_samples": 9}, **fields)


def test_results_html_is_table_with_intervals_and_chart() -> None:
    answers = MetricResult("token_f1", TargetCategory.GENERATION_CORRECTNESS, 0.25, defined=False)
    seen = ParsedHtml(Results([result("mrr", interval=(0.4, 0.6)), answers])._repr_html_())
    assert {"Retrieval accuracy", "mrr", "0.5000", "0.4000 – 0.6000", "Answer correctness", "n/a"} <= set(seen.texts)
    assert {"table", "svg"} <= set(seen.tags)


def test_empty_results_html() -> None:
    assert Results([])._repr_html_() == "<p>no results</p>"


def test_unreliable_interval_is_marked() -> None:
    doubtful = result("mrr", interval=(0.4, 0.6))
    doubtful.details["interval"] = {"flags": ["few"]}
    assert "0.4000 – 0.6000 ?" in ParsedHtml(Results([doubtful])._repr_html_()).texts


def test_result_names_are_escaped() -> None:
    html = Results([result(name) for name in HOSTILE])._repr_html_()
    seen = ParsedHtml(html)
    assert "script" not in seen.tags
    assert not [name for name in seen.attributes if name.startswith("on")]
    assert "</text><script>alert(1)</script>" in seen.texts


def test_comparison_html_is_table_and_forest_chart(tmp_path: Path) -> None:
    dataset = samples(6)
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        first = run(store, "a", dataset, lambda n: "no", ["exact_match"])
        second = run(store, "b", dataset, lambda n: "yes" if n % 2 else "no", ["exact_match", "token_f1"])
        report = compare_runs(first.run_id, second.run_id, store=store)
    seen = ParsedHtml(report._repr_html_())
    assert {"exact_match", "+0.5000", "inconclusive"} <= set(seen.texts)
    assert {"table", "svg"} <= set(seen.tags)
    assert "script" not in seen.tags


def test_chart_mimebundle_has_spec_and_svg() -> None:
    chart = GALLERY["values in two groups"]()
    bundle = chart._repr_mimebundle_()
    assert bundle["application/vnd.vegalite.v5+json"] == chart.spec
    assert bundle["image/svg+xml"].startswith("<svg")
    assert bundle["text/html"] == chart._repr_html_()
    assert chart.description in bundle["text/plain"]
    json.dumps(bundle, allow_nan=False)


def test_to_altair_without_altair(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(MissingDependencyError, match="pip install 'auepora-eval\\[report\\]'"):
        GALLERY["no rows"]().to_altair()
