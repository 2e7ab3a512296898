"""Charts of results, comparisons and stored runs: from Python, and by ``auepora plot``."""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, RunStore, noise_curve
from auepora_eval.compare.runs import compare_runs
from auepora_eval.core.results import Results
from auepora_eval.core.types import MetricResult, TargetCategory
from auepora_eval.errors import AueporaError, BadValueError
from auepora_eval.render.charts.chart import Chart
from auepora_eval.report.plots import (
    plot_causes,
    plot_comparison,
    plot_curve_over_k,
    plot_distribution,
    plot_latency,
    plot_noise_curve,
    plot_quality_by_rank,
    plot_results,
    plot_scatter,
    plot_slices,
    plot_wins_losses,
    quality_rows,
)
from auepora_eval.report.stored_plots import KINDS, plot_runs
from auepora_eval.runs.perturbed import PerturbedRuns
from auepora_eval.runs.replay import swap_replay
from auepora_eval.runs.run import run_system
from helpers import requirements

Run = Callable[..., tuple[int, str, str]]
METRICS = ["recall@1", "recall@3", "mrr", "exact_match", "token_f1", "failure_attribution@3", "aqwv@3"]
CITIES = ["Athens", "Beijing", "London", "Rio", "Tokyo", "Paris", "Sydney", "Atlanta"]


@dataclass
class FakeRetriever:
    """Returns the documents of all cities, from the one asked for on, after ``skip`` others."""

    skip: int = 0

    def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:
        asked = int(query.split()[-1].rstrip("?"))
        # Some questions are harder: the later the question, the lower the rank of the right document.
        places = [(asked - self.skip - asked % 3 + step) % len(CITIES) for step in range(top_k)]
        return [RetrievedDocument(Document(f"d{n}", CITIES[n]), None, rank) for rank, n in enumerate(places, 1)]


@dataclass
class FakeGenerator:
    """Answers with the content of one of the documents."""

    place: int = 0

    def generate(self, query: str, documents: list[Document]) -> Response:
        return Response(documents[self.place].text if documents else "nothing")


def questions() -> list[EvaluationSample]:
    return [
        EvaluationSample(
            f"q{n}",
            f"where were the games of year {n}?",
            relevant_docs=[Document(f"d{n}", city)],
            reference_answer=Response(city),
            labels={"half": "first" if n < 4 else "second"},
        )
        for n, city in enumerate(CITIES)
    ]


@dataclass(frozen=True)
class StoredRuns:
    """Two runs, a replay of them, and a sweep."""

    store: RunStore
    path: str
    first: str
    second: str
    swept: PerturbedRuns

    def results(self, run: str) -> Results:
        return self.store.results(run)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoredRuns]:
    path = tmp_path_factory.mktemp("plots") / "runs.sqlite"
    with RunStore.open(path) as store:
        given: dict[str, Any] = {"store": store, "slices": ["labels.half"], "top_k": 5}
        systems = {"old": (FakeRetriever(1), FakeGenerator(2)), "new": (FakeRetriever(0), FakeGenerator(0))}
        old, new = (
            run_system(system, questions(), METRICS, name=name, **given).record for name, system in systems.items()
        )
        swap_replay(systems["new"], store, old, new, ["exact_match", "recall@1"])
        noise: dict[str, Any] = {
            "perturb": "noise=0,0.5,1",
            "corpus": [Document(f"x{n}", f"nothing {n}") for n in range(20)],
        }
        swept = noise_curve(
            systems["new"], questions(), ["recall@3", "exact_match"], store=store, name="swept", top_k=5, **noise
        )
        yield StoredRuns(store, str(path), old.run_id, new.run_id, swept)


def points(chart: Chart) -> list[dict[str, Any]]:
    return [
        one
        for view in chart.spec["vconcat"]
        for layer in view["layer"]
        if layer["mark"]["type"] == "point"
        for one in layer["data"]["values"]
    ]


def test_results_are_grouped_by_target(stored: StoredRuns) -> None:
    results = stored.results(stored.second)
    chart = plot_results(results)
    assert {one["name"]: one["value"] for one in points(chart)} == {
        one.name: one.value for one in results if one.defined
    }
    titles = [view.get("title", {}).get("text") for view in chart.spec["vconcat"]]
    assert titles[0] == "Retrieval relevance"
    of_aqwv = next(v for v in chart.spec["vconcat"] if v["layer"][0]["encoding"]["y"]["scale"]["domain"] == ["aqwv@3"])
    domain = next(
        one["encoding"]["x"]["scale"]["domain"] for one in of_aqwv["layer"] if "scale" in one["encoding"]["x"]
    )
    assert domain[0] < 0 or domain[1] != 1


