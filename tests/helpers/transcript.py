"""A judge made of tables: what texts claim, what supports what, which documents and sentences are of use."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from auepora_eval.errors import JudgeError
from auepora_eval.judge.critic import Judgement, JudgeRequest, StructuredCritic, Usage
from helpers.critics import framed

Key = tuple[str, ...]


@dataclass(eq=False)
class Transcript(StructuredCritic):
    """Answers by its tables, and records the requests.

    ``supports`` has what each evidence supports, keyed by its texts; a claim that ends with ``?`` there is supported in
    part. What stands in ``lost`` under a prompt's name and the texts asked about is no judgement.
    """

    claims: Mapping[str, Sequence[str]] = field(default_factory=dict)
    supports: Mapping[Key, Sequence[str]] = field(default_factory=dict)
    useful: Sequence[str] = ()
    needed: Sequence[str] = ()
    questions: Mapping[str, tuple[bool, Sequence[str]]] = field(default_factory=dict)
    lost: Mapping[tuple[str, Key], str] = field(default_factory=dict)
    name: str = "transcript"
    asked: list[JudgeRequest] = field(default_factory=list)

    async def judge(self, request: JudgeRequest) -> Judgement:
        self.asked.append(request)
        await asyncio.sleep(0)
        about, answer = getattr(self, f"_{request.prompt_id.partition('/')[0]}")(request.prompt)
        reason = self.lost.get((request.prompt_id.partition("/")[0], about))
        if reason is not None:
            raise JudgeError(reason)
        return Judgement(answer, Usage(100, 10))

    def kinds(self) -> dict[str, int]:
        """How often each prompt was used."""
        names = [request.prompt_id.partition("/")[0] for request in self.asked]
        return {name: names.count(name) for name in sorted(set(names))}

    def _claims(self, prompt: str) -> tuple[Key, dict[str, Any]]:
        (text,) = framed(prompt, "text")
        return (text,), {"claims": list(self.claims[text])}

    def _support(self, prompt: str) -> tuple[Key, dict[str, Any]]:
        evidence = tuple(framed(prompt, "evidence"))
        supported = self.supports.get(evidence, ())
        verdicts = [
            {"number": number, "why": "so", "verdict": "full" if one in supported else _partly(one, supported)}
            for number, one in enumerate(framed(prompt, "statement"), 1)
        ]
        return evidence, {"verdicts": verdicts}

    def _usefulness(self, prompt: str) -> tuple[Key, dict[str, Any]]:
        (document,) = framed(prompt, "document")
        return (document,), {"why": "so", "useful": "yes" if document in self.useful else "no"}

    def _needed_sentences(self, prompt: str) -> tuple[Key, dict[str, Any]]:
        sentences = tuple(framed(prompt, "sentence"))
        return sentences, {"needed": [number for number, one in enumerate(sentences, 1) if one in self.needed]}

    def _reverse_questions(self, prompt: str) -> tuple[Key, dict[str, Any]]:
        (answer,) = framed(prompt, "answer")
        noncommittal, questions = self.questions[answer]
        return (answer,), {"noncommittal": noncommittal, "questions": list(questions)}


def _partly(claim: str, supported: Sequence[str]) -> str:
    return "partial" if f"{claim}?" in supported else "none"
