"""``RunStore``: the database of runs with their samples, outputs, results and judgements; the decisions on datasets."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from hashlib import blake2b, sha256
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from .._version import __version__
from ..core.dataset import LazySamples
from ..core.results import Results, query_texts
from ..core.types import EvaluationSample, MetricResult, SystemOutputs
from ..errors import BadValueError, StoreError, UnknownRunError
from ..io.codec import DocumentRow, SampleRow
from ..runtime.processes import gc_paused
from ..runtime.secrets import reject_secrets
from .connect import Record, default_store
from .records import (
    HEARTBEAT_INTERVAL_S,
    OUTPUTS_DIGEST,
    RunRecord,
    RunStatus,
    StoredOutput,
    clean_column_text,
    from_iso,
    from_json,
    is_running,
    new_run_id,
    record_from_row,
    score_key,
    sum_nested,
    this_process,
    to_iso,
    utc_now,
)
from .rows import (
    CHUNK,
    NEWEST_FIRST,
    StoredJudgement,
    claim_run,
    count_judgements,
    count_outputs,
    delete_runs,
    encode_output_rows,
    get_run,
    latest_result,
    list_runs,
    named_run,
    named_run_id,
    read_judgements,
    read_one,
    read_output_chunk,
    read_outputs,
    read_result,
    read_results,
    read_sample,
    read_sample_chunk,
    read_sample_ids,
    read_summaries,
    require_position,
    sample_chunks,
    stored_positions,
    stream_samples,
    update_run,
    write_judgements,
    write_outputs,
    write_results,
    write_samples,
)
from .schema import decisions as decision_table, insert_statement, placeholders, runs
from .texts import PackedOutput, decode_packed, decode_packed_sample
from .transactions import OpenStore, outputs_digest, stored_usage

_INSERT_RUN = insert_statement(runs)
_MAX_POSITIONS = 500  # old versions of SQLite allow 999 values per statement


class RunStore(OpenStore):
    """Runs in an SQLite file or a PostgreSQL database. Several threads and processes may read and write.

    Every method that writes is one transaction: when it returns, everything is stored; when it raises, nothing is.
    """

    @classmethod
    def open(
        cls, target: str | Path, *, secrets: Iterable[str] = (), create: bool = True, timeout: float = 30.0
    ) -> Self:
        """Open the store at a path or a URL, as ``RunStore(target)`` does."""
        return cls(target, secrets=secrets, create=create, timeout=timeout)

    hide = OpenStore.hide  # the reference page lists what the class itself has

    @property
    def file(self) -> Path | None:
        """The absolute path of the file; ``None`` for PostgreSQL."""
        return None if self._database.is_postgresql else Path(self.label).absolute()

    @property
    def label(self) -> str:
        """The path or URL of the store, without a password."""
        return self._database.label

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    # --- runs --------------------------------------------------------------------------------------------------------

    def create_run(
        self,
        name: str,
        samples: Iterable[EvaluationSample],
        *,
        dataset_name: str,
        plan: Mapping[str, Any],
        config: Mapping[str, Any] | None = None,
        repeats: int = 1,
        commit: str | None = None,
        tags: Iterable[str] = (),
        run_id: str | None = None,
    ) -> RunRecord:
        """Create a run with its samples; those of a known dataset are not stored again.

        ``LineError`` names a sample with a value that is not valid JSON, ``BadValueError`` one with a secret.
        """
        from ..io.golden import dataset_fingerprint  # imports NumPy, which listings of runs do not need

        if not name:
            raise BadValueError("a run needs a name")
        run_id = new_run_id() if run_id is None else run_id
        samples = samples if isinstance(samples, Sequence) else list(samples)
        reject_secrets(samples, self._secrets)
        if clean_column_text(run_id) != run_id:
            raise BadValueError(f"{run_id!r} cannot be the id of a run: it holds a character that a store cannot")
        fingerprint = dataset_fingerprint(samples)
        with self._lock, self._writing_texts(block_writers=len(samples) > CHUNK) as connection:
            with gc_paused():
                write_samples(connection, fingerprint, samples, self._keys, self._known_texts)
            values = {
                "run_id": run_id,
                "name": self._text(name),
                "status": RunStatus.RUNNING.value,
                "created_at": to_iso(utc_now()),
                "plan_json": self._json(dict(plan)),
                "config_json": self._json(dict(config or {})),
                "dataset_name": self._text(dataset_name),
                "fingerprint": fingerprint,
                "num_samples": len(samples),
                "repeats": repeats,
                "commit_hash": None if commit is None else self._text(commit),
                "tags_json": self._json(_distinct(tags)),
                "version": __version__,
                "process": this_process(),
            }
            added = connection.execute(_INSERT_RUN, [values.get(column) for column in runs.columns])
            if not added:
                raise BadValueError(f"there is a run '{run_id}' already; choose another id")
            return get_run(connection, run_id)

    def get(self, run_id: str) -> RunRecord:
        """Return the run with that id, or as ``find`` does."""
        return self.find(run_id)

    def find(self, text: str) -> RunRecord:
        """Find a run by id, prefix of an id, name (the latest), ``latest`` or ``latest~1``."""
        with self._database.read() as connection:
            return named_run(connection, text)

    def runs(
        self,
        *,
        name: str | None = None,
        tag: str | None = None,
        status: RunStatus | str | None = None,
        dataset: str | None = None,
        limit: int | None = None,
    ) -> list[RunRecord]:
        """Return the matching runs, newest first."""
        with self._database.read() as connection:
            return list_runs(connection, name=name, tag=tag, status=status, dataset=dataset, limit=limit)

    def finish(self, run_id: str, status: RunStatus = RunStatus.FINISHED, *, message: str | None = None) -> None:
        """Set the final status of a run."""
        stored = None if message is None else self._text(message)
        values = {"status": RunStatus(status).value, "finished_at": to_iso(utc_now()), "message": stored}
        with self._writing() as connection:
            usage, _ = stored_usage(connection, run_id)
            usage[OUTPUTS_DIGEST] = outputs_digest(connection, run_id)
            update_run(connection, run_id, {**values, "usage_json": self._json(usage)})

    def reopen(self, run_id: str, *, expected_process: str | None = None) -> None:
        """Mark a run as resumed by this process.

        With ``expected_process`` only if the run still belongs to it: if two processes resume it at once, one fails.
        """
        values = {"status": RunStatus.RUNNING.value, "finished_at": None, "message": None, "process": this_process()}
        with self._writing() as connection:
            if expected_process is None:
                update_run(connection, run_id, values)
            elif not claim_run(connection, run_id, expected_process, values):
                other = get_run(connection, run_id).process
                raise BadValueError(f"{run_id} was meanwhile resumed by process {other}; wait for it, or stop it")

    def set_aggregate(self, run_id: str, aggregate: Mapping[str, Any] | None) -> None:
        """Store the aggregate of a run."""
        with self._writing() as connection:
            stored = None if aggregate is None else self._json(dict(aggregate))
            update_run(connection, run_id, {"aggregate_json": stored})

    def set_gold(self, run_id: str, gold: Mapping[str, Any]) -> RunRecord:
        """Store how the gold of a run is matched, as ``gold`` of its plan; returns the run."""
        with self._writing() as connection:
            plan = get_run(connection, run_id, to_change=True).plan
            update_run(connection, run_id, {"plan_json": self._json({**plan, "gold": dict(gold)})})
            return get_run(connection, run_id)

    def tag(self, run_id: str, *tags: str) -> None:
        """Add tags to a run."""
        self._retag(run_id, lambda current: [*current, *tags])

    def untag(self, run_id: str, *tags: str) -> None:
        """Remove tags from a run; missing ones are ignored."""
        self._retag(run_id, lambda current: [tag for tag in current if tag not in tags])

    def delete(self, run_ids: str | Iterable[str]) -> None:
        """Delete runs, with the samples and texts that no other run references. Other writers wait."""
        with self._database.write() as connection:
            delete_runs(connection, _distinct(run_ids))

    def as_stored(self, value: Any) -> Any:
        """Return a plan or config as ``RunRecord`` has it, without secrets, to compare it with a stored one."""
        return from_json(self._json(value))

    # --- samples and outputs -----------------------------------------------------------------------------------------

    def samples(self, run_id: str, *, texts: bool = True) -> list[EvaluationSample]:
        """Return the samples of a run in the order of its dataset; without ``texts`` document texts are empty."""
        return list(iter_samples(self, run_id, texts=texts))

    def sample_ids(self, run_id: str) -> list[str]:
        """Return the ids of the samples of a run."""
        with self._database.read() as connection:
            return read_sample_ids(connection, named_run(connection, run_id).fingerprint)

    def append(self, run_id: str, outputs: Sequence[StoredOutput], *, replace: bool = False) -> None:
        """Store outputs with their document texts; committed on return.

        An existing output is kept, or replaced. ``LineError`` names an output with a value that is not valid JSON; then
        none is stored.
        """
        with self._lock:
            self._keys.clear()
            rows = encode_output_rows(run_id, outputs, self._secrets, self._keys)
            with self._writing_texts(run_id) as connection:
                self._known_texts.write(connection, self._keys.texts)
                write_outputs(connection, rows, replace=replace)

    def outputs(
        self,
        run_id: str,
        *,
        repeat: int | None = None,
        position: int | None = None,
        positions: Container[int] | None = None,
        texts: bool = True,
    ) -> Iterator[StoredOutput]:
        """Yield the outputs of a run by repeat and position, read in chunks; of one repeat or some samples, if given.

        Without ``texts`` document texts are empty and not read.
        """
        with self._reading(run_id) as (_, run):
            return read_outputs(self._database, run, repeat=repeat, texts=texts, position=position, positions=positions)

    def done(self, run_id: str) -> set[tuple[int, int]]:
        """Return the (position, repeat) of every stored output, including failed ones."""
        with self._reading(run_id) as (connection, run):
            return stored_positions(connection, run)

    def failed(self, run_id: str) -> set[tuple[int, int]]:
        """Return the (position, repeat) of every output with an error."""
        with self._reading(run_id) as (connection, run):
            return stored_positions(connection, run, failed=True)

    def counts(self, run_id: str) -> tuple[int, int]:
        """Return the number of outputs, and how many of them failed."""
        with self._reading(run_id) as (connection, run):
            return count_outputs(connection, [run])[run]

    # --- results -----------------------------------------------------------------------------------------------------

    def put_result(self, run_id: str, result: MetricResult, *, position: int | None = None, reducer: str = "") -> None:
        """Store a metric's result; one of the same name and signature is replaced, others stay.

        ``position`` is its index among the results: by default that of its name, else the end.
        """
        with self._writing(run_id) as connection:
            reducers = {result.name: reducer}
            write_results(connection, run_id, [result], self._secrets, reducers=reducers, position=position)

    def put_results(
        self, run_id: str, results: Sequence[MetricResult], *, reducers: Mapping[str, str] | None = None
    ) -> None:
        """Store several results; ``reducers`` are the reducers by metric name."""
        with self._writing(run_id) as connection:
            write_results(connection, run_id, results, self._secrets, reducers=reducers or {})

    def result(self, run_id: str, name: str) -> MetricResult:
        """Return the result with that name (the latest signature) or that signature."""
        with self._reading(run_id) as (connection, run):
            return read_result(connection, run, name)

    def results(self, run_id: str, *, every_signature: bool = False) -> Results:
        """Return the results of a run in their order: the latest of each name, or with ``every_signature`` all."""
        with self._database.read() as connection:
            record = named_run(connection, run_id)
            names = read_sample_ids(connection, record.fingerprint)
            return read_results(connection, record.run_id, every_signature=every_signature, sample_ids=names)

    # --- judgements --------------------------------------------------------------------------------------------------

    def put_judgements(self, run_id: str, rows: Sequence[StoredJudgement]) -> None:
        """Store judgements; one of the same request is replaced."""
        with self._writing(run_id) as connection:
            write_judgements(connection, run_id, rows, self._secrets)

    def clear_judgements(self, run_id: str, metrics: Collection[tuple[str, str]]) -> None:
        """Delete the judgements of metrics with these names and signatures."""
        keys = [score_key(clean_column_text(name), clean_column_text(signature)) for name, signature in metrics]
        query = f"DELETE FROM eval_judgements WHERE run_id = ? AND score_key IN {placeholders(keys)}"
        with self._writing() as connection:
            connection.execute(query, [run_id, *keys])

    def judgements(
        self, run_id: str, *, position: int | None = None, failed: bool = False
    ) -> Iterator[StoredJudgement]:
        """Yield the judgements of a run, or of the sample at one position; or only the failed ones."""
        with self._reading(run_id) as (_, run):
            return read_judgements(self._database, run, position=position, failed=failed)

    def judgement_counts(self, run_id: str) -> tuple[int, int]:
        """Return the number of judgements, and how many of them failed."""
        with self._reading(run_id) as (connection, run):
            return count_judgements(connection, run)

    def add_usage(self, run_id: str, usage: Mapping[str, Any]) -> None:
        """Add to the judge usage of a run: nested numbers are summed by key. Ends ``put_judging``."""
        with self._writing() as connection:
            current, _ = stored_usage(connection, run_id)
            update_run(connection, run_id, {"usage_json": self._json(sum_nested(current, usage))})

    def put_judging(self, run_id: str, judging: Mapping[str, Any] | None) -> None:
        """Store the process and the judge usage of a scoring in progress; ``None`` when it has ended."""
        with self._writing() as connection:
            usage, before = stored_usage(connection, run_id)
            if before is None and judging is None:
                return
            usage |= {} if judging is None else {"in_progress": dict(judging)}
            update_run(connection, run_id, {"usage_json": self._json(usage) if usage else None})

    def outputs_digests(self, run_id: str) -> tuple[str, str | None]:
        """The digest of the outputs of a run, and the one that was stored when it ended."""
        with self._reading(run_id) as (connection, run):
            usage, _ = stored_usage(connection, run, to_change=False)
            return outputs_digest(connection, run), usage.get(OUTPUTS_DIGEST)

    def _retag(self, run_id: str, change: Callable[[Sequence[str]], Sequence[str]]) -> None:
        with self._writing() as connection:
            run = named_run_id(connection, run_id)
            current = get_run(connection, run, to_change=True).tags
            update_run(connection, run, {"tags_json": self._json(_distinct(change(current)))})


def open_store(path: str | Path | None = None) -> RunStore:
    """Open the store at ``path``, a file or URL; by default ``$AUEPORA_STORE``, else ``runs.sqlite``.

    Returns: the store, also as a context manager. A path without one is an error; ``RunStore(path)`` makes one there.

    Example:
        >>> with open_store("runs.sqlite") as store:
        ...     store.results("baseline")[0].name
        'recall@1'
    """
    return RunStore(default_store(path), create=False)


def _distinct(texts: str | Iterable[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else list(dict.fromkeys(texts))


@contextmanager
def heartbeat(store: RunStore, record: RunRecord, *, interval: float = HEARTBEAT_INTERVAL_S) -> Iterator[None]:
    """Report from a thread that this process is running a run, so that other hosts do not count it as interrupted."""
    ended = threading.Event()

    def report() -> None:
        known, owned = record.process, True
        while owned and not ended.wait(interval):
            # A store that cannot be written is a problem of the run itself, not of this thread.
            with suppress(StoreError):
                latest = this_process()
                with store._database.write() as connection:
                    owned = claim_run(connection, record.run_id, known, {"process": latest})
                known = latest

    thread = threading.Thread(target=report, name="auepora-heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(1.0)  # it may be waiting for a locked store


@contextmanager
def rescoring(store: RunStore, record: RunRecord) -> Iterator[None]:
    """Mark an ended run as scored by this process, until the end of the context."""
    is_ended = record.status not in (RunStatus.RUNNING, RunStatus.INTERRUPTED)
    with suppress(StoreError):  # a store that cannot be written is a problem of the scoring itself
        if is_ended:
            store.put_judging(record.run_id, {"process": this_process()})
    try:
        yield
    finally:
        with suppress(StoreError, UnknownRunError):
            if is_ended:
                store.put_judging(record.run_id, None)


def active_runs(store: RunStore, *, since: datetime) -> list[RunRecord]:
    """Return runs that a process is making or rescoring, newest first.

    Those whose process ended before the run was finished are included if it last reported after ``since``.
    """
    query = f"SELECT * FROM eval_runs WHERE status = ? OR usage_json LIKE ? {NEWEST_FIRST}"
    with store._database.read() as connection:
        rows = connection.records(query, (RunStatus.RUNNING.value, '%"in_progress"%'))
        records = [record_from_row(row) for row in rows]
    return [
        record
        for record in records
        if (record.status in (RunStatus.RUNNING, RunStatus.INTERRUPTED) or record.is_rescored)
        and (is_running(record.current_process) or (record.heartbeat or record.created_at) >= since)
    ]


def failure_counts(store: RunStore, run_id: str) -> Counter[str]:
    """Return the number of failed outputs of a run by the reason of the failure."""
    from ..core.batch import failure_reason  # imports NumPy

    query = (
        "SELECT substr(error, 1, 60) AS beginning, count(*) FROM eval_query_results "
        "WHERE run_id = ? AND error IS NOT NULL GROUP BY beginning"
    )
    counts: Counter[str] = Counter()
    with store._database.read() as connection:
        for text, count in connection.rows(query, (run_id,)):
            counts[failure_reason(text)] += count
    return counts


# --- parts of a run, for tasks that cannot have all of it in memory --------------------------------------------------


def count_all_outputs(store: RunStore, run_ids: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return for each run the number of outputs, and how many of them failed."""
    with store._database.read() as connection:
        return count_outputs(connection, run_ids)


