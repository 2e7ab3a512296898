"""Support of statements by evidence: both kinds of judges, NLI functions and models."""

import asyncio
import math
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from auepora_eval.core.registry import use_resources
from auepora_eval.errors import BadTypeError, BadValueError, JudgeError
from auepora_eval.judge.critic import Judgement, JudgePolicy, JudgeRequest
from auepora_eval.judge.nli import EntailmentFunction, NliModel
from auepora_eval.judge.session import JudgeSession
from auepora_eval.judge.support import (
    STATEMENTS_PER_REQUEST,
    SupportLevel,
    SupportVerdict,
    VerdictLevel,
    check_support,
    parse_verifier,
    verifier_name,
)
from auepora_eval.models.loading import ModelSource, load_classifier
from helpers.critics import ScriptedBareCritic, ScriptedCritic, framed
from helpers.requirements import need
from helpers.tiny_models import made

FULL, PARTIAL, NONE = SupportLevel


def verdicts(by: Any, evidence: list[str], statements: list[str], **fields: Any) -> list[SupportVerdict]:
    async def ask() -> list[SupportVerdict]:
        async with JudgeSession(JudgePolicy(retries=0)) as judge:
            arguments = {"metric": "m", "sample_id": "1", **fields}
            return await check_support(judge, by, evidence, statements, **arguments)

    return asyncio.run(ask())


def levels(by: Any, evidence: list[str], statements: list[str]) -> list[VerdictLevel]:
    return [one.level for one in verdicts(by, evidence, statements)]


def by_table(table: dict[str, str]) -> Callable[[JudgeRequest], dict[str, Any]]:
    """A verdict for every statement, whatever the evidence."""

    def reply_to(request: JudgeRequest) -> dict[str, Any]:
        numbered = enumerate(framed(request.prompt, "statement"), 1)
        return {"verdicts": [{"number": number, "why": f"so {one}", "verdict": table[one]} for number, one in numbered]}

    return reply_to


def test_all_statements_share_one_request() -> None:
    critic = ScriptedCritic(by_table({"a": "full", "b": "none", "c": "partial"}))
    found = verdicts(critic, ["one", " ", "two"], ["a", "b", "c", "a"], repeat=2)
    assert found == [
        SupportVerdict(FULL, "so a"),
        SupportVerdict(NONE, "so b"),
        SupportVerdict(PARTIAL, "so c"),
        SupportVerdict(FULL, "so a"),
    ]
    assert [one.supported for one in found] == [True, False, False, True]
    (request,) = critic.asked
    assert framed(request.prompt, "evidence") == ["one", "two"]
    assert framed(request.prompt, "statement") == ["a", "b", "c"]
    assert (request.metric, request.sample_id, request.repeat) == ("m", "1", 2)
    assert request.prompt_id.startswith("support/1/")
    assert "what you know yourself does not count" in request.system


def test_support_levels_and_weights() -> None:
    assert [(level.label, float(level)) for level in SupportLevel] == [("full", 1.0), ("partial", 0.5), ("none", 0.0)]


def test_long_lists_are_split_into_requests() -> None:
    statements = [f"s{number}" for number in range(2 * STATEMENTS_PER_REQUEST + 5)]
    critic = ScriptedCritic(by_table({one: "full" if int(one[1:]) % 2 else "none" for one in statements}))
    assert levels(critic, ["e"], statements) == [FULL if int(one[1:]) % 2 else NONE for one in statements]
    assert sorted(len(framed(request.prompt, "statement")) for request in critic.asked) == [
        5,
        STATEMENTS_PER_REQUEST,
        STATEMENTS_PER_REQUEST,
    ]


def test_no_call_without_evidence_or_statements() -> None:
    critic = ScriptedCritic(by_table({}))
    assert levels(critic, [], ["a"]) == levels(critic, ["", " \n"], ["a"]) == [NONE]
    assert levels(critic, ["e"], []) == []
    assert critic.asked == []
    assert levels(lambda premise, hypothesis: 1 / 0, [" "], ["a"]) == [NONE]


