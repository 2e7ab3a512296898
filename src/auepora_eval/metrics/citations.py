"""Citations: whether they name documents that exist, and whether those are the relevant ones."""

from __future__ import annotations

import hashlib
import json
import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Annotated, ClassVar, Literal

from ..core.conventions import SignatureOption
from ..core.derivation import (
    NO_CONTEXT,
    Derivation,
    ExplainContext,
    add_division,
    add_outcome,
    add_step,
    add_table,
    is_recording,
    join_items,
    record_steps,
)
from ..core.metrics_base import SampleMetric, declare, set_metadata
from ..core.registry import ConfiguredMetric, register
from ..core.scores import Score, Scores, Status
from ..core.types import Document, EvaluationSample, SystemOutputs, TargetCategory
from ..errors import BadTypeError
from ..features.rankings import highest_levels
from ..options import NonEmpty
from ..text.sentences import require_ids
from .ranking import relevant_ids

_NO_CITATIONS = "this system gives no citations, neither for the answer nor for its sentences"


def cited_ids(output: SystemOutputs) -> set[str] | None:
    """The ids an answer cites: ``citations``, else those of its sentences; ``None`` where there is neither.

    Sentences without any key ``citations`` give ``None``; an empty list of sentences gives an empty set. Raises
    ``BadTypeError`` for what is not a list of ids.
    """
    if output.citations is not None:
        return set(require_ids(output.citations))
    sentences = None if output.response is None else output.response.sentences
    if sentences is None:
        return None
    if not isinstance(sentences, (list, tuple)) or not all(isinstance(sentence, Mapping) for sentence in sentences):
        raise BadTypeError("sentences are a list of objects with 'text' and 'citations'")
    lists = [sentence["citations"] for sentence in sentences if sentence.get("citations") is not None]
    return None if sentences and not lists else set(chain.from_iterable(require_ids(cited) for cited in lists))


@dataclass(frozen=True)
class CitationMetric(ConfiguredMetric, SampleMetric):
    """A metric over the distinct ids that an answer cites."""

    target = TargetCategory.GENERATION_FAITHFULNESS
    metadata = declare(
        output_skips=frozenset({"no_citations"}),
    )

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The score of the cited ids, if there are any."""
        try:
            cited = cited_ids(output)
        except BadTypeError:
            return Score.fail("bad_citations")
        if cited is None:
            return Score.skip("no_citations")
        if is_recording():
            where = "in `citations`" if output.citations is not None else "by the sentences of the answer"
            add_step(f"Cited {where}: {join_items(sorted(cited))}; |C| = {len(cited)}", len(cited))
        return self.score_cited(cited, sample, output)

    @abstractmethod
    def score_cited(self, cited: set[str], sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The outcome for an answer that cites these ids."""


