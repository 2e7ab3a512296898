"""The query page: one sample with its gold, and what one or two runs returned for it."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Any

import numpy as np
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse

from ..grades.corrections import runs_of_dataset
from ..queries.filters import Condition
from ..queries.marked_texts import Mark, content_words, reference_marks, split_marks, split_pieces
from ..queries.view import GoldMarks
from ..render.html import shorten
from ..store.records import RunRecord, plan_conventions
from ..store.runs import sample_at
from .gold_page import sample_proposals, scores_before
from .page_request import PageRequest, page_route
from .query_list import chunks_note, query_table
from .query_parts import MARK_LABELS, MAX_WORDS_LENGTH, support_marks, to_text, turn_text
from .query_run import QueryAddress, QueryRun, answer_text, is_refusal, read_run
from .query_view import QueryView
from .workbench import Workbench, find_position, make_url, render_template, sample_id_at, stored_output

MAX_OTHER_RUNS = 20

# --- the page ---------------------------------------------------------------------------------------------------------


def query_page(request: PageRequest) -> HTMLResponse:
    """One sample in one run or in two."""
    workbench, address = request.workbench, QueryAddress.from_request(request)
    records = [workbench.find(run) for run in address.runs]
    address = replace(address, runs=tuple(record.run_id for record in records))
    letters = "AB" if len(records) > 1 else [""]
    runs = [read_run(workbench, record, letters[place], place, address) for place, record in enumerate(records)]
    first = next((run for run in runs if run.sample is not None), None)
    if first is None or first.sample is None:
        raise HTTPException(404, f"no sample '{shorten(address.sample_id, 200)}' is in {' or '.join(address.runs)}")
    before: list[dict[str, str]] = [
        {} if run.position is None else scores_before(workbench, run.record, run.position, run.columns.results)
        for run in runs
    ]
    sample = first.sample
    return render_template(
        request,
        "query.html",
        address=address,
        sample=sample,
        view=QueryView(runs, sample, address, before),
        mark_labels=MARK_LABELS,
        chunks_note=chunks_note(records),
        to_text=to_text,
        neighbours=neighbours(request, runs, address),
        cluster_url=make_url("/queries", run=address.runs, where=str(Condition("cluster", value=sample.cluster))),
        conditions=request.parameters.sample_filter().conditions,
        others=make_url("/query/others", run=first.record.run_id, id=address.sample_id, shown=address.runs),
        num_others=len(_other_records(workbench, first.record, set(address.runs))),
        proposals=sample_proposals(workbench, first.record, sample, address.with_sample(address.sample_id)),
    )


# --- neighbours in the filtered list ----------------------------------------------------------------------------------


def neighbours(request: PageRequest, runs: Sequence[QueryRun], address: QueryAddress) -> dict[str, Any]:
    """The place of the sample in the list that the filter of the address gives, from 1, and the addresses around it.

    The place is ``None`` where the filter excludes the sample.
    """
    workbench = request.workbench
    if address.filters or len({run.record.fingerprint for run in runs}) > 1:
        table = query_table(workbench, [run.record for run in runs])
        rows = request.parameters.sample_filter().rows(table)
        found = np.flatnonzero(rows == table.row_of(address.sample_id)).tolist()
        place, total = found[0] if found else None, len(rows)

        def id_at(index: int) -> str:
            return table.ids[int(rows[index])]
    else:
        place, total = runs[0].position, runs[0].record.num_samples

        def id_at(index: int) -> str:
            return sample_id_at(workbench, runs[0].record, index)

    if place is None:
        first = address.with_sample(id_at(0)) if total else None
        return {"place": None, "total": total, "previous": None, "following": first}
    previous = address.with_sample(id_at(place - 1)) if place else None
    following = address.with_sample(id_at(place + 1)) if place + 1 < total else None
    return {"place": place + 1, "total": total, "previous": previous, "following": following}


# --- whole texts, and other runs --------------------------------------------------------------------------------------


def whole_text(request: PageRequest) -> HTMLResponse:
    """A whole text of a query page, as a page or as a fragment."""
    workbench, address = request.workbench, QueryAddress.from_request(request)
    run = read_run(workbench, workbench.find(address.runs[0]), "", 0, address)
    part = request.parameters.get("part", "")
    text, marks = _find_text(run, part)
    return show_whole_text(request, text, marks, part, address.with_sample(address.sample_id))


def show_whole_text(request: PageRequest, text: str, marks: Sequence[Mark], part: str, back: str) -> HTMLResponse:
    """The page of a whole text; ``back`` is the address of the page that shows its beginning."""
    pieces = [split_marks(text, start, end, marks) for start, end in split_pieces(text)]
    return render_template(request, "query_part.html", pieces=pieces, part=part.replace("-", " "), back=back)


def _find_text(run: QueryRun, part: str) -> tuple[str, Sequence[Mark]]:
    """A text of the page by the name of its part, with its marks."""
    name, _, number = part.partition("-")
    at = int(number) - 1 if number.isdecimal() and len(number) < 9 else -1
    sample, output = run.sample, run.output
    if sample is None:
        raise HTTPException(404, f"{run.record.run_id} has no such sample")
    texts: dict[str, Sequence[str | None]] = {
        "reference": sample.references,
        "turn": [turn_text(turn) for turn in sample.history],
        "gold": [doc.text or run.gold_texts.get(doc.doc_id) for doc in sample.relevant_docs or ()],
        "document": [doc.text for doc in run.documents],
    }
    text: str | None = None
    marks: Sequence[Mark] = ()
    if name in texts and 0 <= at < len(texts[name]):
        text = texts[name][at]
    elif part == "question":
        text = sample.query
    elif part == "error" and output is not None:
        text = output.error
    elif part == "answer" and output is not None and output.response is not None:
        text, marks = output.response.text, support_marks(run, output, output.response)[0]
    if name == "document" and text:
        marks = [
            Mark(*gold_passage, "passage", "the gold passage") for gold_passage in run.gold_passages(run.documents[at])
        ]
    if name in ("answer", "document", "gold") and text:
        words = content_words(" ".join(sample.references[:3])[:MAX_WORDS_LENGTH])
        marks = [*marks, *reference_marks(text[:MAX_WORDS_LENGTH], words)]
    if text is None:
        raise HTTPException(404, f"part: the query has no text '{part[:50]}'")
    return text, marks


def _other_records(workbench: Workbench, record: RunRecord, shown: Set[str]) -> list[RunRecord]:
    """The runs of the same dataset that are not shown."""
    return [other for other in runs_of_dataset(workbench.store, record.fingerprint) if other.run_id not in shown]


def other_runs(request: PageRequest) -> HTMLResponse:
    """What other runs of the same dataset returned for a sample, as a fragment."""
    workbench, address = request.workbench, QueryAddress.from_request(request)
    record = workbench.find(address.runs[0])
    position = find_position(workbench, record, address.sample_id)
    if position is None:
        raise HTTPException(404, f"{record.run_id} has no such sample")
    shown = {record.run_id, *request.parameters.getlist("shown")}
    listed = _other_records(workbench, record, shown)
    sample = sample_at(workbench.store, record, position)
    rows = []
    for other in listed[:MAX_OTHER_RUNS]:
        output = stored_output(workbench.store, other, position)
        gold = GoldMarks(sample, plan_conventions(other).match)
        rows.append(
            {
                "record": other,
                "output": output,
                "is_refusal": output is not None and is_refusal(sample, output),
                "text": "" if output is None else shorten(output.error or answer_text(output), 200),
                "rank": None if output is None else gold.first_rank([item.doc for item in output.retrieved]),
                "address": address.with_runs([other.run_id]),
                "compare": address.with_runs([record.run_id, other.run_id]),
            }
        )
    has_gold = any(level > 0 for level in GoldMarks(sample).levels.values())
    return render_template(request, "query_others.html", rows=rows, count=len(listed), has_gold=has_gold)


ROUTES = [
    page_route("/query", query_page),
    page_route("/query/text", whole_text),
    page_route("/query/others", other_runs),
]
