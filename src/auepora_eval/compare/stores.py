"""The store that a comparison reads, its register of decisions, and differences between runs besides their scores."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import chain, repeat as repeat_value
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.types import EvaluationSample, SystemOutputs
from ..errors import StoreError
from ..render.tables import register_text
from ..runtime.imports import search_folders, store_folders
from ..runtime.processes import gc_paused
from ..store.records import RunRecord, RunStatus, StoredOutput, plan_conventions
from ..store.runs import DESIGNS, DecisionKind, RunStore, decisions, lazy_samples, packed_outputs, record_decision
from ..store.texts import PackedOutput

_MAX_KEPT = 4096
"""A run with more samples or outputs is read from the store on every pass."""
Positions = npt.NDArray[np.intp]
"""Positions of samples in the dataset of a run."""
DocumentFacts = tuple[str, str | None, tuple[int, int] | None, str | None]
"""Id, parent and span of a retrieved document, and the key of its text; ``None`` where one is unknown."""
TEXT_MATCHES = ("span", "text")
"""Ways to match gold that read texts: by span, the words of a gold passage are counted where its text is known."""
Store = RunStore | str | Path | None
"""A store, the path or URL of one, or ``None`` for ``$AUEPORA_STORE``, else ``runs.sqlite``."""


@contextmanager
def open_store(store: Store = None) -> Iterator[RunStore]:
    """Open the store, which must exist; a store that is passed open stays open."""
    with ExitStack() as stack:
        if not isinstance(store, RunStore):
            where = store or os.environ.get("AUEPORA_STORE") or "runs.sqlite"
            store = stack.enter_context(RunStore.open(where, create=False))
        stack.enter_context(search_folders(*store_folders(store.file)))
        yield store


@dataclass(frozen=True, slots=True, eq=False)
class RunOutputs:
    """A run with its samples and outputs. Those of a large run are read on every pass."""

    record: RunRecord
    samples: Iterable[EvaluationSample]
    """In the order of the dataset."""
    stored: Callable[[int | None, Container[int] | None], Iterator[StoredOutput]] = field(repr=False)
    """Returns the outputs of one repeat, or of all, by repeat and position; those at some positions, or all."""
    answered: int
    """How many outputs there are, failed ones included."""
    packed: Callable[[], Iterator[PackedOutput]] | None = field(default=None, repr=False)
    """Returns all outputs as stored, where reading them as ``stored`` does takes long."""
    read_texts: Callable[[], RunOutputs] | None = field(default=None, repr=False)
    """Returns the same with document texts; ``None`` where they are there."""

    def with_texts(self) -> RunOutputs:
        """The same samples and outputs with document texts."""
        return self if self.read_texts is None else self.read_texts()

    @property
    def repeats(self) -> int:
        """How many outputs there should be for each sample."""
        return max(self.record.repeats, 1)

    @property
    def unanswered(self) -> int:
        """How many outputs are missing because the system was never called; failed outputs are not counted."""
        return self.record.num_samples * self.repeats - self.answered

    def positions(self) -> dict[str, int]:
        """The position of each query by its id."""
        return {sample.sample_id: position for position, sample in enumerate(self.samples)}

    def documents(self) -> Iterator[Iterable[DocumentFacts]]:
        """The documents that each output retrieved, over all repeats."""
        if self.packed is not None:
            for output in self.packed():
                yield zip(
                    output.ids,
                    output.parents or repeat_value(None),
                    output.spans or repeat_value(None),
                    output.texts or repeat_value(None),
                    strict=False,
                )
            return
        for row in self.stored(None, None):
            docs = [item.doc for item in row.output.retrieved]
            keys: Sequence[str | None] = row.text_keys or [None] * len(docs)
            yield [(doc.doc_id, doc.parent_id, doc.span, key) for doc, key in zip(docs, keys, strict=True)]

    def pairs(self, repeat: int = 0) -> Iterator[tuple[EvaluationSample, SystemOutputs | None]]:
        """Each sample with its output in a repeat; ``None`` where there is none."""
        return zip(self.samples, self.outputs_at(np.arange(self.record.num_samples), repeat), strict=True)

    def outputs_at(self, positions: Positions, repeat: int) -> Iterator[SystemOutputs | None]:
        """The output at each of these positions; ``None`` where there is none."""
        wanted = None if len(positions) == self.record.num_samples else set(positions.tolist())
        rows = self.stored(repeat, wanted)
        if (np.diff(positions) <= 0).any():  # not in the order of the dataset
            found = {row.position: row.output for row in rows}
            yield from (found.get(position) for position in positions.tolist())
            return
        row = next(rows, None)
        for position in map(int, positions):
            while row is not None and row.position < position:
                row = next(rows, None)
            yield row.output if row is not None and row.position == position else None


def run_outputs(store: RunStore, record: RunRecord, *, texts: bool | None = None) -> RunOutputs:
    """The samples and outputs of a stored run; those of a small run are kept in memory.

    Document texts are read where the run matches gold by them, or as ``texts`` says.
    """
    texts = plan_conventions(record).match in TEXT_MATCHES if texts is None else texts
    samples = lazy_samples(store, record.run_id, texts=texts)
    answered, _ = store.counts(record.run_id)
    reread = None if texts else cache(partial(run_outputs, store, record, texts=True))
    if max(answered, record.num_samples) > _MAX_KEPT:
        return RunOutputs(
            record,
            samples,
            lambda repeat, positions: store.outputs(record.run_id, repeat=repeat, positions=positions, texts=texts),
            answered,
            lambda: (output for _, _, output in packed_outputs(store, record)),
            read_texts=reread,
        )
    with gc_paused():
        rows = list(store.outputs(record.run_id, texts=texts))
        return RunOutputs(record, list(samples), partial(select_outputs, rows), answered, read_texts=reread)


def select_outputs(
    rows: Iterable[StoredOutput], repeat: int | None, positions: Container[int] | None
) -> Iterator[StoredOutput]:
    """The outputs of one repeat, or of all; those at some positions, or all."""
    return (row for row in rows if repeat in (None, row.repeat) and (positions is None or row.position in positions))


# --- the register of decisions: how often a dataset has decided a comparison, a sweep or a gate ----------------------


@dataclass(frozen=True, slots=True)
class DecisionRegister:
    """How often a dataset decided about other runs before it decided about these."""

    before: int
    """Sets of runs that it decided about; a repeated decision about the same runs is the same one."""
    by_kind: Mapping[str, int] = field(default_factory=dict)
    is_recorded: bool = True
    """Whether this decision is recorded; it is not in a store that is read-only."""

    @property
    def note(self) -> str | None:
        """How often the dataset decided before, from the second time on."""
        unrecorded = "" if self.is_recorded else "; this one is not recorded, since the store is read-only"
        return f"{register_text(self.before)}{unrecorded}" if self.before else None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"before": self.before, "by_kind": dict(self.by_kind), "recorded": self.is_recorded}


def register_decision(
    store: RunStore,
    records: Sequence[RunRecord],
    kind: DecisionKind,
    verdicts: Mapping[str, Any],
    *,
    samples: str | None = None,
) -> DecisionRegister:
    """Record that runs were compared on their dataset, with what was found by metric; returns what came before.

    Nothing is recorded where the store object does not record decisions. A decision on a set of ``samples``, given by
    its name, does not replace that on all samples.
    """
    runs, fingerprints = [record.run_id for record in records], {record.fingerprint for record in records}
    is_recorded = True
    for fingerprint in fingerprints if store.records_decisions else ():
        try:
            body = {"verdicts": dict(verdicts), **({} if samples is None else {"samples": samples})}
            record_decision(store, fingerprint, kind, runs, metrics=[*verdicts], body=body, replace=samples is None)
        except StoreError:  # a read-only store is enough for a comparison
            is_recorded = False
    return replace(read_register(store, fingerprints, runs), is_recorded=is_recorded)


_BIAS = "bias of the judge in "
"""Before the name of a metric: stands for it in the register where labels were compared with the judge's scores."""


