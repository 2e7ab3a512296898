"""Digests under which judgements are stored, and the requests they stand for: users pay again when one changes."""

import hashlib
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import (
    EvaluationSample,
    JudgedMetric,
    JudgePolicy,
    LLMCritic,
    RecordedCritic,
    evaluate,
    judge_relevance,
    metric,
    prefer,
)
from auepora_eval.core.registry import metric_infos
from auepora_eval.errors import AueporaError, AueporaWarning
from auepora_eval.examples.llm_critic import ServerCritic
from auepora_eval.grades.pool import PooledDocument
from auepora_eval.judge.cache import RecordingCritic
from auepora_eval.judge.critic import Judgement, JudgeRequest, Usage
from auepora_eval.judge.nuggets import assign_nuggets, make_nuggets
from helpers.golden import check_golden, check_golden_text
from helpers.golden_judge import (
    METRICS,
    Answers,
    CachedNumbers,
    Numbers,
    UncachedAnswers,
    WeightedAnswers,
    answer_for,
    cache_rows,
    embed,
    judge_metric,
    other_outputs,
    outputs,
    overlap,
    request_id,
    samples,
    score,
)

Judging = JudgePolicy | None


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    """Warnings about failed judgements are not what is tested here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AueporaWarning)
        yield


# --- everything that asks a judge ------------------------------------------------------------------------------------


def _prefer(critic: Any, judging: Judging) -> Any:
    return prefer(samples(), outputs(), other_outputs(), critic, judging=judging, names=("one", "two")).to_dict()


def _relevance(critic: Any, judging: Judging) -> Any:
    pool = [
        PooledDocument(sample.sample_id, item.doc.doc_id, sample.query, item.doc.text, {"one": 1}, sample.history)
        for sample, output in zip(samples(), outputs(), strict=True)
        for item in output.retrieved
    ]
    report = judge_relevance(pool, critic, judging=judging)
    return [report.to_dict(), [[*one.key, one.grade, one.mean, one.why] for one in report.grades]]


def _nuggets(critic: Any, judging: Judging) -> Any:
    made = make_nuggets(samples(), critic, most=4, at_a_time=2, judging=judging)
    return [[one.to_dict() for one in made.topics], made.failed]


def _retrieved_nuggets(critic: Any, judging: Judging) -> Any:
    made = make_nuggets(samples(), critic, outputs=outputs(), at_a_time=1, judging=judging)
    return [[one.to_dict() for one in made.topics], made.failed]


def _assigned_nuggets(critic: Any, judging: Judging) -> Any:
    made = assign_nuggets(samples(), outputs(), critic, run_id="one", judging=judging)
    return [[one.to_dict() for one in made.topics], made.failed]


def _scored(name: str) -> Callable[[Any, Judging], Any]:
    def run(critic: Any, judging: Judging) -> Any:
        result = score(name, critic, judging)
        return {"value": result.value, "outcomes": list(result.outcomes or ()), "scores": list(result.scores or ())}

    return run


ASKING: dict[str, Callable[[Any, Judging], Any]] = {
    **{name: _scored(name) for name in METRICS},
    "preference": _prefer,
    "relevance": _relevance,
    "nuggets": _nuggets,
    "nuggets retrieved": _retrieved_nuggets,
    "nuggets assigned": _assigned_nuggets,
}


def outcome(name: str, critic: Any, judging: Judging = None) -> Any:
    """What comes of asking a critic, or the class of the error where it cannot be asked."""
    try:
        return ASKING[name](critic, judging)
    except AueporaError as error:
        return {"error": type(error).__name__}


def sent(request: JudgeRequest) -> dict[str, Any]:
    """A request as the golden file has it; its texts are in another file."""
    return {
        "prompt_id": request.prompt_id,
        "system": hashlib.sha256(request.system.encode()).hexdigest()[:16],
        "prompt": hashlib.sha256(request.prompt.encode()).hexdigest()[:16],
        "schema": request_id("", "", request.schema)[:8],
        "weighted": request.weighted,
        "may_repair": request.may_repair,
    }


def line(*values: Any) -> str:
    """Values as one line of JSON, so that the golden file stays small."""
    return json.dumps(values, ensure_ascii=False)


# --- requests --------------------------------------------------------------------------------------------------------


def test_every_judge_metric_is_covered() -> None:
    asking = {name for name, info in metric_infos().items() if issubclass(info.cls, JudgedMetric)}
    assert asking == {spec.partition("@")[0] for spec, _ in METRICS.values()}


def test_requests_to_structured_critics() -> None:
    """What each metric sends to a critic that answers with objects, and what comes of it."""
    requests: dict[str, Any] = {}
    schemas: dict[str, Any] = {}
    texts: dict[str, str] = {}
    asked: dict[str, Any] = {}
    for kind, make in {"answers": Answers, "weighted": WeightedAnswers, "uncached": UncachedAnswers}.items():
        for name in ASKING:
            critic: Any = make()
            found = outcome(name, critic)
            rows = []
            for request in critic.asked:
                key = request_id(request.system, request.prompt, request.schema)
                requests.setdefault(key, line(sent(request)))
                schemas.setdefault(sent(request)["schema"], line(request.schema))
                # One example of each prompt and form in full; all others by their hashes.
                form = f"{request.prompt_id.partition('/')[0]}, {', '.join(request.schema['properties'])}"
                texts.setdefault(form, f"{request.prompt_id}\n[system]\n{request.system}\n[prompt]\n{request.prompt}\n")
                about = {one: value for one, value in request.about.items() if value}
                rows.append([key, request.repeat, request.metric, request.sample_id, dict(request.metadata), about])
            rows.sort(key=lambda row: (row[3], row[0], row[1]))
            if kind == "answers":
                asked[name] = {"asked": [line(*row) for row in rows], "outcome": found}
            elif kind == "weighted" and any(request.weighted for request in critic.asked):
                asked[f"{name} (weighted)"] = {"asked": [row[0] for row in rows], "outcome": found}
            else:
                # Neither a cache key nor probabilities that are not asked for change what a critic is asked.
                assert [line(*row) for row in rows] == asked[name]["asked"], name
    check_golden("judge/requests.json", {"schemas": schemas, "requests": requests, "asked": asked})
    check_golden_text("judge/prompts.txt", "".join(f"=== {form}\n{text}\n" for form, text in sorted(texts.items())))


def test_requests_to_critics_that_give_a_number() -> None:
    """The same for the small interface: one text and metadata."""
    asked: dict[str, Any] = {}
    texts: dict[str, str] = {}
    for name in ASKING:
        critic = Numbers()
        found = outcome(name, critic)
        rows = []
        for prompt, metadata in critic.asked:
            key = hashlib.sha256(prompt.encode()).hexdigest()[:16]
            rows.append(line(key, metadata))
            texts.setdefault(f"{name} {metadata.get('dimension', '')}".strip(), prompt)
        asked[name] = {"asked": sorted(rows), "outcome": found}
    check_golden("judge/requests_number.json", asked)
    shown = ("llm_faithfulness", "llm_answer_quality", "nugget_recall", "judged_context_precision@2")
    chosen = {name: texts[name] for name in (*shown, "preference preference", "relevance")}
    check_golden_text("judge/prompts_number.txt", "".join(f"=== {name}\n{text}\n\n" for name, text in chosen.items()))


# --- digests ---------------------------------------------------------------------------------------------------------

DIGESTED = tuple(ASKING)


def stored_digests(critic: Any, folder: Path, *, names: tuple[str, ...] = DIGESTED, repeats: int = 1) -> Any:
    """The digests in a cache after all of these asked: by what ``raw`` says, or by the score of a bare number."""
    cache = folder / "judgements.sqlite"
    policy = JudgePolicy(cache=cache, repeats=repeats)
    for together in metrics_together(critic, names):
        evaluate(samples(), outputs(), together, judging=policy)
    for name in names:
        if name not in METRICS:
            outcome(name, critic, policy)
    rows = cache_rows(cache) if cache.exists() else []
    critics = sorted({row["critic"] for row in rows})
    digests: dict[str, str] = {}
    for row in sorted(rows, key=lambda row: (_label(row), row["digest"])):
        # Of a critic that gives numbers the metric is part of the digest, so that one text may have several.
        digests[_label(row)] = f"{digests.get(_label(row), '')} {row['digest']}".strip()
    return {"critics": critics, "digests": digests}


def metrics_together(critic: Any, names: tuple[str, ...]) -> list[list[Any]]:
    """The metrics among these that the critic can serve, in lists that may be scored together, which is faster.

    A list has no name twice. Of a critic that gives numbers each metric is alone, since the first of several that asks
    the same decides about the digest.
    """
    lists: list[list[Any]] = []
    for name in names:
        if name not in METRICS:
            continue
        made = judge_metric(name, critic)
        try:
            made.require_ready()
        except AueporaError:
            continue
        free = (one for one in lists if made.name not in {other.name for other in one})
        found = None if isinstance(critic, LLMCritic) else next(free, None)
        if found is None:
            lists.append([made])
        else:
            found.append(made)
    return lists


def _label(row: dict[str, Any]) -> str:
    again = f" repeat {row['repeat']}" if row["repeat"] else ""
    return f"{row['prompt_id'].partition('/')[0]} {row['raw'] or row['answer']}{again}"


SOME = ("llm_faithfulness 1-5", "claim_precision", "nugget_recall", "judged_context_relevance", "preference")


def test_digests(tmp_path: Path) -> None:
    """Digests by kind of critic, as the cache stores them."""
    found: dict[str, Any] = {}
    for kind, critic, names, repeats in (
        ("structured", Answers(), DIGESTED, 1),
        ("structured, another name", Answers(name="another"), SOME, 1),
        ("structured, another model", Answers(model="golden-2"), SOME, 1),
        ("structured, two repeats", Answers(), SOME, 2),
        ("weighted", WeightedAnswers(), (*SOME, "llm_answer_quality", "relevance"), 1),
        ("number with a cache key", CachedNumbers(), DIGESTED, 1),
        ("structured without a cache key", UncachedAnswers(), SOME, 1),
        ("number without a cache key", Numbers(), SOME, 1),
        ("written to a file", RecordingCritic(Answers(), tmp_path / "recorded.jsonl"), SOME, 1),
    ):
        folder = tmp_path / kind
        folder.mkdir()
        found[kind] = stored_digests(critic, folder, names=names, repeats=repeats)
    # Writing judgements to a file changes no digest.
    assert found["written to a file"] == stored_digests(Answers(), tmp_path, names=SOME)
    check_golden("judge/digests.json", found)


def test_digests_of_openai_critics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Digests and cache keys of the critic for OpenAI-compatible endpoints; nothing is sent."""
    from auepora_eval import OpenAICritic

    class Unsent(OpenAICritic):
        async def judge(self, request: JudgeRequest) -> Judgement:
            keys[self.name] = dict(self.cache_key(request))
            key = request_id(request.system, request.prompt, request.schema)
            return Judgement(answer_for(request), Usage(100, 20), raw=key)

    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    keys: dict[str, Any] = {}
    found: dict[str, Any] = {}
    for kind, critic, names, repeats in (
        ("default", Unsent("small"), DIGESTED, 1),
        ("repeats", Unsent("small", seed=7), SOME, 2),
        ("local address", Unsent("small", base_url="http://127.0.0.1:8080/v1/chat/completions"), SOME, 1),
        ("other options", Unsent("a|b", temperature=0.5, seed=None, max_tokens=None, schema="json_object"), SOME, 1),
        ("no schema, no temperature", Unsent("small", temperature=None, schema="none", max_tokens=64), SOME, 1),
        ("json_schema", Unsent("small", schema="json_schema"), SOME, 1),
        ("extra", Unsent("small", extra={"top_k": 5, "chat_template_kwargs": {"thinking": False}}), SOME, 1),
        ("headers", Unsent("small", headers={"X-Team": "abcdefgh"}, timeout=5.0, api_key_env="OTHER_KEY"), SOME, 1),
        ("logprobs", Unsent("small", logprobs=True), (*SOME, "llm_answer_quality", "relevance"), 1),
    ):
        folder = tmp_path / kind
        folder.mkdir()
        keys.clear()
        found[kind] = {**stored_digests(critic, folder, names=names, repeats=repeats), "cache_keys": dict(keys)}
    default = found["default"]["digests"]
    # Headers, timeout and the name of the key are not part of the digest.
    assert found["headers"]["digests"].items() <= default.items()
    check_golden("judge/digests_openai.json", found)