def test_several_runs_share_a_group(stored: StoredRuns) -> None:
    chart = plot_results({"old": stored.results(stored.first), "new": stored.results(stored.second)})
    names = [one["name"] for one in points(chart)]
    assert names.count("old") == names.count("new") == len(METRICS)


def test_undefined_result_is_labelled() -> None:
    nothing = MetricResult("f1", TargetCategory.GENERATION_CORRECTNESS, 0.0, {"num_samples": 0}, defined=False)
    chart = plot_results(Results([nothing]))
    assert points(chart) == []
    assert "no sample was scored" in chart.to_svg()


def test_distribution_counts_every_score(stored: StoredRuns) -> None:
    result = stored.results(stored.second).by_name["exact_match"]
    chart = plot_distribution(result)
    bars = chart.spec["vconcat"][0]["layer"][0]["data"]["values"]
    assert sum(one["count"] for one in bars) == len(CITIES)
    both = plot_distribution({"a": result, "b": result})
    assert len(both.spec["vconcat"]) == 2


def test_distribution_needs_scores() -> None:
    with pytest.raises(BadValueError, match="'f1' has no score per sample"):
        plot_distribution(MetricResult("f1", TargetCategory.LATENCY, 0.5))
    with pytest.raises(BadValueError, match="no score per sample"):
        plot_latency({"a": MetricResult("mean_latency", TargetCategory.LATENCY, 0.5)})


def test_curve_over_k_has_computed_cutoffs(stored: StoredRuns) -> None:
    results = stored.results(stored.second)
    found = points(plot_curve_over_k(results))
    assert [(one["line"], one["at"]) for one in found] == [("recall", 1), ("recall", 3)]
    assert [one["value"] for one in found] == [results.by_name["recall@1"].value, results.by_name["recall@3"].value]
    with pytest.raises(AueporaError, match="recal"):
        plot_curve_over_k(results, families=["recal"])


def test_slices_chart_has_groups(stored: StoredRuns) -> None:
    result = stored.results(stored.second).by_name["exact_match"]
    found = {one["name"]: one["value"] for one in points(plot_slices(result))}
    assert found == {group: part.value for group, part in result.slices["labels.half"].items()}


def test_causes_come_from_failure_attribution(stored: StoredRuns) -> None:
    results = stored.results(stored.first)
    causes = results.by_name["failure_attribution@3"].details["causes"]
    rows = plot_causes(results).spec["vconcat"][0]["layer"][0]["data"]["values"]
    assert {one["cause"]: one["share"] for one in rows} == {name: one["share"] for name, one in causes.items()}
    with pytest.raises(BadValueError, match="compute failure_attribution"):
        plot_causes(Results([]))


def test_quality_by_rank_follows_the_first_relevant_document(stored: StoredRuns) -> None:
    found = {
        one["rank"]: one["value"] for one in points(plot_quality_by_rank(stored.results(stored.second), "exact_match"))
    }
    assert found["1"] == 1.0
    assert set(found) == {"1", "2", "3"}
    with pytest.raises(BadValueError, match="compute mrr as well"):
        plot_quality_by_rank(Results([]))


RANKED = [  # ranks, scores, expected, why
    ([1, 1, 2], [1, 0, 1], {"1": (0.5, 2), "2": (1, 1)}, "mean by rank"),
    ([None, float("nan"), 1], [1, 1, None], {}, "what is not known on either side is left out"),
    ([6, 10, 11, float("inf")], [1, 0, 1, 0], {"6–10": (0.5, 2), "11–20": (1, 1), "none": (0, 1)}, "ranges, and none"),
]


@pytest.mark.parametrize(("ranks", "scores", "expected", "why"), RANKED, ids=[one[-1] for one in RANKED])
def test_scores_by_rank(ranks: Any, scores: Any, expected: Any, why: str) -> None:
    rows = quality_rows(np.array(ranks, float), np.array(scores, float))
    assert {one["rank"]: (one["value"], one["n"]) for one in rows} == expected