def record_bias(store: RunStore, records: Sequence[RunRecord], metric: str, reason: str | None) -> None:
    """Record why labels of two runs rule out a comparison of a judge's own scores; ``None`` if they do not."""
    register_decision(store, records, "comparison", {_BIAS + metric: reason})


def biased_metrics(store: RunStore, records: Sequence[RunRecord]) -> dict[str, str]:
    """By metric, why the judge's own scores of these runs cannot be compared, as labels of both showed."""
    runs = {record.run_id for record in records}
    found: dict[str, str] = {}
    for decision in decisions(store, kind="comparison"):
        if runs.issuperset(decision.runs):
            verdicts = decision.body.get("verdicts", {})
            found |= {name.removeprefix(_BIAS): why for name, why in verdicts.items() if name.startswith(_BIAS) and why}
    return found


def read_register(store: RunStore, fingerprints: Iterable[str], runs: Iterable[str]) -> DecisionRegister:
    """How often these datasets decided about other runs before they decided about these."""
    own = frozenset(runs)
    earlier: dict[frozenset[str], str] = {}
    for fingerprint in fingerprints:
        for decision in decisions(store, fingerprint=fingerprint):
            if frozenset(decision.runs) == own:
                break
            if decision.kind not in DESIGNS or decision.body.get("results"):  # else it has not decided yet
                earlier.setdefault(frozenset(decision.runs), decision.kind)
    return DecisionRegister(len(earlier), Counter(earlier.values()))


