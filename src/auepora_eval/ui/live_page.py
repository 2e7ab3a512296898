"""Runs in progress, which the page gets by server-sent events, and plans with their errors at their lines."""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from ..compare.stores import read_register
from ..core.metric_hooks import asks_models
from ..core.metrics_base import BatchMetric, is_judged
from ..core.results import display_name
from ..engine.evaluate import evaluate_stream, resolve_metrics
from ..errors import AueporaError, BadValueError, PlanError
from ..plan.prepare import plan_findings
from ..plan.source import SUFFIXES, looks_like_plan
from ..render.blocks import Block
from ..render.html import shorten
from ..render.terminal import escape_control_characters
from ..report.score_sections import sequential_path
from ..runs.sequential import StopPlan, recorded_plan
from ..runtime.secrets import (
    MIN_SECRET_LENGTH,
    REDACTED,
    Secrets,
    is_secret_name,
    looks_like_secret,
    url_secrets,
)
from ..store.records import RunRecord, RunStatus, is_running, plan_conventions, run_info, utc_now
from ..store.runs import RunStore, active_runs, count_all_outputs, failure_counts, iter_samples, packed_queries
from .numbers import interval_numbers, metric_number
from .page_request import PageRequest, page_route
from .workbench import Workbench, render_blocks, render_template

# --- the state of the runs in progress -------------------------------------------------------------------------------

RECENT = timedelta(hours=24)
"""How long runs that have ended are listed."""
MAX_ENDED = 20
POLL_SECONDS, HEARTBEAT_SECONDS, RETRY_SECONDS = 1.0, 15.0, 2.0
"""Seconds between two readings of the store, between two lines of an unchanged stream, and before a reconnection."""
RATE_SECONDS, MIN_RATE_SECONDS = 120.0, 3.0
"""The remaining time is estimated from the outputs of the last seconds, at least of so many."""

FIRST_ANSWERS, FEWEST_ANSWERS, GROWTH, MAX_FIRST = 100, 5, 1.5, 4
"""The first metrics are over so many answers at most and at least, are computed again with so many times more, and are
so many. They end with the first answers, so that nobody stops a run when they look good."""
NEAR, SHOWN = 16, 600
"""Calls in parallel end so many positions apart; so many characters of the newest answer are shown."""

Stage = Literal["calling", "scoring", "judging", "rescoring", "interrupted", "rescoring interrupted"]
STAGES: Mapping[Stage, str] = {
    "calling": "calling the system",
    "scoring": "scoring",
    "judging": "judging",
    "rescoring": "rescoring",
    "interrupted": "interrupted",
    "rescoring interrupted": "rescoring interrupted",
}


