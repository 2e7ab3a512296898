"""Gold as chunk ids, document ids, spans and texts: stored runs and diagnoses find the same causes in all forms."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument
from auepora_eval.core.conventions import Conventions
from auepora_eval.engine import gold_match
from auepora_eval.errors import BadValueError
from auepora_eval.perturb.documents import Perturbation, Perturber, gold_of
from auepora_eval.plan.model import plan_changes
from auepora_eval.plan.prepare import plan_problems
from auepora_eval.runs.perturbed import run_perturbed
from auepora_eval.runs.run import run_plan, run_system
from auepora_eval.runs.scoring import rescore
from auepora_eval.store.records import conventions_label, plan_conventions
from auepora_eval.store.runs import RunStore
from helpers.planted_systems import FORMS, PLANTED, QUESTIONS, chunk_of, gold, sentence, write_project
from runs.test_kill import killed_at

Auepora = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "gold_items", raising=False)
    return tmp_path


# --- the planted cause -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "form", ["document", *(pytest.param(form, marks=pytest.mark.slow) for form in FORMS if form != "document")]
)
def test_planted_cause(folder: Path, auepora: Auepora, form: str) -> None:
    for retriever, generator in PLANTED:
        write_project(folder, form, retriever, generator)
        check_run(auepora, form, retriever, generator)
        check_diagnosis(auepora, retriever, generator)
    changes = {"bad and good": "lost", "good and bad": "answer_changed"}
    for name, cause in changes.items():
        code, out, err = auepora("compare", "good and good", name, "--store", "runs.sqlite", "--why", "--json")
        assert code == 0, err
        found = [change["cause"] for change in json.loads(out)["changes"]]
        assert found == [cause] * 15


def check_run(auepora: Auepora, form: str, retriever: str, generator: str) -> None:
    code, out, err = auepora("run", "plan.yaml", "--name", f"{retriever} and {generator}", "--json")
    assert code == 0, err
    document = json.loads(out)
    values = {result["name"]: result["value"] for result in document["results"]}
    assert values["recall@4"] == (0.25 if retriever == "bad" else 1)
    assert values["containment"] == (0.25 if "bad" in (retriever, generator) else 1)
    if form == "chunk":
        assert "gold_match" not in document
        assert "gold is matched" not in err
    else:
        assert document["gold_match"]["match"] == FORMS[form]
        assert document["gold_match"]["sentence"] in err


def check_diagnosis(auepora: Auepora, retriever: str, generator: str) -> None:
    code, out, err = auepora("diagnose", "plan.yaml", "--json", "--corpus", "corpus.jsonl")
    assert code == 0, err
    causes = {name: cause["count"] for name, cause in json.loads(out)["causes"].items() if cause["count"]}
    if "bad" not in (retriever, generator):
        assert causes == {}
    else:
        assert causes == {"retrieval" if retriever == "bad" else "ignores_context": 15}


@pytest.mark.parametrize("form", ["document", "span"])
def test_gold_texts_from_retrieved_chunks(folder: Path, auepora: Auepora, form: str) -> None:
    """Gold without texts is given as the chunks that were retrieved for any question, which is said."""
    write_project(folder, form, "good", "bad")
    assert auepora("diagnose", "plan.yaml")[0] == 2, "no text is known before the first run"
    auepora("run", "plan.yaml")
    code, out, err = auepora("diagnose", "plan.yaml", "--json", "--arms", "none,oracle,retrieved,mixed,each")
    assert code == 0, err
    document = json.loads(out)
    assert document["causes"]["ignores_context"]["count"] == 15
    assert document["causes"]["retrieval"]["count"] == 0
    assert any("joined from the chunks" in note for note in document["notes"])
    with RunStore.open("runs.sqlite") as store:
        ways = {plan_conventions(record).match for record in store.runs()}
        oracle = store.find(document["runs"]["arm=oracle"])
        given = [row.output.retrieved[0].doc.text for row in store.outputs(oracle.run_id)]
    assert ways == {FORMS[form]}
    assert all(sentence(number) in text for number, text in enumerate(given))


# --- the way of a run: stored once, kept by resumed runs and by rescoring --------------------------------------------


def test_resume_keeps_the_way(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed run resolves when it has its outputs; a finished one keeps its way when failed samples are retried."""
    write_project(folder, "document", seconds=0.1)
    project: Any = SimpleNamespace(folder=folder)
    assert killed_at(project, 5, "run", "plan.yaml")
    with RunStore.open("runs.sqlite") as store:
        (record,) = store.runs()
        assert "gold" not in record.plan
    outcome = run_plan("plan.yaml", resume=True)
    assert len((folder / "calls.log").read_text().splitlines()) < 2 * QUESTIONS
    assert outcome.record.plan["gold"]["match"] == "auto"
    assert outcome.record.plan["gold"]["resolved"]["match"] == "parent"
    assert outcome.results is not None
    assert outcome.results.by_name["recall@4"].signature == "recall@4|empty:skip|match:parent|v1"
    monkeypatch.setattr(gold_match.MatchCounts, "choose", lambda _: "text")
    again = run_plan("plan.yaml", resume=True, retry_failed=True)
    assert plan_conventions(again.record).match == "parent"
    assert again.results is not None
    assert again.results.by_name["recall@4"].value == 1
    loaded = run_plan("plan.yaml", resume=True)
    assert loaded.results is not None
    assert (loaded.results.gold_match or {})["match"] == "parent"


