"""A decision model on 127.0.0.1 that speaks both wire formats, as their documentation describes them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .judge_server import Asked, JudgeServer, Reply

__all__ = ["DecisionServer", "asked_questions"]


@dataclass(frozen=True)
class AskedQuestion:
    """One question as it arrived."""

    name: str
    kind: str
    instructions: str
    options: tuple[str, ...] = ("no", "yes")
    state: str = field(default="", repr=False)


def asked_questions(asked: Asked) -> list[AskedQuestion]:
    """The questions of a request in either format."""
    body = asked.body
    found = []
    if asked.path.endswith("/decisions"):
        for row in body["questions"]:
            options = [one["value"] for one in row.get("choices", ())] + [one["label"] for one in row.get("levels", ())]
            given = tuple(options) or ("no", "yes")
            found.append(AskedQuestion(row["name"], row["type"], row["instructions"], given, body["input"]))
        return found
    for name, row in body["questions"].items():
        kind = {"noul": "predicate"}.get(row["type"], row["type"])
        given = tuple(row.get("criteria") or ("no", "yes"))
        found.append(AskedQuestion(name, kind, row["instructions"], given, body["state"]))
    return found


Decide = Callable[[AskedQuestion], Mapping[str, float]]


def evenly(question: AskedQuestion) -> Mapping[str, float]:
    """The last option with probability .7, the first with .3."""
    rest = dict.fromkeys(question.options, 0.0)
    return {**rest, question.options[0]: 0.3, question.options[-1]: 0.7}


class DecisionServer(JudgeServer):
    """Answers each question by a distribution; ``change`` may alter the body of a reply."""

    def __init__(
        self,
        decide: Decide = evenly,
        *,
        change: Callable[[dict[str, Any]], Any] = lambda body: body,
        model: str = "decider-1.2",
        **options: Any,
    ) -> None:
        self._decide, self._change, self._model = decide, change, model
        super().__init__(self._reply_to, **options)

    def __enter__(self) -> "DecisionServer":
        super().__enter__()
        return self

    @property
    def questions(self) -> list[list[AskedQuestion]]:
        """By request."""
        return [asked_questions(asked) for asked in self.asked]

    def _reply_to(self, asked: Asked) -> Reply:
        as_list = asked.path.endswith("/decisions")
        rows: dict[str, dict[str, Any]] = {}
        for question in asked_questions(asked):
            shares = dict(self._decide(question))
            row: dict[str, Any]
            if question.kind == "predicate":
                key, kind = ("probability", "predicate") if as_list else ("noul", "noul")
                row = {"type": kind, key: shares["yes"]}
            else:
                row = {"type": question.kind, "confidence": 0.5}
                # What the server makes of it is wrong on purpose: only probabilities count.
                row |= {"score": 99.0} if question.kind == "score" else {"choice": question.options[0]}
                names = list(question.options)
                if as_list and question.kind == "score":
                    row["probabilities"] = [
                        {"value": names.index(one), "label": one, "probability": p} for one, p in shares.items()
                    ]
                elif as_list:
                    row["probabilities"] = [{"value": one, "probability": p} for one, p in shares.items()]
                elif question.kind == "score":
                    row["probabilities"] = {str(names.index(one)): p for one, p in shares.items()}
                else:
                    row["probabilities"] = shares
            rows[question.name] = row
        answers: Any = [{"name": name, **row} for name, row in rows.items()] if as_list else rows
        usage = {"input_tokens": len(asked.raw) // 4, "output_tokens": 0}
        body = self._change({"model": self._model, "answers": answers, "usage": usage})
        return body if isinstance(body, Reply) else Reply(body=body)