def test_comparison_chart_has_differences_verdicts_and_refusals(stored: StoredRuns) -> None:
    report = compare_runs(stored.first, stored.second, store=stored.store)
    found = {one["name"]: (one["delta"], one["verdict"]) for one in points(plot_comparison(report))}
    assert found == {one.name: (one.delta, one.verdict) for one in report.metrics if one.delta is not None}
    assert points(plot_comparison(report.metrics)) == points(plot_comparison(report))


def test_wins_and_losses_match_the_report(stored: StoredRuns) -> None:
    report = compare_runs(stored.first, stored.second, store=stored.store)
    bars = plot_wins_losses(report).spec["vconcat"][0]["layer"][0]["data"]["values"]
    of_metric = next(one for one in report.metrics if one.name == "exact_match")
    won = sum(one["to"] - one["from"] for one in bars if one["name"] == "exact_match" and one["side"] == "B better")
    assert won == of_metric.wins > 0


def test_scatter_of_queries(stored: StoredRuns) -> None:
    first, second = stored.results(stored.first), stored.results(stored.second)
    chart = plot_scatter(first, second, "token_f1")
    assert f"{len(CITIES)} queries" in chart.description
    fewer = Results(second, sample_ids=[f"other{n}" for n in range(len(CITIES))])
    assert "no query has a score in both" in plot_scatter(first, fewer, "token_f1").description


def test_noise_curve_has_levels(stored: StoredRuns) -> None:
    curve = stored.swept.curve
    assert curve is not None
    found = [(one["line"], one["at"], one["value"]) for one in points(plot_noise_curve(curve, metrics=["recall@3"]))]
    assert found == [("recall@3", one.level, one.value) for one in curve.metrics["recall@3"]]
    with pytest.raises(BadValueError, match="no metric 'mrr'"):
        plot_noise_curve(curve, metrics=["mrr"])


# --- stored runs -----------------------------------------------------------------------------------------------------


def runs_of(kind: str, stored: StoredRuns) -> list[str]:
    if kind == "noise":
        return [stored.swept.outcomes[0.5].record.run_id]
    return [stored.first, stored.second] if KINDS[kind].min_runs == 2 else [stored.second]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_draws_stored_runs(kind: str, stored: StoredRuns) -> None:
    chart = plot_runs(kind, runs_of(kind, stored), store=stored.store)
    assert any(layer["data"]["values"] for view in chart.spec["vconcat"] for layer in view["layer"])
    assert "no " not in chart.title
    ElementTree.fromstring(chart.to_svg())


@pytest.mark.parametrize("kind", [kind for kind, one in KINDS.items() if one.min_runs == 1 and one.max_runs > 1])
def test_kinds_with_several_runs(kind: str, stored: StoredRuns) -> None:
    chart = plot_runs(kind, [stored.first, stored.second], store=stored.store)
    assert "old" in chart.to_svg() or "new" in chart.to_svg()


def test_sweep_is_found_from_any_of_its_runs(stored: StoredRuns) -> None:
    charts = [
        plot_runs("noise", [outcome.record.run_id], store=stored.store, metrics=["recall@3"])
        for outcome in stored.swept.outcomes.values()
    ]
    assert charts[0] == charts[1] == charts[2]
    assert [one["at"] for one in points(charts[0])] == [0, 0.5, 1]


def test_split_parts_add_up(stored: StoredRuns) -> None:
    chart = plot_runs("split", [stored.first, stored.second], store=stored.store, metrics=["exact_match"])
    found = {one["name"]: one["delta"] for one in points(chart)}
    assert found["retrieval"] + found["generation"] == pytest.approx(found["together"], abs=1e-12)


REFUSED = [  # kind, runs, metrics, message, why
    ("score", 1, [], "unknown plot 'score'.*did you mean.*scores", "a kind that is not there"),
    ("forest", 1, [], "'forest' needs 2 runs, not 1", "too few runs"),
    ("rank", 2, [], "'rank' needs one run, not 2", "too many runs"),
    ("distribution", 1, ["token_f"], "token_f1", "a metric that is not there is answered with the nearest"),
    ("distribution", 1, ["token_f1", "mrr"], "draws one metric, not 2", "two metrics where one is drawn"),
    ("latency", 1, ["nothing"], "nothing called 'nothing' was timed", "what was not timed"),
    ("curve", 1, ["recal"], "recall", "a family that is not there"),
    ("noise", 1, [], "is not a perturbed run", "a run that is not of a sweep"),
]