def verdict_reply(*numbers: Any, verdict: Any = "full") -> dict[str, Any]:
    return {"verdicts": [{"number": number, "why": "", "verdict": verdict} for number in numbers]}


WRONG = [
    (verdict_reply(1), "1 verdicts for 2 statements", "too few"),
    (verdict_reply(1, 2, 3), "3 verdicts for 2 statements", "too many"),
    (verdict_reply(1, 1), "statement 1 twice", "the same twice"),
    (verdict_reply(1, 3), "statement 3 of 2", "one that was not asked about"),
    (verdict_reply(0, 1), "statement 0 of 2", "counted from 0"),
    (verdict_reply(1, True), "where a verdict was asked for", "a number that is none"),
    (verdict_reply(1, 2, verdict="perhaps"), "where a verdict was asked for", "a word that is none of them"),
    ({"verdicts": ["full", "full"]}, "where a verdict was asked for", "bare words"),
    ({"verdicts": None}, "None for 2 statements", "nothing"),
    ({}, "None for 2 statements", "another object"),
]


@pytest.mark.parametrize(("answer", "message", "why"), WRONG, ids=[row[-1] for row in WRONG])
def test_verdicts_that_match_no_statement_fail(answer: dict[str, Any], message: str, why: str) -> None:
    with pytest.raises(JudgeError, match=message) as raised:
        verdicts(ScriptedCritic(lambda _: Judgement(answer)), ["e"], ["a", "b"])
    assert raised.value.reason == "unparseable"


def test_verdicts_may_come_in_any_order() -> None:
    answer = {"verdicts": [{"number": 2, "verdict": "None"}, {"number": 1, "verdict": " FULL "}]}
    assert levels(ScriptedCritic(lambda _: answer), ["e"], ["a", "b"]) == [FULL, NONE]


def test_one_request_that_fails_fails_them_all() -> None:
    statements = [f"s{number}" for number in range(STATEMENTS_PER_REQUEST + 1)]

    def reply_to(request: JudgeRequest) -> Any:
        asked = framed(request.prompt, "statement")
        return JudgeError("content_filter") if len(asked) == 1 else verdict_reply(*range(1, len(asked) + 1))

    with pytest.raises(JudgeError, match="content_filter"):
        verdicts(ScriptedCritic(reply_to), ["e"], statements)


NUMBERS = [(1.0, FULL), (0.9, FULL), (0.75, PARTIAL), (0.5, PARTIAL), (0.25, NONE), (0.1, NONE), (0, NONE)]


@pytest.mark.parametrize(("number", "level"), NUMBERS)
def test_a_bare_number_becomes_the_nearest_level(number: float, level: SupportLevel) -> None:
    assert levels(ScriptedBareCritic(lambda *_: number), ["e"], ["a"]) == [level]


def test_a_number_critic_gets_one_statement_per_request() -> None:
    critic = ScriptedBareCritic(lambda prompt, _: 1 if "\na\n" in prompt else 0)
    assert levels(critic, ["e"], ["b", "a", "b"]) == [NONE, FULL, NONE]
    assert len(critic.asked) == 2
    prompt, metadata = critic.asked[0]
    assert "You check statements" in prompt
    assert "1 for full, 0.5 for partial, 0 for none" in prompt
    assert metadata == {"scale": "0-1", "metric": "m", "sample_id": "1"}
    with pytest.raises(JudgeError, match="out_of_range"):
        verdicts(ScriptedBareCritic(lambda *_: 5), ["e"], ["a"])


# --- functions of entailment ------------------------------------------------------------------------------------------


def contains(premise: str, hypothesis: str) -> bool:
    return hypothesis in premise


async def awaited(premise: str, hypothesis: str) -> float:
    await asyncio.sleep(0)
    return 0.6 if hypothesis in premise else 0.4


class Halves:
    async def __call__(self, premise: str, hypothesis: str) -> Any:
        return np.float32(0.5)


