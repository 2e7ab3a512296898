"""Unsupported spans of an answer, by a token classifier that reads the question, the evidence and the answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..core.batch import Batch
from ..core.conventions import RankCutOff, SignatureOption
from ..core.derivation import NO_CONTEXT, Derivation, DerivationBuilder, ExplainContext, quote_text
from ..core.general_derivation import add_inputs
from ..core.metrics_base import declare
from ..core.reduce import Clusters
from ..core.registry import Use, parse_use, register, resolve
from ..core.scores import AnswerSpans, MarkedSpan, Score, Scores
from ..core.types import EvaluationSample, SystemOutputs
from ..errors import BadTypeError
from ..features.embeddings import InferenceFailure, cached_inference
from ..features.texts import Source, answers, evidence_texts
from ..judge.nli import Threshold
from ..models.token_classifier import SpanInput, TokenClassifier, Window
from ..options import PositiveInt
from ..stats.intervals import Floats, interval_ends, mean_interval
from .answer_base import AnswerMetric, EvidenceMetric, SkipMasks
from .semantic import note_truncation, problem_masks

Outcome = tuple[Floats, bool] | InferenceFailure


def find_spans(answer: str, probabilities: Floats, threshold: float, min_span: int = 1) -> tuple[MarkedSpan, ...]:
    """The parts of an answer whose characters have at least the probability ``threshold``.

    A character without a probability (NaN) belongs to the one before it. A span neither begins nor ends with white
    space; one with fewer than ``min_span`` other characters is left out. Its probability is the highest in it.
    """
    known = ~np.isnan(probabilities)
    filled = probabilities[np.maximum.accumulate(np.where(known, np.arange(len(answer)), 0))]
    edges = np.flatnonzero(np.diff(filled >= threshold, prepend=False, append=False)).tolist()
    spans = []
    for first, last in zip(edges[::2], edges[1::2], strict=True):
        text = answer[first:last]
        start, end = last - len(text.lstrip()), first + len(text.rstrip())
        if count_characters(text) >= max(min_span, 1):
            spans.append(MarkedSpan(start, end, float(filled[start:end].max())))
    return tuple(spans)


def count_characters(text: str) -> int:
    """The number of characters that are not white space."""
    return sum(not character.isspace() for character in text)


def unsupported_proportion(answer: str, spans: Iterable[MarkedSpan]) -> float:
    """The proportion of characters within spans; white space is not counted."""
    return sum(count_characters(answer[span.start : span.end]) for span in spans) / count_characters(answer)


def lowest_probabilities(answer: str, windows: Sequence[Window], outcomes: Sequence[Floats]) -> Floats:
    """Per character the lowest probability in any window: what one window supports is supported."""
    lowest = np.full(len(answer), np.nan)
    for window, found in zip(windows, outcomes, strict=True):
        place = slice(window.start, window.start + len(window.part))
        lowest[place] = np.fmin(lowest[place], found)
    return lowest


def _parse_model(option: Any) -> Any:
    """The token classifier that an option describes; ``{use: NAME}`` as a reference."""
    option = parse_use(option)
    if isinstance(option, (Use, TokenClassifier)):
        return option
    if isinstance(option, dict) and set(option) == {"token_classifier"}:
        option = option["token_classifier"]
    try:
        return TokenClassifier.parse(option)
    except BadTypeError:
        raise BadTypeError(
            "model must be the path or hub name of a token classifier, {use: RESOURCE}, or options such as "
            f"{{model: PATH, window: 2048}}; not {option!r:.80}"
        ) from None


@register("hallucinated_spans")
@dataclass(frozen=True)
class HallucinatedSpans(EvidenceMetric, AnswerMetric):
    r"""Proportion of the answer's characters that no part of the evidence supports, by a token classifier.

    .. math:: |\{c \in \text{answer} : P_w(c \text{ unsupported}) \ge t \text{ in every window } w\}| / |\text{answer}|

    `model` is the path or hub name of a token classifier of the LettuceDetect family, `{use: NAME}` of a resource
    `token_classifier`, or options such as `{model: PATH, window: 2048, template: user_request}`. Nothing is downloaded
    unless `allow_download` is true there. It reads the question, without its history, with the first `k` documents, and
    the answer. Evidence that is longer than the window of the model is split; each window has the question, some of the
    documents, and the answer (in parts if it is longer than half a window). A character is unsupported if every window
    gives it a probability of at least `threshold`. White space is not counted. Adjacent characters form a span; spans
    with fewer than `min_span` characters are left out. Nothing retrieved scores 1, and the whole answer is one span.

    The spans are stored with the scores, and marked in the report and by `auepora show --sample`. Details:
    `any_span_rate` is the proportion of answers with a span, with its interval; `num_spans` and `num_windows` are
    totals; `num_truncated` is the number of samples whose question is longer than a quarter of the window.
    """

    model: Any = field(metadata={"convert": _parse_model})
    threshold: Threshold = field(default=0.5, kw_only=True)
    k: RankCutOff | None = field(default=None, kw_only=True)
    evidence_source: Source = field(default="retrieved", kw_only=True)
    min_span: PositiveInt = field(default=1, kw_only=True)

    metadata = declare(
        reads=frozenset({"response", "retrieved"}),
        output_skips=frozenset({"empty_answer", "no_text"}),
        higher_is_better=False,
        needs_all=True,  # for the interval of the proportion of answers with a span; a few numbers per sample
        stat_names=("any_span_rate", "num_spans", "num_windows", "num_truncated"),
        suggested=False,  # it needs a model, which the user names
        skip_reasons={
            **AnswerMetric.metadata.skip_reasons,
            "empty_answer": "the answer has no text that the model reads",
            "no_text": "the documents have no text",
            "no_gold": "the evidence is the relevant documents, and they are not annotated",
            "empty_gold": "the evidence is the relevant documents, and there is none",
        },
        option_help={
            "model": "the model, and the tokens of a window; what one window supports is supported",
            "from": "lowest probability of an unsupported character",
        },
        reference="Kovács and Recski 2025 (LettuceDetect)",
        signature={
            "model": "model_identity",
            "from": SignatureOption("threshold", write="{:g}".format),
            "evidence": "evidence_source",
            "k": "k",
            "min_span": SignatureOption("min_span", unless=1),
        },
    )
    worst_stats = (1.0, 0.0, 0.0, 0.0)
    """A failed answer counts as one with a span."""
    asks_models = True
    """True: it needs a token classifier."""

    @property
    def classifier(self) -> TokenClassifier:
        """The token classifier, resources resolved."""
        found = _parse_model(resolve(self.model, what="model"))
        assert isinstance(found, TokenClassifier)
        return found

    @property
    def model_identity(self) -> str:
        """The model with its window; a resource that is not known yet by its name."""
        is_unknown = isinstance(self.model, Use) and self.model.thing is None
        return f"resource {self.model.name}" if is_unknown else self.classifier.identity

    def require_ready(self) -> None:
        """Raise unless the packages and the model are available."""
        self.classifier.require_ready()

    def score(self, batch: Batch) -> Scores:
        """The proportion of each answer, with its spans as keys."""
        evidence = evidence_texts(batch, self.evidence_source, self.k)
        documents = evidence.by_row()
        texts = answers(batch)
        measured = [row for row, text in enumerate(texts) if text.strip() and documents[row]]
        windows: list[list[Window]] = [[] for _ in range(len(batch))]
        found: Any = {}
        if measured:
            model = self.classifier
            inputs = [SpanInput(batch.samples[row].query, tuple(documents[row]), texts[row]) for row in measured]
            for row, own in zip(measured, model.windows(inputs), strict=True):
                windows[row] = own
            pairs = [[window.pair for window in own] for own in windows]
            found = cached_inference(
                batch, ("spans", model), pairs, model.probabilities, count_numbers=lambda outcome: len(outcome[0])
            )
        values, stats = np.zeros(len(batch)), np.zeros((len(batch), 4))
        keys: list[AnswerSpans | None] = [None] * len(batch)
        problems: list[str | None] = [None] * len(batch)
        empty = np.array([not text.strip() for text in texts], np.bool_)
        for row, text in enumerate(texts):
            if empty[row] or (not windows[row] and not evidence.no_documents[row]):
                continue
            outcome = self._combine(text, windows[row], [found[window.pair] for window in windows[row]])
            if isinstance(outcome, str):
                problems[row] = outcome
            elif outcome is None:
                empty[row] = True
            else:
                keys[row] = AnswerSpans(outcome)
                values[row] = unsupported_proportion(text, outcome)
                cut = any(window.cut or found[window.pair][1] for window in windows[row])
                stats[row] = bool(outcome), len(outcome), len(windows[row]), cut
        note_truncation(batch, self.name, stats[:, 3])
        no_text = np.array([not own for own in documents], np.bool_) & ~evidence.no_documents
        relevant = self.evidence_source == "relevant"
        gold: SkipMasks = {"no_gold": evidence.unknown, "empty_gold": evidence.no_documents} if relevant else {}
        scores = self.outcome(
            batch,
            values,
            skip=gold,
            skip_answer={"empty_answer": empty, "no_text": no_text},
            fail=problem_masks(problems),
            stats=stats,
        )
        return replace(scores, keys=tuple(keys))

    def _combine(
        self, answer: str, windows: Sequence[Window], outcomes: Sequence[Outcome]
    ) -> tuple[MarkedSpan, ...] | str | None:
        """The spans of one answer, a failure reason, or ``None`` if the model reads nothing of the answer."""
        if not windows:  # no evidence at all
            return find_spans(answer, np.ones(len(answer)), self.threshold)
        failures = [outcome.reason for outcome in outcomes if isinstance(outcome, InferenceFailure)]
        if failures:
            return failures[0]
        lowest = lowest_probabilities(
            answer, windows, [outcome[0] for outcome in outcomes if not isinstance(outcome, InferenceFailure)]
        )
        return None if np.isnan(lowest).all() else find_spans(answer, lowest, self.threshold, self.min_span)

    def further_details(self, scores: Scores, clusters: Clusters | None) -> dict[str, Any]:
        """The interval of the proportion of answers with a span."""
        counted = scores.counted
        marked = np.zeros(0) if scores.stats is None else scores.stats[counted, 0]
        groups = None if clusters is None else clusters[counted]
        interval = mean_interval(marked, clusters=groups, binary=True, lowest=0, highest=1) if len(marked) else None
        return {"any_span_interval": interval_ends(interval)}

    def score_plain(self, sample: EvaluationSample, output: SystemOutputs, answer: str) -> Score:
        """The plain definition, window by window."""
        spans = self._spans_plain(sample, output, answer)
        return spans if isinstance(spans, Score) else Score(unsupported_proportion(answer, spans))

    def _spans_plain(
        self, sample: EvaluationSample, output: SystemOutputs, answer: str
    ) -> tuple[MarkedSpan, ...] | Score:
        if not answer.strip():
            return Score.skip("empty_answer")
        documents = self.evidence_documents(sample, output)
        texts = tuple(document.text for document in documents if document.text and document.text.strip())
        if documents and not texts:
            return Score.skip("no_text")
        model, windows = self.classifier, []
        if texts:
            (windows,) = model.windows([SpanInput(sample.query, texts, answer)])
        outcome = self._combine(answer, windows, [model.probabilities([window.pair])[0] for window in windows])
        if outcome is None:
            return Score.skip("empty_answer")
        return Score.fail(outcome) if isinstance(outcome, str) else outcome

    def explain(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """The spans, as stored or computed again, and the proportion of their characters."""
        answer = "" if output.response is None else output.response.text
        spans = around.spans
        if around.may_call_models:
            again = self._spans_plain(sample, output, answer)
            spans = None if isinstance(again, Score) else again
        if spans is None or not answer.strip():
            return super().explain(sample, output, around)
        steps = add_inputs(DerivationBuilder(), sample, output, self.metadata.reads, self.required_fields())
        steps.table(
            f"Characters that every window calls unsupported with a probability of at least {self.threshold:g}",
            ("from", "to", "probability", "text"),
            [(span.start, span.end, span.probability, quote_text(answer[span.start : span.end])) for span in spans],
        )
        counts = [count_characters(answer[span.start : span.end]) for span in spans]
        value = unsupported_proportion(answer, spans)
        text = f"Unsupported / all characters, white space not counted: {sum(counts)} / {count_characters(answer)}"
        return steps.finish_with_value(text, value)