@pytest.mark.parametrize(("kind", "runs", "metrics", "message", "why"), REFUSED, ids=[one[-1] for one in REFUSED])
def test_invalid_plot_requests(
    kind: str, runs: int, metrics: list[str], message: str, why: str, stored: StoredRuns
) -> None:
    with pytest.raises(AueporaError, match=message):
        plot_runs(kind, [stored.first, stored.second][:runs], store=stored.store, metrics=metrics)


def test_duplicate_run_is_rejected(stored: StoredRuns) -> None:
    with pytest.raises(BadValueError, match="is listed twice"):
        plot_runs("forest", [stored.first, stored.first], store=stored.store)


def test_split_without_replay_names_the_command(stored: StoredRuns) -> None:
    with pytest.raises(BadValueError, match=r"auepora replay .* makes one"):
        plot_runs("split", [stored.second, stored.first], store=stored.store)


# --- the command -----------------------------------------------------------------------------------------------------


def test_plot_command_lists_kinds(auepora: Run) -> None:
    code, out, _ = auepora("plot")
    assert code == 0
    assert all(kind in out for kind in KINDS)


@pytest.mark.parametrize("form", ["svg", "html", "json"])
def test_plot_command_writes_format_of_suffix(form: str, stored: StoredRuns, auepora: Run, tmp_path: Path) -> None:
    target = tmp_path / f"chart.{form}"
    code, _, err = auepora(
        "plot", "scores", stored.second, "-m", "mrr", "--store", stored.path, "-o", str(target), "--title", "<mine>", "--width", "600",
    )  # fmt: skip
    assert (code, err) == (0, f"wrote {target}\n")
    text = target.read_text(encoding="utf-8")
    if form == "json":
        spec = json.loads(text)
        assert spec["title"]["text"] == "<mine>"
        assert spec["vconcat"][0]["width"] < 600
    else:
        assert "&lt;mine&gt;" in text
        assert "var(" not in text.split("<svg")[1]


def test_plot_command_default_file_name(
    stored: StoredRuns, auepora: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = auepora("plot", "wins", stored.first, stored.second, "--store", stored.path, "--theme", "dark")
    assert (code, err) == (0, "wrote wins.svg\n")
    assert "#16181c" in (tmp_path / "wins.svg").read_text(encoding="utf-8")


def test_png_with_extra(stored: StoredRuns, auepora: Run, tmp_path: Path) -> None:
    requirements.need("vl_convert")
    target = tmp_path / "chart.png"
    code, _, _ = auepora("plot", "scatter", stored.first, stored.second, "--store", stored.path, "-o", str(target))
    assert code == 0
    assert target.read_bytes().startswith(b"\x89PNG")


def test_png_without_extra_is_rejected(
    stored: StoredRuns, auepora: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("vl_convert", "altair"):
        monkeypatch.setitem(sys.modules, name, None)
    called = ("plot", "scores", stored.second, "--store", stored.path, "-o")
    code, _, err = auepora(*called, str(tmp_path / "chart.png"))
    assert code == 2
    assert "drawing a PNG needs the package 'vl-convert-python': pip install 'auepora-eval[report]'" in err
    assert not (tmp_path / "chart.png").exists()
    assert auepora(*called, str(tmp_path / "chart.svg"))[0] == 0


BAD_CALLS = [  # arguments, message, why
    (["scores", "-o", "chart.gif"], "its name must end with .svg, .png, .json, .html", "a format that is not there"),
    (["scores", "nobody"], "nobody", "a run that is not there"),
    (["scores", "--theme", "pink"], "light", "a theme that is not there"),
    (["scores", "--width", "5"], "100", "a width out of reason"),
    (["nothing"], "unknown plot 'nothing'", "a kind that is not there"),
]


@pytest.mark.parametrize(("arguments", "message", "why"), BAD_CALLS, ids=[one[-1] for one in BAD_CALLS])
def test_plot_command_bad_arguments_exit_2(
    arguments: list[str], message: str, why: str, stored: StoredRuns, auepora: Run
) -> None:
    code, _, err = auepora("plot", *arguments, "--store", stored.path)
    assert code == 2
    assert message in err


def test_plot_command_does_not_overwrite_the_store(stored: StoredRuns, auepora: Run, tmp_path: Path) -> None:
    target = tmp_path / "runs.svg"
    target.write_bytes(Path(stored.path).read_bytes())
    code, _, err = auepora("plot", "scores", "--store", str(target), "-o", str(target))
    assert code == 2
    assert "write to another file" in err
