"""The public names: the examples of their docstrings run, and results and reports show themselves in the same ways."""

import doctest
import importlib
import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import auepora_eval
from auepora_eval import (
    Document,
    EvaluationSample,
    RAGEvaluationClient,
    Response,
    RetrievedDocument,
    RunStore,
    SystemOutputs,
    check_gates,
    compare,
    evaluate,
    explain,
    open_store,
    plan_size,
    rescore,
    run_system,
)
from auepora_eval.core import registry
from auepora_eval.errors import BadValueError, StoreError, UnknownRunError
from helpers.golden_cli import entered

pytestmark = pytest.mark.xdist_group("public_api")

FUNCTIONS = {
    name: inspect.unwrap(value)
    for name in auepora_eval.__all__
    if callable(value := getattr(auepora_eval, name)) and inspect.isfunction(inspect.unwrap(value))
}
CLASSES = {name: value for name in auepora_eval.__all__ if inspect.isclass(value := getattr(auepora_eval, name))}
SAMPLES = [
    EvaluationSample("q1", "Who wrote it?", relevant_docs=[Document("ada")], reference_answer=Response("Ada Lovelace")),
    EvaluationSample(
        "q2", "Which machine?", relevant_docs=[Document("engine")], reference_answer=Response("The engine")
    ),
]