# --- names in signatures ---------------------------------------------------------------------------------------------


def signature(spec: str, **options: Any) -> str:
    made: Any = metric(spec, **options)
    return str(made.signature)


def test_signatures() -> None:
    """Critics, NLI models and entailment functions as signatures name them."""
    found = {name: str(judge_metric(name, Answers()).signature) for name in METRICS}
    named: dict[str, Any] = {
        "no critic": None,
        "default name": UncachedAnswers(),
        "class name": Numbers(),
        "own name": CachedNumbers(),
        "example": ServerCritic("http://127.0.0.1:8080/v1", "small"),
        "recorded": RecordedCritic({}),
        "recorded, own name": RecordedCritic({"q1": 0.5}, name="by hand"),
        "resource": {"use": "judge"},
    }
    for kind, critic in named.items():
        for name in ("llm_faithfulness", "claim_f1", "nugget_recall"):
            found[f"{name}, {kind}"] = str(judge_metric(name, critic).signature)
    verifiers: dict[str, Any] = {
        "function": overlap,
        "nli": {"nli": "some/model"},
        "nli with options": {"nli": {"model": "some/model", "threshold": 0.75, "evidence": "each", "revision": "abc"}},
        "critic": Answers(name="second"),
    }
    for kind, verifier in verifiers.items():
        found[f"nugget_recall, {kind}"] = signature("nugget_recall", critic=verifier)
        found[f"claim_f1, verifier {kind}"] = signature("claim_f1", critic=Answers(), verifier=verifier)
    for name in ("negative_rejection_rate", "refusal_correctness"):
        found[f"{name}, function"] = signature(name, judge=_is_refusal)
    found["embedding_similarity, function"] = signature("embedding_similarity", embed_fn=embed)
    check_golden("judge/signatures.json", found)


