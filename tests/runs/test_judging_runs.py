"""Runs with a judge of the plan, whose judgements are stored with the run."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from auepora_eval.errors import AueporaWarning
from auepora_eval.runs.run import run_plan
from auepora_eval.runs.scoring import rescore
from auepora_eval.store import RunStore
from helpers.user_project import Project

JUDGE = '''
import json
from pathlib import Path
from auepora_eval.errors import JudgeError
from auepora_eval.judge.critic import Judgement, StructuredCritic, Usage

class Judge(StructuredCritic):
    """Fives for even numbers, threes for odd ones; logs its requests."""

    def __init__(self, name="toy", broken=()):
        self.name, self.broken = name, set(broken)

    async def judge(self, request):
        with (Path(__file__).parent / "judged.log").open("a") as log:
            log.write(f"{request.metric} {request.sample_id}\\n")
        if request.sample_id in self.broken:
            raise JudgeError("unparseable", "no number in it", raw="I like it")
        score = 3 if int(request.sample_id) % 2 else 5
        return Judgement({"score": score, "rationale": f"because of {request.sample_id}"}, Usage(100, 10), raw=f"{score}")

    def cache_key(self, request):
        return {"name": self.name}

def nobody():
    return 5

def embed(texts):
    return [[float(len(text)), 1.0] for text in texts]
'''
RESOURCES = "resources: {judge: {python: 'a_judge_rag:Judge', args: {broken: %s}}}\n"
METRICS = "[recall@5, {llm_faithfulness: {critic: {use: judge}, scale: 1-5}}]"


@pytest.fixture
def judged(project: Callable[[int], Project]) -> Callable[..., Project]:
    """Makes a project whose plan has a judge."""

    def make(
        samples: int = 6, *, broken: str = "[]", more: str = "", run: str = "{concurrency: 4, retries: 0}"
    ) -> Project:
        made = project(samples)
        (made.folder / "a_judge_rag.py").write_text(JUDGE)
        made.plan(run=run, more=RESOURCES % broken + more)
        path = made.folder / "plan.yaml"
        text = path.read_text()
        begin = text.index("metrics:")
        path.write_text(text[:begin] + f"metrics: {METRICS}\n" + text[text.index("slices:") :])
        return made

    return make


def asked(project: Project) -> list[str]:
    log = project.folder / "judged.log"
    return log.read_text().splitlines() if log.exists() else []


def test_judgements_of_a_plan_are_stored(judged: Callable[..., Project]) -> None:
    made = judged()
    outcome = run_plan("plan.yaml")
    assert outcome.results is not None
    result = outcome.results.by_name["llm_faithfulness"]
    assert result.value == pytest.approx((3 * 1.0 + 3 * 0.5) / 6)
    assert "critic:toy" in (result.signature or "")
    with RunStore.open("runs.sqlite") as store:
        rows = list(store.judgements(outcome.record.run_id))
        assert [(row.metric, row.position, row.repeat, row.critic, row.reason) for row in rows] == [
            ("llm_faithfulness", position, 0, "toy", None) for position in range(6)
        ]
        assert {row.signature for row in rows} == {result.signature}
        assert rows[3].body["answer"] == {"score": 3, "rationale": "because of 3"}
        assert rows[3].prompt_id.startswith("faithfulness/")
    assert len(asked(made)) == 6


def test_failed_judgement_is_stored_with_reason_and_raw_reply(judged: Callable[..., Project]) -> None:
    judged(broken='["2"]')
    with pytest.warns(AueporaWarning, match="unparseable"):
        outcome = run_plan("plan.yaml")
    assert outcome.results is not None
    result = outcome.results.by_name["llm_faithfulness"]
    assert result.outcomes is not None
    assert result.outcomes[2] == "measure_failed:unparseable"
    with RunStore.open("runs.sqlite") as store:
        (row,) = store.judgements(outcome.record.run_id, failed=True)
        assert (row.position, row.reason, row.body["raw"]) == (2, "unparseable", "I like it")
        assert store.judgement_counts(outcome.record.run_id) == (6, 1)
        assert [one.position for one in store.judgements(outcome.record.run_id, position=4)] == [4]
        store.delete(outcome.record.run_id)
        with store._database.read() as connection:
            assert connection.first("SELECT count(*) FROM eval_judgements") == (0,)


def test_each_repeat_has_its_own_judgements(judged: Callable[..., Project]) -> None:
    judged(3, run="{repeats: 2}")
    outcome = run_plan("plan.yaml")
    with RunStore.open("runs.sqlite") as store:
        places = [(row.repeat, row.position) for row in store.judgements(outcome.record.run_id)]
    assert places == [(repeat, position) for repeat in range(2) for position in range(3)]


def test_rescore_finds_the_judge_in_the_stored_plan(judged: Callable[..., Project]) -> None:
    judged(4)
    outcome = run_plan("plan.yaml")
    Path("plan.yaml").unlink()
    with RunStore.open("runs.sqlite") as store:
        again = rescore(store.find("latest"), store=store)
        assert outcome.results is not None
        assert again.to_dict()["results"][1]["value"] == outcome.results.to_dict()["results"][1]["value"]
        other = rescore(
            "latest",
            [{"llm_answer_quality": {"critic": {"use": "judge"}, "dimensions": ["clarity"]}}],
            store=store,
        )
        assert other[0].value == pytest.approx(0.75)
        metrics = [row.metric for row in store.judgements(outcome.record.run_id)]
        assert sorted(set(metrics)) == ["llm_answer_quality", "llm_faithfulness"]
        assert len(metrics) == 8
        with pytest.raises(ValueError, match="there is no resource 'jugde'; did you mean 'judge'"):
            rescore(store.find("latest"), [{"llm_faithfulness": {"critic": {"use": "jugde"}}}], store=store)


def test_unused_resource_is_neither_built_nor_called(judged: Callable[..., Project]) -> None:
    made = judged(2)
    (made.folder / "a_judge_rag.py").write_text("raise RuntimeError('not me')")
    with pytest.warns(AueporaWarning, match="no metric refers to judge"):
        run_plan("plan.yaml", changes={"metrics": ["recall@5"]})
    with RunStore.open("runs.sqlite") as store:
        rescore(store.find("latest"), ["mrr"], store=store)


MISTAKES = [
    ("critic: {use: judge}, ", "", 4, "metrics[1]", "needs a critic"),
    (
        "python: 'a_judge_rag:Judge', args: {broken: []}",
        "python: 'a_judge_rag:embed'",
        4,
        "metrics[1]",
        "must be an LLMCritic or a StructuredCritic",
    ),
    (
        "critic: {use: judge}",
        "critic: {use: jugde}",
        4,
        "metrics[1]",
        "there is no resource 'jugde'; did you mean 'judge'?",
    ),
    ("a_judge_rag:Judge", "a_judge_rag:Jugde", 8, "resources.judge.python", "has no 'Jugde'; did you mean 'Judge'?"),
    ("a_judge_rag:Judge", "a_judge_rag:nobody", 8, "resources.judge.python", "takes no argument 'broken'"),
    (
        "python: 'a_judge_rag:Judge', args: {broken: []}",
        "python: 'a_judge_rag:nobody'",
        8,
        "resources.judge.python",
        "gave an object of type int, which is neither a judge nor an embedder",
    ),
    (
        "python: 'a_judge_rag:Judge', args: {broken: []}",
        "recorded: none.jsonl",
        8,
        "resources.judge.recorded",
        "no such file",
    ),
    (
        "python: 'a_judge_rag:Judge', args: {broken: []}",
        "openai: {model: m, api_key_env: NO_SUCH_KEY}",
        8,
        "resources.judge.openai.api_key_env",
        "the environment variable NO_SUCH_KEY is not set",
    ),
]


@pytest.mark.parametrize(("old", "new", "line", "key", "message"), MISTAKES, ids=[row[1] for row in MISTAKES])
def test_plan_error_is_raised_before_the_system_is_called(
    old: str,
    new: str,
    line: int,
    key: str,
    message: str,
    judged: Callable[..., Project],
    auepora: Callable[..., tuple[int, str, str]],
) -> None:
    made = judged(2)
    path = made.folder / "plan.yaml"
    path.write_text(path.read_text().replace(old, new))
    code, _, err = auepora("run", "plan.yaml")
    assert code == 2
    assert f"plan.yaml:{line}: {key}: " in err
    assert message in err
    assert made.calls() == []
    code, out, _ = auepora("validate", "plan.yaml", "--load", "--json")
    assert code == 2
    assert [one["key"] for one in json.loads(out)["problems"]] == [key]


def test_show_prints_rationales_failures_and_raw_replies(
    judged: Callable[..., Project], auepora: Callable[..., tuple[int, str, str]]
) -> None:
    judged(3, broken='["2"]')
    assert auepora("run", "plan.yaml", "-q")[0] == 0
    code, out, _ = auepora("show", "--sample", "1")
    assert code == 0
    assert "judged     llm_faithfulness by toy: score 3\n           because of 1" in out
    assert "failed, unparseable: no number in it; it said: I like it" in auepora("show", "--sample", "2")[1]
    (judgement,) = json.loads(auepora("show", "--sample", "1", "--json")[1])["judgements"]
    assert judgement["answer"] == {"score": 3, "rationale": "because of 1"}
    assert judgement["usage"] == [100, 10]
    out = auepora("show", "--failures")[1]
    assert "1 not judged: unparseable 1\n" in out
    assert "\n2       llm_faithfulness  unparseable: no number in it; it said: I like it\n" in out
    (row,) = json.loads(auepora("show", "--failures", "--json")[1])
    assert (row["sample_id"], row["metric"], row["error"], row["raw"]) == (
        "2",
        "llm_faithfulness",
        "unparseable",
        "I like it",
    )


def test_exported_judgements_are_replayed_by_a_plan(
    judged: Callable[..., Project], auepora: Callable[..., tuple[int, str, str]]
) -> None:
    made = judged(4, broken='["2"]')
    auepora("run", "plan.yaml", "-q")
    code, out, _ = auepora("export", "latest", "out")
    assert code == 0
    assert "out/judgements.jsonl" in out
    before = len(asked(made))
    path = made.folder / "plan.yaml"
    path.write_text(
        path.read_text().replace(
            "python: 'a_judge_rag:Judge', args: {broken: [\"2\"]}", "recorded: out/judgements.jsonl"
        )
    )
    with RunStore.open("runs.sqlite") as store:
        first = store.results(store.find("latest").run_id)
        assert auepora("run", "plan.yaml", "-q")[0] == 0
        again = store.results(store.find("latest").run_id)
    assert len(asked(made)) == before
    for one, other in zip(first, again, strict=True):
        assert (one.value, one.signature, list(one.outcomes or ())) == (
            other.value,
            other.signature,
            list(other.outcomes or ()),
        )


def test_embedder_is_a_resource(judged: Callable[..., Project], auepora: Callable[..., tuple[int, str, str]]) -> None:
    judged(3)
    path = Path("plan.yaml")
    text = path.read_text().replace("python: 'a_judge_rag:Judge', args: {broken: []}", "python: 'a_judge_rag:embed'")
    path.write_text(text.replace(METRICS, "[{embedding_similarity: {embed_fn: {use: judge}}}]"))
    assert auepora("run", "plan.yaml", "-q")[0] == 0
    assert auepora("rescore", "latest", "-q")[0] == 0
    with RunStore.open("runs.sqlite") as store:
        result = store.result(store.find("latest").run_id, "embedding_similarity")
        assert result.details["num_scored"] == 3
        assert list(store.judgements(store.find("latest").run_id)) == []


def test_stored_judgements_are_compared_without_the_judge(
    judged: Callable[..., Project], auepora: Callable[..., tuple[int, str, str]]
) -> None:
    made = judged(12)
    for name in ("one", "two"):
        assert auepora("run", "plan.yaml", "-q", "--name", name)[0] == 0
    for name in ("a_judge_rag.py", "plan.yaml", "judgements.sqlite"):
        (made.folder / name).unlink()
    code, out, err = auepora("compare", "one", "two", "--json")
    assert code == 0, err
    assert json.loads(out)["deltas"]["metrics"]["llm_faithfulness"]["delta"] == 0
    assert auepora("gate", "two", "-g", "llm_faithfulness >= 0.5")[0] == 0
    assert auepora("show", "two", "--json")[0] == 0


SPLIT = """
from auepora_eval import Document, Response, RetrievedDocument

