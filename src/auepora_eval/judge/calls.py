"""A single call of a critic, with a timeout that always holds and a check of the reply."""

from __future__ import annotations

import asyncio
import contextvars
import math
import threading
from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Any

from ..core.errors import JudgeError
from ..core.retry import http_status, is_transient, retry_after
from .critic import Critic, Judgement, JudgeRequest, LLMCritic

__all__ = ["CANCEL_GRACE_S", "call_critic", "is_overload"]

CANCEL_GRACE_S = 1.0
"""Seconds that a cancelled call has to finish; after that it is abandoned."""
_OVERLOAD_REASONS = frozenset({"rate_limited", "timeout"})


async def call_critic(critic: Critic, request: JudgeRequest, *, timeout: float, threads: Executor) -> Judgement:
    """The critic's judgement within ``timeout`` seconds; every failure is a ``JudgeError``."""
    loop = asyncio.get_running_loop()
    work: asyncio.Future[Judgement | BaseException]
    if isinstance(critic, LLMCritic):
        work = loop.run_in_executor(threads, contextvars.copy_context().run, _call_simple, critic, request)
    else:
        work = loop.create_task(_call_structured(critic, request))
    try:
        await asyncio.wait((work,), timeout=timeout)
    except asyncio.CancelledError:
        await _cancel(work)
        raise
    if not work.done():
        await _cancel(work)
    if not work.done() or work.cancelled():
        raise JudgeError("timeout", f"no answer within {timeout:g} s", retry=True)
    outcome = work.result()
    if isinstance(outcome, BaseException):
        raise _as_judge_error(outcome) from outcome
    return outcome


def is_overload(error: JudgeError) -> bool:
    """Whether an error means that the judge is overloaded or rate-limited."""
    return error.reason in _OVERLOAD_REASONS or (error.__cause__ is not None and http_status(error.__cause__) == 429)


async def _cancel(work: asyncio.Future[Any]) -> None:
    """Cancel a call and wait a moment for it to finish."""
    work.cancel()
    if isinstance(work, asyncio.Task):  # a thread cannot be cancelled
        await asyncio.wait((work,), timeout=CANCEL_GRACE_S)


async def _call_structured(critic: Any, request: JudgeRequest) -> Judgement | BaseException:
    """The judgement or exception of a structured critic; returned, since SystemExit in a task would stop the loop."""
    try:
        return _check_judgement(await critic.judge(request), request.schema)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return error
    except KeyboardInterrupt as error:
        if threading.current_thread() is threading.main_thread():  # probably Ctrl-C by the user
            raise
        return error
    except (Exception, SystemExit) as error:
        return error


def _call_simple(critic: LLMCritic, request: JudgeRequest) -> Judgement | BaseException:
    """The judgement or exception of a simple critic; returned, since not every exception crosses threads."""
    try:
        value = critic.score(prompt=request.prompt, metadata=dict(request.metadata))
        return Judgement({_number_name(request.schema): _number(value, _number_schema(request.schema))})
    except BaseException as error:
        return error


def _as_judge_error(error: BaseException) -> JudgeError:
    if isinstance(error, JudgeError):
        return error
    return JudgeError(
        "critic_raised",
        f"{type(error).__name__}: {error}"[:1000],
        retry=is_transient(error),
        retry_after=retry_after(error),
    )


def _check_judgement(judgement: Any, schema: Mapping[str, Any]) -> Judgement:
    """The judgement, if its numbers fit the schema; a user's critic may not have checked that."""
    if not isinstance(judgement, Judgement) or not isinstance(judgement.answer, Mapping):
        raise JudgeError("unparseable", f"the critic returned {judgement!r:.200}, not a Judgement with an object")
    for name, inner in _properties(schema).items():
        value = judgement.answer.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            _number(value, inner, raw=judgement.raw)
    return judgement


def _number(value: Any, schema: Mapping[str, Any], raw: str | None = None) -> float:
    try:
        number = math.nan if isinstance(value, (bool, str)) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    excerpt = repr(value)[:200] if raw is None else raw
    if not math.isfinite(number):
        raise JudgeError("unparseable", f"the critic returned {value!r:.80}, not a number", raw=excerpt)
    low, high = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
    if not low <= number <= high:
        raise JudgeError(
            "out_of_range", f"the critic returned {value!r:.80}, not between {low} and {high}", raw=excerpt
        )
    return number


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found = schema.get("properties")
    return {key: one for key, one in found.items() if isinstance(one, Mapping)} if isinstance(found, Mapping) else {}


def _number_name(schema: Mapping[str, Any]) -> str:
    """The key of the single number in the answer."""
    properties = _properties(schema)
    numbers = [name for name, inner in properties.items() if inner.get("type") in ("number", "integer")]
    return numbers[0] if "score" not in properties and len(numbers) == 1 else "score"


def _number_schema(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found = _properties(schema).get(_number_name(schema), {})
    return found if isinstance(found, Mapping) else {}
