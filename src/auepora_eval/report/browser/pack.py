"""Builds the query browser as a page fragment: markup, style, script and packed data."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

import numpy as np

from ...core.types import EvaluationSample
from ...render.blocks import PageFragment
from ...runtime.processes import gc_paused
from ...store.records import RunRecord
from ...store.runs import RunStore
from .listing import (
    MAX_SEARCHED_LENGTH,
    MAX_START_LENGTH,
    MIME,
    BlockWriter,
    ColumnBuffer,
    DocumentTexts,
    RunSource,
    compress_block,
    first_hit_kinds,
    json_bytes,
    label_columns,
    metric_columns,
    query_json,
    read_run,
    run_columns,
    sample_json,
)
from .marks import WordIndex

SCRIPTS = ("dom", "unpack", "filter", "list", "query", "app")
"""The parts of the script, in dependency order."""


def build_browser(store: RunStore, records: Sequence[RunRecord], *, base: RunRecord | None = None) -> PageFragment:
    """The browser of the queries of one or several stored runs.

    Several runs are compared with ``base``, by default the first. Queries are matched by id: runs over different
    datasets are shown together, each with its own gold.
    """
    from markupsafe import Markup

    html = Markup(
        '<noscript><p class="qb-note">The list of queries needs JavaScript; the page loads nothing from anywhere.</p>'
        "</noscript>"
    )
    # The base is A, whatever the order of the others.
    ordered = sorted(records, key=lambda one: base is not None and one.run_id != base.run_id)
    with gc_paused():
        data = _data_blocks(store, ordered)
    return PageFragment(html, _asset("browser.css"), _script(), data)


def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


def _script() -> str:
    parts = [_asset(f"{name}.js") for name in SCRIPTS]
    return "\n".join(['(() => {\n"use strict";', *parts, "})();\n"])


def _data_blocks(store: RunStore, records: Sequence[RunRecord]) -> list[tuple[str, str, str]]:
    data: list[tuple[str, str, str]] = []

    def put(name: str, text: str) -> None:
        data.append((name, MIME, text))

    document_blocks = BlockWriter("qb-documents", put, most=10_000, most_bytes=131_072)
    query_blocks = BlockWriter("qb-queries", put)
    documents = DocumentTexts(document_blocks)
    samples, sources = _sources(store, records, documents)
    index_of: dict[str, int] = {}
    for source in sources:
        for sample in source.samples:
            index_of.setdefault(sample.sample_id, len(index_of))
    count = len(index_of)
    rows = [np.array([index_of[one.sample_id] for one in source.samples], np.intp) for source in sources]
    first: list[EvaluationSample | None] = [None] * count
    for source, where in zip(reversed(sources), reversed(rows), strict=True):
        for index, sample in zip(where.tolist(), source.samples, strict=True):
            first[index] = sample
    listed = [one for one in first if one is not None]

    _pack_queries(sources, rows, samples, query_blocks, count)
    document_blocks.flush()
    query_blocks.flush()

    columns = ColumnBuffer()
    runs = [run_columns(source, where, count, columns) for source, where in zip(sources, rows, strict=True)]
    for run_entry, source in zip(runs[1:], sources[1:], strict=True):
        kinds = first_hit_kinds(store, sources[0], source, index_of)
        if kinds is not None:
            run_entry["kinds"] = columns.put(kinds)
    header = {
        "version": 1,
        "count": count,
        "runs": runs,
        "ids": [one.sample_id for one in listed],
        "starts": [one.query[:MAX_START_LENGTH] for one in listed],
        "labels": label_columns(listed, columns),
        "metrics": metric_columns(sources, rows, count, columns),
        "query_blocks": query_blocks.starts,
        "document_blocks": document_blocks.starts,
        "document_count": len(documents),
    }
    put("qb-search", compress_block(json_bytes(_search_texts(listed, sources, rows))))
    put("qb-columns", compress_block(columns.data()))
    put("qb-list", compress_block(json_bytes(header)))
    return data


def _sources(
    store: RunStore, records: Sequence[RunRecord], documents: DocumentTexts
) -> tuple[dict[str, list[bytes]], list[RunSource]]:
    """The runs, and the samples of each dataset as JSON, by its fingerprint."""
    read: dict[str, list[EvaluationSample]] = {}
    samples_json: dict[str, list[bytes]] = {}
    sources = []
    words = WordIndex()
    for record in records:
        if record.fingerprint not in read:
            samples = store.samples(record.run_id)
            read[record.fingerprint] = samples
            samples_json[record.fingerprint] = [sample_json(sample, documents) for sample in samples]
        sources.append(read_run(store, record, read[record.fingerprint], words, documents))
    return samples_json, sources


def _pack_queries(
    sources: Sequence[RunSource],
    rows: Sequence[np.ndarray],
    samples: dict[str, list[bytes]],
    blocks: BlockWriter,
    count: int,
) -> None:
    """All queries, in the order of the list."""
    positions = np.full((len(sources), count), -1)
    for number, where in enumerate(rows):
        positions[number, where] = np.arange(len(where))
    for index in range(count):
        own: dict[bytes, int] = {}
        sides: list[tuple[int, list[bytes], list[bytes]] | None] = []
        for source, position in zip(sources, positions[:, index].tolist(), strict=True):
            if position < 0:
                sides.append(None)
                continue
            sample = samples[source.record.fingerprint][position]
            sides.append((own.setdefault(sample, len(own)), source.outputs[position], source.judgements[position]))
        blocks.add(query_json(list(own), sides))


def _search_texts(
    listed: Sequence[EvaluationSample], sources: Sequence[RunSource], rows: Sequence[np.ndarray]
) -> dict[str, list[str] | list[list[str]]]:
    """The searched texts: questions, and the answers of every run; not documents."""
    answers = []
    for source, where in zip(sources, rows, strict=True):
        spread = [""] * len(listed)
        for index, text in zip(where.tolist(), source.answers, strict=True):
            spread[index] = text
        answers.append(spread)
    return {"questions": [one.query[:MAX_SEARCHED_LENGTH] for one in listed], "answers": answers}