def test_rescore(folder: Path, auepora: Auepora) -> None:
    write_project(folder, "document")
    outcome = run_plan("plan.yaml")
    run_id = outcome.record.run_id
    assert conventions_label(outcome.record) == "auepora, match parent"
    code, out, err = auepora("rescore", run_id, "-m", "hit_rate@2", "--json")
    assert code == 0, err
    (kept,) = json.loads(out)["results"]
    assert (kept["value"], kept["signature"]) == (1.0, "hit_rate@2|empty:skip|match:parent|v1")
    assert "chance" in kept["details"]
    code, out, err = auepora("rescore", run_id, "-m", "hit_rate@2", "--match", "id")
    assert "0.0000" in out
    assert "conventions: auepora\n" in out
    code, out, err = auepora("rescore", run_id, "-m", "hit_rate@2", "--conventions", "golden")
    assert "conventions: golden, match parent" in out
    code, out, err = auepora("rescore", run_id, "-m", "hit_rate@2", "--conventions", "trec", "--json")
    assert json.loads(out)["results"][0]["value"] == 0
    assert auepora("rescore", run_id, "--conventions", "trec", "--match", "span")[0] == 2
    code, out, err = auepora("rescore", run_id, "-m", "recall@3", "--match", "auto", "--json")
    assert json.loads(out)["gold_match"]["match"] == "parent"
    with RunStore.open("runs.sqlite") as store:
        stored = store.results(run_id, every_signature=True)
        assert store.get(run_id).plan == outcome.record.plan
    signatures = {result.signature for result in stored if result.name == "hit_rate@2"}
    assert {"hit_rate@2|empty:skip|match:parent|v1", "hit_rate@2|empty:skip|v1"} <= signatures


def test_rescore_with_other_gold(folder: Path) -> None:
    """Grades name what was retrieved, whatever the form of the gold of the run is."""
    write_project(folder, "document")
    outcome = run_plan("plan.yaml")
    lines = []
    for number in range(QUESTIONS):
        document, place, _ = chunk_of(number)
        lines.append(f"q{number} 0 {document}#{place} 1\n")
    (folder / "qrels.txt").write_text("".join(lines))
    with RunStore.open("runs.sqlite") as store:
        (result,) = rescore(outcome.record, ["recall@4"], qrels=folder / "qrels.txt", store=store)
    assert result.value == 1
    assert "match" not in str(result.signature)


