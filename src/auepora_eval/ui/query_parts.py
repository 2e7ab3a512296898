"""Parts of a query page: texts, marks of unsupported words, claims with evidence, documents, scores, judgements."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from ..compare.match import coarsest
from ..compare.metrics import headline_order
from ..compare.pairing import comparable_signature, result_match, without_top_k
from ..core.batch import Batch
from ..core.conventions import Match
from ..core.derivation import format_subject
from ..core.metrics_base import apply_failure_policy
from ..core.results import display_name, metric_labels, to_json_value
from ..core.types import Response, SystemOutputs, TargetCategory
from ..features.matching import MATCH_WORDS
from ..queries.columns import ScoreColumn
from ..queries.marked_texts import (
    PIECE_LENGTH,
    Mark,
    ShownText,
    TextPart,
    reference_marks,
    show_text,
    shown_end,
    split_marks,
)
from ..queries.view import ClaimVerdict, SentenceIndex, first_ranks, judged_claims, judgement_fields, unsupported_words
from ..render.blocks import Cell
from ..render.html import pluralize, shorten
from ..text.scripts import is_unspaced
from .gold_page import document_key
from .numbers import metric_difference, metric_number, with_minus
from .query_run import MAX_RUNS, QueryAddress, QueryRun, is_refusal
from .run_rows import derivation_url
from .workbench import make_url

DOCUMENT_LENGTH = 400
"""The number of characters of a document that are shown at first."""
MAX_EVIDENCE = 20
"""The number of retrieved documents in which the evidence of a claim is looked for."""
MAX_CLAIMS = 100
MAX_WORDS_LENGTH = 20_000
"""The number of characters of a text in which the words of the reference are marked."""
MAX_MARKED_LENGTH = 100_000
"""The number of characters of an answer that are looked up in the documents."""

# --- texts ------------------------------------------------------------------------------------------------------------


def text_address(run: QueryRun, address: QueryAddress, part: str) -> str:
    """The address of a whole text of the page."""
    return make_url("/query/text", run=run.record.run_id, id=address.sample_id, repeat=run.repeat, part=part)


def text_limit(text: str, limit: int) -> int:
    """How many characters of a text are shown at first: fewer where each of them is wide."""
    return limit // 2 if is_unspaced(text[:limit]) else limit


def show_words(text: str, address: str, words: Set[str], limit: int, marks: Sequence[Mark] = ()) -> ShownText | None:
    """The beginning of the text of a document, with the words of the reference marked; ``None`` for an empty one."""
    if not text:
        return None
    limit = text_limit(text, limit)
    beginning = text[: shown_end(text, limit)]
    return show_text(text, address, limit=limit, marks=[*marks, *reference_marks(beginning, words)])


def to_text(value: Any) -> str:
    """A JSON value as indented text; nothing for an empty one."""
    text = json.dumps(to_json_value(value), indent=2, ensure_ascii=False) if value else ""
    return text if len(text) <= PIECE_LENGTH else f"{text[:PIECE_LENGTH]}…"


def plain_text(value: Any) -> str:
    """A text as it is, any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(to_json_value(value), ensure_ascii=False)


def turn_text(turn: Any) -> str:
    """The text of a turn; the texts of its parts, one below the other; else all of it as JSON."""
    content = turn.get("content") if isinstance(turn, Mapping) else turn
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in parts]
    if all(isinstance(text, str) for text in texts):
        return "\n".join(str(text) for text in texts)
    return json.dumps(to_json_value(turn), indent=2, ensure_ascii=False)


def sentence_citations(sentence: Mapping[str, Any]) -> list[str]:
    """The ids that a sentence of an answer cites."""
    listed = sentence.get("citations")
    return [str(citation) for citation in listed] if isinstance(listed, list | tuple) else []


def find_citation(run: QueryRun, doc_id: str) -> tuple[str, int | None]:
    """A cited id and its rank."""
    return doc_id, first_ranks(run.documents).get(doc_id)


def support_marks(run: QueryRun, output: SystemOutputs, answer: Response) -> tuple[list[Mark], str]:
    """The marks of what the documents do not support: spans of a metric, else words; and a sentence about them."""
    for name in run.columns.results:
        column = run.columns.scores(name)
        key = None if column is None or run.position is None else column.spans.get(run.position)
        if key is not None and (spans := key.of_repeat(run.repeat)):
            marks = [Mark(span.start, span.end, "detected", f"probability {span.probability:.3g}") for span in spans]
            return marks, f"{pluralize(len(spans), 'span')} called unsupported by {name}"
    if run.sample is None or is_refusal(run.sample, output):  # documents do not have the words of a refusal
        return [], ""
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


