"""Faults in the judge: a judge that favours B, and a judge or a prompt that was changed between the runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.compare.stores import record_bias
from auepora_eval.judge.critic import JudgePolicy
from auepora_eval.runs.run import run_system
from helpers.critics import ScriptedCritic, framed
from redteam.planted import Bench, Fault, Floats, Pair, Stopped, Unseen, answers, quality, questions

TUNED = "tuned judge"


def _score(levels: Mapping[str, int], gift: int) -> Callable[[Any], dict[str, Any]]:
    return lambda request: {"score": min(5, levels[request.sample_id] + gift), "rationale": "so"}


def _levels(samples: list[EvaluationSample], strengths: Floats) -> dict[str, int]:
    """What a fair judge gives to each answer."""
    return {sample.sample_id: 1 + round(4 * float(value)) for sample, value in zip(samples, strengths, strict=True)}


def _judges(
    n: int,
    first: Mapping[str, Any],
    second: Mapping[str, Any],
    *,
    gift: int = 0,
    name: str = "judge-1",
    bias: str | None = None,
) -> Callable[[Bench], Pair]:
    """Equal systems; the judge of B has other options, another name, or gives that many points more."""

    def plant(bench: Bench) -> Pair:
        samples, hardness = questions(n), bench.hardness(n)
        records = []
        for label, options, called, points in (("a", first, "judge-1", 0), ("b", second, name, gift)):
            strengths = bench.strengths(hardness)
            critic = ScriptedCritic(_score(_levels(samples, strengths), points), name=called)
            records.append(bench.put(label, samples, answers(strengths), [quality(critic, **options)]))
        if bias is not None:
            record_bias(bench.store, records, "quality", bias)
        return Pair(records[0], records[1])

    return plant


def _by_length(n: int, *, padded: int) -> Callable[[Bench], Pair]:
    """The judge likes long answers, and B pads its answers."""

    def plant(bench: Bench) -> Pair:
        samples, strengths = questions(n), bench.strengths(bench.hardness(n))
        second = answers(strengths)
        for output in second:
            assert output.response is not None
            output.response.text += " indeed" * padded
        records = []
        for label, outputs in (("a", answers(strengths)), ("b", second)):
            critic = ScriptedCritic(lambda request: {"score": _length_score(request.prompt), "rationale": "long"})
            records.append(bench.put(label, samples, outputs, [quality(critic)]))
        return Pair(records[0], records[1])

    return plant


def _length_score(prompt: str) -> int:
    text = " ".join(framed(prompt, "answer"))
    return min(5, 1 + len(text.split()) // 8 + ("amber birch cedar" in text))


FACTS = ("built in 1889", "made in 1600", "as high as 8849 metres", "painted in 1503", "over since 1945", "8 of them")


def _controlled(second: str, *, controls: int) -> Callable[[Bench], Pair]:
    """The judge of B accepts everything; control items are mixed in, of which half must be rejected."""

    def plant(bench: Bench) -> Pair:
        documents = [Document(f"d{n}", f"The thing number {'abcdef'[n % 6]}{n} is {FACTS[n % 6]}.") for n in range(24)]
        samples = [
            EvaluationSample(
                f"q{n}", f"What about thing {n}?", relevant_docs=[one], reference_answer=Response(one.text)
            )
            for n, one in enumerate(documents)
        ]

        def system(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
            number = int(sample.sample_id[1:])
            return SystemOutputs(
                [RetrievedDocument(documents[number], 1.0, 1)], Response(f"Some system says {number}.")
            )

        records = []
        for label, kind in (("a", "careful"), ("b", second)):
            critic = ScriptedCritic(_accepting(kind))
            metric: Any = {"llm_faithfulness": {"critic": critic, "scale": "1-5"}}
            done = run_system(
                system, samples, [metric], store=bench.store, name=label, judging=JudgePolicy(controls=controls)
            )
            records.append(done.record)
        return Pair(records[0], records[1])

    return plant


def _accepting(kind: str) -> Callable[[Any], dict[str, Any]]:
    def judge(request: Any) -> dict[str, Any]:
        given = "".join(framed(request.prompt, "answer"))
        evidence = " ".join(framed(request.prompt, "(?:evidence|document)"))
        return {"rationale": "seen", "score": 5 if kind == "lenient" or given in evidence else 1}

    return judge


def _tuned() -> Iterator[Fault]:
    changes: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("a friendlier prompt", {}, {"prompt": "Is it right? Be generous."}),
        ("one letter of the prompt changed", {}, {"prompt": "Is it right"}),
        ("a wider scale", {}, {"scale": "1-10"}),
        ("a binary scale", {}, {"scale": "0-1"}),
        ("the reference shown to the judge of B only", {}, {"inputs": ["question", "answer", "reference"]}),
        ("the question hidden from the judge of B", {}, {"inputs": ["answer"]}),
        (
            "an example with a high score for B only",
            {},
            {"examples": [{"question": "Another?", "answer": "amber", "score": 5, "rationale": "so"}]},
        ),
    ]
    for what, first, second in changes:
        yield Fault(
            TUNED,
            f"{what}, 40 questions, better(quality)",
            ("better(quality)",),
            _judges(40, first, second, gift=1),
            Stopped("failed" if what == "a binary scale" else "inconclusive", "quality cannot be compared"),
            "the signature of a judged metric has the prompt, its options and the judge",
        )
    for name, gate in (
        ("judge-2", "better(quality)"),
        ("Judge-1", "not worse(quality, by=0.1)"),
        ("judge-1b", "delta(quality) > 0"),
    ):
        yield Fault(
            TUNED,
            f"the judge {name} for B in place of judge-1, 40 questions, {gate}",
            (gate,),
            _judges(40, {}, {}, gift=1, name=name),
            Stopped("inconclusive", "quality cannot be compared"),
            "the signature of a judged metric has the name of the judge",
        )
    for n in (60,):
        yield Fault(
            TUNED,
            f"people's labels of both runs showed that the judge favours B, {n} questions, better(quality)",
            ("better(quality)",),
            _judges(n, {}, {}, gift=1, bias="labels show that the judge favours B"),
            Stopped("inconclusive", "labels show that the judge favours B"),
            "what labels of two runs showed is recorded with the dataset",
        )
    for n, gift in ((40, 1), (80, 2)):
        yield Fault(
            TUNED,
            f"the judge gives B {gift} more under the same name, without controls, {n} questions, better(quality)",
            ("better(quality)",),
            _judges(n, {}, {}, gift=gift),
            Unseen(trials=2),
            "a model that changed behind its name is known only by control items or labels of people",
        )
    yield Fault(
        TUNED,
        "a judge that likes long answers, and B pads its answers, 60 questions, better(quality)",
        ("better(quality)",),
        _by_length(60, padded=16),
        Unseen(),
        "the bias is the same for both runs; `auepora judge` measures it, a gate does not",
    )
    yield Fault(
        TUNED,
        "the judge of B accepts everything under the same name, 8 control items, 24 questions",
        ("better(llm_faithfulness)",),
        _controlled("lenient", controls=8),
        Stopped("inconclusive", "its judge is not usable"),
        "control items show that the judge accepts what it must reject",
    )
    yield Fault(
        TUNED,
        "the judge of B accepts everything under the same name, no control items, 24 questions",
        ("better(llm_faithfulness)",),
        _controlled("lenient", controls=0),
        Unseen(),
        "without items whose verdict is known nothing tells a lenient judge from a better system",
    )


FAULTS: list[Fault] = [*_tuned()]
