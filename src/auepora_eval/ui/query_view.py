"""One view of a query in one run or in two: texts, gold, rankings with their lines, answers and scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from operator import attrgetter
from typing import Any

from ..compare.queries import explain_change
from ..core.types import Document, EvaluationSample, Response, SystemOutputs
from ..errors import AueporaError
from ..queries.filters import SampleFilter
from ..queries.marked_texts import (
    COMPARED_LENGTH,
    MAX_UNFOLDED,
    Mark,
    ShownText,
    content_words,
    difference_marks,
    reference_marks,
    show_text,
    shown_end,
)
from ..queries.view import GoldLine, first_ranks, gold_lines, relevance
from ..render.html import seconds_text
from ..report.score_sections import CutOff, cut_offs, timeline
from ..store.records import plan_conventions
from ..text.sentences import sentence_spans
from .query_parts import (
    DOCUMENT_LENGTH,
    MAX_WORDS_LENGTH,
    QueryScore,
    answer_claims,
    answer_segments,
    find_citation,
    judgement_rows,
    plain_text,
    ranked_documents,
    score_rows,
    sentence_citations,
    show_words,
    support_marks,
    text_address,
    text_limit,
    to_text,
    turn_text,
)
from .query_run import MAX_RUNS, QueryAddress, QueryRun, is_refusal
from .reading import first_cut_off

FIRST_DOCUMENTS = 10
"""The number of retrieved documents, and of ranks with lines, that are shown at first."""
MAX_CUT_OFF = 50
DEFAULT_K = 5
QUESTION_LENGTH, REFERENCE_LENGTH, ANSWER_LENGTH = 280, 400, 440
"""The number of characters shown at first; half as many of a script without spaces, whose characters are wide."""

# --- the view ---------------------------------------------------------------------------------------------------------


class QueryView:
    """A query in one run or in two, as the page shows it."""

    def __init__(
        self,
        runs: Sequence[QueryRun],
        sample: EvaluationSample,
        address: QueryAddress,
        before: Sequence[Mapping[str, str]],
    ) -> None:
        """``before`` are the scores of each run before corrections of the gold."""
        self.runs, self.sample, self.address, self._before = runs, sample, address, before
        self.two = len(runs) > 1
        self.first = next(run for run in runs if run.sample is not None)
        self.words = content_words(" ".join(sample.references[:3])[:MAX_WORDS_LENGTH])
        """The words of the references, which are marked in answers and documents."""
        self.answered = [run for run in runs if run.output is not None and run.is_ranking_known]

    def shown(self, text: str, part: str, limit: int) -> ShownText:
        """The beginning of a text of the sample."""
        address = text_address(self.first, self.address, part)
        return show_text(text, address, limit=text_limit(text, limit), unfolds=True)

    @property
    def question(self) -> ShownText:
        """The question."""
        return self.shown(self.sample.query, "question", QUESTION_LENGTH)

    @property
    def references(self) -> list[ShownText]:
        """The reference answers."""
        numbered = enumerate(self.sample.references[:20], 1)
        return [self.shown(text, f"reference-{number}", REFERENCE_LENGTH) for number, text in numbered]

    @property
    def labels(self) -> list[tuple[str, str]]:
        """The labels of the sample."""
        return [(str(name), plain_text(value)) for name, value in self.sample.labels.items()]

    @property
    def thread(self) -> list[tuple[str, ShownText]]:
        """The turns before the question."""
        turns = []
        for number, turn in enumerate(self.sample.history, 1):
            role = str(turn.get("role", "turn")) if isinstance(turn, Mapping) else "turn"
            turns.append((role, self.shown(turn_text(turn), f"turn-{number}", DOCUMENT_LENGTH)))
        return turns

    # --- gold and rankings ---

    @property
    def golds(self) -> list[dict[str, Any]]:
        """The gold of the sample: one entry, or one per run where their datasets differ."""
        entries: list[dict[str, Any]] = []
        for run in self.runs:
            if run.sample is None or run.gold is None:
                continue
            documents = run.sample.relevant_docs
            same = next((entry for entry in entries if entry["documents"] == documents), None)
            if same is not None:
                same["letters"].append(run.letter)
                continue
            entries.append({"documents": documents, "letters": [run.letter], "is_annotated": run.gold.annotated})
            entries[-1]["items"] = [self._gold(run, number, doc) for number, doc in enumerate(documents or (), 1)]
        return entries

    def _gold(self, run: QueryRun, number: int, doc: Document) -> dict[str, Any]:
        assert run.sample is not None
        text = doc.text or run.gold_texts.get(doc.doc_id, "")
        whole = text_address(run, self.address, f"gold-{number}")
        ranked = [run for run in self.runs if run.output is not None]
        return {
            "id": doc.doc_id,
            "level": relevance(doc),
            "ranks": [(*run.gold_rank(doc.doc_id), len(run.documents)) for run in ranked],
            "groups": [", ".join(ids) for ids in run.sample.relevant_groups if doc.doc_id in ids],
            "text": show_words(text, whole, self.words, DOCUMENT_LENGTH),
        }

    @cached_property
    def depth(self) -> int:
        """The largest k."""
        return min(max((len(run.documents) for run in self.answered), default=0), MAX_CUT_OFF)

    @cached_property
    def k(self) -> int:
        """The depth below which documents are drawn as sunken."""
        usual = first_cut_off([run.columns for run in self.runs]) or DEFAULT_K
        return max(1, min(self.address.depth or usual, self.depth))

    @property
    def rows(self) -> int:
        """The number of ranks that are shown at first in each ranking."""
        return min(FIRST_DOCUMENTS, max((len(run.documents) for run in self.answered), default=0))

    @cached_property
    def lines(self) -> list[GoldLine]:
        """The lines of gold between the rankings of two runs."""
        if len(self.answered) < MAX_RUNS:
            return []
        first, second = self.answered
        return gold_lines(first.gold_ranks, second.gold_ranks, self.rows)

    @property
    def lines_label(self) -> str:
        """The lines in words."""
        counts = Counter(line.kind for line in self.lines)
        words = {"kept": "in both rankings", "lost": "in A alone", "found": "in B alone"}
        return ", ".join(f"{counts[kind]} gold {text}" for kind, text in words.items() if counts[kind]) or "no gold"

    @cached_property
    def cut_offs(self) -> list[list[CutOff]]:
        """The values of each run at every k; none where the conventions refuse a ranking."""
        found = []
        with suppress(AueporaError):
            for run in self.answered if self.depth else ():
                assert run.sample is not None
                assert run.output is not None
                found.append(cut_offs(run.sample, run.output, self.depth, plan_conventions(run.record)))
            return found
        return []

    # --- what the runs returned ---

    @cached_property
    def sides(self) -> list[dict[str, Any]]:
        """What each run returned."""
        answers = [run.answer[:COMPARED_LENGTH] for run in self.runs]
        ranks = [first_ranks(run.documents) for run in self.runs]
        others = ranks[::-1] if len(self.answered) == MAX_RUNS else [{} for _ in self.runs]
        marks = difference_marks(answers)
        return [self._side(*parts) for parts in zip(self.runs, others, marks, strict=True)]

    @property
    def difference_note(self) -> str:
        """Why no words are marked as different; empty where some are."""
        answers = [run.answer for run in self.runs]
        if not self.two or not all(answers):
            return "no"
        if answers[0] == answers[1]:
            return "The answers are the same."
        beginnings = [answer[:COMPARED_LENGTH] for answer in answers]
        if beginnings[0] == beginnings[1]:
            return f"The first {COMPARED_LENGTH:,} characters are the same."
        return "" if any(difference_marks(beginnings)) else "The answers share too few words for a word diff."

    def _side(self, run: QueryRun, others: Mapping[str, int], differences: Sequence[Mark]) -> dict[str, Any]:
        record, output = run.record, run.output
        repeats, judgements = range(record.repeats), judgement_rows(run)
        side: dict[str, Any] = {
            "run": run,
            "letter": run.letter,
            "record": record,
            "output": output,
            "repeats": [
                (repeat + 1, self.address.with_repeat(run.place, repeat), repeat == run.repeat) for repeat in repeats
            ],
            "judgements": judgements,
            "num_judgements": len(judgements),
            "documents": [],
            "seconds": "",
            "error": None,
            "answer": None,
        }
        if output is None or run.sample is None:
            return side
        seconds = output.timings.get("end_to_end")
        return side | {
            "error": self._error(run, output.error),
            "is_refusal": is_refusal(run.sample, output),
            "attempts": output.extra.get("attempts", 1),
            "seconds": seconds_text(seconds) if isinstance(seconds, float) else "",
            "answer": None if output.response is None else self._answer(run, output, output.response, differences),
            "documents": ranked_documents(run, self.address, self.words, others) if run.is_ranking_known else [],
            "citations": [find_citation(run, str(citation)) for citation in output.citations or ()],
            "cites": output.citations is not None,
            "timeline": timeline(output),
            "usage": [(str(name), plain_text(value)) for name, value in output.usage.items()],
            "extra": to_text({name: value for name, value in output.extra.items() if name != "attempts"}),
        }

    def _error(self, run: QueryRun, error: str | None) -> ShownText | None:
        """The error of a run, where its system failed."""
        address = text_address(run, self.address, "error")
        return None if error is None else show_text(error, address, limit=ANSWER_LENGTH, unfolds=True)

    def _answer(
        self, run: QueryRun, output: SystemOutputs, response: Response, differences: Sequence[Mark]
    ) -> dict[str, Any]:
        """The answer of a run, as sentences with their claims."""
        answer = response.text
        marks, legend = support_marks(run, output, response)
        limit = text_limit(answer, ANSWER_LENGTH * (3 - len(self.runs)))
        end = shown_end(answer, limit)
        sentences = sentence_spans(answer[:end])
        claims = answer_claims(run, answer[:end], sentences)
        listed = [*marks, *reference_marks(answer[:MAX_UNFOLDED], self.words), *differences]
        address = text_address(run, self.address, "answer")
        return {
            "text": answer,
            "shown": show_text(answer, address, limit=limit, marks=listed, unfolds=True),
            "segments": answer_segments(answer, end, sentences, claims, listed),
            "claims": claims,
            "judged": sum(bool(claim["verdicts"]) for claim in claims),
            "kind": marks[0].kind if marks else "",
            "legend": legend,
            "structured": to_text(response.structured),
            "metadata": to_text(response.metadata),
            "sentences": [
                (str(sentence.get("text", "")), [find_citation(run, cited) for cited in sentence_citations(sentence)])
                for sentence in response.sentences or ()
            ],
        }

    # --- scores ---

    @cached_property
    def scores(self) -> list[QueryScore]:
        """The scores that apply: those of the filter, the primary metrics, those that differ, and the others."""
        found = SampleFilter.parse("", self.address.filters.get("where", ()), "")
        headline = [condition.name for condition in found.conditions if condition.field == "metric"]
        for run in reversed(self.runs):
            headline += [str(name) for name in run.record.plan.get("primary") or ()]
        rows = [row for row in self._rows if not row.is_skipped]
        first = [row for name in dict.fromkeys(headline) for row in rows if row.name == name]
        rows.sort(key=attrgetter("order"))
        changed = [row for row in rows if row.change]
        of_target = {row.target: row for row in reversed([*changed, *rows])}
        listed = [*first, *reversed(of_target.values()), *changed, *rows]
        return list({row.name: row for row in listed}.values())

    @property
    def skipped(self) -> list[QueryScore]:
        """The metrics that do not apply to the query."""
        return [row for row in self._rows if row.is_skipped]

    @cached_property
    def _rows(self) -> list[QueryScore]:
        return score_rows(self.runs, self._before)

    @cached_property
    def reason(self) -> tuple[QueryScore, str] | None:
        """The first score that differs between two runs, and why it is likely to."""
        changed = next((row for row in self.scores if row.change), None)
        golds = [None if run.sample is None else run.sample.relevant_docs for run in self.runs]
        if changed is None or golds[0] != golds[-1]:
            return None
        outputs = [run.as_query_output() for run in self.runs]
        _, why = explain_change(outputs[0], outputs[-1], changed.target, is_worse=changed.change < 0)
        return changed, f"{why[:1].upper()}{why[1:]}"
