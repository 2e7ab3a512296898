"""Runs with claim metrics: shared judgements are stored for all, nothing is requested twice, models come from the plan."""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from auepora_eval.errors import AueporaWarning, PlanError
from auepora_eval.runs.run import run_plan
from auepora_eval.runs.scoring import rescore
from auepora_eval.store import RunStore
from helpers.tiny_models import made

JUDGE = '''
from pathlib import Path
from auepora_eval.errors import JudgeError
from auepora_eval.judge.critic import Judgement, StructuredCritic, Usage
from helpers.critics import framed

class Judge(StructuredCritic):
    """Claims are sentences; a text supports what it contains. Logs its requests."""

    name = model = "toy"

    async def judge(self, request):
        kind = request.prompt_id.partition("/")[0]
        with (Path(__file__).parent / "asked.log").open("a") as log:
            log.write(f"{kind} {request.sample_id}\\n")
        if kind == "claims":
            (text,) = framed(request.prompt, "text")
            if "broken" in text:
                raise JudgeError("content_filter", "not that")
            return Judgement({"claims": text.rstrip(".").split(". ")}, Usage(10, 5))
        known = " ".join(framed(request.prompt, "evidence"))
        said = enumerate(framed(request.prompt, "statement"), 1)
        told = [{"number": n, "why": "", "verdict": "full" if one in known else "none"} for n, one in said]
        return Judgement({"verdicts": told}, Usage(20, 5))

    def cache_key(self, request):
        return {"version": 1}
'''
METRICS = ["claim_precision", "claim_faithfulness", "claim_hallucination"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUEPORA_STORE", raising=False)
    monkeypatch.setattr(sys, "path", sys.path[:])
    (tmp_path / "a_claims_judge.py").write_text(JUDGE)
    yield tmp_path
    sys.modules.pop("a_claims_judge", None)


def plan(answers: list[str], resources: str = "{judge: {python: 'a_claims_judge:Judge'}}", options: str = "") -> Path:
    samples = [
        {"sample_id": str(number), "query": "?", "reference_answer": "Rain falls. Cats sit"}
        for number in range(len(answers))
    ]
    outputs = [
        {"sample_id": str(number), "retrieved": [{"doc": {"doc_id": "d", "text": "Rain falls"}}], "response": answer}
        for number, answer in enumerate(answers)
    ]
    Path("data.jsonl").write_text("\n".join(map(json.dumps, samples)))
    Path("answers.jsonl").write_text("\n".join(map(json.dumps, outputs)))
    listed = "".join(f"  - {name}: {options or '{critic: {use: judge}}'}\n" for name in METRICS)
    path = Path("plan.yaml")
    path.write_text(
        f"dataset: data.jsonl\noutputs: answers.jsonl\nresources: {resources}\nmetrics:\n{listed}store: runs.sqlite\n"
    )
    return path


def asked() -> Counter[str]:
    log = Path("asked.log")
    return Counter(line.split()[0] for line in log.read_text().splitlines()) if log.exists() else Counter()


@pytest.mark.usefixtures("folder")
def test_shared_judgements_are_stored_with_every_metric() -> None:
    outcome = run_plan(plan(["Rain falls. Dogs bark.", "Cats sit. Rain falls. Dogs bark."]))
    assert outcome.results is not None
    values = {result.name: result.value for result in outcome.results}
    assert values == {
        "claim_precision": pytest.approx((1 / 2 + 2 / 3) / 2),
        "claim_faithfulness": pytest.approx((1 / 2 + 1 / 3) / 2),
        "claim_hallucination": pytest.approx((1 / 2 + 1 / 3) / 2),
    }
    assert asked() == {"claims": 2, "support": 2 * 2}
    signatures = {result.name: result.signature for result in outcome.results}
    with RunStore.open("runs.sqlite") as store:
        rows = list(store.judgements(outcome.record.run_id))
        assert all(row.signature == signatures[row.metric] for row in rows)
        assert Counter((row.metric, row.position) for row in rows) == {
            **{("claim_precision", position): 2 for position in range(2)},
            **{("claim_faithfulness", position): 2 for position in range(2)},
            **{("claim_hallucination", position): 3 for position in range(2)},
        }
        usage = {result.name: result.details["judging"] for result in outcome.results}
        assert sum(one["calls"] for one in usage.values()) == sum(asked().values())
        # Scoring one of them again needs nobody, and replaces its own rows alone.
        again = rescore(store.find("latest"), [{"claim_hallucination": {"critic": {"use": "judge"}}}], store=store)
        assert again[0].value == values["claim_hallucination"]
        assert len(list(store.judgements(outcome.record.run_id))) == len(rows)
    assert asked() == {"claims": 2, "support": 2 * 2}


@pytest.mark.usefixtures("folder")
def test_failed_shared_judgement_is_stored_with_every_metric() -> None:
    with pytest.warns(AueporaWarning, match="content_filter"):
        outcome = run_plan(plan(["Rain falls.", "A broken one."]))
    assert outcome.results is not None
    assert {tuple(result.outcomes or ()) for result in outcome.results} == {("scored", "measure_failed:content_filter")}
    with RunStore.open("runs.sqlite") as store:
        failed = list(store.judgements(outcome.record.run_id, failed=True))
    assert sorted(row.metric for row in failed) == sorted(METRICS)
    assert {(row.reason, row.body["message"]) for row in failed} == {("content_filter", "not that")}


@pytest.mark.part("models")
def test_nli_model_is_a_resource(folder: Path) -> None:
    model = made("nli")
    (folder / "models").symlink_to(Path(model).parent)
    resources = f"{{checks: {{nli: {{model: models/{Path(model).name}, threshold: 0.01}}}}}}"
    outcome = run_plan(plan(["Rain falls. Dogs bark."], resources, "{claims: sentences, verifier: {use: checks}}"))
    assert outcome.results is not None
    assert {result.name: result.value for result in outcome.results} == {
        "claim_precision": 1.0,
        "claim_faithfulness": 1.0,
        "claim_hallucination": 0.0,
    }
    assert all("from 0.01" in str(result.signature) for result in outcome.results)


@pytest.mark.usefixtures("folder")
def test_invalid_option_of_an_nli_model_is_a_plan_error() -> None:
    with pytest.raises(PlanError, match=r"resources.checks.nli.*did you mean 'threshold'"):
        run_plan(
            plan(["x"], "{checks: {nli: {model: m, treshold: 1}}}", "{claims: sentences, verifier: {use: checks}}")
        )
