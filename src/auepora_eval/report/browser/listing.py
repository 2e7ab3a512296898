"""The list of queries of a report: which are listed, their columns, and the page fragment."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from ...compare.pairing import lookup_metric
from ...compare.queries import compare_queries
from ...compare.stores import TEXT_MATCHES
from ...compare.types import QueryComparison
from ...core.results import Results
from ...core.scores import Status, marked_answers
from ...core.slices import Rows, group_names
from ...core.targets import TARGETS
from ...core.types import EvaluationSample, MetricResult, TargetCategory
from ...errors import AueporaError
from ...queries.columns import Bytes, score_columns
from ...queries.view import GoldMarks, judgement_fields
from ...render.blocks import PageFragment
from ...store.records import RunRecord, StoredOutput, plan_conventions
from ...store.rows import StoredJudgement
from ...store.runs import RunStore, iter_samples
from .pack import MIME, BlockWriter, ColumnBuffer, DataBlock, DocumentTexts, compact_codes, compress_block, json_bytes
from .query_json import NumberOf, output_json, query_json, sample_json

SCRIPTS = ("dom", "unpack", "filter", "list", "query", "app")
"""The parts of the script, in dependency order."""
MAX_QUERIES = 20_000
"""Up to this number all queries are listed."""
SAMPLE_SIZE = 10_000
"""How many of more queries are listed without ``--all-queries``."""


def build_browser(
    store: RunStore,
    records: Sequence[RunRecord],
    *,
    all_queries: bool = False,
    linked: Collection[str] = (),
    main: str | None = None,
    compared: Mapping[str, Sequence[QueryComparison]] | None = None,
    side_by_side: bool = False,
) -> PageFragment:
    """The browser of the queries of one or several stored runs.

    Several runs are compared with the first. Queries are matched by id: runs over different
    datasets are shown together, each with its own gold. Of more than 20,000 queries a part is listed, unless
    ``all_queries`` is set: ``linked`` ids, failures, queries that changed by the ``main`` metric, and others.
    ``compared`` has the queries of runs that were compared with the first before, by run id. ``side_by_side`` shows a
    query in all runs at once, instead of in two. The data is read from the store while it is written.
    """
    from markupsafe import Markup

    html = Markup(
        '<noscript><p class="qb-note">The list of queries needs JavaScript; the page loads nothing from anywhere.</p>'
        "</noscript>"
    )
    listing = QueryListing(store, records, compared or {}, side_by_side=side_by_side)
    if not all_queries and listing.count > MAX_QUERIES:
        html = Markup('<p class="qb-note">{}</p>').format(listing.choose(SAMPLE_SIZE, linked, main)) + html
    return PageFragment(html, _asset("browser.css"), _script(), listing.data_blocks())


def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


def _script() -> str:
    parts = [_asset(f"{name}.js") for name in SCRIPTS]
    return "\n".join(['(() => {\n"use strict";', *parts, "})();\n"])


class QueryListing:
    """The queries of some runs, all of them or a part, and their packed data."""

    def __init__(
        self,
        store: RunStore,
        records: Sequence[RunRecord],
        compared: Mapping[str, Sequence[QueryComparison]],
        *,
        side_by_side: bool = False,
    ) -> None:
        self._store = store
        self._side_by_side = side_by_side
        read: dict[str, list[EvaluationSample]] = {}
        texts = any(plan_conventions(record).match in TEXT_MATCHES for record in records)
        for record in records:
            if record.fingerprint not in read:
                read[record.fingerprint] = store.samples(record.run_id, texts=texts)
        first: dict[str, EvaluationSample] = {}
        for sample in chain.from_iterable(read.values()):
            first.setdefault(sample.sample_id, sample)
        self._samples = list(first.values())
        row_of = {sample_id: row for row, sample_id in enumerate(first)}
        self._runs = []
        for record in records:
            samples = read[record.fingerprint]
            rows = np.array([row_of[sample.sample_id] for sample in samples], np.intp)
            results = store.results(record.run_id)
            self._runs.append(ListedRun(record, results, len(samples), samples, np.arange(len(samples)), rows))
        self._kinds: list[Bytes | None] = [None]
        for record in records[1:]:
            known = compared.get(record.run_id)
            per_query = _compare_queries(store, records[0], record) if known is None else known
            self._kinds.append(first_hit_kinds(per_query, row_of))

    @property
    def count(self) -> int:
        """The number of listed queries."""
        return len(self._samples)

    def choose(self, size: int, linked: Collection[str], main: str | None) -> str:
        """Keep that many of the queries, at least the ``linked`` ones, and return a sentence that says which.

        Failures, changes and other queries get equal numbers, and so do the outcomes and labels within each: all of a
        smaller group are taken, and the larger ones share the rest. Within a group a hash of the id decides, so that
        the choice is the same every time.
        """
        groups, outcomes = self._outcomes(main)
        ids = [sample.sample_id.encode("utf-8", "surrogatepass") for sample in self._samples]
        digests = b"".join(hashlib.blake2b(sample_id, digest_size=8).digest() for sample_id in ids)
        hashes = np.frombuffer(digests, np.uint64)
        strata = groups
        for codes in (outcomes, *(codes for _, _, codes in label_groups(self._samples))):
            strata = np.unique(strata * (int(codes.max()) + 1) + codes, return_inverse=True)[1].reshape(-1)
        turns = _turns(groups, np.lexsort((hashes, _turns(strata, np.argsort(hashes, kind="stable")))))
        turns[[sample.sample_id in linked for sample in self._samples]] = -1
        size = max(size, int((turns < 0).sum()))
        kept = np.zeros(self.count, np.bool_)
        kept[np.lexsort((hashes, groups, turns))[:size]] = True
        changed = "whose first hit changed" if main is None else f"whose {main} or first hit changed"
        names = ["with a failure", changed, "others"]
        totals, listed = (np.bincount(one, minlength=len(names)) for one in (groups, groups[kept]))
        parts = [f"{n:,} of {of:,} {name}" for n, of, name in zip(listed, totals, names, strict=True) if of]
        sentence = (
            f"The list below contains {size:,} of {self.count:,} queries: {', '.join(parts)}, drawn evenly over "
            "outcomes and labels by a hash of their ids; everything above is computed over all queries, and "
            "auepora report --all-queries lists all of them."
        )
        self._keep(kept)
        return sentence

    def _keep(self, kept: npt.NDArray[np.bool_]) -> None:
        """Drop the other queries from the list."""
        new_rows = np.cumsum(kept) - 1
        self._samples = [sample for sample, keep in zip(self._samples, kept.tolist(), strict=True) if keep]
        self._kinds = [None if kind is None else kind[kept] for kind in self._kinds]
        for number, run in enumerate(self._runs):
            positions = np.flatnonzero(kept[run.rows])
            samples = [run.samples[position] for position in positions.tolist()]
            rows = new_rows[run.rows[positions]]
            self._runs[number] = ListedRun(run.record, run.results, run.size, samples, positions, rows)

    def _outcomes(self, main: str | None) -> tuple[Rows, Rows]:
        """The group of each query (0 failed, 1 changed, 2 other), and its outcome within the group."""
        failed, lower, higher = np.zeros((3, self.count), np.bool_)
        base = values = np.full(self.count, np.nan)
        for number, (run, kinds) in enumerate(zip(self._runs, self._kinds, strict=True)):
            failed[run.rows[[position for position, _ in self._store.failed(run.record.run_id)]]] = True
            values = np.full(self.count, np.nan)
            for result in run.sample_results:
                scores, status, _, _ = score_columns(result)
                failed[run.rows[(status == Status.SYSTEM_FAILED) | (status == Status.MEASURE_FAILED)]] = True
                if result.name == main:
                    values[run.rows] = scores
            base = values if number == 0 else base
            lower |= values < base
            higher |= values > base
            if kinds is not None:
                lower |= np.isin(kinds, [KINDS.index("Loss") + 1, KINDS.index("Regression") + 1])
                higher |= kinds == KINDS.index("Win") + 1
        groups = np.where(failed, 0, np.where(lower | higher, 1, 2))
        return groups, _quarters(values) * 4 + lower * 2 + higher

    # --- packed data -------------------------------------------------------------------------------------------------

    def data_blocks(self) -> Iterator[DataBlock]:
        """Read the queries from the store and yield their data in blocks."""
        ready: list[DataBlock] = []

        def put(name: str, text: str) -> None:
            ready.append((name, MIME, text))

        document_blocks = BlockWriter("qb-documents", put, most=10_000, most_bytes=131_072)
        query_blocks = BlockWriter("qb-queries", put)
        documents = DocumentTexts(document_blocks)
        samples: dict[str, list[bytes]] = {}
        packers = [RunPacker(run, documents) for run in self._runs]
        for packer in packers:
            record = packer.run.record
            if record.fingerprint not in samples:
                read = iter_samples(self._store, record.run_id, positions=packer.positions)
                samples[record.fingerprint] = [sample_json(sample, documents) for sample in read]
            for row in self._store.outputs(record.run_id, positions=packer.positions):
                packer.add_output(row)
                yield from _take(ready)
            packer.add_judgements(self._store.judgements(record.run_id))
        for query in _packed_queries(packers, samples, self.count):
            query_blocks.add(query)
            yield from _take(ready)
        document_blocks.flush()
        query_blocks.flush()
        columns = ColumnBuffer()
        runs = [run_columns(packer, self.count, columns) for packer in packers]
        for run_entry, kinds in zip(runs, self._kinds, strict=True):
            if kinds is not None:
                run_entry["kinds"] = columns.put(kinds)
        header = {
            "version": 1,
            "count": self.count,
            "runs": runs,
            "ids": [sample.sample_id for sample in self._samples],
            "starts": [sample.query[:MAX_START_LENGTH] for sample in self._samples],
            "labels": label_columns(self._samples, columns),
            "metrics": metric_columns(self._runs, self.count, columns),
            "query_blocks": query_blocks.starts,
            "document_blocks": document_blocks.starts,
            "document_count": len(documents),
            **({"side_by_side": True} if self._side_by_side else {}),
        }
        put("qb-search", compress_block(json_bytes(self._search_texts(packers))))
        put("qb-columns", compress_block(columns.data()))
        put("qb-list", compress_block(json_bytes(header)))
        yield from ready

    def _search_texts(self, packers: Sequence[RunPacker]) -> dict[str, Any]:
        """The searched texts: questions, and the answers of every run; not documents."""
        answers = []
        for packer in packers:
            spread = [""] * self.count
            for row, text in zip(packer.run.rows.tolist(), packer.answers, strict=True):
                spread[row] = text
            answers.append(spread)
        return {"questions": [sample.query[:MAX_SEARCHED_LENGTH] for sample in self._samples], "answers": answers}


def _compare_queries(store: RunStore, base: RunRecord, other: RunRecord) -> Sequence[QueryComparison]:
    try:
        return compare_queries(store, base, other).per_query
    except AueporaError:  # no common query
        return ()


def _quarters(values: npt.NDArray[np.float64]) -> Rows:
    """The quarter of the known values that each value is in, 0 to 3; 4 where it is NaN."""
    known = values[~np.isnan(values)]
    if not len(known):
        return np.full(len(values), 4)
    quarters = np.searchsorted(np.quantile(known, (0.25, 0.5, 0.75)), values)
    return np.where(np.isnan(values), 4, quarters)


def _turns(groups: Rows, order: Rows) -> Rows:
    """The index of each element among those of its group, in the given order of all elements."""
    by_group = order[np.argsort(groups[order], kind="stable")]
    sizes = np.bincount(groups)
    turns = np.empty(len(groups), np.intp)
    turns[by_group] = np.arange(len(groups)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return turns


def _take(ready: list[DataBlock]) -> Iterable[DataBlock]:
    """The finished blocks, which are removed from the list."""
    taken = ready[:]
    ready.clear()
    return taken


def _packed_queries(
    packers: Sequence[RunPacker], samples: Mapping[str, Sequence[bytes]], count: int
) -> Iterator[bytes]:
    """All queries, in the order of the list."""
    indices = np.full((len(packers), count), -1)
    for number, packer in enumerate(packers):
        indices[number, packer.run.rows] = np.arange(len(packer.run.rows))
    for row in range(count):
        own: dict[bytes, int] = {}
        sides: list[tuple[int, list[bytes], list[bytes]] | None] = []
        for packer, index in zip(packers, indices[:, row].tolist(), strict=True):
            if index < 0:
                sides.append(None)
                continue
            sample = samples[packer.run.record.fingerprint][index]
            sides.append((own.setdefault(sample, len(own)), packer.outputs[index], packer.judgements[index]))
        yield query_json(list(own), sides)


# --- the stored data of one run --------------------------------------------------------------------------------------

NOT_ASKED, UNANSWERED, ANSWERED, FAILED = range(4)
"""The state of a query in a run: not in its dataset, no output stored, an output, only failures."""
MAX_SEARCHED_LENGTH = 5_000
"""The number of characters of a question or answer that are searched."""


@dataclass(frozen=True, slots=True, eq=False)
class ListedRun:
    """One run with those of its queries that are in the list."""

    record: RunRecord
    results: Results
    size: int
    """The number of its samples, listed or not."""
    samples: Sequence[EvaluationSample]
    """The listed samples; documents have texts only where gold is matched by them."""
    positions: Rows
    """The position of each listed sample in the dataset of the run."""
    rows: Rows
    """The row of each listed sample in the list."""

    @property
    def sample_results(self) -> list[MetricResult]:
        """The results with a score per sample."""
        return [result for result in self.results if result.scores is not None and len(result.scores) == self.size]

    def spread(self, values: npt.NDArray[Any], count: int, fill: float) -> npt.NDArray[Any]:
        """Values of the listed samples as a column of the list; ``fill`` for the others."""
        column = np.full(count, fill, values.dtype)
        column[self.rows] = values
        return column


class RunPacker:
    """Packs the outputs and judgements of one run; document texts go to ``number_of`` and are not kept."""

    def __init__(self, run: ListedRun, number_of: NumberOf) -> None:
        self.run = run
        self._number_of = number_of
        self._indices = {position: index for index, position in enumerate(run.positions.tolist())}
        count = len(self._indices)
        self.outputs: list[list[bytes]] = [[] for _ in range(count)]
        """Per listed sample the outputs as JSON, repeat by repeat; ``null`` where one is missing."""
        self.judgements: list[list[bytes]] = [[] for _ in range(count)]
        self.states = np.full(count, UNANSWERED, np.uint8)
        self.first_hits = np.full(count, np.nan)
        """The rank of the first hit of the first answer; NaN where there is none."""
        self.answers = [""] * count
        """The starts of the answers, for the search."""
        self._spans = marked_answers(run.results)
        self._match = plan_conventions(run.record).match

    @property
    def positions(self) -> Container[int] | None:
        """The positions to read; ``None`` for all."""
        return None if len(self._indices) == self.run.size else self._indices

    def add_output(self, row: StoredOutput) -> None:
        """Add the next stored output."""
        index = self._indices.get(row.position)
        if index is None:
            return
        output, gold = row.output, GoldMarks(self.run.samples[index], self._match)
        repeats = self.outputs[index]
        repeats += [b"null"] * (row.repeat - len(repeats))
        keys = ((name, keys[row.position]) for name, keys in self._spans.items())
        spans = [(name, key.of_repeat(row.repeat)) for name, key in keys if key is not None]
        repeats.append(output_json(output, gold, self._number_of, spans))
        if output.error is None:
            if self.states[index] != ANSWERED:
                rank = gold.first_rank([item.doc for item in output.retrieved])
                self.first_hits[index] = np.nan if rank is None else rank
            self.states[index] = ANSWERED
        elif self.states[index] == UNANSWERED:
            self.states[index] = FAILED
        text = (output.response.text if output.response is not None else output.error or "")[:MAX_SEARCHED_LENGTH]
        self.answers[index] = f"{self.answers[index]}\n{text}" if self.answers[index] else text

    def add_judgements(self, judgements: Iterable[StoredJudgement]) -> None:
        """Add the stored judgements of the run."""
        current = {result.name: result.signature for result in self.run.results}
        for judgement in judgements:
            index = self._indices.get(judgement.position)
            if index is not None:
                is_old = current.get(judgement.metric, judgement.signature) != judgement.signature
                self.judgements[index].append(json_bytes(judgement_fields(judgement, is_old=is_old)))


# --- the list of queries as typed columns: ids, questions, scores and outcomes ---------------------------------------

ABSENT = 255
"""The outcome of a query that is not in a run."""
MAX_START_LENGTH = 200
"""The number of characters of a question in the list."""
MAX_VALUES, MAX_LABELS = 80, 16
_MAX_DEFAULT_METRICS = 3
_T = TargetCategory
_DEFAULT_TARGETS = (_T.RETRIEVAL_RELEVANCE, _T.GENERATION_CORRECTNESS, _T.GENERATION_FAITHFULNESS)
KINDS = ("Win", "Loss", "Draw", "Regression")


def run_columns(packer: RunPacker, count: int, columns: ColumnBuffer) -> dict[str, Any]:
    """The header of a run, and the columns of its query states."""
    run, record = packer.run, packer.run.record
    return {
        "id": record.run_id,
        "name": record.name,
        "dataset": record.dataset_name,
        "created": record.created_at.isoformat(timespec="seconds"),
        "repeats": record.repeats,
        "states": columns.put(run.spread(packer.states, count, NOT_ASKED)),
        "first_hits": columns.put(run.spread(packer.first_hits, count, np.nan)),
    }


def first_hit_kinds(per_query: Sequence[QueryComparison], rows: Mapping[str, int]) -> Bytes | None:
    """The comparison kind of each query's first expected chunk between two runs, 1 to 4, or 0 for none.

    ``None`` where no query is compared by it.
    """
    if not per_query:
        return None
    kinds = np.zeros(len(rows), np.uint8)
    for one in per_query:
        kinds[rows[one.query_id]] = KINDS.index(one.kind.value) + 1
    return kinds


# --- labels ----------------------------------------------------------------------------------------------------------


LabelGroups = tuple[str, list[tuple[str, ...]], npt.NDArray[Any]]
"""The name of a label, its distinct groups of values, and for each sample the number of its group."""


def label_groups(samples: Sequence[EvaluationSample]) -> list[LabelGroups]:
    """The labels with few distinct values. A sample may have several values of one label."""
    names = dict.fromkeys(str(name) for sample in samples for name in sample.labels)
    found: list[LabelGroups] = []
    for name in names:
        if len(found) == MAX_LABELS:
            break
        groups = [tuple(group_names(sample.labels.get(name))) for sample in samples]
        distinct = {group: code for code, group in enumerate(dict.fromkeys(groups))}
        values = set(chain.from_iterable(distinct))
        if len(values) > MAX_VALUES or len(distinct) > 0xFFFF or not values:
            continue
        codes = np.fromiter((distinct[group] for group in groups), np.uint16, len(groups))
        found.append((name, list(distinct), compact_codes(codes, len(distinct))))
    return found


def label_columns(samples: Sequence[EvaluationSample], columns: ColumnBuffer) -> list[dict[str, Any]]:
    """The columns of labels, for filters."""
    return [
        {"name": name, "groups": groups, "codes": columns.put(codes)} for name, groups, codes in label_groups(samples)
    ]


# --- metrics ---------------------------------------------------------------------------------------------------------


def metric_columns(runs: Sequence[ListedRun], count: int, columns: ColumnBuffer) -> list[Any]:
    """The columns of every metric with scores per sample in any of the runs."""
    results_by_name: dict[str, list[MetricResult | None]] = {}
    for number, run in enumerate(runs):
        for result in run.sample_results:
            results_by_name.setdefault(result.name, [None] * len(runs))[number] = result
    entries: list[dict[str, Any]] = []
    for name, results in results_by_name.items():
        number, result = next((index, result) for index, result in enumerate(results) if result is not None)
        definition = lookup_metric(result, runs[number].record, {})
        signatures = {result.signature for result in results if result is not None}
        entries.append(
            {
                "name": name,
                "target": TARGETS[result.target].title,
                "higher": definition.higher_score_is_better,
                "rounding": definition.rounding,
                # Scores with different signatures are not subtracted.
                "comparable": len(signatures) == 1,
                "runs": [
                    None if result is None else _scores(result, run, count, columns)
                    for result, run in zip(results, runs, strict=True)
                ],
            }
        )
    # By target, as in the whole report; within a target in the order of the run.
    titles = [target.title for target in TARGETS.values()]
    entries.sort(key=lambda one: titles.index(one["target"]))
    for name in _default_metrics(runs, entries):
        next(entry for entry in entries if entry["name"] == name)["shown"] = True
    return entries


def _default_metrics(runs: Sequence[ListedRun], entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """The metrics whose columns are shown initially: the plan's primary ones, else one per target."""
    names = [entry["name"] for entry in entries]
    listed = runs[0].record.plan.get("primary") if runs else None
    primary = [name for name in listed if name in names] if isinstance(listed, list) else []
    first = {entry["target"]: entry["name"] for entry in reversed(entries)}
    default_titles = [TARGETS[target].title for target in _DEFAULT_TARGETS]
    by_target = [first[title] for title in dict.fromkeys([*default_titles, *first]) if title in first]
    return (primary or by_target)[:_MAX_DEFAULT_METRICS]


def _scores(result: MetricResult, run: ListedRun, count: int, columns: ColumnBuffer) -> dict[str, Any]:
    values, status, codes, names = score_columns(result)
    entry: dict[str, Any] = {"signature": result.signature}
    entry["values"] = columns.put(run.spread(values[run.positions], count, np.nan))
    all_status = run.spread(status[run.positions], count, ABSENT)
    if all_status.any():
        entry["status"] = columns.put(all_status)
    if codes.any():
        all_codes = run.spread(codes[run.positions].astype(np.uint16), count, 0)
        entry["reasons"] = columns.put(compact_codes(all_codes, len(names)))
        entry["names"] = list(names)
    return entry