class Finder:
    def retrieve(self, query, *, top_k=5):
        return [RetrievedDocument(Document("d", "it is so"), 1.0, 1)]

class Sayer:
    def __init__(self, prefix):
        self.prefix = prefix

    def generate(self, query, documents):
        return Response(self.prefix + documents[0].text)

def build(prefix=""):
    return Finder(), Sayer(prefix)
"""


def test_replay_uses_the_judge_of_the_run(
    judged: Callable[..., Project], auepora: Callable[..., tuple[int, str, str]]
) -> None:
    made = judged(4)
    (made.folder / "split_rag.py").write_text(SPLIT)
    path = made.folder / "plan.yaml"
    text = path.read_text()
    for name, prefix in (("a", "no, "), ("b", "")):
        system = f"system: {{python: 'split_rag:build', args: {{prefix: '{prefix}'}}}}\n"
        path.write_text(text[: text.index("system:")] + system + text[text.index("metrics:") :])
        assert auepora("run", "plan.yaml", "-q", "--name", name)[0] == 0
    before = len(asked(made))
    code, out, err = auepora("replay", "a", "b", "plan.yaml", "--json")
    assert code == 0, err
    assert "llm_faithfulness" in out
    assert len(asked(made)) == before  # the same documents and the same answers: all of it is known