def latest_result_times(store: RunStore) -> dict[str, tuple[int, str]]:
    """Return for each run with results their number, and the time of the latest."""
    query = "SELECT run_id, count(*), max(computed_at) FROM eval_scores GROUP BY run_id"
    with store._database.read() as connection:
        return {run_id: (number, moment) for run_id, number, moment in connection.rows(query)}


def all_result_summaries(store: RunStore, run_ids: Sequence[str]) -> dict[str, Results]:
    """Return the results of several runs as ``result_summaries`` does for one; of a deleted run none."""
    with store._database.read() as connection:
        return read_summaries(connection, run_ids)


def run_version(store: RunStore, record: RunRecord) -> str:
    """Return a text that changes with the status, tags, outputs and results of a run, read without its outputs."""
    with store._reading(record.run_id) as (connection, _):
        parts: list[Any] = [record.status.value, record.finished_at, record.tags, record.message]
        parts += latest_result(connection, record.run_id)
        if record.status is not RunStatus.FINISHED:
            parts += count_outputs(connection, [record.run_id])[record.run_id]
            parts += count_judgements(connection, record.run_id)
    return sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def lazy_samples(store: RunStore, run_id: str, *, texts: bool = True) -> LazySamples:
    """Return the samples of a run as a sequence that reads them in chunks on each iteration."""
    return LazySamples(partial(iter_samples, store, run_id, texts=texts), store.get(run_id).num_samples)