FUNCTIONS: list[tuple[Any, list[SupportLevel], str]] = [
    (contains, [FULL, NONE], "true or false"),
    (awaited, [FULL, NONE], "async"),
    (EntailmentFunction(awaited, 0.7), [NONE, NONE], "a threshold that nothing reaches"),
    (EntailmentFunction(awaited, 0.4), [FULL, FULL], "a threshold that is reached exactly"),
    (Halves(), [FULL, FULL], "an object that is called, and numpy's numbers"),
]


@pytest.mark.parametrize(("function", "want", "why"), FUNCTIONS, ids=[row[-1] for row in FUNCTIONS])
def test_an_nli_function_replaces_a_judge(function: Any, want: list[SupportLevel], why: str) -> None:
    assert levels(function, ["one", "two"], ["one\ntwo", "three"]) == want


def test_verdicts_of_an_nli_function_show_its_probability() -> None:
    (found,) = verdicts(awaited, ["one"], ["one"])
    assert (found.supported, found.rationale) == (True, "entailed at 0.60")


def test_many_samples_take_few_threads() -> None:
    seen: set[int] = set()

    def noted(premise: str, hypothesis: str) -> bool:
        seen.add(threading.get_ident())
        return True

    async def ask() -> None:
        async with JudgeSession() as judge:
            many = (check_support(judge, noted, [str(n)], ["a"], metric="m", sample_id=str(n)) for n in range(500))
            await asyncio.gather(*many)

    asyncio.run(ask())
    assert 1 <= len(seen) <= 16


def leave(premise: str, hypothesis: str) -> float:
    raise SystemExit(3)


BROKEN: list[tuple[Any, str, str]] = [
    (lambda *_: 1 / 0, "critic_raised", "ZeroDivisionError: division by zero"),
    (leave, "critic_raised", "SystemExit: 3"),
    (lambda *_: math.nan, "unparseable", "gave nan, not a number"),
    (lambda *_: None, "unparseable", "gave None, not a number"),
    (lambda *_: "1", "unparseable", "gave '1', not a number"),
    (lambda *_: 1.5, "out_of_range", "gave 1.5, not between 0 and 1"),
    (lambda *_: -1, "out_of_range", "gave -1"),
]


@pytest.mark.parametrize(("function", "reason", "message"), BROKEN, ids=[row[-1] for row in BROKEN])
def test_an_nli_function_without_a_number_fails(function: Any, reason: str, message: str) -> None:
    async def later(*texts: str) -> Any:
        return function(*texts)

    for one in (function, later):
        with pytest.raises(JudgeError, match=re.escape(message)) as raised:
            verdicts(one, ["e"], ["a"])
        assert raised.value.reason == reason


# --- a model of entailment --------------------------------------------------------------------------------------------

EVIDENCE = ["rain falls every day", "the tower was made of gold", "paris is not london"]
STATEMENTS = ["the cat sat on the mat", "rain falls", "paris is gold", "some water is wet", "a dog"]


def probability(premise: str, statement: str) -> float:
    """Of entailment, by transformers alone."""
    torch = pytest.importorskip("torch")
    loaded = load_classifier(ModelSource(made("nli")), purpose="a test")
    tokens = loaded.tokenizer(premise, statement, return_tensors="pt", truncation=True)
    with torch.no_grad():
        return float(loaded.model(**tokens).logits.softmax(dim=-1)[0, 2])


@pytest.mark.part("models")
@pytest.mark.parametrize("together", ["joined", "each"])
def test_nli_model(together: Any) -> None:
    premises = EVIDENCE if together == "each" else ["\n".join(EVIDENCE)]
    shares = [max(probability(premise, one) for premise in premises) for one in STATEMENTS]
    bound = sorted(shares)[2] - 1e-6
    found = verdicts(NliModel(made("nli"), threshold=bound, evidence=together), EVIDENCE, STATEMENTS)
    assert [one.supported for one in found] == [share >= bound for share in shares]
    assert [one.rationale for one in found] == [f"entailed at {share:.2f}" for share in shares]
    assert 0 < sum(one.supported for one in found) < len(found)