# --- differences of configuration: component versions, commit, conventions, dataset ----------------------------------

CONFIG_KEYS = ("chunker_version", "embedding", "embedding_version", "model", "prompt_version")
"""The parts of a system, by their names in ``config``, that most often explain a difference."""

_RANKING_KEYS = (
    "chunker_version",
    "embedding",
    "embedding_version",
    "retriever",
    "retriever_version",
    "reranker",
    "index",
)
_ANSWER_KEYS = ("model", "prompt_version")
_SHOWN = 60
_UNKNOWN = "unknown"


def version_notes(record_a: RunRecord, record_b: RunRecord, *, unanswered: tuple[int, int] = (0, 0)) -> list[str]:
    """Notes on what differs: the configuration, the commit, the conventions, the run options, the dataset.

    The first notes name runs that did not finish; ``unanswered`` is how many outputs each run lacks.
    """
    notes = [*_unfinished_notes("A", record_a, unanswered[0]), *_unfinished_notes("B", record_b, unanswered[1])]
    notes += _differences(record_a.config, record_b.config, CONFIG_KEYS)
    rest = sorted((record_a.config.keys() | record_b.config.keys()) - set(CONFIG_KEYS))
    notes += _differences(record_a.config, record_b.config, rest)
    for what, ours, others in (
        ("commit", record_a.commit, record_b.commit),
        ("conventions", _conventions(record_a), _conventions(record_b)),
        ("top_k", _run_option(record_a, "top_k"), _run_option(record_b, "top_k")),
        ("concurrency", _run_option(record_a, "concurrency"), _run_option(record_b, "concurrency")),
        ("repeats", record_a.repeats, record_b.repeats),
    ):
        notes += _difference(what, ours, others)
    if record_a.fingerprint != record_b.fingerprint:
        ours, others = (f"{record.dataset_name} ({_queries(record.num_samples)})" for record in (record_a, record_b))
        changed = ", with other content" if ours == others else ""
        notes.append(f"dataset: {ours} in A, {others} in B{changed}")
    return notes


def changed_config_keys(record_a: RunRecord, record_b: RunRecord) -> list[str]:
    """The keys of ``config`` that differ: first those that can change a rank, last those that only change an answer."""
    a, b = record_a.config, record_b.config
    others = sorted((a.keys() | b.keys()) - {*_RANKING_KEYS, *_ANSWER_KEYS})
    return [key for key in (*_RANKING_KEYS, *others, *_ANSWER_KEYS) if _difference(key, a.get(key), b.get(key))]


def chunker_versions(record_a: RunRecord, record_b: RunRecord) -> tuple[str | None, str | None]:
    """The versions of the chunkers; ``None`` if unknown."""
    return chunker_version(record_a), chunker_version(record_b)


def chunker_version(record: RunRecord) -> str | None:
    """The version of the chunker; ``None`` if unknown."""
    version = record.config.get("chunker_version")
    return None if version in (None, "") else str(version)


def _unfinished_notes(called: str, record: RunRecord, missing: int) -> list[str]:
    if record.status is RunStatus.FINISHED:
        return []
    stands = {RunStatus.FAILED: "has failed", RunStatus.RUNNING: "is in progress"}.get(
        record.status, f"is {record.status.value}"
    )
    if not missing:
        return [f"{called} {stands}"]
    expected = record.num_samples * max(record.repeats, 1)
    each = " answers" if record.repeats > 1 else ""
    counts = "was never asked and counts" if missing == 1 else "were never asked and count"
    return [f"{called} {stands}: {missing} of {expected}{each} {counts} as failed"]


def _differences(a: Mapping[str, Any], b: Mapping[str, Any], keys: tuple[str, ...] | list[str]) -> list[str]:
    return list(chain.from_iterable(_difference(key, a.get(key), b.get(key)) for key in keys))


def _difference(what: str, a: Any, b: Any) -> list[str]:
    # 3 in a plan and "3" from a system are the same version.
    if a == b or (a is not None and b is not None and str(a) == str(b)):
        return []
    ours, others = _format_value(a), _format_value(b)
    return [f"{what}: {ours} in A, {others} in B" if ours != others else f"{what}: not the same in A and B"]


def _format_value(value: Any) -> str:
    if value is None:
        return _UNKNOWN
    text = ", ".join(f"{key} {inner}" for key, inner in value.items()) if isinstance(value, Mapping) else str(value)
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _run_option(record: RunRecord, key: str) -> Any:
    run = record.plan.get("run")
    return run.get(key) if isinstance(run, Mapping) else None


def _conventions(record: RunRecord) -> Any:
    named = record.plan.get("conventions") or "auepora"
    return named["name"] if isinstance(named, Mapping) and set(named) == {"name"} else named


def _queries(count: int) -> str:
    return "1 query" if count == 1 else f"{count} queries"
