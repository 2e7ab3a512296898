"""Critics that record judgements to a file and replay them later: for tests and audits, without cost."""

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
    """A key of a request: everything that is sent, and the repeat."""
    content = [request.system, request.prompt, request.schema, request.weighted, request.repeat]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


class RecordingCritic(StructuredCritic):
    """Wraps another critic and appends its judgements to a JSONL file; failed ones with their reason."""

    def __init__(self, critic: Critic, path: str | Path) -> None:
        self.critic, self.path = critic, Path(path)
        self.name = critic_name(critic)
        self.one_number, self.logprobs = returns_number_only(critic), supports_logprobs(critic)
        # Used by the budget.
        self.model, self.max_tokens = model_name(critic), getattr(critic, "max_tokens", None)
        self.calls_at_most = getattr(critic, "calls_at_most", 1)
        self._lock = threading.Lock()

    async def judge(self, request: JudgeRequest) -> Judgement:
        """The other critic's judgement."""
        try:
            judgement = await self._call(request)
        except JudgeError as error:
            self._write(request, {"error": {"reason": error.reason, "message": error.message, "raw": error.raw}})
            raise
        self._write(request, _plain(judgement))
        return judgement

    async def _call(self, request: JudgeRequest) -> Judgement:
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

    def _write(self, request: JudgeRequest, outcome: Mapping[str, Any]) -> None:
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
            **outcome,
        }
        line = json.dumps(row, default=str)  # escaped, so that any string can be written
        with self._lock, self.path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")


class RecordedCritic(StructuredCritic):
    """Replays judgements: from a file that ``RecordingCritic`` wrote, or from a mapping.

    The keys of a mapping are ``request_key(request)``, a whole prompt, or the id of a sample; its values an answer, a
    bare score, a ``Judgement`` or a ``JudgeError``. A request that was not recorded is a failed measurement
    (``not_recorded``). Recorded judgements carry the name of the critic that gave them.
    """

    def __init__(self, recorded: str | Path | Mapping[str, Any], *, name: str | None = None) -> None:
        self.one_number = self.logprobs = False
        names: dict[str, None] = {}
        if isinstance(recorded, Mapping):
            self._judgements = {key: _parse_judgement(value) for key, value in recorded.items()}
        elif isinstance(recorded, (str, Path)):
            rows = _read_rows(Path(recorded))
            self._judgements = {
                str(row["key"]): _parse_judgement(row) for row in rows
            }  # of duplicates the last one counts
            names = dict.fromkeys(str(row["critic"]) for row in rows if row.get("critic"))
            self.one_number = any(bool(row.get("one_number")) for row in rows)
            self.logprobs = any(bool(row.get("logprobs")) for row in rows)
        else:
            raise BadTypeError(f"recorded judgements are a file or a mapping, not {recorded!r:.80}")
        self.name = name or (next(iter(names)) if len(names) == 1 else "recorded")

    def __len__(self) -> int:
        return len(self._judgements)

    async def judge(self, request: JudgeRequest) -> Judgement:
        """The recorded judgement."""
        for key in (request_key(request), request.prompt, request.sample_id):
            recorded = self._judgements.get(key)
            if isinstance(recorded, JudgeError):
                raise JudgeError(recorded.reason, recorded.message, raw=recorded.raw, calls=0)
            if recorded is not None:
                return replace(recorded, cached=True)
        message = f"no judgement of sample '{request.sample_id}' is recorded for this question"
        raise JudgeError("not_recorded", message, calls=0)


def _plain(judgement: Judgement) -> dict[str, Any]:
    return {
        "answer": dict(judgement.answer),
        "raw": judgement.raw,
        "usage": [judgement.usage.prompt_tokens, judgement.usage.completion_tokens],
        "weighted": judgement.weighted,
        "mass": judgement.mass,
        "repaired": judgement.repaired,
    }


def _parse_judgement(value: object) -> Judgement | JudgeError:
    """The judgement that a recorded value stands for."""
    if isinstance(value, (Judgement, JudgeError)):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return Judgement({"score": value})
    if not isinstance(value, Mapping):
        raise BadTypeError(f"a recorded judgement is an answer or a score, not {value!r:.80}")
    if isinstance(value.get("error"), Mapping):
        error = value["error"]
        return JudgeError(str(error["reason"]), str(error.get("message") or ""), raw=error.get("raw"))
    if not isinstance(value.get("answer"), Mapping):
        return Judgement(dict(value))
    return Judgement(
        dict(value["answer"]),
        usage=Usage(*value.get("usage") or ()),
        raw=value.get("raw") or "",
        weighted=value.get("weighted"),
        mass=value.get("mass"),
        repaired=bool(value.get("repaired")),
    )


def _read_rows(path: Path) -> list[dict[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")  # strings may contain other line separators
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