@dataclass(frozen=True, slots=True)
class ProgressValue:
    """A number of a run in progress, with a note and, where there is a limit, the proportion of it that is reached."""

    key: str
    name: str
    text: str
    note: str = ""
    ratio: float | None = None
    where: str = ""
    """A condition: the value links to the queries that meet it."""


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A run in progress, or one whose process ended before it was finished."""

    record: RunRecord
    stage: Stage
    values: tuple[ProgressValue, ...]
    stop: StopPlan | None
    """The design of sequential judging, where the run is judged by one."""
    newest: tuple[ProgressValue, ...] = ()
    """The latest question and its answer; empty where there is none."""
    metrics: tuple[ProgressValue, ...] = ()
    """Metrics over the first answers."""

    @property
    def shown(self) -> tuple[ProgressValue, ...]:
        """All that an event says of the run."""
        return (*self.values, *self.newest, *self.metrics)

    @property
    def is_active(self) -> bool:
        """Whether its process still exists."""
        return "interrupted" not in self.stage

    @property
    def key(self) -> str:
        """Changes with everything of the run but the numbers: then its part of the page is rendered again."""
        looks = (
            0 if self.stop is None else max((len(result["path"]) for result in self.stop.results.values()), default=0)
        )
        shape = [f"{value.key}{value.ratio is not None}{bool(value.note)}{bool(value.where)}" for value in self.shown]
        return " ".join([self.record.run_id, self.stage.replace(" ", "-"), str(looks), *shape])


class LiveFeed:
    """Reads the runs in progress in one task for all clients, and sends changes to their event streams."""

    def __init__(self, workbench: Workbench) -> None:
        self._workbench = workbench
        self._history: dict[str, deque[tuple[float, int]]] = {}
        self._metrics: dict[str, tuple[int, tuple[ProgressValue, ...]]] = {}
        """The first metrics of each run, with the number of answers that they are over."""
        self._lock = threading.Lock()
        self._clients = 0
        self._task: asyncio.Task[None] | None = None
        self._event = ""
        """The latest event; empty before the first one."""
        self._changed = asyncio.Event()

    def read(self) -> list[LiveRun]:
        """The runs in progress, and those whose process ended; newest first. May be called from any thread."""
        self._workbench.check_store()
        store = self._workbench.store
        records = active_runs(store, since=utc_now() - RECENT)
        counts = count_all_outputs(store, [record.run_id for record in records])
        found = []
        for record in records:
            done, failed = counts[record.run_id]
            reasons = failure_counts(store, record.run_id) if failed else {}
            stage = _stage(record, done)
            seconds = self._seconds_left(record, done) if stage == "calling" else None
            values = (
                *_output_values(record, done, failed, reasons, seconds),
                *_judging_values(_current_judging(record)),
            )
            run = LiveRun(record, stage, values, self._stop_plan(record))
            if done and "rescoring" not in stage:
                newest, metrics = _newest_answer(store, record, done), self._first_metrics(record, done)
                run = replace(run, newest=newest, metrics=metrics)
            found.append(run)
        with self._lock:
            self._metrics = {run.record.run_id: self._metrics.get(run.record.run_id, (0, ())) for run in found}
            calling = {run.record.run_id for run in found if run.stage == "calling"}
            self._history = {run_id: history for run_id, history in self._history.items() if run_id in calling}
        return found

    def _stop_plan(self, record: RunRecord) -> StopPlan | None:
        """The recorded design, if a metric of it is being judged."""
        judged = _current_judging(record).get("metrics") or {}
        plan = recorded_plan(self._workbench.store, record) if judged else None
        return plan if plan is not None and not plan.designs.keys().isdisjoint(judged) else None

    def _first_metrics(self, record: RunRecord, done: int) -> tuple[ProgressValue, ...]:
        """Metrics over the first answers, computed again when there are clearly more of them."""
        count = min(done // record.repeats, FIRST_ANSWERS)
        with self._lock:
            before, found = self._metrics.get(record.run_id, (0, ()))
        if count >= FEWEST_ANSWERS and (count >= GROWTH * before or before < count == FIRST_ANSWERS):
            before, found = count, tuple(_first_metrics(self._workbench.store, record, count))
            with self._lock:
                self._metrics[record.run_id] = before, found
        return found

    def _seconds_left(self, record: RunRecord, done: int) -> float | None:
        """The remaining time of the calls at the speed of the last minutes; ``None`` if that is not known yet."""
        now = time.monotonic()
        with self._lock:
            history = self._history.setdefault(record.run_id, deque())
            history.append((now, done))
            while now - history[0][0] > RATE_SECONDS:
                history.popleft()
            start, before = history[0]
        if now - start < MIN_RATE_SECONDS or done <= before:
            return None
        return (record.num_samples * record.repeats - done) * (now - start) / (done - before)

    async def stream(self) -> AsyncIterator[str]:
        """The events of one client: the state at the start and after each change; comments while nothing changes."""
        self._clients += 1
        if self._task is None:
            self._event = ""
            self._task = asyncio.create_task(self._poll())
        try:
            yield f"retry: {RETRY_SECONDS * 1000:.0f}\n\n"
            sent = ""
            while self._task is not None:  # without one, the client connects again
                changed = self._changed
                if self._event not in ("", sent):
                    sent = self._event
                    yield sent
                    continue
                try:
                    await asyncio.wait_for(changed.wait(), HEARTBEAT_SECONDS)
                except TimeoutError:
                    yield ": heartbeat\n\n"
        finally:
            self._clients -= 1

    async def _poll(self) -> None:
        """Read the store until the last client has left or the server stops."""
        try:
            while self._clients and not self._workbench.stopping.is_set():
                event = await run_in_threadpool(self._read_event)
                if event != self._event:
                    self._event = event
                    self._wake_clients()
                for _ in range(5):
                    if not self._workbench.stopping.is_set():
                        await asyncio.sleep(POLL_SECONDS / 5)
        finally:
            self._task = None
            self._wake_clients()

    def _wake_clients(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _read_event(self) -> str:
        try:
            found = self.read()
        except AueporaError as error:
            return _event("problem", {"error": str(error)})
        runs = []
        for run in found:
            values = {value.key: [value.text, value.note, value.ratio] for value in run.shown}
            runs.append({"id": run.record.run_id, "key": run.key, "values": values})
        return _event("progress", {"runs": runs})


def _event(name: str, data: Mapping[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"  # JSON in ASCII has no line break


def _stage(record: RunRecord, done: int) -> Stage:
    if record.is_rescored:
        return "rescoring" if is_running(record.current_process) else "rescoring interrupted"
    if record.status is RunStatus.INTERRUPTED:
        return "interrupted"
    if _current_judging(record):
        return "judging"
    return "scoring" if done >= record.num_samples * record.repeats else "calling"


def _current_judging(record: RunRecord) -> Mapping[str, Any]:
    """The judge usage of the current process; empty if it has not judged, or if an earlier one was killed."""
    judging = record.judging or {}
    name, current = (text.partition("@")[0] for text in (judging.get("process", ""), record.current_process))
    return judging if "total" in judging and (name == current or record.status is RunStatus.INTERRUPTED) else {}


def _output_values(
    record: RunRecord, done: int, failed: int, reasons: Mapping[str, int], seconds: float | None
) -> Iterator[ProgressValue]:
    total = record.num_samples * record.repeats
    what = "samples" if record.repeats == 1 else "outputs"
    ratio = done / total if total else 1.0
    yield ProgressValue("outputs", "Outputs", f"{done:,} of {total:,} {what}", f"{ratio:.0%}", ratio)
    yield ProgressValue(
        "failures", "System failures", f"{failed:,}", _reasons_text(reasons), where="answer=failed" * (failed > 0)
    )
    if seconds is not None:
        yield ProgressValue("left", "Time left", f"about {_duration(seconds)}", "at the current speed")


def _judging_values(judging: Mapping[str, Any]) -> Iterator[ProgressValue]:
    """Judge calls and cost of the scoring in progress, against their caps."""
    if not judging:
        return
    total, caps, spent = judging["total"], judging.get("caps") or {}, judging.get("spent") or {}
    requested = f"{judging.get('requested', 0):,} requested so far"
    cached = f", {total['cached']:,} from the cache" if total["cached"] else ""
    yield ProgressValue("judgements", "Judgements", f"{total['judgements']:,}", requested + cached)
    failed = total["failed"]
    yield ProgressValue("judge_failures", "Failed judgements", f"{sum(failed.values()):,}", _reasons_text(failed))
    yield _spent_value("calls", "Judge calls", total["calls"], spent=spent, caps=caps, form="{:,}")
    tokens = total["prompt_tokens"] + total["completion_tokens"]
    if tokens or "tokens" in caps:
        yield _spent_value("tokens", "Judge tokens", tokens, spent=spent, caps=caps, form="{:,}")
    if total["cost"] is not None or "cost" in caps:
        yield _spent_value("cost", "Judge cost", total["cost"] or 0.0, spent=spent, caps=caps, form="{:.4g}")


def _spent_value(
    key: str, name: str, used: float, *, spent: Mapping[str, float], caps: Mapping[str, float], form: str
) -> ProgressValue:
    """What was used; where it is capped, what counts against the cap."""
    cap = caps.get(key)
    if cap is None:
        return ProgressValue(key, name, form.format(used), "no cap")
    used = spent.get(key, used)
    ratio = min(used / cap, 1.0) if cap else 1.0
    return ProgressValue(key, name, f"{form.format(used)} of at most {form.format(cap)}", f"{ratio:.0%}", ratio)


def _newest_answer(store: RunStore, record: RunRecord, done: int) -> tuple[ProgressValue, ...]:
    """The latest question with an output among those that are asked at about this time, and its answer."""
    place = done // record.repeats
    positions = range(max(place - NEAR, 0), min(place + NEAR, record.num_samples))
    known = packed_queries(store, record, list(positions))
    for sample, output in (known[position] for position in reversed(positions) if position in known):
        if output is not None:
            answer = output.answer or "no answer" if output.error is None else f"failed: {output.error}"
            texts = {"question": ("Newest question", sample.query), "answer": ("Answer", answer)}
            return tuple(
                ProgressValue(key, name, escape_control_characters(shorten(text, SHOWN)))
                for key, (name, text) in texts.items()
            )
    return ()


def _first_metrics(store: RunStore, record: RunRecord, count: int) -> Iterator[ProgressValue]:
    """The primary metrics of the plan, else its first ones, over the first answers; without a judge or a model."""
    conventions, primary = plan_conventions(record), record.plan.get("primary") or ()
    planned = []
    with suppress(AueporaError):
        planned = resolve_metrics(record.plan.get("metrics") or (), conventions)
    chosen = [
        metric
        for metric in planned
        if isinstance(metric, BatchMetric) and not is_judged(metric) and not asks_models(metric)
    ]
    first = [metric for metric in chosen if metric.name in primary]
    others = [metric for metric in chosen if metric.name not in primary]
    outputs = {
        output.position: output.output for output in store.outputs(record.run_id, repeat=0, positions=range(count))
    }
    samples = islice(iter_samples(store, record.run_id, positions=range(count)), count)
    with suppress(AueporaError):
        pairs = [(sample, outputs[place]) for place, sample in enumerate(samples) if place in outputs]
        for result in evaluate_stream(
            pairs, [*first, *others][:MAX_FIRST], conventions=conventions, run=run_info(record)
        ):
            if result.defined:
                ends = interval_numbers(result) or "no interval"
                note = f"{ends}, n = {result.details.num_samples:,}"
                yield ProgressValue(
                    f"metric {result.name}", display_name(result), metric_number(result, result.value), note
                )


def _reasons_text(reasons: Mapping[str, int]) -> str:
    ordered = sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0]))
    shown = [f"{reason} {count:,}" for reason, count in ordered[:5]]
    rest = sum(count for _, count in ordered[5:])
    return ", ".join([*shown, *([f"others {rest:,}"] if rest else [])])


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"


# --- the page of runs in progress, and its stream --------------------------------------------------------------------


def live_page(request: PageRequest, template: str = "live.html") -> Response:
    """The runs in progress and those that ended lately; also without the rest of the page."""
    workbench = request.workbench
    found: list[LiveRun] = request.app.state.live_feed.read()
    shown = {run.record.run_id for run in found}
    since = utc_now() - RECENT
    ended = [
        run
        for run in workbench.store.runs(limit=MAX_ENDED + len(shown))
        if run.run_id not in shown and run.finished_at is not None and run.finished_at >= since
    ]
    return render_template(
        request,
        template,
        active=[run for run in found if run.is_active],
        interrupted=[run for run in found if not run.is_active],
        ended=ended[:MAX_ENDED],
        stages=STAGES,
        age=lambda moment: _duration((utc_now() - moment).total_seconds()),
        path_of=lambda run: render_blocks(_path_blocks(workbench, run)),
    )


async def live_events(request: Request) -> Response:
    """The stream of server-sent events."""
    if request.method == "HEAD":  # a stream has no end
        return Response(media_type="text/event-stream")
    return StreamingResponse(request.app.state.live_feed.stream(), media_type="text/event-stream")


def _path_blocks(workbench: Workbench, run: LiveRun) -> list[Block]:
    """The sequential tests of a run over the looks so far."""
    if run.stop is None:
        return []
    register = read_register(workbench.store, [run.record.fingerprint], run.stop.runs).to_dict()
    progress = {"samples": run.record.num_samples, "known_before": run.stop.known_before}
    blocks: list[Block] = []
    for name in run.stop.designs:
        blocks += sequential_path(name, run.stop.test(name, progress, register), in_progress=True)
    return blocks


# --- plans, read-only ------------------------------------------------------------------------------------------------

MAX_PLANS, MAX_ENTRIES, MAX_DEPTH = 200, 20_000, 6
"""Limits of the search for plans: files that are listed, files and folders that are looked at, levels of folders."""
MAX_PLAN_BYTES = 1_000_000
_SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})
_LINE = r"""^(?P<before>[\s\-{"'#]*(?P<name>[\w.-]+)["']?\s*[:=]\s*)(?P<value>[^\s#].*)$"""
_ITEM = r"""(?P<before>(?P<name>[\w.-]+)["']?\s*[:=]\s*)(?P<value>"[^"]*"|'[^']*'|[^\s,{}\[\]#"'][^,{}\[\]#]*)"""
_ASSIGNMENTS = re.compile(_LINE), re.compile(_ITEM)
"""A key with its value, on a line of its own or among others."""

_TOML_DATASET = re.compile(rb"^\s*(dataset\s*=|\[dataset\b)", re.MULTILINE)
"""What a plan in TOML has and other TOML files do not have."""


@dataclass(frozen=True, slots=True)
class PlanFile:
    """A plan file and what is wrong with it."""

    path: str
    """Relative to the folder of plans."""
    name: str
    lines: tuple[str, ...]
    errors: tuple[Mapping[str, Any], ...]
    """The text of each error, and its line, if it has one."""
    notes: tuple[str, ...] = ()

    def errors_at(self, line: int | None) -> list[Mapping[str, Any]]:
        """The errors at a line; those of ``None`` are about the whole file."""
        known = range(1, len(self.lines) + 1)
        return [error for error in self.errors if (error["line"] if error["line"] in known else None) == line]


def plans_page(request: PageRequest) -> Response:
    """The plans in the folder, and the plans of the latest runs."""
    workbench = request.workbench
    paths, is_complete = find_plans(workbench.plans)
    return render_template(
        request,
        "plans.html",
        folder=str(workbench.plans),
        plans=[_cached_plan(workbench, path) for path in paths],
        is_complete=is_complete,
        runs=workbench.store.runs(limit=MAX_ENDED),
    )


def plan_page(request: PageRequest) -> Response:
    """One plan with line numbers: a file of the folder (``path``), or the stored plan of a run (``run``)."""
    workbench, run = request.workbench, request.parameters.get("run")
    if run is not None:
        record = workbench.find(run)
        plan = PlanFile("", record.name, tuple(_stored_plan_text(record).splitlines()), ())
        return render_template(request, "plan.html", plan=plan, record=record)
    text = request.parameters.get("path")
    if not text:
        raise BadValueError("the address needs path=FILE, a plan in the folder, or run=ID, a stored run")
    path = _require_plan(workbench.plans, text)
    return render_template(request, "plan.html", plan=_cached_plan(workbench, path), record=None)


def find_plans(folder: Path) -> tuple[list[Path], bool]:
    """The plan files in a folder and the folders inside it, and whether all of it was searched."""
    found: list[Path] = []
    left, root = MAX_ENTRIES, folder.resolve()
    for name, folders, files in os.walk(folder):
        here = Path(name)
        left -= len(folders) + len(files)
        if left < 0 or len(found) >= MAX_PLANS:
            return sorted(found[:MAX_PLANS]), False
        is_deep = len(here.relative_to(folder).parts) >= MAX_DEPTH
        folders[:] = [] if is_deep else sorted(folder for folder in folders if _is_searched(here / folder))
        found += [here / file for file in sorted(files) if is_plan(here / file, root)]
    return sorted(found[:MAX_PLANS]), len(found) <= MAX_PLANS


def _is_searched(folder: Path) -> bool:
    is_environment = (folder / "pyvenv.cfg").exists()
    return not folder.name.startswith(".") and folder.name not in _SKIPPED_FOLDERS and not is_environment


def is_plan(path: Path, root: Path) -> bool:
    """Whether a path is a plan file that lies in the folder ``root``, whatever links lead to it."""
    if path.name.startswith(".") or path.suffix.lower() not in SUFFIXES:
        return False
    try:
        is_inside = path.resolve(strict=True).is_relative_to(root)
        if not is_inside or path.stat().st_size > MAX_PLAN_BYTES or not looks_like_plan(path):
            return False
        return path.suffix.lower() != ".toml" or _TOML_DATASET.search(path.read_bytes()) is not None
    except (OSError, RuntimeError, ValueError):  # gone, unreadable, a loop of links
        return False


def _require_plan(folder: Path, text: str) -> Path:
    """The plan file of a relative path; anything else in or outside the folder is not found."""
    path = Path(text)
    if not path.is_absolute() and "\0" not in text and is_plan(folder / path, folder.resolve()):
        return folder / path
    raise HTTPException(404, f"there is no plan {text!r} in {folder}")


def _cached_plan(workbench: Workbench, path: Path) -> PlanFile:
    try:
        state = path.stat()
    except OSError as error:
        raise HTTPException(404, f"{path.name} cannot be read: {error.strerror}") from error
    key = ("plan", str(path), state.st_mtime_ns, state.st_size)
    return workbench.cached(key, lambda: read_plan_file(path, workbench.plans), size=3 * state.st_size + 10_000)


def read_plan_file(path: Path, folder: Path) -> PlanFile:
    """A plan file with its errors. No code of the plan is imported, and secrets are masked."""
    secrets, notes = Secrets(hide_passwords=True), []
    try:
        _, findings = plan_findings(path, load=False)
        errors = [error for error in findings.errors if isinstance(error, PlanError)]
        values = findings.source.values
        literal = {secret for secret in _literal_secrets(values) if len(secret) >= MIN_SECRET_LENGTH}
        secrets = Secrets(findings.environment.secrets | literal, hide_passwords=True)
        notes = [
            f"{key}: {code} is not imported here, so it is not checked" for key, code in findings.not_loaded.items()
        ]
        name = str(values.get("name") or path.stem)
    except PlanError as error:
        errors, name = [error], path.stem
    masked = tuple({"line": error.line, "text": secrets.message(error.problem)} for error in errors)
    text = path.read_bytes().decode("utf-8", "replace")
    lines = tuple(_mask_line(line, secrets) for line in text.splitlines())
    relative = path.relative_to(folder).as_posix()
    return PlanFile(relative, secrets.message(name), lines, masked, tuple(map(secrets.message, notes)))


def _literal_secrets(value: Any, name: str = "") -> Iterator[str]:
    """The texts of a plan under the name of a secret, in addresses, and after an option such as ``--api-key``."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _literal_secrets(inner, name if is_secret_name(name) else str(key))
    elif isinstance(value, list):
        for before, inner in zip(["", *value], value, strict=False):
            is_option = isinstance(before, str) and before.startswith("--")
            yield from _literal_secrets(inner, before if is_option and not is_secret_name(name) else name)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        text = str(value)
        if is_secret_name(name) and "${" not in text:
            yield from (text, *(word for word in text.split() if len(word) >= 8))  # words: it may have several lines
        yield from (secret for secret in url_secrets(text) if "${" not in secret)


def _mask_line(line: str, secrets: Secrets) -> str:
    """A line of a plan without secrets: known ones, values under the name of one, passwords in addresses, keys."""

    def mask(found: re.Match[str]) -> str:
        is_shown = not is_secret_name(found["name"]) or "${" in found["value"]
        return found[0] if is_shown else f"{found['before']}{REDACTED}"

    line = secrets.message(line)
    for pattern in _ASSIGNMENTS:
        line = pattern.sub(mask, line)
    words = (REDACTED if looks_like_secret(word.strip("\"',{}[]")) else word for word in re.split(r"(\s+)", line))
    return "".join(words)


def _stored_plan_text(record: RunRecord) -> str:
    """The stored plan of a run as YAML, without empty keys."""
    import yaml

    values = {key: value for key, value in record.plan.items() if value is not None}
    return str(yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=100)) if values else ""


ROUTES = [
    page_route("/live", live_page),
    page_route("/live/runs", partial(live_page, template="live_runs.html")),
    Route("/live/events", live_events),
    page_route("/plans", plans_page),
    page_route("/plans/view", plan_page),
]
