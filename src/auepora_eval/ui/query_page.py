"""The query page: one sample with its gold, and what one or two runs returned for it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse

from ..annotate.corrections import runs_of_dataset
from ..compare.columns import ScoreColumn
from ..compare.filters import Condition, SampleFilter
from ..compare.match import coarsest
from ..compare.pairing import comparable_signature, result_match, without_top_k
from ..core.batch import Batch
from ..core.conventions import Match
from ..core.derivation import format_subject
from ..core.metrics_base import apply_failure_policy
from ..core.results import display_name, metric_labels, to_json_value
from ..core.targets import TARGETS
from ..core.types import EvaluationSample, Response, SystemOutputs, UnknownRanking
from ..errors import AueporaError
from ..features.matching import MATCH_WORDS
from ..features.texts import RefusalDetector
from ..render.blocks import Cell, Row, Table, TableColumn, simple_table, without_empty_columns
from ..render.html import pluralize, shorten
from ..render.tables import format_value
from ..report.browser.gold_marks import Connection, GoldMarks, connections, first_ranks, relevance
from ..report.browser.listing import ClaimVerdict, SentenceIndex, judged_claims, judgement_fields, unsupported_words
from ..report.score_sections import CutOff, cut_offs, timeline
from ..store.records import plan_conventions
from ..store.runs import sample_at
from ..text.sentences import sentence_spans
from .gold_page import sample_proposals, scores_before
from .page_request import PageRequest, page_route
from .query_list import chunks_note, query_table
from .query_run import MAX_RUNS, QueryAddress, QueryRun, read_run
from .run_rows import derivation_url
from .workbench import find_position, make_url, render_template, sample_id_at

MAX_DOCUMENTS = 20
"""The number of retrieved documents shown at first."""
MAX_CUT_OFF = 50
MAX_CLAIMS = 100
MAX_OTHER_RUNS = 20
QUESTION_LENGTH, ANSWER_LENGTH, TEXT_LENGTH, DOCUMENT_LENGTH = 1_500, 3_000, 1_200, 400
"""The number of characters shown at first."""
MAX_MARKED_LENGTH = 100_000
"""The number of characters of an answer that are looked up in the documents."""
PIECE_LENGTH = 4_000
"""Very long texts are laid out in pieces of about this length."""
# --- texts with marks, cut where they are long ------------------------------------------------------------------------


class Mark(NamedTuple):
    """A marked part of a text."""

    start: int
    end: int
    kind: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class TextPart:
    """A part of a text of one kind; an empty kind is not marked."""

    text: str
    kind: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class ShownText:
    """The beginning of a text as parts; ``address`` has all of it."""

    parts: Sequence[TextPart]
    length: int
    is_cut: bool
    address: str


def show_text(text: str, address: str, *, limit: int = TEXT_LENGTH, marks: Sequence[Mark] = ()) -> ShownText:
    """The beginning of a text, or all of it where it is little longer than ``limit``."""
    end = len(text) if len(text) <= limit * 1.25 else limit
    return ShownText(split_marks(text, 0, end, marks), len(text), end < len(text), address)


def split_marks(text: str, start: int, end: int, marks: Iterable[Mark]) -> list[TextPart]:
    """The text between two places, split at its marks, which are in ascending order."""
    parts = []
    at = start
    for mark in marks:
        first, last = max(mark.start, at), min(mark.end, end)
        if first >= last:
            continue
        if first > at:
            parts.append(TextPart(text[at:first]))
        parts.append(TextPart(text[first:last], mark.kind, mark.note))
        at = last
    return [*parts, TextPart(text[at:end])] if at < end else parts


def answer_marks(run: QueryRun, output: SystemOutputs, answer: Response) -> tuple[list[Mark], str]:
    """The marks in an answer, and a sentence about them: spans of a metric, else words that are in no document."""
    for name in run.columns.results:
        column = run.columns.scores(name)
        key = None if column is None or run.position is None else column.spans.get(run.position)
        if key is not None and (spans := key.of_repeat(run.repeat)):
            marks = [Mark(one.start, one.end, "detected", f"probability {one.probability:.3g}") for one in spans]
            return marks, f"{pluralize(len(spans), 'span')} called unsupported by {name}"
    is_long = len(answer.text) > MAX_MARKED_LENGTH
    beginning = f" among the first {MAX_MARKED_LENGTH:,} characters" if is_long else ""
    support = unsupported_words(replace(output, response=replace(answer, text=answer.text[:MAX_MARKED_LENGTH])))
    if support is None:
        return [], "The documents have no text, so that words cannot be looked up in them." if run.documents else ""
    missing, count, ranges = support
    if not missing:
        return [], f"All {count:,} words{beginning} occur in the retrieved documents." if count else ""
    marks = [Mark(start, end, "unsupported", "in no retrieved document") for start, end in ranges]
    return marks, f"{missing:,} of {pluralize(count, 'word')}{beginning} in none of the retrieved documents"


# --- claims of the answer, their verdicts, and the closest sentence of the documents ----------------------------------


@dataclass(frozen=True, slots=True)
class EvidenceSentence:
    """The sentence of the retrieved documents that shares most words with a claim."""

    rank: int
    doc_id: str
    text: str
    shared: int
    words: int


@dataclass(frozen=True, slots=True)
class AnswerClaim:
    """A claim of an answer; a sentence of it where no claims are stored."""

    text: str
    sentence: int | None
    """The index of the sentence of the answer that is closest to it."""
    verdicts: Sequence[ClaimVerdict] = ()
    evidence: EvidenceSentence | None = None


def answer_claims(run: QueryRun, answer: str, sentences: Sequence[tuple[int, int]]) -> list[AnswerClaim]:
    """The claims of an answer with their evidence; its sentences where no claims are stored."""
    documents = run.documents[:MAX_DOCUMENTS]
    evidence = SentenceIndex([one.text for one in documents])
    own = SentenceIndex([answer[start:end] for start, end in sentences])
    stored, labels = judged_claims(run.judgements, run.repeat, answer), metric_labels(run.columns.results.values())
    texts: Mapping[str, Sequence[ClaimVerdict]] = stored or {answer[start:end]: () for start, end in sentences}
    claims = []
    for text, verdicts in list(texts.items())[:MAX_CLAIMS]:
        place = own.closest(text)
        closest = evidence.closest(text)
        found = None
        if closest is not None:
            document = documents[closest.text]
            sentence = document.text[closest.start : closest.end]
            found = EvidenceSentence(
                closest.text + 1, document.doc_id, shorten(sentence, 600), closest.shared, closest.words
            )
        claims.append(AnswerClaim(text, None if place is None else place.text, _join_metrics(verdicts, labels), found))
    return claims


def _join_metrics(verdicts: Sequence[ClaimVerdict], labels: Mapping[str, str]) -> list[ClaimVerdict]:
    """The verdicts on a claim; metrics that share one, as they share judgements, are listed together."""
    metrics: dict[ClaimVerdict, list[str]] = {}
    for one in verdicts:
        metrics.setdefault(replace(one, metric=""), []).append(labels.get(one.metric, one.metric))
    return [replace(one, metric=", ".join(dict.fromkeys(names))) for one, names in metrics.items()]


@dataclass(frozen=True, slots=True)
class AnswerSegment:
    """A sentence of an answer, or the space between two; ``claim`` is the number of its first claim."""

    parts: Sequence[TextPart]
    claim: int | None


def answer_segments(
    answer: str, end: int, sentences: Sequence[tuple[int, int]], claims: Sequence[AnswerClaim], marks: Sequence[Mark]
) -> list[AnswerSegment]:
    """The answer as sentences with their claims."""
    by_sentence = {claim.sentence: number for number, claim in reversed(list(enumerate(claims)))}
    segments = []
    at = 0
    for index, (start, stop) in enumerate(sentences):
        if start > at:
            segments.append(AnswerSegment(split_marks(answer, at, start, marks), None))
        segments.append(AnswerSegment(split_marks(answer, start, stop, marks), by_sentence.get(index)))
        at = stop
    return [*segments, AnswerSegment(split_marks(answer, at, end, marks), None)] if at < end else segments


# --- rankings: documents with marks, joined between two runs ----------------------------------------------------------

MARK_LABELS = {
    "gold": ("●", "gold", "relevant by the annotation"),
    "again": ("○", "gold again", "the same id is further up; it counts once"),
    "part": ("◐", "same document", "another chunk of a relevant document"),
    "not": ("✕", "not relevant", "judged not relevant"),
    "": ("·", "not judged", "has no judgement"),
}


def ranked_documents(
    run: QueryRun, output: SystemOutputs, address: QueryAddress, others: Mapping[int, int]
) -> list[dict[str, Any]]:
    """The ranking of a run; ``others`` maps its ranks to those of the other run."""
    cited = set(output.citations or ())
    for sentence in (output.response.sentences if output.response is not None else None) or ():
        cited.update(_sentence_citations(sentence))
    rows = []
    for rank, (item, (mark, hit)) in enumerate(zip(output.retrieved, run.gold_marks, strict=True), 1):
        doc = item.doc
        passages = run.gold_passages(doc)
        limit = max(DOCUMENT_LENGTH, min(passages[-1][1], 2_000) if passages else 0)
        marks = [Mark(start, end, "passage", "the gold passage") for start, end in passages]
        whole = text_address(run, address, f"document-{rank}")
        place = f"in {doc.parent_id}" if doc.parent_id else ""
        place += f" {doc.span[0]}–{doc.span[1]}" if doc.span else ""
        rows.append(
            {
                "rank": rank,
                "id": doc.doc_id,
                "mark": mark,
                "how": hit.how,
                "level": hit.level,
                "score": item.score,
                "is_cited": doc.doc_id in cited,
                "place": place.strip(),
                "text": show_text(doc.text, whole, limit=limit, marks=marks) if doc.text else None,
                "has_passages": bool(passages),
                "metadata": to_text(doc.metadata),
                "other_rank": others.get(rank),
            }
        )
    return rows


def ranking_table(runs: Sequence[QueryRun]) -> Table:
    """Gold and retrieved documents with their ranks, as a table."""
    ranks = [first_ranks(run.documents) | run.gold_ranks for run in runs]
    gold = {doc_id: level for run in runs if run.gold for doc_id, level in run.gold.levels.items() if level > 0}
    rows: list[Row] = []
    for doc_id in dict.fromkeys([*gold, *(doc_id for one in ranks for doc_id in one)]):
        found = [one.get(doc_id) for one in ranks]
        cells: list[Cell | str] = ["–" if rank is None else str(rank) for rank in found]
        mark = Cell("gold", "good", "●") if doc_id in gold else Cell("")
        rows.append([Cell(doc_id), mark if mark.text else "", *cells, *_change(found, doc_id in gold)])
    several = len(runs) > 1
    names = [f"Rank in {run.letter}" if run.letter else "Rank" for run in runs]
    columns = [TableColumn("Document"), TableColumn("Gold", brief=True)]
    columns += [TableColumn(name, number=True) for name in names]
    columns += [TableColumn("Change from A to B")] if several else []
    return without_empty_columns(simple_table(columns, rows, caption="Ranks of documents; – means not retrieved"))


def _change(ranks: Sequence[int | None], is_gold: bool) -> list[Cell | str]:
    if len(ranks) < MAX_RUNS:
        return []
    first, second = ranks
    if first is None or second is None:
        words = "retrieved by neither" if first == second else "new in B" if first is None else "only in A"
        tone = "" if not is_gold or first == second else "good" if first is None else "bad"
    elif first == second:
        words, tone = "same rank", ""
    else:
        words = f"{'down' if second > first else 'up'} by {abs(second - first)}"
        tone = "" if not is_gold else "bad" if second > first else "good"
    return [Cell(words, "bad" if tone == "bad" else "good" if tone else "", {"bad": "▼", "good": "▲"}.get(tone, ""))]


# --- scores and judgements --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScoreCell:
    """The score of the sample in one run, and the address of its derivation."""

    text: str
    tone: str = ""
    derivation: str = ""
    before: str = ""
    """The score with the gold of the dataset, where that of the run was corrected."""


@dataclass(frozen=True, slots=True)
class QueryScore:
    """A metric with its score in each run."""

    metric: str
    target: str
    lower_is_better: bool
    is_skipped: bool
    cells: Sequence[ScoreCell]
    difference: Cell | None


def score_rows(runs: Sequence[QueryRun], before: Sequence[Mapping[str, str]]) -> list[QueryScore]:
    """The scores of the sample, by target; ``before`` are those of each run before corrections of the gold."""
    names = dict.fromkeys(name for run in runs for name in run.columns.results)
    rows = []
    for name in names:
        columns = [None if run.position is None else run.columns.scores(name) for run in runs]
        known = [one for one in columns if one is not None]
        if not known:
            continue
        label, match = display_name(known[0].result), coarsest([result_match(one.result) for one in known])
        found = [
            (None, "") if column is None or run.position is None else column.score_at(run.position)
            for column, run in zip(columns, runs, strict=True)
        ]
        is_mixed = any(result_match(column.result) != match for column in known)
        again = _matched_scores(runs, found, name, match) if is_mixed else []
        if again:
            found, label = again, f"{label}, gold matched by {MATCH_WORDS[match]}"
        rows.append(
            QueryScore(
                label,
                TARGETS[known[0].result.target].title,
                not known[0].meta.higher_score_is_better,
                all(outcome.partition(":")[0] in ("skipped", "") for _, outcome in found),
                [
                    replace(_score_cell(run, name, *one), before=old.get(name, ""))
                    for run, old, one in zip(runs, before, found, strict=True)
                ],
                _difference(known, [value for value, _ in found], is_alike=bool(again)),
            )
        )
    titles = [target.title for target in TARGETS.values()]
    return sorted(rows, key=lambda row: titles.index(row.target))


def _matched_scores(
    runs: Sequence[QueryRun], stored: Sequence[tuple[float | None, str]], name: str, match: Match
) -> list[tuple[float | None, str]]:
    """The score of the sample in each run with gold matched in this way, and its outcome; empty where one has none."""
    found = []
    for run, score in zip(runs, stored, strict=True):
        if result_match(run.columns.results[name]) == match:
            found.append(score)
            continue
        metric = run.columns.matched_metric(name, match)
        if run.sample is None or run.record.repeats > 1 or isinstance(metric, str):
            return []
        scores = apply_failure_policy(metric, Batch([run.sample], [run.output]))
        found.append((scores[0], str(scores.outcomes[0])))
    return found


def score_groups(rows: Sequence[QueryScore]) -> list[tuple[bool, int, list[tuple[str, list[QueryScore]]]]]:
    """The metrics that apply and those that do not: their number, and the rows by target."""
    tables = []
    for is_skipped in (False, True):
        listed = [row for row in rows if row.is_skipped is is_skipped]
        groups = [(target, list(group)) for target, group in groupby(listed, key=lambda row: row.target)]
        tables += [(is_skipped, len(listed), groups)] if listed else []
    return tables


def _score_cell(run: QueryRun, name: str, value: float | None, outcome: str) -> ScoreCell:
    if not outcome or run.sample is None:
        return ScoreCell("–")
    address = derivation_url(run.record, name, run.sample.sample_id)
    number = "" if value is None else format_value(value)
    if outcome == "scored":
        return ScoreCell(number or "n/a", "", address)
    status, _, reason = outcome.partition(":")
    words = f"{status.replace('_', ' ')}: {reason}" if reason else status.replace("_", " ")
    return ScoreCell(
        f"{words}, counted as {number}" if number else words, "muted" if status == "skipped" else "bad", address
    )


def _difference(
    columns: Sequence[ScoreColumn], values: Sequence[float | None], *, is_alike: bool = False
) -> Cell | None:
    """The difference of two scores; ``is_alike`` where gold was matched in one way for them."""
    if len(columns) < MAX_RUNS or values[0] is None or values[1] is None:
        return None
    signatures = [without_top_k(column.result.signature) for column in columns]
    if is_alike:
        signatures = [comparable_signature(column.result.signature) for column in columns]
    if signatures[0] != signatures[1]:
        return Cell("other definition", "muted")
    difference = values[1] - values[0]
    if abs(difference) <= columns[0].meta.rounding:
        return Cell("same", "", "=")
    is_better = (difference > 0) == columns[0].meta.higher_score_is_better
    text = f"{'+' if difference > 0 else '−'}{format_value(abs(difference))}"
    return Cell(text, "good", "▲", note="better") if is_better else Cell(text, "bad", "▼", note="worse")


def judgement_rows(run: QueryRun) -> list[dict[str, Any]]:
    """The judgements of the shown repeat, as the templates show them."""
    current = {one.name: one.signature for one in run.columns.results.values()}
    labels = metric_labels(run.columns.results.values())
    missing = dict.fromkeys(("critic", "again", "failed", "old", "message", "answer", "raw"))
    return [
        missing
        | judgement_fields(one, is_old=current.get(one.metric, one.signature) != one.signature)
        | {"subject": format_subject(one.body.get("about") or {}), "metric": labels.get(one.metric, one.metric)}
        for one in run.judgements
        if one.repeat == run.repeat
    ]


def to_text(value: Any) -> str:
    """A JSON value as indented text; nothing for an empty one."""
    text = json.dumps(to_json_value(value), indent=2, ensure_ascii=False) if value else ""
    return text if len(text) <= PIECE_LENGTH else f"{text[:PIECE_LENGTH]}…"


# --- the page ---------------------------------------------------------------------------------------------------------


def query_page(request: PageRequest) -> HTMLResponse:
    """One sample in one run or in two."""
    workbench, address = request.workbench, QueryAddress.from_request(request)
    records = [workbench.find(run) for run in address.runs]
    address = QueryAddress(tuple(one.run_id for one in records), address.sample_id, address.repeats, address.filters)
    letters = "AB" if len(records) > 1 else [""]
    runs = [read_run(workbench, one, letters[place], place, address) for place, one in enumerate(records)]
    first = next((run for run in runs if run.sample is not None), None)
    if first is None or first.sample is None:
        raise HTTPException(404, f"no sample '{shorten(address.sample_id, 200)}' is in {' or '.join(address.runs)}")
    answered = [run for run in runs if run.output is not None and not isinstance(run.output.retrieved, UnknownRanking)]
    rankings = [(run.documents, run.gold_ranks) for run in answered]
    joined = connections(*rankings) if len(answered) == MAX_RUNS else []
    depth = min(max((len(run.documents) for run in answered), default=0), MAX_CUT_OFF)
    table = ranking_table(answered) if answered else None
    proposals = sample_proposals(workbench, first.record, first.sample, address.with_sample(address.sample_id))
    before: list[dict[str, str]] = [
        {} if run.position is None else scores_before(workbench, run.record, run.position, run.columns.results)
        for run in runs
    ]
    return render_template(
        request,
        "query.html",
        address=address,
        sample=first.sample,
        question=show_text(first.sample.query, text_address(first, address, "question"), limit=QUESTION_LENGTH),
        thread=_thread(first, first.sample, address),
        references=[
            show_text(text, text_address(first, address, f"reference-{number}"))
            for number, text in enumerate(first.sample.references, 1)
        ],
        labels=[(str(name), _plain(value)) for name, value in first.sample.labels.items()],
        golds=_golds(runs, address),
        sides=[_side(run, address, joined) for run in runs],
        table=table if table is not None and any(group.rows for group in table.groups) else None,
        connections=joined,
        cut_offs=_cut_offs(answered, depth),
        cut_off_runs=[run.letter for run in answered],
        scores=score_groups(score_rows(runs, before)),
        mark_labels=MARK_LABELS,
        chunks_note=chunks_note(records),
        to_text=to_text,
        neighbours=neighbours(request, runs, address),
        cluster_url=make_url("/queries", run=address.runs, where=str(Condition("cluster", value=first.sample.cluster))),
        swapped=address.swapped,
        others=make_url("/query/others", run=first.record.run_id, id=address.sample_id, shown=address.runs),
        proposals=proposals,
        metadata=to_text(first.sample.metadata),
        structured=to_text(first.sample.reference_answer.structured if first.sample.reference_answer else None),
    )


def _cut_offs(runs: Sequence[QueryRun], depth: int) -> list[list[CutOff]]:
    """The values of each run at every cut-off; none where the conventions refuse a ranking."""
    pairs = [(run.record, run.sample, run.output) for run in runs if depth]
    with suppress(AueporaError):
        return [
            cut_offs(sample, output, depth, plan_conventions(record))
            for record, sample, output in pairs
            if sample is not None and output is not None
        ]
    return []


def _thread(run: QueryRun, sample: EvaluationSample, address: QueryAddress) -> list[tuple[str, ShownText]]:
    turns = []
    for number, turn in enumerate(sample.history, 1):
        role = str(turn.get("role", "turn")) if isinstance(turn, Mapping) else "turn"
        whole = text_address(run, address, f"turn-{number}")
        turns.append((role, show_text(_turn_text(turn), whole, limit=DOCUMENT_LENGTH)))
    return turns


def _turn_text(turn: Any) -> str:
    """The text of a turn; the texts of its parts, one below the other; else all of it as JSON."""
    content = turn.get("content") if isinstance(turn, Mapping) else turn
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in parts]
    if all(isinstance(text, str) for text in texts):
        return "\n".join(map(str, texts))
    return json.dumps(to_json_value(turn), indent=2, ensure_ascii=False)


def _golds(runs: Sequence[QueryRun], address: QueryAddress) -> list[dict[str, Any]]:
    """The gold of the sample: one entry, or one per run where their datasets differ."""
    entries: list[dict[str, Any]] = []
    for run in runs:
        if run.sample is None or run.gold is None:
            continue
        documents = run.sample.relevant_docs
        same = next((one for one in entries if one["documents"] == documents), None)
        if same is not None:
            same["letters"].append(run.letter)
            continue
        entries.append({"documents": documents, "letters": [run.letter], "is_annotated": run.gold.annotated})
        entries[-1]["items"] = [
            {
                "id": doc.doc_id,
                "level": relevance(doc),
                "ranks": [one.gold_rank(doc.doc_id) for one in runs if one.output is not None],
                "groups": [", ".join(ids) for ids in run.sample.relevant_groups if doc.doc_id in ids],
                "text": show_text(
                    doc.text or run.gold_texts.get(doc.doc_id, ""),
                    text_address(run, address, f"gold-{number}"),
                    limit=DOCUMENT_LENGTH,
                ),
            }
            for number, doc in enumerate(documents or (), 1)
        ]
    return entries


def _side(run: QueryRun, address: QueryAddress, joined: Sequence[Connection]) -> dict[str, Any]:
    """What one run returned, for the template."""
    record, output = run.record, run.output
    side: dict[str, Any] = {
        "run": run,
        "letter": run.letter,
        "record": record,
        "output": output,
        "repeats": [
            (number + 1, address.with_repeat(run.place, number), number == run.repeat)
            for number in range(record.repeats)
        ],
        "judgements": judgement_rows(run),
    }
    if output is None or run.sample is None:
        return side
    ends = {one.second: one.first for one in joined} if run.place else {one.first: one.second for one in joined}
    is_known = not isinstance(output.retrieved, UnknownRanking)
    gold = {doc.doc_id for doc in run.sample.relevant_docs or () if relevance(doc) > 0}
    return side | {
        "error": None if output.error is None else show_text(output.error, text_address(run, address, "error")),
        "is_refusal": _is_refusal(run.sample, output),
        "attempts": output.extra.get("attempts", 1),
        "answer": None if output.response is None else _answer(run, output, output.response, address),
        "is_ranking_known": is_known,
        "documents": ranked_documents(run, output, address, ends) if is_known else [],
        "max_documents": MAX_DOCUMENTS,
        "missing_gold": sorted(gold - run.gold_ranks.keys()) if is_known else [],
        "citations": None if output.citations is None else [_citation(run, str(one)) for one in output.citations],
        "timeline": timeline(output),
        "usage": [(str(name), _plain(value)) for name, value in output.usage.items()],
        "extra": to_text({name: value for name, value in output.extra.items() if name != "attempts"}),
    }


def _answer(run: QueryRun, output: SystemOutputs, response: Response, address: QueryAddress) -> dict[str, Any]:
    """The answer of a run, as sentences with their claims."""
    marks, legend = answer_marks(run, output, response)
    answer, whole = response.text, text_address(run, address, "answer")
    shown = show_text(answer, whole, limit=ANSWER_LENGTH, marks=marks)
    end = sum(len(part.text) for part in shown.parts)
    sentences = sentence_spans(answer[:end])
    claims = answer_claims(run, answer[:end], sentences)
    return {
        "text": shown,
        "segments": answer_segments(answer, end, sentences, claims, marks),
        "claims": claims,
        "is_judged": any(claim.verdicts for claim in claims),
        "kind": marks[0].kind if marks else "",
        "legend": legend,
        "structured": to_text(response.structured),
        "metadata": to_text(response.metadata),
        "sentences": [
            (str(one.get("text", "")), [_citation(run, cited) for cited in _sentence_citations(one)])
            for one in response.sentences or ()
        ],
    }


def _sentence_citations(sentence: Mapping[str, Any]) -> list[str]:
    listed = sentence.get("citations")
    return [str(one) for one in listed] if isinstance(listed, list | tuple) else []


def _citation(run: QueryRun, doc_id: str) -> tuple[str, int | None]:
    return doc_id, first_ranks(run.documents).get(doc_id)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(to_json_value(value), ensure_ascii=False)


# --- neighbours in the filtered list ----------------------------------------------------------------------------------


class Neighbours(NamedTuple):
    """The place of the sample in the list, and the addresses around it."""

    place: int | None
    """From 1; ``None`` where the filter excludes the sample."""
    total: int
    previous: str | None
    following: str | None


def neighbours(request: PageRequest, runs: Sequence[QueryRun], address: QueryAddress) -> Neighbours:
    """The samples before and after this one in the list that the filter of the address gives."""
    workbench = request.workbench
    if address.filters or len({run.record.fingerprint for run in runs}) > 1:
        table = query_table(workbench, [run.record for run in runs])
        rows = SampleFilter.from_params(request.parameters).rows(table)
        found = np.flatnonzero(rows == table.row_of(address.sample_id)).tolist()
        place, total = found[0] if found else None, len(rows)

        def id_at(index: int) -> str:
            return table.ids[int(rows[index])]
    else:
        place, total = runs[0].position, runs[0].record.num_samples

        def id_at(index: int) -> str:
            return sample_id_at(workbench, runs[0].record, index)

    if place is None:
        return Neighbours(None, total, None, address.with_sample(id_at(0)) if total else None)
    previous = address.with_sample(id_at(place - 1)) if place else None
    following = address.with_sample(id_at(place + 1)) if place + 1 < total else None
    return Neighbours(place + 1, total, previous, following)


# --- whole texts, and other runs --------------------------------------------------------------------------------------


def text_address(run: QueryRun, address: QueryAddress, part: str) -> str:
    """The address of a whole text of the page."""
    return make_url("/query/text", run=run.record.run_id, id=address.sample_id, repeat=run.repeat, part=part)


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
        "turn": [_turn_text(turn) for turn in sample.history],
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
        text, marks = output.response.text, answer_marks(run, output, output.response)[0]
    if name == "document" and text:
        marks = [Mark(*one, "passage", "the gold passage") for one in run.gold_passages(run.documents[at])]
    if text is None:
        raise HTTPException(404, f"part: the query has no text '{part[:50]}'")
    return text, marks


def split_pieces(text: str) -> list[tuple[int, int]]:
    """Start and end of pieces of a text, which end after a line or a word where one ends nearby."""
    pieces, at = [], 0
    while len(text) - at > PIECE_LENGTH * 1.5:
        nearest = at + PIECE_LENGTH // 2
        cut = max(text.rfind(mark, nearest, at + PIECE_LENGTH) for mark in "\n ")
        end = at + PIECE_LENGTH if cut < 0 else cut + 1
        pieces.append((at, end))
        at = end
    return [*pieces, (at, len(text))] if at < len(text) or not text else pieces


def other_runs(request: PageRequest) -> HTMLResponse:
    """What other runs of the same dataset returned for a sample, as a fragment."""
    workbench, address = request.workbench, QueryAddress.from_request(request)
    record = workbench.find(address.runs[0])
    position = find_position(workbench, record, address.sample_id)
    if position is None:
        raise HTTPException(404, f"{record.run_id} has no such sample")
    shown = {record.run_id, *request.parameters.getlist("shown")}
    listed = [one for one in runs_of_dataset(workbench.store, record.fingerprint) if one.run_id not in shown]
    sample = sample_at(workbench.store, record, position)
    rows = []
    for one in listed[:MAX_OTHER_RUNS]:
        output = next((row.output for row in workbench.store.outputs(one.run_id, repeat=0, position=position)), None)
        gold = GoldMarks(sample, plan_conventions(one).match)
        rows.append(
            {
                "record": one,
                "output": output,
                "is_refusal": output is not None and _is_refusal(sample, output),
                "text": "" if output is None else shorten(output.error or _answer_text(output), 200),
                "rank": None if output is None else gold.first_rank([item.doc for item in output.retrieved]),
                "address": address.with_runs([one.run_id]),
                "compare": address.with_runs([record.run_id, one.run_id]),
            }
        )
    has_gold = any(level > 0 for level in GoldMarks(sample).levels.values())
    return render_template(request, "query_others.html", rows=rows, count=len(listed), has_gold=has_gold)


def _is_refusal(sample: EvaluationSample, output: SystemOutputs) -> bool:
    """Whether an answer is a refusal, as in the condition ``answer=refused``."""
    return bool(_answer_text(output).strip()) and RefusalDetector().refused(sample, output) is True


def _answer_text(output: SystemOutputs) -> str:
    return "" if output.response is None else output.response.text


ROUTES = [
    page_route("/query", query_page),
    page_route("/query/text", whole_text),
    page_route("/query/others", other_runs),
]