def samples_contain(store: RunStore, run_id: str, text: str) -> bool:
    """Return whether this text is in the JSON of a sample, which is faster to find than a value of a sample."""
    with store._database.read() as connection:
        chunks = sample_chunks(connection, get_run(connection, run_id).fingerprint)
        return any(text.encode() in data for data in chain.from_iterable(chunks))


def aligned_outputs(
    store: RunStore, run_id: str, *, repeat: int = 0, texts: bool = True
) -> Iterator[SystemOutputs | None]:
    """Yield one output per sample, in the order of the dataset; ``None`` if it is missing."""
    record, expected = store.get(run_id), 0
    for row in store.outputs(run_id, repeat=repeat, texts=texts):
        require_position(store.label, record, row.position, row.sample_id)
        yield from (None for _ in range(expected, row.position))
        yield row.output
        expected = row.position + 1
    yield from (None for _ in range(expected, record.num_samples))


def iter_samples(
    store: RunStore, run_id: str, *, texts: bool = True, positions: Container[int] | None = None
) -> Iterator[EvaluationSample]:
    """Yield the samples of a run in the order of its dataset, or those at ``positions``, read in chunks."""
    return stream_samples(store._database, store.get(run_id).fingerprint, texts=texts, positions=positions)


def sample_at(store: RunStore, record: RunRecord, position: int, *, texts: bool = True) -> EvaluationSample:
    """Return the sample of a run at a position of its dataset."""
    with store._database.read() as connection:
        return read_sample(store._database, connection, record.fingerprint, position, texts=texts)


