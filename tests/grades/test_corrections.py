"""Corrections of gold: the journal of proposals, their effect on runs, rescoring, and the commands."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.cli.main import main
from auepora_eval.compare.runs import build_leaderboard, compare_metrics
from auepora_eval.core.conventions import Conventions
from auepora_eval.core.metrics_base import Metric
from auepora_eval.core.registry import Spec
from auepora_eval.engine.evaluate import resolve_metrics
from auepora_eval.errors import AueporaWarning, BadValueError, ConflictError, DataFileError, UnknownCorrectionError
from auepora_eval.gates import check_gates
from auepora_eval.grades.corrections import (
    MetricEffect,
    RunEffect,
    apply_corrections,
    make_correction,
    preview_corrections,
    run_names,
)
from auepora_eval.io.grades import CorrectedGold, Correction, CorrectionKind, CorrectionLog, GoldValue, gold_value
from auepora_eval.metrics.answer_judged import LLMAnswerRelevance, LLMCorrectness
from auepora_eval.report.explain import explain
from auepora_eval.runs.job import ScoringJob
from auepora_eval.runs.scoring import CorrectionStep, score_run
from auepora_eval.store.runs import RunStore
from helpers import stored_runs
from helpers.critics import SteadyCritic

MANY: list[Spec | Metric] = ["recall@5", "ndcg@10", "token_f1", "bleu"]
PAIRED: Spec = {"noise_robustness": {"base": "recall@5"}}
FEW: list[Spec | Metric] = ["recall@5", "token_f1"]


def dataset(n: int = 12, *, provenance: bool = False) -> list[EvaluationSample]:
    """Samples of which every third is a noisy variant of the one before; with the provenance of grades if requested."""
    rows = stored_runs.samples(n, reference="the short answer is yes")
    for number, sample in enumerate(rows if provenance else ()):
        sample.metadata["gold_by"] = {"model": number % 2, "human": 1}
    for number, sample in enumerate(rows):
        if number % 3 == 2:
            sample.labels |= {"scenario": "typo", "variant_of": rows[number - 1].sample_id}
    return rows


def answer(number: int) -> stored_runs.Answer:
    if number == 7:
        return ValueError("no answer")
    documents = [Document(one, f"text of {one}") for one in (["other", "gold"] if number % 4 else ["more"])]
    hits = [RetrievedDocument(one, None, rank) for rank, one in enumerate(documents, start=1)]
    return SystemOutputs(hits, Response(f"yes {number}, it is a short answer"))


def change(kind: CorrectionKind, sample: str, after: GoldValue, doc: str = "", before: GoldValue = None) -> Correction:
    return Correction(f"{kind}-{sample}-{doc}", kind, "f", sample, before, after, doc, by="ann")


# --- samples ---------------------------------------------------------------------------------------------------------

GRADE_ROWS = [  # relevant ids with levels (None: not annotated), candidates, document, grade, relevant, candidates, why
    ({"a": 1}, None, "b", 2, {"a": 1, "b": 2}, None, "an unjudged document becomes relevant"),
    ({"a": 1}, ["b"], "b", 1, {"a": 1, "b": 1}, ["b"], "a candidate becomes relevant"),
    ({"a": 1, "b": 2}, None, "b", 0, {"a": 1}, ["b"], "a relevant document becomes a candidate"),
    ({"a": 3}, None, "a", 1, {"a": 1}, None, "the grade changes in its place"),
    ({"a": 1}, None, "a", 0, {}, ["a"], "nothing is relevant any more"),
    (None, None, "a", 0, None, ["a"], "one document that is not relevant does not annotate a sample"),
    (None, None, "a", 1, {"a": 1}, None, "a relevant one does"),
]


@pytest.mark.parametrize("row", GRADE_ROWS, ids=[row[-1] for row in GRADE_ROWS])
def test_a_grade_changes_the_documents_of_a_sample(row: tuple[Any, ...]) -> None:
    levels, candidates, doc_id, grade, relevant, others, _ = row
    given = None if levels is None else [Document(one, "text", {"relevance": n, "k": 1}) for one, n in levels.items()]
    others_before = None if candidates is None else [Document(one) for one in candidates]
    sample = EvaluationSample("q", "?", given, others_before, metadata={"gold_by": {"model": 1}})
    gold = CorrectedGold.of([change("grade", "q", grade, doc_id)])
    corrected = gold.correct(sample)
    found = None if corrected.relevant_docs is None else {
        one.doc_id: one.metadata["relevance"] for one in corrected.relevant_docs
    }  # fmt: skip
    assert found == relevant
    assert [one.doc_id for one in corrected.candidate_docs or ()] == (others or [])
    assert gold_value(corrected, "grade", doc_id) == grade
    is_new = doc_id not in (levels or {}) and doc_id not in (candidates or ())
    assert corrected.metadata["gold_by"] == {"model": 1, **({"human": 1} if is_new else {})}
    assert all(one.metadata["k"] == 1 for one in corrected.relevant_docs or () if one.doc_id in (levels or {}))


def test_references_replace_those_of_the_sample_and_keep_its_fields() -> None:
    sample = EvaluationSample("q", "?", reference_answer=Response("old", {"year": 1}), reference_answers=["older"])
    corrected = CorrectedGold.of([change("references", "q", ("new", "newer"))]).correct(sample)
    assert corrected.references == ["new", "newer"]
    assert corrected.reference_answer is not None
    assert corrected.reference_answer.structured == {"year": 1}
    assert sample.references == ["old", "older"]


def test_the_signature_depends_on_the_values_alone() -> None:
    one, other = change("grade", "q", 2, "d"), change("references", "q", ("x",))
    gold = CorrectedGold.of([one, other])
    again = CorrectedGold.of([other, replace(one, after=1), replace(one, id="new", by="bob", why="?", at="later")])
    assert gold.signature == again.signature != CorrectedGold.of([one]).signature
    assert CorrectedGold.of([change("invalid", "q", False)]).signature is None


# --- the journal -----------------------------------------------------------------------------------------------------


def test_the_journal_keeps_proposals_and_refuses_what_contradicts_them(tmp_path: Path) -> None:
    log, other = CorrectionLog(tmp_path / "new" / "labels"), CorrectionLog(tmp_path / "new" / "labels")
    first = change("grade", "q\N{RIGHT-TO-LEFT OVERRIDE}<b>", 2, "d")
    log.propose(replace(first, by="<script>", why="a\nb"))
    assert other.propose(replace(first, id="x")).correction.id == first.id, "an open one with this value"
    second = other.propose(replace(first, id="y", after=3)).correction
    with pytest.raises(ConflictError, match="withdraw one of them"):
        log.accept([first.id, second.id], by="bob")
    assert [one.state for one in other.accept([first.id, first.id], by="bob")] == ["accepted"]
    log.accept([first.id], by="bob")  # again: nothing is written
    with pytest.raises(ConflictError, match="the gold is now grade 2; propose the change again"):
        log.accept([second.id], by="bob")
    log.withdraw(["y"], by="bob", why="outdated")
    with pytest.raises(ConflictError, match="was withdrawn"):
        log.accept(["y"], by="bob")
    with pytest.raises(ConflictError, match="another content"):
        log.propose(replace(first, after=1))
    with pytest.raises(UnknownCorrectionError, match="there is no proposal"):
        log.withdraw(["none"], by="bob")
    lines = log.path.read_bytes().splitlines()
    assert [json.loads(line).get("event") for line in lines] == [None, "propose", "propose", "accept", "withdraw"]
    assert [one.state for one in CorrectionLog(log.path.parent).proposals()] == ["accepted", "withdrawn"]
    assert log.accepted("f") == [replace(first, by="<script>", why="a\nb")]
    assert log.accepted("other") == []
    third = log.propose(replace(first, id="z", before=2, after=1)).correction
    log.withdraw([first.id], by="bob")
    with pytest.raises(ConflictError, match="withdrawn: the gold is now not judged; propose the change again"):
        log.accept([third.id], by="bob")


def test_a_torn_line_is_skipped_and_an_invalid_one_is_named(tmp_path: Path) -> None:
    log = CorrectionLog(tmp_path)
    log.propose(change("grade", "q", 2, "d"))
    with log.path.open("ab") as file:
        file.write(b'{"event":"propose","id":"to')
    with pytest.warns(AueporaWarning, match="cut off"):
        log.propose(change("grade", "q", 1, "e"))
    assert len(log.proposals()) == 2
    log.path.write_bytes(log.path.read_bytes().splitlines()[1].replace(b'"after":2', b'"after":"high"'))
    with pytest.raises(DataFileError, match=r"corrections.jsonl:1: not a proposal.*after"):
        CorrectionLog(tmp_path).proposals()


# --- the effect on runs ----------------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunStore]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUEPORA_STORE", raising=False)
    with RunStore.open("runs.sqlite") as opened:
        yield opened


def effects_by_name(effects: Sequence[RunEffect]) -> dict[tuple[str, str], MetricEffect]:
    return {(one.record.name, metric.name): metric for one in effects for metric in one.metrics}


@pytest.mark.parametrize(
    ("repeats", "metrics", "slices"),
    [(1, MANY, ["labels.scenario"]), (2, ["recall@5", "ndcg@10", "token_f1", PAIRED], [])],
)
def test_the_preview_is_a_full_evaluation_to_the_last_bit(
    store: RunStore, repeats: int, metrics: list[Spec | Metric], slices: list[str]
) -> None:
    rows = dataset(provenance=bool(slices))
    run = stored_runs.run(store, "a", rows, answer, metrics, repeats=repeats, slices=slices)
    stored_runs.run(store, "other data", dataset(3), answer, ["recall@5"])
    changes = [
        make_correction(store, run, "q00001", "grade", 1, doc_id="other", by="ann", why="answers it"),
        make_correction(store, run, "q00004", "grade", 0, doc_id="gold", by="ann"),
        make_correction(store, run, "q00005", "references", ["yes 5", "no"], by="ann"),
        make_correction(store, run, "q00010", "invalid", by="ann"),
    ]
    effects = preview_corrections(store, changes)
    assert [one.record.name for one in effects] == ["a"]
    gold = CorrectedGold.of(changes)
    corrected = [gold.correct(one) for one in rows if one.sample_id not in gold.invalid]
    corrected[10] = replace(corrected[10], labels={"scenario": "typo"})  # a variant of the invalid sample
    full = stored_runs.run(store, "full", corrected, answer, metrics, repeats=repeats)
    found = effects_by_name(effects)
    assert {name for _, name in found} == {one.name for one in store.results(run.run_id)}
    for result in store.results(full.run_id):
        assert found["a", result.name].new == result.value, result.name
    assert found["a", "recall@5"].changed == ("q00004", "q00010"), "both documents of q00001 are returned"
    assert found["a", "ndcg@10"].changed == ("q00001", "q00004", "q00010")
    assert found["a", "token_f1"].changed == ("q00005", "q00010")
    assert len(store.results(run.run_id, every_signature=True)) == len(metrics), "nothing is stored"
    log = CorrectionLog("labels")
    for one in changes:
        log.propose(one)
    applied = apply_corrections(store, log, run.fingerprint, [one.id for one in changes], by="bob")
    assert applied == effects
    assert len(store.results(run.run_id, every_signature=True)) == 2 * len(metrics)
    stored = store.results(run.run_id)
    places = [number for number, one in enumerate(rows) if one.sample_id in gold.invalid]
    job = ScoringJob(
        store,
        run,
        resolve_metrics(metrics),
        conventions=Conventions.of(),
        slices=slices,
        samples=[gold.correct(one) for one in rows],
        gold=gold.signature,
    )
    score_run(job, [CorrectionStep(places)])
    for result in store.results(run.run_id):
        assert stored.by_name[result.name].details.pop("corrections")["count"] == 4
        assert stored.by_name[result.name] == result, "from the scores of the changed samples alone"
    assert apply_corrections(store, log, run.fingerprint, by="bob")[0].metrics == (), "nothing is left to do"


def test_corrections_change_the_current_results_and_a_withdrawal_restores_them(store: RunStore) -> None:
    rows = dataset(6)
    first = stored_runs.run(store, "a", rows, answer, FEW)
    before = [(one.value, one.signature) for one in store.results(first.run_id)]
    log = CorrectionLog("labels")
    proposal = log.propose(make_correction(store, first, "q00001", "grade", 1, doc_id="absent", by="ann"))
    apply_corrections(store, log, first.fingerprint, [proposal.correction.id], by="bob")
    corrected = store.result(first.run_id, "recall@5")
    assert corrected.value != before[0][0]
    assert "|gold:corrections-" in str(corrected.signature)
    assert corrected.details["corrections"] == {"count": 1, "invalid": 0, "value_before": before[0][0]}
    assert "gold:" not in str(store.result(first.run_id, "token_f1").signature), "it does not read grades"
    assert before[0] in [(one.value, one.signature) for one in store.results(first.run_id, every_signature=True)]
    (outcome, *_) = check_gates(["recall@5 >= 0.9"], store.results(first.run_id)).outcomes
    assert outcome.reason.endswith(f"; 1 gold correction ({before[0][0]:.4f} without)")
    explained = [explain(store, "a", "recall@5", query="q00001", corrections=one).query for one in (log, None)]
    assert [one.check.verdict for one in explained if one is not None] == ["equal", "differs"]
    second = stored_runs.run(store, "b", rows, lambda _: ["gold"], FEW)
    compared = compare_metrics(store, store.get(first.run_id), second, metrics=["recall@5"])
    assert compared.metrics[0].a == before[0][0], "both without corrections"
    (note,) = build_leaderboard(store, [store.get(first.run_id), second]).notes
    assert note.startswith("without the gold corrections that only A has: recall@5; `auepora gold apply`")
    apply_corrections(store, log, first.fingerprint, by="bob")
    compared = compare_metrics(store, store.get(first.run_id), second, metrics=["recall@5"])
    assert compared.metrics[0].a == corrected.value, "both with them"
    (note,) = build_leaderboard(store, [store.get(first.run_id), second]).notes
    assert note.startswith("with 1 gold correction: recall@5; ")
    log.withdraw([proposal.correction.id], by="bob")
    apply_corrections(store, log, first.fingerprint, by="bob")
    assert [(one.value, one.signature) for one in store.results(first.run_id)] == before


def test_the_variants_of_a_corrected_sample_change(store: RunStore) -> None:
    run = stored_runs.run(store, "a", dataset(6), answer, [PAIRED])
    (effect,) = preview_corrections(
        store, [make_correction(store, run, "q00001", "grade", 1, doc_id="absent", by="ann")]
    )
    (robustness,) = effect.metrics
    assert robustness.difference
    assert robustness.changed == ("q00002",)
    other = replace(effect, record=replace(run, run_id="run_b"))
    assert run_names([effect, other]) == {run.run_id: f"a ({run.run_id})", "run_b": "a (run_b)"}


def test_a_judge_that_reads_the_gold_is_named_and_another_loses_invalid_samples_only(store: RunStore) -> None:
    judged = [LLMCorrectness(SteadyCritic()), LLMAnswerRelevance(SteadyCritic())]
    run = stored_runs.run(store, "a", dataset(6), answer, judged)
    old = {one.name: one for one in store.results(run.run_id)}
    wrong = make_correction(store, run, "q00001", "references", ["no"], by="ann")
    invalid = make_correction(store, run, "q00003", "invalid", by="ann")
    (effect,) = preview_corrections(store, [wrong])
    assert [(one.name, one.status, one.new) for one in effect.metrics] == [("llm_correctness", "needs judging", None)]
    log = CorrectionLog("labels")
    for one in (wrong, invalid):
        log.propose(one)
    (effect,) = apply_corrections(store, log, run.fingerprint, [wrong.id, invalid.id], by="bob")
    found = {one.name: one for one in effect.metrics}
    assert found["llm_correctness"].status == "needs judging"
    assert store.result(run.run_id, "llm_correctness").signature == old["llm_correctness"].signature
    scores = [
        one for place, one in enumerate(old["llm_answer_relevance"].scores or ()) if place != 3 and one is not None
    ]
    assert found["llm_answer_relevance"].new == store.result(run.run_id, "llm_answer_relevance").value
    explained = explain(store, "a", "llm_answer_relevance", query="q00003", corrections=log).query
    assert explained is not None
    assert (explained.check.verdict, explained.answers[0].outcome) == ("equal", "skipped:invalid_sample")
    assert found["llm_answer_relevance"].new == pytest.approx(sum(scores) / len(scores), abs=1e-15)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"sample_id": "q0001"}, "has no sample 'q0001'; did you mean 'q00001'"),
    ({"kind": "grade", "value": 2}, "needs the id of a document"),
    ({"kind": "invalid", "doc_id": "gold"}, "needs the id of a document"),
    ({"kind": "grade", "doc_id": "gold", "value": -1}, "an integer from 0 up"),
    ({"kind": "grade", "doc_id": "gold", "value": 10**30}, "a grade is at most"),
    ({"kind": "grade", "doc_id": "gold", "value": 1}, "has this gold already: grade 1"),
    ({"kind": "references", "value": ["a", " "]}, "none of them empty"),
    ({"kind": "references", "value": []}, "none of them empty"),
    ({"kind": "label", "value": 1}, "known: grade, references, invalid"),
    ({"by": " "}, "the name of the person"),
]


def test_a_proposal_that_cannot_be_meant_is_refused(store: RunStore) -> None:
    run = stored_runs.run(store, "a", dataset(3), answer, ["recall@5"])
    for changes, message in REFUSED:
        values: dict[str, Any] = {"sample_id": "q00001", "kind": "invalid", "value": True, "by": "ann", **changes}
        with pytest.raises(BadValueError, match=message):
            make_correction(store, run, **values)


def gold_lines(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    with pytest.raises(SystemExit) as ended:
        main(["gold", *arguments])
    captured = capsys.readouterr()
    assert ended.value.code == 0, captured.err
    return json.loads(captured.out) if "--json" in arguments else captured.out


def test_the_commands_propose_preview_apply_and_export(store: RunStore, capsys: pytest.CaptureFixture[str]) -> None:
    run = stored_runs.run(store, "a", dataset(6), answer, ["recall@5"])
    made = gold_lines(capsys, "propose", "a", "q00001", "--document", "other", "--grade", "2", "--json", "--by", "ann")
    assert (made["before"], made["after"], made["document"]) == (None, 2, {"text": "text of other"})
    gold_lines(capsys, "propose", "a", "q00002", "--invalid", "--why", "no\x1b[31mthing")
    assert "\x1b" not in gold_lines(capsys, "list")
    effect = gold_lines(capsys, "preview", "--json")["runs"][0]["metrics"][0]
    assert effect["changed"] == ["q00002"], "both documents of the other are returned"
    with pytest.raises(SystemExit):
        main(["gold", "apply"])
    assert "2 open proposals are not accepted; give ids, or --all" in capsys.readouterr().err
    gold_lines(capsys, "apply", "--all", "--by", "bob")
    assert store.result(run.run_id, "recall@5").value == effect["new"]
    assert "2 gold corrections" in gold_lines_of_show(capsys, "--all")
    sample = gold_lines_of_show(capsys, "--sample", "q00001")
    assert "gold correction  document 'other': not judged -> grade 2, by ann" in sample
    gold_lines(capsys, "export", "a", "-o", "new.jsonl")
    ids = [json.loads(line)["sample_id"] for line in Path("new.jsonl").read_text().splitlines()]
    assert ids == [f"q{number:05}" for number in range(6) if number != 2]
    gold_lines(capsys, "withdraw", made["id"][:6], "--why", "wrong")
    assert [one["state"] for one in gold_lines(capsys, "list", "--json")] == ["withdrawn", "accepted"]


def gold_lines_of_show(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit):
        main(["show", "a", *arguments])
    return capsys.readouterr().out