def test_repeats_and_explicit_ways(folder: Path) -> None:
    write_project(folder, "document", more="gold: {match: parent}")
    (folder / "plan.yaml").write_text((folder / "plan.yaml").read_text().replace("top_k: 4", "top_k: 4, repeats: 2"))
    outcome = run_plan("plan.yaml")
    assert outcome.record.plan["gold"] == {"match": "parent"}
    assert outcome.record.plan["conventions"]["match"] == "parent"
    assert outcome.results is not None
    assert outcome.results.by_name["recall@4"].value == 1
    assert (outcome.results.gold_match or {})["is_auto"] is False
    by_id = run_plan("plan.yaml", changes={"gold.match": "id"})
    assert by_id.results is not None
    assert by_id.results.by_name["recall@4"].value == 0
    with pytest.raises(BadValueError, match=r"gold\.match: parent -> id"):
        run_plan("plan.yaml", changes={"gold.match": "id"}, resume=True, run=outcome.record.run_id)


def test_half_of_the_gold_occurs_nowhere(folder: Path) -> None:
    """A miss counts 0, and is never skipped."""
    write_project(folder, "document", generator="good")
    rows = [json.loads(line) for line in (folder / "data.jsonl").read_text().splitlines()]
    for row in rows[::2]:
        row["relevant_docs"] = [{"doc_id": "nowhere"}]
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    results = run_plan("plan.yaml").results
    assert results is not None
    recall = results.by_name["recall@4"]
    assert (recall.value, recall.details["num_samples"]) == (0.5, QUESTIONS)