def _is_refusal(sample: EvaluationSample, output: Any) -> bool:
    return False


_is_refusal.__module__ = "golden_critics"


# --- recorded judgements ---------------------------------------------------------------------------------------------

RECORDED = ("llm_faithfulness", "claim_faithfulness", "nugget_recall")


def test_recorded_judgements(tmp_path: Path) -> None:
    """A file of recorded judgements: the same bytes when written again, and replayed with nothing missing."""
    from helpers.golden import GOLDEN

    results: dict[str, Any] = {}
    for kind, critic in (
        ("structured", Answers(failing=("q3",))),
        ("weighted", WeightedAnswers()),
        ("number", Numbers()),
    ):
        path = tmp_path / f"recorded_{kind}.jsonl"
        writer = RecordingCritic(critic, path)
        names = RECORDED if kind == "structured" else ("llm_faithfulness 1-5",)
        for name in names:
            results[f"{name} by {kind}"] = outcome(name, writer)
        lines = sorted(path.read_text(encoding="utf-8").splitlines())
        check_golden_text(f"judge/recorded_{kind}.jsonl", "".join(f"{line}\n" for line in lines))
        replayed = RecordedCritic(GOLDEN / "judge" / f"recorded_{kind}.jsonl")
        for name in names:
            assert outcome(name, replayed) == results[f"{name} by {kind}"], (name, kind)
        results[f"{kind} file"] = [replayed.name, len(replayed), replayed.one_number, replayed.logprobs]
    missing = evaluate(samples(), outputs(), [judge_metric("llm_answer_quality", RecordedCritic({"q1": 3}))])[0]
    results["missing"] = list(missing.outcomes or ())
    check_golden("judge/recorded_results.json", results)