def answer(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
    """Always the same document first, so that one of two questions is a hit."""
    documents = [Document("ada", "Ada Lovelace wrote it."), Document("notes", "The notes appeared in 1843.")]
    ranking = [RetrievedDocument(document, 1 / rank, rank) for rank, document in enumerate(documents, start=1)]
    return SystemOutputs(ranking[:top_k], Response("Ada Lovelace"))


PLAN = """
name: planned
dataset: data.jsonl
outputs: outputs.jsonl
metrics: [recall@1]
store: runs.sqlite
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The names that examples use, in a folder with the files that they read."""
    folder = tmp_path_factory.mktemp("api")
    with entered(folder):
        outputs = [answer(sample, top_k=5) for sample in SAMPLES]
        gold = {"q1": "ada", "q2": "engine"}
        rows = [
            {"sample_id": sample.sample_id, "query": sample.query, "relevant_docs": [gold[sample.sample_id]]}
            for sample in SAMPLES
        ]
        Path("data.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        rows = [
            {"sample_id": one.sample_id, "retrieved": ["ada", "notes"], "response": "Ada Lovelace"} for one in SAMPLES
        ]
        Path("outputs.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        Path("plan.yaml").write_text(PLAN)
        Path("qrels.txt").write_text("q1 0 ada 1\nq2 0 engine 1\n")
        Path("run.txt").write_text("q1 Q0 ada 1 2.0 x\nq2 Q0 ada 1 2.0 x\n")
        for name in ("baseline", "candidate"):
            run_system(answer, SAMPLES, ["recall@1", "token_f1"], store="runs.sqlite", name=name)
        names = {name: getattr(auepora_eval, name) for name in auepora_eval.__all__}
        yield {**names, "samples": SAMPLES, "outputs": outputs, "system": answer}


def test_examples_of_docstrings(folder: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    registry.metric_infos()  # all are registered before
    monkeypatch.setattr(registry, "_METRICS", dict(registry._METRICS))  # what an example registers stays there
    failures: list[str] = []
    for name, documented in (FUNCTIONS | CLASSES).items():
        runner = doctest.DocTestRunner()
        for test in doctest.DocTestFinder(recurse=False).find(documented, name, globs=dict(folder)):
            runner.run(test, out=failures.append)
    assert "".join(failures) == ""


WITHOUT_EXAMPLE = {
    "diagnose_plan", "from_haystack", "from_langchain", "from_llamaindex", "run_perturbed",
}  # fmt: skip
"""Functions that need a judge, a framework or a system in parts; pages of the documentation have their examples."""
CLASSES_WITHOUT_EXAMPLE = {"JudgeMetric", "RunStore"}
"""``JudgeMetric`` is defined in plans; methods of a store have their examples on the pages of the documentation."""


def test_docstrings_have_examples() -> None:
    without = {name for name, documented in (FUNCTIONS | CLASSES).items() if ">>>" not in (documented.__doc__ or "")}
    assert without == WITHOUT_EXAMPLE | CLASSES_WITHOUT_EXAMPLE


def test_docstrings_name_parameters() -> None:
    documented = FUNCTIONS.keys() - WITHOUT_EXAMPLE
    unnamed = [
        f"{name}: {parameter}"
        for name in sorted(documented)
        for parameter in inspect.signature(FUNCTIONS[name]).parameters
        if f"``{parameter}" not in str(FUNCTIONS[name].__doc__)
        and f" {parameter}: " not in str(FUNCTIONS[name].__doc__)
    ]
    assert unnamed == []


REPORTS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {  # how it is made, and the beginning of its text
    "results": (lambda names: evaluate(SAMPLES, names["outputs"], ["recall@1"]), "| Target"),
    "run": (lambda _: run_system(answer, SAMPLES, ["recall@1"], name="shown"), "shown finished: 0 of 2 samples failed"),
    "comparison": (lambda _: compare("baseline", "candidate", store="runs.sqlite", metrics=["recall@1"]), "Equal: B"),
    "gates": (
        lambda names: check_gates(["recall@1 >= 0.9"], evaluate(SAMPLES, names["outputs"], ["recall@1"])),
        "outcome",
    ),
    "size": (lambda _: plan_size(0.1), "To detect a difference of 0.1"),
    "explanation": (lambda _: explain("runs.sqlite", "baseline", "recall@1"), "recall@1 of baseline"),
    "client": (
        lambda names: RAGEvaluationClient(sbert_model=None, cross_encoder_model=None).evaluate(
            SAMPLES, names["outputs"]
        ),
        "target",
    ),
}


@pytest.mark.parametrize(("make", "begins"), REPORTS.values(), ids=list(REPORTS))
def test_results_and_reports_show_themselves(
    make: Callable[[dict[str, Any]], Any], begins: str, folder: dict[str, Any]
) -> None:
    report = make(folder)
    assert str(report).startswith(begins)
    assert report.to_text() == str(report)
    assert "<" in report._repr_html_()
    json.dumps(report.to_dict())


def test_print_of_a_result_is_one_line(folder: dict[str, Any]) -> None:
    (result,) = evaluate(SAMPLES, folder["outputs"], ["recall@1"])
    assert str(result) == "recall@1 0.5000, 0.0000 to 1.0000"


def test_runs_are_named_wherever_ids_are(folder: dict[str, Any]) -> None:
    with open_store("runs.sqlite") as store:
        run_id = store.find("baseline").run_id
        for name in (run_id, run_id[:-1], "baseline"):
            assert store.results(name).run_id == run_id
            assert store.counts(name) == (2, 0)
            assert store.get(name).run_id == run_id
            assert [row.sample_id for row in store.outputs(name)] == store.sample_ids(name) == ["q1", "q2"]
        store.tag("baseline", "kept")
        assert store.get(run_id).tags == ("kept",)
        with pytest.raises(UnknownRunError, match="nobody"):
            store.results("nobody")
    assert rescore("baseline", ["hit_rate@1"], store="runs.sqlite")[0].value == 0.5
    assert (
        compare("latest~1", "latest", store=Path("runs.sqlite")).run_b == RunStore("runs.sqlite").find("latest").run_id
    )


def test_open_store_makes_none(folder: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreError):
        open_store("missing.sqlite")
    monkeypatch.setenv("AUEPORA_STORE", "runs.sqlite")
    with open_store() as store:
        assert store.find("candidate").name == "candidate"


def test_compare_is_a_package_and_a_function() -> None:
    package = importlib.import_module("auepora_eval.compare")
    assert package is vars(auepora_eval)["compare"]
    assert package.compare_runs is inspect.unwrap(compare)
    assert list(inspect.signature(compare).parameters)[:3] == ["a", "b", "store"]


@pytest.mark.parametrize(
    ("options", "why"), [({"runs": ["a", "b", "c"]}, "one run or two"), ({"metrics": ["mrr"]}, "name a run")]
)
def test_size_of_nothing(options: dict[str, Any], why: str) -> None:
    with pytest.raises(BadValueError, match=why):
        plan_size(0.1, **options)