AnswerClaim = Mapping[str, Any]
"""A claim of an answer with the verdicts on it and its evidence; a sentence of it where no claims are stored."""


def answer_claims(run: QueryRun, answer: str, sentences: Sequence[tuple[int, int]]) -> list[AnswerClaim]:
    """The claims of an answer with their evidence; its sentences where no claims are stored."""
    documents = run.documents[:MAX_EVIDENCE]
    evidence = SentenceIndex([document.text for document in documents])
    own = SentenceIndex([answer[start:end] for start, end in sentences])
    stored, labels = judged_claims(run.judgements, run.repeat, answer), metric_labels(run.columns.results.values())
    texts: Mapping[str, Sequence[ClaimVerdict]] = stored or {answer[start:end]: () for start, end in sentences}
    claims: list[AnswerClaim] = []
    for text, verdicts in list(texts.items())[:MAX_CLAIMS]:
        place = own.closest(text)
        closest = evidence.closest(text)
        found = None
        if closest is not None:
            document = documents[closest.text]
            found = {
                "rank": closest.text + 1,
                "doc_id": document.doc_id,
                "text": shorten(document.text[closest.start : closest.end], 600),
                "shared": closest.shared,
                "words": closest.words,
            }
        claims.append(
            {
                "text": text,
                "sentence": None if place is None else place.text,  # the index of the closest sentence of the answer
                "verdicts": _join_metrics(verdicts, labels),
                "evidence": found,  # the sentence of the documents that shares most words with it
            }
        )
    return claims


def _join_metrics(verdicts: Sequence[ClaimVerdict], labels: Mapping[str, str]) -> list[ClaimVerdict]:
    """The verdicts on a claim; metrics that share one, as they share judgements, are listed together."""
    metrics: dict[ClaimVerdict, list[str]] = {}
    for verdict in verdicts:
        metrics.setdefault(replace(verdict, metric=""), []).append(labels.get(verdict.metric, verdict.metric))
    return [replace(verdict, metric=", ".join(dict.fromkeys(names))) for verdict, names in metrics.items()]


def answer_segments(
    answer: str, end: int, sentences: Sequence[tuple[int, int]], claims: Sequence[AnswerClaim], marks: Sequence[Mark]
) -> list[tuple[list[TextPart], int | None]]:
    """The sentences of an answer and the spaces between them; a sentence with the number of its first claim."""
    by_sentence = {claim["sentence"]: number for number, claim in reversed(list(enumerate(claims)))}
    segments: list[tuple[list[TextPart], int | None]] = []
    at = 0
    for index, (start, stop) in enumerate(sentences):
        if start > at:
            segments.append((split_marks(answer, at, start, marks), None))
        segments.append((split_marks(answer, start, stop, marks), by_sentence.get(index)))
        at = stop
    return [*segments, (split_marks(answer, at, end, marks), None)] if at < end else segments


# --- gold documents and rankings --------------------------------------------------------------------------------------

MARK_LABELS = {
    "gold": ("◆", "gold", "relevant by the annotation"),
    "again": ("○", "gold again", "the same id is further up; it counts once"),
    "part": ("◐", "same document", "another chunk of a relevant document"),
    "not": ("✕", "not relevant", "judged not relevant"),
    "": ("", "not judged", "has no judgement"),
}


def ranked_documents(run: QueryRun, address: QueryAddress, words: Set[str], others: Mapping[str, int]) -> list[Any]:
    """The ranking of a run; ``others`` are the ranks of documents in the other run."""
    output = run.output
    assert output is not None
    cited = set(output.citations or ())
    for sentence in (output.response.sentences if output.response is not None else None) or ():
        cited.update(sentence_citations(sentence))
    rows = []
    for rank, (item, (mark, hit)) in enumerate(zip(output.retrieved, run.gold_marks, strict=True), 1):
        doc = item.doc
        passages = run.gold_passages(doc)
        limit = max(DOCUMENT_LENGTH, min(passages[-1][1], 2_000) if passages else 0)
        marks = [Mark(start, end, "passage", "the gold passage") for start, end in passages]
        place = f"in {doc.parent_id}" if doc.parent_id else ""
        place += f" {doc.span[0]}–{doc.span[1]}" if doc.span else ""
        rows.append(
            {
                "rank": rank,
                "id": doc.doc_id,
                "key": document_key(doc.doc_id),
                "mark": mark,
                "how": hit.how,
                "level": hit.level,
                "score": item.score,
                "is_cited": doc.doc_id in cited,
                "place": place.strip(),
                "text": show_words(doc.text, text_address(run, address, f"document-{rank}"), words, limit, marks),
                "has_passages": bool(passages),
                "metadata": to_text(doc.metadata),
                "other_rank": others.get(doc.doc_id),
            }
        )
    return rows