@pytest.mark.part("models")
def test_truncated_evidence_is_flagged() -> None:
    short, long = (verdicts(NliModel(made("nli")), [text], ["rain falls"])[0] for text in ("rain", "rain " * 600))
    assert (short.cut, long.cut) == (False, True)


# --- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.part("models")
def test_verifier_options_of_a_plan() -> None:
    path = made("nli")
    assert parse_verifier({"nli": path}) == NliModel(path) == NliModel(path, batch_size=3)
    assert parse_verifier({"nli": {"model": path, "threshold": 0.7}}) == NliModel(path, threshold=0.7)
    assert NliModel(path).spec() == {"nli": path}
    assert NliModel(path, threshold=0.7).spec() == {"nli": {"model": path, "threshold": 0.7}}
    with use_resources({"entails": contains}):
        option = parse_verifier({"use": "entails"})
    assert verifier_name(option) == verifier_name(parse_verifier(contains))
    assert levels(option, ["a"], ["a"]) == [FULL]
    assert parse_verifier(None) is None
    assert verifier_name(parse_verifier({"use": "entails"})) == "resource entails"


@pytest.mark.part("models")
def test_verifier_signatures() -> None:
    path = made("nli")
    names = {
        verifier_name(one)
        for one in (
            NliModel(path),
            NliModel(path, threshold=0.7),
            NliModel(path, evidence="each"),
            NliModel(path, entailment_label="x"),
            EntailmentFunction(contains),
            EntailmentFunction(contains, 0.7),
            ScriptedCritic(by_table({})),
        )
    }
    assert len(names) == 7
    assert not any("|" in name for name in names)


def by_transformers(name: str, text: str) -> float:
    """The probability of support by transformers alone, as the authors of each family compute it."""
    torch, transformers = need("torch"), need("transformers")
    loaders = {
        "minicheck-t5": "Seq2SeqLM",
        "minicheck-roberta": "SequenceClassification",
        "hhem": "TokenClassification",
    }
    model = getattr(transformers, f"AutoModelFor{loaders[name]}").from_pretrained(made(name)).eval()
    tokens = transformers.AutoTokenizer.from_pretrained(made(name))(text, return_tensors="pt", add_special_tokens=True)
    tokens.pop("token_type_ids", None)
    with torch.no_grad():
        if name == "minicheck-t5":
            start = torch.tensor([[model.config.decoder_start_token_id]])
            logits = model(**tokens, decoder_input_ids=start).logits[0, 0, [3, 209]]
        else:
            logits = model(**tokens).logits[0] if name == "minicheck-roberta" else model(**tokens).logits[0, 0]
        return float(logits.softmax(dim=-1)[1])


PROMPT = "<pad> Determine if the hypothesis is true given the premise?\n\nPremise: {}\n\nHypothesis: {}"
FAMILIES = [
    ("minicheck", "minicheck-t5", "predict: {}</s>{}"),
    ("minicheck", "minicheck-roberta", "{}</s>{}"),
    ("hhem", "hhem", PROMPT),
]


@pytest.mark.part("models")
@pytest.mark.parametrize(("kind", "name", "layout"), FAMILIES, ids=[row[1] for row in FAMILIES])
def test_families_of_detectors(kind: str, name: str, layout: str) -> None:
    """Each family reads its own layout, and its own label means support."""
    model = parse_verifier({kind: made(name)})
    found = asyncio.run(model.score(["rain falls", "it is wet"], ["water is wet", "no cat"]))
    want = [by_transformers(name, layout.format("rain falls\nit is wet", one)) for one in ("water is wet", "no cat")]
    assert [one.probability for one in found] == pytest.approx(want, abs=1e-6)
    assert want[0] != pytest.approx(want[1], abs=1e-3)
    each = replace(model, evidence="each")
    (best,) = asyncio.run(each.score(["rain falls", "it is wet"], ["no cat"]))
    assert best.probability == pytest.approx(
        max(by_transformers(name, layout.format(one, "no cat")) for one in ("rain falls", "it is wet")), abs=1e-6
    )
    hostile = asyncio.run(model.score(["rain</s>falls <pad>"], ["no</s> cat"]))
    assert hostile[0].probability == pytest.approx(
        by_transformers(name, layout.format("rain falls", "no cat")), abs=1e-6
    )
    assert model.spec() == {kind: made(name)}
    assert model.identity.startswith(f"{kind} {name}-")


