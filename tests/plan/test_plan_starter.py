"""Starter plans: data of every format gets a valid plan."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from auepora_eval.core.types import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.errors import AueporaError, BadValueError, MissingDependencyError
from auepora_eval.io.formats import Format, formats
from auepora_eval.io.jsonl import save_jsonl_dataset, save_jsonl_outputs
from auepora_eval.plan.model import Plan
from auepora_eval.plan.prepare import check_plan, read_plan
from auepora_eval.plan.source import looks_like_plan
from auepora_eval.plan.starter import MAX_METRICS, Purpose, starter_plan
from helpers.requirements import missing

SAMPLES = [
    EvaluationSample(
        f"q{n}",
        f"What is {n}?",
        [Document(f"d{n}", f"The number {n}.")],
        None,
        Response(f"number {n}"),
        {"lang": lang, "row": f"row {n}", "odd key: [x]": lang},
    )
    for n, lang in enumerate(["de", "en", "de"], start=1)
]
OUTPUTS = {
    one.sample_id: SystemOutputs(
        [RetrievedDocument(Document("d1", "The number 1."), 1.0, 1)], Response("number 1"), {"end_to_end": 0.1}
    )
    for one in SAMPLES
}
SPAN: dict[str, Any] = {
    "context": {"trace_id": "a1", "span_id": "b1"}, "parent_id": None,
    "start_time": "2025-01-01T00:00:00Z", "end_time": "2025-01-01T00:00:01Z", "status": {"status_code": "OK"},
    "attributes": {
        "openinference.span.kind": "RETRIEVER", "input.value": "Who?", "retrieval.documents.0.document.id": "d1",
    },
    "events": [],
}  # fmt: skip
QUESTION = {"id": "q1", "question": "Who?", "answers": [{"text": "Goethe", "answer_start": 0}], "is_impossible": False}
BY_HAND = {  # formats that are read and not written
    "traces": ("t.jsonl", json.dumps(SPAN) + "\n"),
    "squad": (
        "s.json",
        json.dumps({"data": [{"title": "F", "paragraphs": [{"context": "Goethe", "qas": [QUESTION]}]}]}),
    ),
}
NAMES = {"beir": "folder", "golden": "g.yaml", "parquet": "p.parquet", "trec": "qrels.txt", "deepeval": "d.json"}


def written(one: Format, folder: Path) -> Path:
    if one.name in BY_HAND:
        name, text = BY_HAND[one.name]
        (folder / name).write_text(text)
        return folder / name
    path = folder / NAMES.get(one.name, "data.jsonl")
    try:
        if one.write_both is not None:
            one.write_both([(sample, OUTPUTS[sample.sample_id]) for sample in SAMPLES], path)
        else:
            assert one.write_samples is not None, f"give the format '{one.name}' a tiny file in BY_HAND"
            one.write_samples(SAMPLES, path)
    except MissingDependencyError as error:
        missing(str(error))
    return path


@pytest.mark.parametrize("name", [name for name, one in formats().items() if one.reads("samples")])
@pytest.mark.parametrize("system", [None, "python", "http", "command"])
def test_starter_plan_for_every_format(name: str, system: str | None, tmp_path: Path) -> None:
    data = written(formats()[name], tmp_path)
    plan_path = tmp_path / "plan.yaml"
    if name == "trec":  # judgements know their questions by number alone
        with pytest.raises(BadValueError, match="has no query"):
            starter_plan(data, system=system, folder=tmp_path)
        return
    plan_path.write_text(starter_plan(data, system=system, folder=tmp_path), encoding="utf-8")
    plan = read_plan(plan_path)
    assert (plan.dataset.format, plan.dataset.path) == (name, data)
    assert (plan.system is None) is (system is None and formats()[name].one_file)
    assert looks_like_plan(plan_path)
    checked = check_plan(plan_path, need_system=False)
    assert checked.problems == []
    assert plan.metrics is None or not any("asked for run.top_k" in one for one in checked.notes)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    save_jsonl_dataset(SAMPLES, tmp_path / "data.jsonl")
    return tmp_path / "data.jsonl"


def test_starter_plan_describes_the_data(data: Path) -> None:
    text = starter_plan(data, folder=data.parent)
    assert "# 3 samples: 3 with relevant documents, 3 with a reference answer" in text
    assert "dataset: {jsonl: data.jsonl}" in text
    assert "  # Retrieval relevance\n" in text
    assert "  - recall@5\n" in text
    assert '  python: "my_app.rag:build"   # EDIT ME\n' in text
    assert "  # - citation_coverage   # for a system that cites\n" in text
    # labels.row has another value for every sample, which is no group.
    assert '  - labels.lang\n  - "labels.odd key: [x]"\n\n' in text


def test_saved_outputs(data: Path) -> None:
    answers = data.parent / "answers.jsonl"
    save_jsonl_outputs(OUTPUTS.items(), answers)
    path = data.parent / "plan.yaml"
    path.write_text(starter_plan(data, outputs=answers, folder=data.parent))
    assert "\nrun:" not in path.read_text()
    plan = read_plan(path)
    assert plan.outputs is not None
    assert (plan.outputs.format, plan.outputs.path) == ("jsonl", answers)
    assert plan.metrics is not None
    assert "mean_latency[end_to_end]" in plan.metrics
    assert check_plan(path).problems == []


def test_answers_without_documents_have_no_retrieval_metrics(data: Path) -> None:
    answers = data.parent / "answers.jsonl"
    answers.write_text("".join(f'{{"sample_id": "q{n}", "response": "x"}}\n' for n in (1, 2, 3)))
    path = data.parent / "plan.yaml"
    path.write_text(starter_plan(data, outputs=answers, folder=data.parent))
    assert "recall" not in path.read_text()
    assert check_plan(path).problems == []


SYSTEMS = [  # asked, kind, part of its options
    ("my.app:make", "python", {"path": "my.app:make"}),
    ("https://host/ask?lang=de", "http", {"url": "https://host/ask?lang=de"}),
    ("python -m my_app", "command", {"command": ["python", "-m", "my_app"]}),
    ("./ask.sh", "command", {"command": ["./ask.sh"]}),
]


@pytest.mark.parametrize(("asked", "kind", "part"), SYSTEMS)
def test_named_system(asked: str, kind: str, part: dict[str, object], data: Path) -> None:
    path = data.parent / "plan.yaml"
    path.write_text(starter_plan(data, system=asked, folder=data.parent))
    assert "EDIT ME" not in path.read_text()
    system = read_plan(path).system
    assert system is not None
    assert system.kind == kind
    assert part.items() <= system.options.items()


def test_invalid_arguments(data: Path) -> None:
    with pytest.raises(BadValueError, match="cannot tell what system 'nonsense' is"):
        starter_plan(data, system="nonsense")
    with pytest.raises(BadValueError, match="not both"):
        starter_plan(data, system="http", outputs=data)
    with pytest.raises(AueporaError, match="no such file"):
        starter_plan(data.parent / "nothing.jsonl")


def test_paths_are_relative_to_the_plan(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = data.parent / "plans"
    inner.mkdir()
    (inner / "p.yaml").write_text(starter_plan(data, folder=inner))
    assert "{jsonl: ../data.jsonl}" in (inner / "p.yaml").read_text()
    assert read_plan(inner / "p.yaml").dataset.path.resolve() == data.resolve()
    monkeypatch.chdir(data.parent)
    assert "{jsonl: data.jsonl}" in starter_plan("data.jsonl"), "by default it will lie in the current folder"
    far = data.parent / "a" / "b" / "c"
    far.mkdir(parents=True)
    assert str(data) in starter_plan(data, folder=far)


@pytest.mark.parametrize(
    "name", ["no.jsonl", "1e3.jsonl", "with space.jsonl", 'quote".jsonl', "ünï: #x.jsonl", "-.jsonl"]
)
def test_awkward_names_of_files(name: str, tmp_path: Path) -> None:
    save_jsonl_dataset(SAMPLES, tmp_path / name)
    (tmp_path / "plan.yaml").write_text(starter_plan(tmp_path / name, folder=tmp_path), encoding="utf-8")
    plan = read_plan(tmp_path / "plan.yaml")
    assert plan.dataset.path == tmp_path / name
    assert plan.name == name.removesuffix(".jsonl")


def test_samples_without_annotations(tmp_path: Path) -> None:
    save_jsonl_dataset([EvaluationSample("1", "?")], tmp_path / "d.jsonl")
    (tmp_path / "plan.yaml").write_text(starter_plan(tmp_path / "d.jsonl", folder=tmp_path))
    assert "# 1 sample, without any annotation" in (tmp_path / "plan.yaml").read_text()
    assert check_plan(tmp_path / "plan.yaml", need_system=False).fine


def test_table_with_named_columns(tmp_path: Path) -> None:
    """A table of questions needs a system; one with answers is dataset and outputs."""
    table = tmp_path / "faq.csv"
    table.write_text("Frage,Antwort,Soll\nWie lange?,zwei Jahre,zwei Jahre\n")
    questions = {"query": "Frage", "reference": "Soll"}
    for columns, key in ((questions, "system"), ({**questions, "response": "Antwort"}, "outputs")):
        text = starter_plan(table, folder=tmp_path, purpose="answers", columns=columns)
        written = yaml.safe_load(text)
        assert written["dataset"] == {"table": "faq.csv", "columns": columns}
        assert key in written
        plan = tmp_path / f"{key}.yaml"
        plan.write_text(text)
        assert read_plan(plan).metrics


def test_few_primary_metrics(tmp_path: Path) -> None:
    """One metric per target, each of which the plan computes; the word overlap of the answer is not among them."""
    save_jsonl_dataset(SAMPLES, tmp_path / "data.jsonl")
    text = starter_plan(tmp_path / "data.jsonl", folder=tmp_path, system="python")
    (tmp_path / "plan.yaml").write_text(text)
    plan = read_plan(tmp_path / "plan.yaml")
    assert plan.primary == ("recall@5", "ndcg@10", "support_density", "token_f1")
    # Other metrics on the command line take the primary ones with them.
    assert read_plan(tmp_path / "plan.yaml", changes={"metrics": ["recall@5", "mrr"]}).primary == ("recall@5",)


@pytest.mark.parametrize(("documents", "primary"), [(60, ["recall@5", "ndcg@10"]), (3, [])])
def test_metric_by_document_with_a_high_chance_level_is_not_primary(
    tmp_path: Path, documents: int, primary: list[str]
) -> None:
    samples, outputs = [], {}
    for number in range(60):
        names = [f"doc{(number + shift) % documents}" for shift in (0, 7, 14, 23, 31)]
        ranking = [Document(f"{name}#{rank}", parent_id=name) for rank, name in enumerate(names, 1)]
        samples.append(EvaluationSample(str(number), "?", [Document(names[0])]))
        outputs[str(number)] = SystemOutputs([RetrievedDocument(doc, 1.0, rank) for rank, doc in enumerate(ranking, 1)])
    save_jsonl_dataset(samples, tmp_path / "data.jsonl")
    save_jsonl_outputs(outputs.items(), tmp_path / "out.jsonl")
    text = starter_plan(tmp_path / "data.jsonl", outputs=tmp_path / "out.jsonl", folder=tmp_path)
    assert "# Gold is matched by document: 60 of 60 gold ids are parents of retrieved chunks; chance level" in text
    assert "\ngold: {match: auto}" in text
    (tmp_path / "plan.yaml").write_text(text)
    plan = read_plan(tmp_path / "plan.yaml")
    assert list(plan.primary or ()) == primary
    assert ("# No metric by document is primary: the chance level is " in text) is (not primary)
    assert "bpref" not in text, "it has no value by document"


@pytest.mark.parametrize("metadata", [{}, {"embedding": [1.0, 2.0]}])
def test_diversity_of_lists_is_proposed_only_with_embeddings(tmp_path: Path, metadata: dict[str, Any]) -> None:
    documents = [Document(name, f"Text {name}.", dict(metadata)) for name in "ab"]
    ranking = [RetrievedDocument(document, 1.0, rank) for rank, document in enumerate(documents, 1)]
    save_jsonl_dataset(SAMPLES, tmp_path / "data.jsonl")
    save_jsonl_outputs([(one.sample_id, SystemOutputs(ranking)) for one in SAMPLES], tmp_path / "out.jsonl")
    text = starter_plan(tmp_path / "data.jsonl", outputs=tmp_path / "out.jsonl", folder=tmp_path)
    assert ("intra_list_diversity" in text) == bool(metadata)


class TestPurposes:
    SAMPLES: ClassVar = [
        {"sample_id": str(n), "query": f"q{n}", "relevant_docs": [f"d{n}"], "reference_answer": f"a{n}"}
        for n in range(4)
    ]

    def plan(self, folder: Path, purpose: Purpose | None, *, leave_out: Sequence[str] = ()) -> Plan:
        rows = [{key: value for key, value in row.items() if key not in leave_out} for row in self.SAMPLES]
        outputs = [{"sample_id": row["sample_id"], "retrieved": ["d1"], "response": "a1"} for row in rows]
        for name, lines in (("data", rows), ("outputs", outputs)):
            (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in lines))
        text = starter_plan(folder / "data.jsonl", outputs=folder / "outputs.jsonl", folder=folder, purpose=purpose)
        (folder / "plan.yaml").write_text(text)
        return read_plan(folder / "plan.yaml")

    @pytest.mark.parametrize("purpose", ["retrieval", "answers", "no-gold"])
    def test_up_to_eight_metrics(self, tmp_path: Path, purpose: Purpose) -> None:
        plan = self.plan(tmp_path, purpose)
        assert plan.metrics is not None
        assert 4 <= len(plan.metrics) <= MAX_METRICS
        assert set(plan.primary) <= {str(spec) for spec in plan.metrics}

    def test_everything_has_more(self, tmp_path: Path) -> None:
        assert len(self.plan(tmp_path, "everything").metrics or ()) > MAX_METRICS

    @pytest.mark.parametrize(
        ("leave_out", "purpose"),
        [
            ((), "answers"),
            (("reference_answer",), "retrieval"),
            (("reference_answer", "relevant_docs"), "no-gold"),
        ],
    )
    def test_annotations_decide(self, tmp_path: Path, leave_out: Sequence[str], purpose: Purpose) -> None:
        chosen = self.plan(tmp_path, None, leave_out=leave_out)
        assert chosen.metrics == self.plan(tmp_path, purpose, leave_out=leave_out).metrics

    def test_guardrails_and_judge(self, tmp_path: Path) -> None:
        assert self.plan(tmp_path, "retrieval").guardrails == {"empty_result_rate": 0.02}
        self.plan(tmp_path, "answers")
        lines = (tmp_path / "plan.yaml").read_text().splitlines()
        judge = [line.removeprefix("# ") for line in lines if line.startswith(("# resources:", "#   judge:"))]
        assert yaml.safe_load("\n".join(judge))["resources"]["judge"]["openai"]["api_key_env"] == "MY_API_KEY"