# --- scores and judgements --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QueryScore:
    """A metric with its score in each run."""

    name: str
    metric: str
    target: TargetCategory
    lower_is_better: bool
    is_skipped: bool
    cells: Sequence[Mapping[str, Any]]
    """The score in each run; ``before`` is that with the gold of the dataset, where that of the run was corrected."""
    difference: Cell | None

    @property
    def order(self) -> tuple[float, ...]:
        """Its place among headlines."""
        return headline_order(self.name, self.target.name)

    @property
    def change(self) -> int:
        """Whether the score is worse (-1) or better (1) in the second run."""
        return {"bad": -1, "good": 1}.get("" if self.difference is None else self.difference.tone, 0)


def score_rows(runs: Sequence[QueryRun], before: Sequence[Mapping[str, str]]) -> list[QueryScore]:
    """The scores of the sample; ``before`` are those of each run before corrections of the gold."""
    names = dict.fromkeys(chain.from_iterable(run.columns.results for run in runs))
    rows = []
    for name in names:
        columns = [run.scores(name) for run in runs]
        known = [column for column in columns if column is not None]
        if not known:
            continue
        label, match = display_name(known[0].result), coarsest([result_match(column.result) for column in known])
        found = [run.score(name) for run in runs]
        is_mixed = any(result_match(column.result) != match for column in known)
        again = _matched_scores(runs, found, name, match) if is_mixed else []
        if again:
            found, label = again, f"{label}, gold matched by {MATCH_WORDS[match]}"
        cells = [
            _score_cell(run, name, *score) | {"before": old.get(name, "")}
            for run, old, score in zip(runs, before, found, strict=True)
        ]
        is_skipped = all(outcome.partition(":")[0] in ("skipped", "") for _, outcome in found)
        difference = _difference(known, [value for value, _ in found], is_alike=bool(again))
        lower = not known[0].meta.higher_score_is_better
        rows.append(
            QueryScore(
                name=name,
                metric=label,
                target=known[0].result.target,
                lower_is_better=lower,
                is_skipped=is_skipped,
                cells=cells,
                difference=difference,
            )
        )
    return rows


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


def _score_cell(run: QueryRun, name: str, value: float | None, outcome: str) -> dict[str, Any]:
    """The score in one run, and the address of its derivation; ``outcome`` says why it is not an ordinary one."""
    cell = {"text": "–", "tone": "", "outcome": "not scored", "derivation": "", "value": value}
    if not outcome or run.sample is None:
        return cell
    cell["derivation"] = derivation_url(run.record, name, run.sample.sample_id)
    # Two decimals for metrics from 0 to 1, else as the metric is written.
    number = "" if value is None else metric_number(replace(run.columns.results[name], interval=None), value)
    if outcome == "scored":
        return cell | {"text": number or "n/a", "outcome": ""}
    status, _, reason = outcome.partition(":")
    words = f"{status.replace('_', ' ')}: {reason}" if reason else status.replace("_", " ")
    words = f"{words}, counted as" if number else words
    return cell | {"text": number or "–", "tone": "muted" if status == "skipped" else "bad", "outcome": words}


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
        return Cell("= 0", "muted")
    is_better = (difference > 0) == columns[0].meta.higher_score_is_better
    text = metric_difference(replace(columns[0].result, interval=None), difference)
    if text == "= 0":  # less than the last digit
        text = with_minus(f"{difference:+.1g}")
    return Cell(text, "good", "▲", note="better") if is_better else Cell(text, "bad", "▼", note="worse")


def judgement_rows(run: QueryRun) -> list[dict[str, Any]]:
    """The judgements of the shown repeat, as the templates show them."""
    current = {result.name: result.signature for result in run.columns.results.values()}
    labels = metric_labels(run.columns.results.values())
    missing = dict.fromkeys(("critic", "again", "failed", "old", "message", "answer", "raw"))
    return [
        missing
        | judgement_fields(judgement, is_old=current.get(judgement.metric, judgement.signature) != judgement.signature)
        | {
            "subject": format_subject(judgement.body.get("about") or {}),
            "metric": labels.get(judgement.metric, judgement.metric),
        }
        for judgement in run.judgements
        if judgement.repeat == run.repeat
    ]
