"""Judgements written down as they are made, and replayed later: for tests, for audits, for nobody's money."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..core.errors import BadTypeError, DataFileError, JudgeError
from ..core.retry import is_transient
from .budget import model_name
from .critic import Critic, Judgement, JudgeRequest, StructuredCritic, Usage, critic_name
from .ratings import returns_number_only, supports_logprobs

__all__ = ["RecordedCritic", "RecordingCritic", "request_key"]


def request_key(request: JudgeRequest) -> str:
    """What tells two questions apart: all that is sent, and which of several judgements it is."""
    told = [request.system, request.prompt, request.schema, request.weighted, request.repeat]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


class RecordingCritic(StructuredCritic):
    """Another critic, whose judgements are appended to a JSONL file as they come; failed ones with their reason."""

    def __init__(self, critic: Critic, path: str | Path) -> None:
        self.critic, self.path = critic, Path(path)
        self.name = critic_name(critic)
        self.one_number, self.logprobs = returns_number_only(critic), supports_logprobs(critic)
        # What the budget wants to know about it.
        self.model, self.max_tokens = model_name(critic), getattr(critic, "max_tokens", None)
        self.calls_at_most = getattr(critic, "calls_at_most", 1)
        self._writing = threading.Lock()

    async def judge(self, request: JudgeRequest) -> Judgement:
        """The other critic's judgement."""
        try:
            judgement = await self._asked(request)
        except JudgeError as error:
            self._write(request, {"error": {"reason": error.reason, "message": error.message, "raw": error.raw}})
            raise
        self._write(request, _plain(judgement))
        return judgement

    async def _asked(self, request: JudgeRequest) -> Judgement:
        if isinstance(self.critic, StructuredCritic):
            return await self.critic.judge(request)
        try:
            value = await asyncio.to_thread(self.critic.score, prompt=request.prompt, metadata=dict(request.metadata))
        except JudgeError:
            raise
        except Exception as error:
            raise JudgeError("critic_raised", f"{type(error).__name__}: {error}", retry=is_transient(error)) from error
        return Judgement({"score": value})

    def cache_key(self, request: JudgeRequest) -> Mapping[str, Any] | None:
        """The other critic's."""
        return self.critic.cache_key(request) if isinstance(self.critic, StructuredCritic) else None

    async def aclose(self) -> None:
        """Close the other critic."""
        if isinstance(self.critic, StructuredCritic):
            await self.critic.aclose()

    def _write(self, request: JudgeRequest, said: Mapping[str, Any]) -> None:
        row = {
            "key": request_key(request),
            "critic": self.name,
            "one_number": self.one_number,
            "logprobs": self.logprobs,
            "metric": request.metric,
            "sample_id": request.sample_id,
            "repeat": request.repeat,
            "prompt_id": request.prompt_id,
            "system": request.system,
            "prompt": request.prompt,
            **said,
        }
        line = json.dumps(row, default=str)  # escaped, so that any text can be written
        with self._writing, self.path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")


class RecordedCritic(StructuredCritic):
    """Replays judgements: from a file that ``RecordingCritic`` wrote, or from a mapping.

    The keys of a mapping are ``request_key(request)``, a whole prompt, or the id of a sample; its values an answer, a
    bare score, a ``Judgement`` or a ``JudgeError``. A question that was never recorded is a failed measurement
    (``not_recorded``). Recorded judgements are still those of the critic that gave them, and carry its name.
    """

    def __init__(self, recorded: str | Path | Mapping[str, Any], *, name: str | None = None) -> None:
        self.one_number = self.logprobs = False
        names: dict[str, None] = {}
        if isinstance(recorded, Mapping):
            self._said = {key: _judgement(value) for key, value in recorded.items()}
        elif isinstance(recorded, (str, Path)):
            rows = _rows(Path(recorded))
            self._said = {str(row["key"]): _judgement(row) for row in rows}  # asked again, the last answer counts
            names = dict.fromkeys(str(row["critic"]) for row in rows if row.get("critic"))
            self.one_number = any(bool(row.get("one_number")) for row in rows)
            self.logprobs = any(bool(row.get("logprobs")) for row in rows)
        else:
            raise BadTypeError(f"recorded judgements are a file or a mapping, not {recorded!r:.80}")
        self.name = name or (next(iter(names)) if len(names) == 1 else "recorded")

    def __len__(self) -> int:
        return len(self._said)

    async def judge(self, request: JudgeRequest) -> Judgement:
        """What was said before."""
        for key in (request_key(request), request.prompt, request.sample_id):
            said = self._said.get(key)
            if isinstance(said, JudgeError):
                raise JudgeError(said.reason, said.message, raw=said.raw, calls=0)
            if said is not None:
                return replace(said, cached=True)
        told = f"no judgement of sample '{request.sample_id}' is recorded for this question"
        raise JudgeError("not_recorded", told, calls=0)


def _plain(judgement: Judgement) -> dict[str, Any]:
    return {
        "answer": dict(judgement.answer),
        "raw": judgement.raw,
        "usage": [judgement.usage.prompt_tokens, judgement.usage.completion_tokens],
        "weighted": judgement.weighted,
        "mass": judgement.mass,
        "repaired": judgement.repaired,
    }


def _judgement(said: object) -> Judgement | JudgeError:
    """A judgement from whatever stands for one."""
    if isinstance(said, (Judgement, JudgeError)):
        return said
    if isinstance(said, (int, float)) and not isinstance(said, bool):
        return Judgement({"score": said})
    if not isinstance(said, Mapping):
        raise BadTypeError(f"a recorded judgement is an answer or a score, not {said!r:.80}")
    if isinstance(said.get("error"), Mapping):
        error = said["error"]
        return JudgeError(str(error["reason"]), str(error.get("message") or ""), raw=error.get("raw"))
    if not isinstance(said.get("answer"), Mapping):
        return Judgement(dict(said))
    return Judgement(
        dict(said["answer"]),
        usage=Usage(*said.get("usage") or ()),
        raw=said.get("raw") or "",
        weighted=said.get("weighted"),
        mass=said.get("mass"),
        repaired=bool(said.get("repaired")),
    )


def _rows(path: Path) -> list[dict[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")  # a text may hold other ends of lines
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "they are not UTF-8"
        raise DataFileError(path, None, f"recorded judgements cannot be read: {why}") from error
    rows = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise DataFileError(path, number, f"not JSON: {error}") from error
        if not isinstance(row, dict) or "key" not in row or not ({"answer", "error"} & set(row)):
            raise DataFileError(path, number, "a recorded judgement is an object with 'key' and 'answer' or 'error'")
        rows.append(row)
    return rows
