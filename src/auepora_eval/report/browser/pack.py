"""Builds the query browser as a page fragment: markup, style, script and packed data."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from ...compare.columns import Bytes, score_columns
from ...compare.queries import compare_queries
from ...compare.stores import TEXT_MATCHES
from ...compare.types import QueryComparison
from ...core.scores import Status
from ...core.slices import Rows
from ...core.types import EvaluationSample
from ...errors import AueporaError
from ...render.blocks import PageFragment
from ...store.records import RunRecord, plan_conventions
from ...store.runs import RunStore, iter_samples
from .listing import (
    KINDS,
    MAX_SEARCHED_LENGTH,
    MAX_START_LENGTH,
    MIME,
    BlockWriter,
    ColumnBuffer,
    DocumentTexts,
    ListedRun,
    RunPacker,
    compress_block,
    first_hit_kinds,
    json_bytes,
    label_columns,
    label_groups,
    metric_columns,
    query_json,
    run_columns,
    sample_json,
)

SCRIPTS = ("dom", "unpack", "filter", "list", "query", "app")
"""The parts of the script, in dependency order."""
MAX_QUERIES = 20_000
"""Up to this number all queries are listed."""
SAMPLE_SIZE = 10_000
"""How many of more queries are listed without ``--all-queries``."""
DataBlock = tuple[str, str, str]


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
