"""The store of runs: what was asked, what came back, and what it scored."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Connection

from .._version import __version__
from ..core.errors import BadValueError
from ..core.results import Results
from ..core.secrets import Secrets, reject_secrets
from ..core.types import EvaluationSample, MetricResult
from .connect import Database, connect
from .deletion import delete_runs
from .ids import new_run_id, to_iso, utc_now
from .judgement_rows import (
    StoredJudgement,
    count_judgements,
    delete_judgements,
    read_judgements,
    write_judgements,
)
from .migrations import migrate
from .output_rows import count_outputs, encode_output_rows, read_outputs, stored_positions, write_outputs
from .processes import this_process
from .records import RunRecord, RunStatus, StoredOutput, clean_column_text, from_json, sum_nested, to_json
from .results import read_result, read_results, write_results
from .run_rows import claim_run, find_run, get_run, list_runs, require_run, unknown_run_error, update_run
from .sample_rows import pack_samples, read_sample_ids, read_samples, write_samples
from .schema import runs
from .texts import KnownTexts, TextKeys, block_deletions

__all__ = ["RunStore"]


class RunStore:
    """Runs in a file of SQLite or on a server of PostgreSQL. Several threads and processes may read and write.

    Every method that writes is one transaction: when it returns, what it was given is stored; when it raises, nothing
    of it is.
    """

    def __init__(self, database: Database, *, secrets: Iterable[str] = ()) -> None:
        """``open`` is the way to get one."""
        self._database = database
        self._hidden: frozenset[str] = frozenset()
        self._known_texts = KnownTexts()
        self._lock = threading.RLock()
        self.hide(secrets)

    @classmethod
    def open(
        cls, target: str | Path, *, secrets: Iterable[str] = (), create: bool = True, timeout: float = 30.0
    ) -> Self:
        """The store at a path or a ``postgresql://`` URL, brought up to date.

        ``secrets`` are texts that must not be written: ``***`` stands in their place, except in the ids of documents,
        citations and samples, which the numbers depend on. Without ``create`` a store that is not there is an error.
        ``timeout`` is how many seconds to wait for another process that writes.
        """
        database = connect(target, create=create, timeout=timeout)
        try:
            migrate(database, create=create)
        except BaseException:
            database.close()
            raise
        return cls(database, secrets=secrets)

    def hide(self, secrets: Iterable[str]) -> None:
        """Keep these texts, too, from being written."""
        self._hidden |= frozenset(secrets)
        self._secrets = Secrets(self._hidden)
        self._record_secrets = Secrets(self._hidden, hide_passwords=True)
        self._keys = TextKeys(self._secrets)

    @property
    def file(self) -> Path | None:
        """The file it is, with its folder; ``None`` on a server."""
        return None if self._database.is_postgresql else Path(self.label).absolute()

    @property
    def label(self) -> str:
        """Where the store is, without a password."""
        return self._database.label

    def close(self) -> None:
        """Give back every connection."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"RunStore({self.label!r})"

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
        """A new run, with its samples; those of a dataset the store knows are not stored again.

        ``LineError`` says which sample holds something that JSON cannot carry, ``BadValueError`` which holds a secret.
        """
        if not name:
            raise BadValueError("a run needs a name")
        run_id = new_run_id() if run_id is None else run_id
        samples = list(samples)
        reject_secrets(samples, self._secrets)
        if clean_column_text(run_id) != run_id:
            raise BadValueError(f"{run_id!r} cannot be the id of a run: it holds a character that a store cannot")
        with self._lock:
            self._keys.clear()
            packed = pack_samples(samples, self._keys)
            with self._writing_texts() as connection:
                write_samples(self._database, connection, packed)
                if connection.execute(runs.select().where(runs.c.run_id == run_id)).first() is not None:
                    raise BadValueError(f"there is a run '{run_id}' already; choose another id")
                connection.execute(
                    runs.insert().values(
                        run_id=run_id,
                        name=self._text(name),
                        status=RunStatus.RUNNING.value,
                        created_at=to_iso(utc_now()),
                        plan_json=self._json(dict(plan)),
                        config_json=self._json(dict(config or {})),
                        dataset_name=self._text(dataset_name),
                        fingerprint=packed.fingerprint,
                        num_samples=len(packed.rows),
                        repeats=repeats,
                        commit_hash=None if commit is None else self._text(commit),
                        tags_json=self._json(_distinct(tags)),
                        version=__version__,
                        process=this_process(),
                    )
                )
                return get_run(connection, run_id)

    def get(self, run_id: str) -> RunRecord:
        """The run of that very id."""
        with self._database.read() as connection:
            return get_run(connection, run_id)

    def find(self, text: str) -> RunRecord:
        """The run meant by an id, the beginning of one, a name (the latest of it), ``latest`` or ``latest~1``."""
        with self._database.read() as connection:
            return find_run(connection, text)

    def runs(
        self,
        *,
        name: str | None = None,
        tag: str | None = None,
        status: RunStatus | str | None = None,
        dataset: str | None = None,
        limit: int | None = None,
    ) -> list[RunRecord]:
        """The runs that fit, newest first."""
        with self._database.read() as connection:
            return list_runs(connection, name=name, tag=tag, status=status, dataset=dataset, limit=limit)

    def finish(self, run_id: str, status: RunStatus = RunStatus.FINISHED, *, message: str | None = None) -> None:
        """Note that a run has come to its end, and how."""
        told = None if message is None else self._text(message)
        self._change(run_id, status=RunStatus(status).value, finished_at=to_iso(utc_now()), message=told)

    def reopen(self, run_id: str, *, expected_process: str | None = None) -> None:
        """Note that a run goes on, by this process.

        With ``expected_process`` only where the run is still that one's: of two who take it up at once, one is refused.
        """
        values = {"status": RunStatus.RUNNING.value, "finished_at": None, "message": None, "process": this_process()}
        with self._writing() as connection:
            if expected_process is None:
                update_run(connection, run_id, **values)
            elif not claim_run(connection, run_id, expected_process, **values):
                other = get_run(connection, run_id).process
                raise BadValueError(f"{run_id} has been taken up by process {other} meanwhile; wait for it, or stop it")

    def set_aggregate(self, run_id: str, aggregate: Mapping[str, Any] | None) -> None:
        """Store a run's summary."""
        self._change(run_id, aggregate_json=None if aggregate is None else self._json(dict(aggregate)))

    def tag(self, run_id: str, *tags: str) -> None:
        """Add tags to a run."""
        self._retag(run_id, lambda held: [*held, *tags])

    def untag(self, run_id: str, *tags: str) -> None:
        """Take tags from a run; one it has not is no mistake."""
        self._retag(run_id, lambda held: [tag for tag in held if tag not in tags])

    def delete(self, run_ids: str | Iterable[str]) -> None:
        """Delete runs, with the samples and texts that no other run refers to. Others wait with writing meanwhile."""
        listed = list(_distinct(run_ids))
        with self._database.write() as connection:
            delete_runs(self._database, connection, listed)

    def as_stored(self, value: Any) -> Any:
        """A plan or config as ``RunRecord`` would have it, without secrets: what to compare a stored one with."""
        return from_json(self._json(value))

    # --- samples and outputs -----------------------------------------------------------------------------------------

    def samples(self, run_id: str, *, texts: bool = True) -> list[EvaluationSample]:
        """The samples of a run, in the order of its dataset; without ``texts`` their documents have an empty text."""
        with self._database.read() as connection:
            return read_samples(self._database, connection, get_run(connection, run_id).fingerprint, texts=texts)

    def sample_ids(self, run_id: str) -> list[str]:
        """Their ids."""
        with self._database.read() as connection:
            return read_sample_ids(connection, get_run(connection, run_id).fingerprint)

    def append(self, run_id: str, outputs: Sequence[StoredOutput], *, replace: bool = False) -> None:
        """Store outputs, with the texts of their documents; committed when it returns.

        One that is there already is kept, or replaced. ``LineError`` says which output holds something that JSON cannot
        carry; then none of these is stored.
        """
        with self._lock:
            self._keys.clear()
            rows = encode_output_rows(run_id, outputs, self._secrets, self._keys)
            with self._writing_texts() as connection:
                # Through the driver, since outputs may come one by one.
                if (
                    self._database.first(
                        connection, "SELECT 1 FROM eval_runs WHERE run_id = ?", clean_column_text(run_id)
                    )
                    is None
                ):
                    raise unknown_run_error(run_id)
                write_outputs(self._database, connection, rows, replace=replace)

    def outputs(
        self, run_id: str, *, repeat: int | None = None, position: int | None = None, texts: bool = True
    ) -> Iterator[StoredOutput]:
        """The outputs of a run by repeat and position, some in memory at a time; of one repeat or sample, if named.

        Without ``texts`` documents come with an empty text, and none is read.
        """
        with self._database.read() as connection:
            require_run(connection, run_id)
        return read_outputs(self._database, run_id, repeat=repeat, texts=texts, position=position)

    def done(self, run_id: str) -> set[tuple[int, int]]:
        """The (position, repeat) of every output that is there, failed ones included."""
        with self._database.read() as connection:
            require_run(connection, run_id)
            return stored_positions(connection, run_id)

    def failed(self, run_id: str) -> set[tuple[int, int]]:
        """The (position, repeat) of every output with an error."""
        with self._database.read() as connection:
            require_run(connection, run_id)
            return stored_positions(connection, run_id, failed=True)

    def counts(self, run_id: str) -> tuple[int, int]:
        """How many outputs there are, and how many of them failed."""
        with self._database.read() as connection:
            require_run(connection, run_id)
            return count_outputs(connection, run_id), count_outputs(connection, run_id, failed=True)

    # --- results -----------------------------------------------------------------------------------------------------

    def put_result(self, run_id: str, result: MetricResult, *, position: int | None = None, reducer: str = "") -> None:
        """Store a metric's result; one of the same name and signature is replaced, others stay.

        ``position`` is its place among the results: by default where its name already is, else after all others.
        """
        reducers = {result.name: reducer}
        with self._writing() as connection:
            require_run(connection, run_id)
            write_results(
                self._database,
                connection,
                run_id,
                [result],
                secrets=self._secrets,
                reducers=reducers,
                position=position,
            )

    def put_results(
        self, run_id: str, results: Sequence[MetricResult], *, reducers: Mapping[str, str] | None = None
    ) -> None:
        """Store several results; ``reducers`` says by the name of a metric how its statistics are folded."""
        with self._writing() as connection:
            require_run(connection, run_id)
            write_results(self._database, connection, run_id, results, secrets=self._secrets, reducers=reducers or {})

    def result(self, run_id: str, name: str) -> MetricResult:
        """The result of that name (the latest, where its rules have changed) or of that very signature."""
        with self._database.read() as connection:
            require_run(connection, run_id)
            return read_result(connection, run_id, name)

    def results(self, run_id: str, *, every_signature: bool = False) -> Results:
        """The results of a run in their order: the latest of each name, or with ``every_signature`` all of them."""
        with self._database.read() as connection:
            names = read_sample_ids(connection, get_run(connection, run_id).fingerprint)
            return read_results(connection, run_id, every_signature=every_signature, sample_ids=names)

    # --- judgements --------------------------------------------------------------------------------------------------

    def put_judgements(self, run_id: str, rows: Sequence[StoredJudgement]) -> None:
        """Store what judges said; the same question asked again replaces what was said before."""
        with self._writing() as connection:
            require_run(connection, run_id)
            write_judgements(self._database, connection, run_id, rows, self._secrets)

    def clear_judgements(self, run_id: str, metrics: Collection[tuple[str, str]]) -> None:
        """Forget what judges said for metrics of these names and signatures."""
        with self._writing() as connection:
            delete_judgements(connection, run_id, metrics)

    def judgements(
        self, run_id: str, *, position: int | None = None, failed: bool = False
    ) -> Iterator[StoredJudgement]:
        """What judges said of a run, or of the sample at one position; or only where they failed."""
        with self._database.read() as connection:
            require_run(connection, run_id)
        return read_judgements(self._database, run_id, position=position, failed=failed)

    def judgement_counts(self, run_id: str) -> tuple[int, int]:
        """How many judgements there are, and how many of them failed."""
        with self._database.read() as connection:
            return count_judgements(connection, run_id)

    def add_usage(self, run_id: str, usage: Mapping[str, Any]) -> None:
        """Add to what judging a run took: numbers add up, by name, however deep."""
        with self._writing() as connection:
            held = get_run(connection, run_id, to_change=True).usage or {}
            update_run(connection, run_id, usage_json=self._json(sum_nested(held, usage)))

    # --- helpers -----------------------------------------------------------------------------------------------------

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """A transaction that writes, which no deletion of runs comes between."""
        with self._database.write() as connection:
            block_deletions(self._database, connection)
            yield connection

    @contextmanager
    def _writing_texts(self) -> Iterator[Connection]:
        """The same; the texts that were met in packing are written first."""
        with self._writing() as connection:
            self._known_texts.write(self._database, connection, self._keys.texts)
            yield connection
        self._known_texts.mark_committed()

    def _change(self, run_id: str, **values: Any) -> None:
        with self._writing() as connection:
            update_run(connection, run_id, **values)

    def _retag(self, run_id: str, change: Callable[[Sequence[str]], Sequence[str]]) -> None:
        with self._writing() as connection:
            held = get_run(connection, run_id, to_change=True).tags
            update_run(connection, run_id, tags_json=self._json(_distinct(change(held))))

    def _text(self, text: str) -> str:
        return clean_column_text(self._record_secrets.message(text))

    def _json(self, value: Any) -> str:
        return to_json(self._record_secrets.value(value))


def _distinct(texts: str | Iterable[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else list(dict.fromkeys(texts))