def test_contradiction_is_a_warning(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("auepora_eval.engine.gold_match", "auepora_eval.runs.job"):
        monkeypatch.setattr(f"{module}.SAMPLES_READ", 4)
    monkeypatch.setattr(gold_match.MatchCounts.__init__, "__defaults__", (4,))
    write_project(folder, "document")
    rows = [json.loads(line) for line in (folder / "data.jsonl").read_text().splitlines()]
    for number, row in enumerate(rows[:4]):
        row["relevant_docs"] = [gold(number, "chunk")]
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    outcome = run_plan("plan.yaml")
    assert outcome.results is not None
    assert plan_conventions(outcome.record).match == "id"
    (warning,) = [text for text in outcome.results.warnings if "samples with gold decided" in text]
    assert "repeat with --match parent" in warning


def test_by_id_nothing_is_stored(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A finished run without a stored way matches by id, also when failed samples are retried."""
    write_project(folder, "chunk")
    outcome = run_plan("plan.yaml")
    assert "gold" not in outcome.record.plan
    monkeypatch.setattr(gold_match.MatchCounts, "choose", lambda _: "parent")
    again = run_plan("plan.yaml", resume=True, retry_failed=True)
    assert again.results is not None
    assert "match" not in str(again.results.by_name["recall@4"].signature)


# --- plans -----------------------------------------------------------------------------------------------------------


def test_plan_errors(folder: Path) -> None:
    def problems(more: str) -> list[str]:
        write_project(folder, "document", more=more)
        return [str(error) for error in plan_problems("plan.yaml")]

    assert problems("") == []
    assert problems("gold: {match: auto}") == []
    (wrong,) = problems("gold: {match: chunk}")
    assert "plan.yaml:8: gold.match: " in wrong
    assert "auto, id, span, text, parent" in wrong
    (unknown,) = problems("gold: {macth: id}")
    assert "did you mean 'match'?" in unknown
    for conventions in ("trec", "paper", "client"):
        (refused,) = problems(f"gold: {{match: parent}}\nconventions: {conventions}")
        assert "plan.yaml:8: gold.match: " in refused
        assert f"'{conventions}' compare document ids" in refused
        assert problems(f"gold: {{match: auto}}\nconventions: {conventions}") == []
    (both,) = problems("conventions: {name: trec, match: span}")
    assert "conventions.match" in both


def test_plans_stored_before_can_be_resumed() -> None:
    old = {"name": "items", "conventions": {"name": "auepora"}}
    assert plan_changes(old, old) == []
    resolved = {**old, "gold": {"match": "auto", "resolved": {"match": "parent"}}}
    assert plan_changes(old, resolved) == plan_changes(resolved, old) == []
    assert plan_changes(resolved, {**old, "gold": {"match": "id"}}) == ['gold: nothing -> {"match": "id"}']


# --- perturbed runs and Python ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_perturbed_runs(folder: Path, form: str) -> None:
    """What is dropped is the gold by the way of the unperturbed run, whichever level is listed first."""
    write_project(folder, form, generator="good")
    runs = run_perturbed("plan.yaml", "drop=1,0")
    recalls = {}
    for level, outcome in runs.outcomes.items():
        assert outcome.results is not None
        assert plan_conventions(outcome.record).match == FORMS[form]
        recalls[level] = outcome.results.by_name["recall@4"].value
    assert recalls == {0.0: 1.0, 1.0: 0.0}


def test_arms_use_the_way_of_the_original_documents(folder: Path) -> None:
    write_project(folder, "document", generator="good")
    rows = [json.loads(line) for line in (folder / "data.jsonl").read_text().splitlines()]
    for row in rows:
        row["metadata"] = {"wrong_answer": "B0"}
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    runs = run_perturbed("plan.yaml", "arms=none,original,edited")
    ways = {arm: plan_conventions(outcome.record).match for arm, outcome in runs.outcomes.items()}
    assert ways == {"none": "id", "original": "parent", "edited": "parent"}  # nothing is retrieved without documents
    assert runs.together is not None
    assert plan_conventions(runs.together.record).match == "parent"
    edited = runs.outcomes["edited"].record
    with RunStore.open("runs.sqlite") as store:
        done = [row.output.extra["perturbation"] for row in store.outputs(edited.run_id)]
    assert all(record["edited"] for record in done)


def test_gold_of_a_document() -> None:
    passages = [Document("a", parent_id="d", span=(0, 100)), Document("b", parent_id="d", span=(100, 200))]
    sample = EvaluationSample("q", "?", relevant_docs=passages)
    chunk = Document("d#0", "text", parent_id="d", span=(0, 190))
    assert gold_of(sample, chunk, "span") == ["a", "b"]
    assert gold_of(sample, Document("e#0", parent_id="e", span=(0, 190)), "span") == []
    assert gold_of(sample, chunk, "parent") == ["a", "b"]
    assert gold_of(sample, chunk) == []
    kept, record = Perturber(Perturbation(drop=1), match="span").apply(sample, [RetrievedDocument(chunk, 1.0, 1)])
    assert (kept, record) == ([], {"dropped": ["d#0"]})


def test_python(tmp_path: Path) -> None:
    class Retriever:
        def retrieve(self, query: str, *, top_k: int) -> list[RetrievedDocument]:
            return [RetrievedDocument(Document(f"{query}#0", "text", parent_id=query), 1.0, 1)]

    class Generator:
        def generate(self, query: str, documents: object) -> Response:
            return Response("answer")

    samples = [EvaluationSample(name, name, relevant_docs=[Document(name)]) for name in ("a", "b", "c")]
    pair = (Retriever(), Generator())
    for match, expected, label in (
        (None, 0.0, "auepora"),
        ("auto", 1.0, "auepora, match parent"),
        ("parent", 1.0, "auepora, match parent"),
    ):
        outcome = run_system(pair, samples, ["recall@1"], store=tmp_path / f"{match}.sqlite", match=match)  # type: ignore[arg-type]
        assert outcome.results is not None
        assert outcome.results.by_name["recall@1"].value == expected
        assert conventions_label(outcome.record) == label
    with pytest.raises(BadValueError, match="compare document ids"):
        run_system(pair, samples, conventions=Conventions.of("trec"), match="span", store=tmp_path / "x.sqlite")
