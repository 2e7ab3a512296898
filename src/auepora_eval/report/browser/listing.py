"""The list of queries of a report: which are listed, their columns, and the page fragment."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

import numpy as np
import numpy.typing as npt

from ...compare.queries import compare_queries
from ...compare.stores import TEXT_MATCHES
from ...compare.types import QueryComparison
from ...core.scores import Status
from ...core.slices import Rows
from ...core.targets import TARGETS
from ...core.types import EvaluationSample
from ...errors import AueporaError, BadValueError
from ...queries.columns import SECONDS, Bytes, RunColumns, ScoreColumn
from ...queries.rows import shown_metrics
from ...queries.table import HITS, QueryTable, hit_codes
from ...queries.view import GoldMarks, judgement_fields
from ...render.blocks import PageFragment
from ...stats.intervals import Floats
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
MAX_START_LENGTH = 200
"""The number of characters of a question in the list."""
MAX_VALUES, MAX_LABELS = 80, 16
_LOST = [1 + HITS.index("loss"), 1 + HITS.index("regression")]
_WON = [1 + HITS.index("win"), 1 + HITS.index("gained")]


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
        self.table = QueryTable([RunColumns(store, record) for record in records])
        self.rows: Rows = np.arange(len(self.table))
        """The listed rows of the table."""
        self._hits: list[Bytes | None] = [None]
        for record in records[1:]:
            known = compared.get(record.run_id)
            per_query = _compare_queries(store, records[0], record) if known is None else known
            self._hits.append(hit_codes(self.table, per_query) if per_query else None)

    @property
    def count(self) -> int:
        """The number of listed queries."""
        return len(self.rows)

    def choose(self, size: int, linked: Collection[str], main: str | None) -> str:
        """Keep that many of the queries, at least the ``linked`` ones, and return a sentence that says which.

        Failures, changes and other queries get equal numbers, and so do the outcomes and labels within each: all of a
        smaller group are taken, and the larger ones share the rest. Within a group a hash of the id decides, so that
        the choice is the same every time.
        """
        groups, outcomes = self._outcomes(main)
        ids = [sample_id.encode("utf-8", "surrogatepass") for sample_id in self.table.ids]
        digests = b"".join(hashlib.blake2b(sample_id, digest_size=8).digest() for sample_id in ids)
        hashes = np.frombuffer(digests, np.uint64)
        labels = (self.table.label_groups(name)[1] for name in self._labels())
        strata = groups
        for codes in (outcomes, *labels):
            strata = np.unique(strata * (int(codes.max()) + 1) + codes, return_inverse=True)[1].reshape(-1)
        turns = _turns(groups, np.lexsort((hashes, _turns(strata, np.argsort(hashes, kind="stable")))))
        turns[self.table.with_ids(linked)] = -1
        size = max(size, int((turns < 0).sum()))
        kept = np.sort(np.lexsort((hashes, groups, turns))[:size])
        changed = "whose first hit changed" if main is None else f"whose {main} or first hit changed"
        names = ["with a failure", changed, "others"]
        totals, listed = np.bincount(groups, minlength=3), np.bincount(groups[kept], minlength=3)
        parts = [f"{n:,} of {of:,} {name}" for n, of, name in zip(listed, totals, names, strict=True) if of]
        sentence = (
            f"The list below contains {size:,} of {self.count:,} queries: {', '.join(parts)}, drawn evenly over "
            "outcomes and labels by a hash of their ids; everything above is computed over all queries, and "
            "auepora report --all-queries lists all of them."
        )
        self.rows = kept
        return sentence

    def _outcomes(self, main: str | None) -> tuple[Rows, Rows]:
        """The group of each query (0 failed, 1 changed, 2 other), and its outcome within the group."""
        table = self.table
        failed, lower, higher = np.zeros((3, len(table)), np.bool_)
        base = values = np.full(len(table), np.nan)
        for number, (run, hits) in enumerate(zip(table.runs, self._hits, strict=True)):
            positions = [position for position, _ in self._store.failed(run.record.run_id)]
            failed[table.spread_rows(number)[positions]] = True
            for name in run.results:
                failed |= np.isin(table.status(name, number), (Status.SYSTEM_FAILED, Status.MEASURE_FAILED))
            values = table.values(main, number) if main in table.metrics else values
            base = values if number == 0 else base
            lower |= values < base
            higher |= values > base
            if hits is not None:
                lower |= np.isin(hits, _LOST)
                higher |= np.isin(hits, _WON)
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
        questions = [""] * self.count
        packers = [self._packer(number, documents) for number in range(len(self.table.runs))]
        for packer in packers:
            record = packer.run.record
            if record.fingerprint not in samples:
                read = iter_samples(self._store, record.run_id, positions=packer.positions)
                samples[record.fingerprint] = [sample_json(sample, documents) for sample in read]
            for place, sample in zip(packer.places, packer.samples, strict=True):
                questions[place] = questions[place] or sample.query[:MAX_START_LENGTH]
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
        header = {
            "version": 2,
            "count": self.count,
            "runs": [self._run_columns(number, columns) for number in range(len(self.table.runs))],
            "ids": [self.table.ids[row] for row in self.rows.tolist()],
            "starts": questions,
            "clusters": self._clusters(),
            "labels": [self._label_column(name, columns) for name in self._labels()],
            "metrics": self._metric_columns(columns),
            "query_blocks": query_blocks.starts,
            "document_blocks": document_blocks.starts,
            "document_count": len(documents),
            "side_by_side": self._side_by_side,
        }
        put("qb-search", compress_block(json_bytes(self._search_texts())))
        put("qb-columns", compress_block(columns.data()))
        put("qb-list", compress_block(json_bytes(header)))
        yield from ready

    def _packer(self, number: int, documents: DocumentTexts) -> RunPacker:
        run, record = self.table.runs[number], self.table.runs[number].record
        place_of = np.full(len(self.table), -1)
        place_of[self.rows] = np.arange(self.count)
        places = place_of[self.table.spread_rows(number)]
        texts = plan_conventions(record).match in TEXT_MATCHES
        return RunPacker(run, places, self._store.samples(record.run_id, texts=texts), documents)

    def _run_columns(self, number: int, columns: ColumnBuffer) -> dict[str, Any]:
        """The header of a run, and the columns of its queries."""
        table, run, record = self.table, self.table.runs[number], self.table.runs[number].record
        ranks = table.ranks(number)[self.rows]
        found = {
            "id": record.run_id,
            "name": record.name,
            "dataset": record.dataset_name,
            "created": record.created_at.isoformat(timespec="seconds"),
            "repeats": record.repeats,
            "answers": columns.put(table.states(number, refusals=True)[self.rows]),
            "ranks": columns.put(np.where(np.isinf(ranks), 0, ranks)),
            "dropped": columns.put(table.dropped(number)[self.rows].astype(np.uint8)),
        }
        if SECONDS in run.outputs.timings:
            found["seconds"] = columns.put(table.seconds(SECONDS, number)[self.rows])
        hits = self._hits[number]
        if hits is not None:
            found["hits"] = columns.put(hits[self.rows])
        return found

    def _clusters(self) -> list[str] | None:
        """The cluster of each query; ``None`` if each is its own."""
        if all(run.samples.clusters is None for run in self.table.runs):
            return None
        clusters = np.array(self.table.ids, dtype=object)
        for number, run in reversed(list(enumerate(self.table.runs))):
            clusters[self.table.spread_rows(number)] = run.samples.clusters or run.samples.ids
        found: list[str] = clusters[self.rows].tolist()
        return found

    def _search_texts(self) -> dict[str, Any]:
        """The searched texts: questions, and the answers of every run; not documents."""
        questions = [""] * len(self.table)
        answers = []
        for number, run in enumerate(self.table.runs):
            spread = [""] * len(self.table)
            for position, row in enumerate(self.table.spread_rows(number).tolist()):
                spread[row] = run.outputs.searched[position]
                questions[row] = questions[row] or run.samples.question(position)
            answers.append([spread[row] for row in self.rows.tolist()])
        return {"questions": [questions[row] for row in self.rows.tolist()], "answers": answers}

    # --- labels ------------------------------------------------------------------------------------------------------

    def _labels(self) -> list[str]:
        """The labels with few distinct values. A sample may have several values of one label."""
        few = [name for name in self.table.labels if len(self.table.label_values(name)) <= MAX_VALUES]
        return few[:MAX_LABELS]

    def _label_column(self, name: str, columns: ColumnBuffer) -> dict[str, Any]:
        """A label, with the groups of values that occur in the list."""
        groups, codes = self.table.label_groups(name)
        used, numbers = np.unique(codes[self.rows], return_inverse=True)
        listed = [groups[code] for code in used.tolist()]
        return {"name": name, "groups": listed, "codes": columns.put(compact_codes(numbers.reshape(-1), len(used)))}

    # --- metrics -----------------------------------------------------------------------------------------------------

    def _metric_columns(self, columns: ColumnBuffer) -> list[dict[str, Any]]:
        """The columns of every metric with scores per sample in any of the runs."""
        table = self.table
        shown = shown_metrics(table)
        entries: list[dict[str, Any]] = []
        for name in table.metrics:
            scores = [table.scores(name, number) for number in range(len(table.runs))]
            known = next((column for column in scores if column is not None), None)
            if known is None:
                continue
            entries.append(
                {
                    "name": name,
                    "target": TARGETS[known.result.target].title,
                    "higher": known.meta.higher_score_is_better,
                    "rounding": known.meta.rounding,
                    "right": _right_from(table, name),
                    # Why the scores of a run are not compared with those of the first; empty where they are.
                    "problems": [table.comparison_problem(name, (0, number)) for number in range(len(table.runs))],
                    "runs": [self._score_columns(column, number, columns) for number, column in enumerate(scores)],
                    "shown": name in shown,
                }
            )
        # By target, as in the whole report; within a target in the order of the run.
        titles = [target.title for target in TARGETS.values()]
        entries.sort(key=lambda entry: titles.index(entry["target"]))
        return entries

    def _score_columns(self, column: ScoreColumn | None, number: int, columns: ColumnBuffer) -> dict[str, Any] | None:
        """The scores of a metric in a run; ``None`` if it does not have it."""
        if column is None:
            return None

        def put(values: npt.NDArray[Any], fill: float) -> dict[str, Any]:
            return columns.put(self.table.spread(number, values, fill)[self.rows])

        entry: dict[str, Any] = {"signature": column.result.signature, "values": put(column.values, np.nan)}
        entry["status"] = columns.put(self.table.status(column.result.name, number)[self.rows])
        if column.reason_codes.any():
            entry["reasons"] = put(column.reason_codes, 0)
            entry["names"] = column.reasons
        if column.causes:
            entry["causes"] = column.causes
            entry["cause_codes"] = put(column.cause_codes, 0)
        return entry


def _right_from(table: QueryTable, name: str) -> float | None:
    """The score from which an answer is right; ``None`` where the metric has no best score."""
    try:
        return table.right_from(name)[0]
    except BadValueError:
        return None


def _compare_queries(store: RunStore, base: RunRecord, other: RunRecord) -> Sequence[QueryComparison]:
    try:
        return compare_queries(store, base, other).per_query
    except AueporaError:  # no common query
        return ()


def _quarters(values: Floats) -> Rows:
    """The quarter of the known values that each value is in, 0 to 3; 4 where it is NaN."""
    known = values[~np.isnan(values)]
    if not len(known):
        return np.full(len(values), 4)
    quarters = np.searchsorted(np.quantile(known, (0.25, 0.5, 0.75)), values)
    return np.where(np.isnan(values), 4, quarters)


def _turns(groups: Rows, order: Rows) -> Rows:
    """The index of each query among those of its group, in the given order of all queries."""
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


# --- the stored data of one run --------------------------------------------------------------------------------------


class RunPacker:
    """Packs the outputs and judgements of one run; document texts go to ``number_of`` and are not kept."""

    def __init__(self, run: RunColumns, places: Rows, samples: Sequence[EvaluationSample], number_of: NumberOf) -> None:
        """``places`` has the place in the list of each sample of the run; -1 where it is not listed."""
        self.run = run
        self._number_of = number_of
        listed = np.flatnonzero(places >= 0)
        self.places: list[int] = places[listed].tolist()
        """The place in the list of each listed sample."""
        self._indices = {position: index for index, position in enumerate(listed.tolist())}
        self.samples = [samples[position] for position in self._indices]
        """The listed samples; documents have texts only where gold is matched by them."""
        self.outputs: list[list[bytes]] = [[] for _ in self.samples]
        """Per listed sample the outputs as JSON, repeat by repeat; ``null`` where one is missing."""
        self.judgements: list[list[bytes]] = [[] for _ in self.samples]
        columns = {name: run.scores(name) for name in run.results}
        self._spans = {name: column.spans for name, column in columns.items() if column is not None and column.spans}
        self._match = plan_conventions(run.record).match

    @property
    def positions(self) -> Container[int] | None:
        """The positions to read; ``None`` for all."""
        return None if len(self._indices) == self.run.record.num_samples else self._indices

    def add_output(self, row: StoredOutput) -> None:
        """Add the next stored output."""
        index = self._indices.get(row.position)
        if index is None:
            return
        repeats = self.outputs[index]
        repeats += [b"null"] * (row.repeat - len(repeats))
        spans = []
        for name, keys in self._spans.items():
            if row.position in keys:
                spans.append((name, keys[row.position].of_repeat(row.repeat)))
        gold = GoldMarks(self.samples[index], self._match)
        repeats.append(output_json(row.output, gold, self._number_of, spans))

    def add_judgements(self, judgements: Iterable[StoredJudgement]) -> None:
        """Add the stored judgements of the run."""
        current = {result.name: result.signature for result in self.run.results.values()}
        for judgement in judgements:
            index = self._indices.get(judgement.position)
            if index is not None:
                is_old = current.get(judgement.metric, judgement.signature) != judgement.signature
                self.judgements[index].append(json_bytes(judgement_fields(judgement, is_old=is_old)))


def _packed_queries(
    packers: Sequence[RunPacker], samples: Mapping[str, Sequence[bytes]], count: int
) -> Iterator[bytes]:
    """All queries, in the order of the list."""
    indices = np.full((len(packers), count), -1)
    for number, packer in enumerate(packers):
        indices[number, packer.places] = np.arange(len(packer.places))
    for place in range(count):
        own: dict[bytes, int] = {}
        sides: list[tuple[int, list[bytes], list[bytes]] | None] = []
        for packer, index in zip(packers, indices[:, place].tolist(), strict=True):
            if index < 0:
                sides.append(None)
                continue
            sample = samples[packer.run.record.fingerprint][index]
            sides.append((own.setdefault(sample, len(own)), packer.outputs[index], packer.judgements[index]))
        yield query_json(list(own), sides)