def packed_samples(store: RunStore, record: RunRecord) -> Iterator[SampleRow[DocumentRow]]:
    """Yield the samples of a run as stored, with keys instead of document texts; faster than ``iter_samples``."""
    after: int | None = -1
    while after is not None:
        with store._database.read() as connection, gc_paused():
            chunk, after = read_sample_chunk(connection, record.fingerprint, after)
            rows = [decode_packed_sample(data) for data in chunk]
        yield from rows


def packed_outputs(store: RunStore, record: RunRecord) -> Iterator[tuple[int, int, PackedOutput]]:
    """Yield position, repeat and columns of each output of a run as stored; faster than ``RunStore.outputs``."""
    after: tuple[int, int] | None = (-1, -1)
    while after is not None:
        with store._reading(record.run_id) as (connection, _), gc_paused():
            chunk, after = read_output_chunk(connection, record.run_id, after)
            for _, position, sample_id, _ in chunk:
                require_position(store.label, record, position, sample_id)
            rows = [(position, repeat, decode_packed(data)) for repeat, position, _, data in chunk]
        yield from rows


def packed_queries(
    store: RunStore, record: RunRecord, positions: Sequence[int]
) -> dict[int, tuple[SampleRow[DocumentRow], PackedOutput | None]]:
    """Return the samples at some positions as stored, with the outputs of the first repeat."""
    found: dict[int, tuple[SampleRow[DocumentRow], PackedOutput | None]] = {}
    for start in range(0, len(positions), _MAX_POSITIONS):
        some = positions[start : start + _MAX_POSITIONS]
        wanted = f'"position" IN {placeholders(some)}'
        of_samples = f'SELECT "position", sample FROM eval_samples WHERE fingerprint = ? AND {wanted}'
        of_outputs = f'SELECT "position", outputs FROM eval_query_results WHERE run_id = ? AND repeat = 0 AND {wanted}'
        with store._reading(record.run_id) as (connection, _):
            samples = connection.rows(of_samples, [record.fingerprint, *some])
            outputs = dict(connection.rows(of_outputs, [record.run_id, *some]))
        for position, data in samples:
            output = decode_packed(bytes(outputs[position])) if position in outputs else None
            found[position] = decode_packed_sample(bytes(data)), output
    return found