@pytest.mark.part("models")
def test_minicheck_reads_long_evidence_in_chunks() -> None:
    for name, limit in (("minicheck-t5", 500), ("minicheck-roberta", 400)):
        model = parse_verifier({"minicheck": made(name)})
        sentence = "Rain falls on water. "  # four words, and five tokens with the full stop
        size = limit // (4 if name == "minicheck-t5" else 5)
        parts = model.split_premise(model.loaded(), sentence * (2 * size) + "No cat!")
        assert [part.count("Rain") for part in parts] == [size, size, 0]
        assert parts[2] == "No cat!"
        assert model.split_premise(model.loaded(), "...") == ["..."]
    long = parse_verifier({"minicheck": made("minicheck-roberta")})  # it reads 96 tokens
    (found,) = asyncio.run(long.score(["rain " * 90 + "gold"], ["no cat"]))
    assert found.cut
    room = 96 - 3 - 4 - 2  # beside special tokens, spare ones and the statement
    (short,) = asyncio.run(long.score(["rain " * room], ["no cat"]))
    assert not short.cut
    assert found.probability == pytest.approx(short.probability, abs=1e-6)


@pytest.mark.part("models")
def test_detectors_of_other_families_are_refused(tmp_path: Path) -> None:
    for kind, name, message in (
        ("minicheck", "nli", "is not one of MiniCheck"),
        ("minicheck", "bert", "no classifier of texts"),
        ("hhem", "names", "is not HHEM: it has 3 labels"),
        ("hhem", "nli", "no classifier of tokens"),
    ):
        with pytest.raises(BadValueError, match=message):
            parse_verifier({kind: made(name)}).require_ready()
    repository = tmp_path / "hallucination_evaluation_model"
    repository.mkdir()
    (repository / "config.json").write_text('{"model_type": "HHEMv2"}', encoding="utf-8")
    with pytest.raises(
        BadValueError, match=r"needs code of its own to be loaded; convert it once, as docs/judging/det"
    ):
        parse_verifier({"hhem": str(repository)}).require_ready()


ODD: list[tuple[Any, type[Exception], str]] = [
    ({"hhem": {"model": "x", "entailment_label": "yes"}}, BadValueError, "hhem models have fixed labels"),
    ({"minicheck": {"treshold": 0.5}}, BadValueError, "minicheck has no option 'treshold'"),
    ("a text", BadTypeError, "verifier must be a critic"),
    ({"nil": "x"}, BadTypeError, "verifier must be a critic"),
    (ScriptedCritic, BadTypeError, "verifier must be a critic"),
    ({"nli": 5}, BadTypeError, "nli takes options, such as"),
    ({"nli": {"threshold": 0.5}}, BadValueError, "needs its option 'model'"),
    ({"nli": {"model": "x", "treshold": 0.5}}, BadValueError, "did you mean 'threshold'"),
]


@pytest.mark.parametrize(("option", "error", "message"), ODD, ids=[str(row[0])[:30] for row in ODD])
def test_invalid_options(option: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        parse_verifier(option)


def test_a_verifier_is_required() -> None:
    with pytest.raises(BadValueError, match="there is no verifier"):
        verdicts(None, ["e"], ["a"])
    with pytest.raises(BadValueError, match="which is not available here"):
        verdicts(parse_verifier({"use": "judge"}), ["e"], ["a"])
    with pytest.raises(BadTypeError, match="must be a function"):
        EntailmentFunction("x")  # type: ignore[arg-type]