@register("citation_coverage")
@dataclass(frozen=True)
class CitationCoverage(CitationMetric):
    r"""1 if the answer cites, and everything it cites is a known document.

    .. math:: [\,C \ne \emptyset \,\wedge\, C \subseteq K\,]

    C are the ids in `citations`, else those that the answer's sentences cite. K are the ids of the corpus where the
    option `corpus_ids` gives them, else the ids retrieved for this sample; ids must be equal. An answer
    that gives an empty list of citations scores 0, and so does one that gives no list where another answer of the run
    does. Where no answer of the run gives a list, all are skipped. Counted are the grounded answers: failed outputs
    and refusals are left out. Citations that are not a list of ids are a failed measurement (`bad_citations`).
    """

    corpus_ids: Annotated[tuple[str, ...], NonEmpty()] | None = None
    _known: frozenset[str] = field(default=frozenset(), init=False, repr=False, compare=False)
    _corpus_name: str = field(default="retrieved", init=False, repr=False, compare=False)

    metadata = declare(
        reads=frozenset({"response", "retrieved", "citations"}),
        binary=True,
        counts_system_failures=False,
        output_skips=frozenset({"refused"}),
        needs_all=True,  # whether an answer without a list of citations counts depends on the others
        skip_reasons={
            "refused": "the system refused to answer, and says so in `refused`",
            "no_citations": _NO_CITATIONS,
            "no_response": "no answer was asked for",
        },
        examples=(
            "citation_coverage",
            {"citation_coverage": {"corpus_ids": ["a", "b", "c"]}},
        ),
        signature={"corpus": "_corpus_name"},
    )
    is_paired = False
    """False: a sample has a score of its own, and other metrics may be based on it."""

    def __post_init__(self) -> None:
        if isinstance(self.corpus_ids, (Iterator, Mapping)):
            object.__setattr__(self, "corpus_ids", tuple(self.corpus_ids))
        super().__post_init__()
        if self.corpus_ids is not None:
            known = frozenset(self.corpus_ids)
            ids = tuple(sorted(known))
            object.__setattr__(self, "corpus_ids", ids)
            object.__setattr__(self, "_known", known)
            digest = hashlib.sha256(json.dumps(ids).encode()).hexdigest()[:12]
            object.__setattr__(self, "_corpus_name", f"given-{digest}")
            set_metadata(self, reads=self.metadata.reads - {"retrieved"})  # no longer used

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """Whether all citations are known, where the system did not refuse."""
        return Score.skip("refused") if output.refused else super().score_one(sample, output)

    def pair_samples(self, scores: Scores) -> Scores:
        """Count an answer without a list of citations as one that cites nothing, unless all answers are without."""
        cites = (scores.status == Status.SCORED) | scores.with_reason("bad_citations")
        without = scores.with_reason("no_citations")
        return scores.replaced(without, Status.SCORED, "", 0.0) if cites.any() and without.any() else scores

    def reference(self, sample: EvaluationSample, output: SystemOutputs) -> Score | None:
        """None: whether an answer without a list of citations counts depends on the other answers."""
        return None

    def reference_value(self, samples: Sequence[EvaluationSample], outputs: Sequence[SystemOutputs]) -> float | None:
        """The proportion by the plain definition."""
        reference = super().reference
        scores = [score for pair in zip(samples, outputs, strict=True) if (score := reference(*pair)) is not None]
        cites = any(score.value is not None or score.reason == "bad_citations" for score in scores)
        values = [
            score.value or 0.0
            for score in scores
            if score.value is not None or (cites and score.reason == "no_citations")
        ]
        return math.fsum(values) / len(values) if values else math.nan

    def score_cited(self, cited: set[str], sample: EvaluationSample, output: SystemOutputs) -> Score:
        """Whether all these ids are known."""
        known = {item.doc.doc_id for item in output.retrieved} if self.corpus_ids is None else self._known
        marks = dict.fromkeys(cited, "unknown") | dict.fromkeys(cited & known, "known")
        corpus = "what was retrieved" if self.corpus_ids is None else "the corpus given"
        add_table(f"Compared with {corpus}", ("cited", "is"), sorted(marks.items()))
        if not cited:
            return Score(add_outcome("Nothing is cited", 0.0))
        return Score(add_outcome("An unknown id is cited", 0.0) if cited - known else add_outcome("All are known", 1.0))

    def explain(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """Which of the cited ids are known; an answer without a list of citations counts as one that cites nothing."""
        with record_steps() as steps:
            score = self.score_one(sample, output)
            if score.value is None:
                add_outcome("The answer has no list of citations; another answer of the run has one", 0.0)
        return steps.derivation(score.value or 0.0)


@dataclass(frozen=True)
class CitationGoldMetric(CitationMetric):
    """A metric that compares the cited ids with the relevant ones."""

    divide_by: ClassVar[Literal["|C|", "|G|"]]
    """The ids in the denominator: those that are cited, or the relevant ones."""
    metadata = declare(
        reads=frozenset({"response", "citations"}),
        requires=("relevant_docs",),
        by_chunk_id=True,
        skip_reasons={
            "no_gold": "`relevant_docs` is not annotated",
            "empty_gold": "nothing is relevant, and the conventions skip such queries",
            "no_citations": _NO_CITATIONS,
            "no_response": "no answer was asked for",
        },
        signature={
            "empty": "active_conventions.empty_gold",
            "rel": SignatureOption("active_conventions.min_relevance", unless=1),
        },
    )

    def applies(self, sample: EvaluationSample) -> str | None:
        """Skips empty gold as the conventions require."""
        levels, rule = _relevance_levels(sample), self.active_conventions.empty_gold
        if rule == "zero" or relevant_ids(levels, self.active_conventions.min_relevance):
            return None
        judged = bool(sample.candidate_docs) or any(level >= 0 for level in levels.values())
        return None if rule == "judged" and judged else "empty_gold"

    def score_cited(self, cited: set[str], sample: EvaluationSample, output: SystemOutputs) -> Score:
        """Hits over the metric's denominator."""
        gold = relevant_ids(_relevance_levels(sample), self.active_conventions.min_relevance)
        hits = cited & gold
        divisor = len({"|C|": cited, "|G|": gold}[self.divide_by])
        if is_recording():
            add_step(f"Relevant: {join_items(sorted(gold))}; |G| = {len(gold)}", len(gold))
            add_step(f"Both cited and relevant: {join_items(sorted(hits))}; {len(hits)} of them", len(hits))
        if not divisor:
            return Score(add_outcome(f"{self.divide_by} is 0", 0.0))
        return Score(add_division(f"Both / {self.divide_by}", len(hits), divisor))


def _relevance_levels(sample: EvaluationSample) -> dict[str, int]:
    """The judged level of every gold id; one given twice has its highest."""
    for document in sample.relevant_docs or ():
        if not isinstance(document, Document) or not isinstance(document.doc_id, str):
            raise BadTypeError(
                f"sample '{sample.sample_id}': 'relevant_docs' holds {document!r:.80}, not a Document with a string id"
            )
    return highest_levels(sample)


@register("citation_gold_precision")
@dataclass(frozen=True)
class CitationGoldPrecision(CitationGoldMetric):
    r"""Proportion of the cited documents that are relevant.

    .. math:: |C \cap G| \,/\, |C|

    C are the distinct ids in `citations`, else those that the answer's sentences cite; G are the relevant ids. Ids must
    be equal: a chunk is not its document. An answer that gives an empty list of citations scores 0. Every answer with
    citations and gold is counted, a refusal too. Citations that are not a list of ids are a failed measurement
    (`bad_citations`).
    """

    metadata = declare(
        examples=(
            "citation_gold_precision",
            {"citation_gold_precision": {"conventions": "trec"}},
        ),
    )
    divide_by: ClassVar[Literal["|C|", "|G|"]] = "|C|"


@register("citation_gold_recall")
@dataclass(frozen=True)
class CitationGoldRecall(CitationGoldMetric):
    r"""Proportion of the relevant documents that are cited.

    .. math:: |C \cap G| \,/\, |G|

    C are the distinct ids in `citations`, else those that the answer's sentences cite; G are the relevant ids. Ids must
    be equal: a chunk is not its document. Where nothing is relevant and the conventions do not skip such queries, it is
    0. Every answer with citations and gold is counted, a refusal too. Citations that are not a list of ids are a failed
    measurement (`bad_citations`).
    """

    metadata = declare(
        examples=(
            "citation_gold_recall",
            {"citation_gold_recall": {"min_relevance": 2}},
        ),
    )
    divide_by: ClassVar[Literal["|C|", "|G|"]] = "|G|"