def result_summaries(store: RunStore, run_id: str, *, every_signature: bool = False) -> Results:
    """Return the results of a run as ``RunStore.results`` does, without scores and sample ids."""
    with store._reading(run_id) as (connection, run):
        return read_results(connection, run, every_signature=every_signature, with_scores=False)


def results_with_texts(store: RunStore, run_id: str) -> Results:
    """Return the results of a run with question and answer (of the first repeat) for frames of single queries."""
    found = store.results(run_id)
    found.texts = query_texts(iter_samples(store, run_id, texts=False), aligned_outputs(store, run_id, texts=False))
    return found


def result_with_scores(store: RunStore, run_id: str, summary: MetricResult) -> MetricResult:
    """Return one of the ``result_summaries`` with its scores."""
    with store._database.read() as connection:
        return read_one(connection, run_id, summary.name, summary.signature or "")


# --- a store that caches what it reads, for one task that reads the same runs several times --------------------------

T = TypeVar("T")


class CachedStore(RunStore):
    """Caches results, and samples without document texts.

    It returns a run as of the first read, so it should live no longer than a task; returned objects are shared and must
    not be changed. Document texts and outputs are not cached: they may be large.
    """

    def __init__(self, store: RunStore) -> None:
        """``store`` stays open when this one is closed."""
        super().__init__(store._database)
        self._cache: dict[tuple[Any, ...], Any] = {}

    def samples(self, run_id: str, *, texts: bool = True) -> list[EvaluationSample]:
        """As in ``RunStore``."""
        read = super().samples
        if texts:
            return read(run_id)
        return list(self.cached(("samples", self.get(run_id).fingerprint), lambda: read(run_id, texts=False)))

    def results(self, run_id: str, *, every_signature: bool = False) -> Results:
        """As in ``RunStore``."""
        read = partial(super().results, run_id, every_signature=every_signature)
        return self.cached(("results", run_id, every_signature), read)

    def cached(self, key: tuple[Any, ...], read: Callable[[], T]) -> T:
        """The value of a key, read once."""
        if key not in self._cache:
            self._cache[key] = read()
        found: T = self._cache[key]
        return found


# --- the decisions made on each dataset: comparisons, sweeps, gates and sequential designs ---------------------------
# A dataset that has decided many comparisons is no longer an independent test set. The store counts them by the
# fingerprint of the dataset. A decision is recorded once: repeating it does not count again.

DecisionKind = Literal["comparison", "sweep", "gate", "sequential", "labels"]
DESIGNS = ("sequential", "labels")
"""Kinds that are recorded before the first judgement or label; ``results`` of the body is missing until they decide."""
_INSERT_DECISION = insert_statement(decision_table)


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision that was made on a dataset."""

    fingerprint: str
    key: str
    kind: DecisionKind
    recorded_at: datetime
    runs: tuple[str, ...]
    """Ids of the runs; they may have been deleted since."""
    metrics: tuple[str, ...]
    body: dict[str, Any]
    """Verdicts, or the design and the result of a sequential test."""


def decision_key(kind: DecisionKind, runs: Sequence[str], metrics: Sequence[str]) -> str:
    """Return the key of a decision: a hash of its kind, runs and metrics, in any order.

    A design has no metrics in its key, so that two runs have one design. Stores contain it: never change it.
    """
    words = [kind, *sorted(runs), *([] if kind in DESIGNS else ["", *sorted(metrics)])]
    return blake2b("".join(f"{len(word)}:{word}" for word in words).encode(), digest_size=16).hexdigest()


def record_decision(
    store: RunStore,
    fingerprint: str,
    kind: DecisionKind,
    runs: Sequence[str],
    metrics: Sequence[str],
    body: Mapping[str, Any],
    *,
    replace: bool = False,
) -> Decision:
    """Record a decision and return it as stored; one with the same key is kept, or its body replaced.

    The order of the runs is replaced with the body. Raises ``StoreError`` if the store is read-only.
    """
    key = decision_key(kind, runs, metrics)
    with store._database.write() as connection:
        values = (
            fingerprint,
            key,
            kind,
            to_iso(utc_now()),
            store._json(list(runs)),
            store._json([clean_column_text(name) for name in metrics]),
            store._json(dict(body)),
        )
        connection.execute(_INSERT_DECISION, values)
        if replace:  # the verdict is about the runs in this order
            change = "UPDATE eval_decisions SET runs_json = ?, body_json = ? WHERE fingerprint = ? AND decision_key = ?"
            connection.execute(change, (values[4], values[-1], fingerprint, key))
        stored = "SELECT * FROM eval_decisions WHERE fingerprint = ? AND decision_key = ?"
        return _decision(connection.records(stored, (fingerprint, key))[0])


def decisions(
    store: RunStore, *, fingerprint: str | None = None, kind: DecisionKind | None = None, run_id: str | None = None
) -> list[Decision]:
    """Return the recorded decisions, oldest first: all, those on a dataset, of a kind, or about a run."""
    wanted = {"fingerprint = ?": fingerprint, "kind = ?": kind}
    conditions = {condition: value for condition, value in wanted.items() if value is not None}
    where = " AND ".join(conditions) or "TRUE"
    query = f"SELECT * FROM eval_decisions WHERE {where} ORDER BY recorded_at, decision_key"
    with store._database.read() as connection:
        if store._database.read_only and not connection.has_table(decision_table.name):
            return []  # a read-only store of an earlier version
        found = [_decision(row) for row in connection.records(query, list(conditions.values()))]
    return found if run_id is None else [decision for decision in found if run_id in decision.runs]


def _decision(row: Record) -> Decision:
    return Decision(
        fingerprint=row["fingerprint"],
        key=row["decision_key"],
        kind=row["kind"],
        recorded_at=from_iso(row["recorded_at"]),
        runs=tuple(from_json(row["runs_json"])),
        metrics=tuple(from_json(row["metrics_json"])),
        body=from_json(row["body_json"]),
    )
