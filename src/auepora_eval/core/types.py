"""The shared data types: targets, documents, samples, outputs, results. Plain dataclasses that import nothing heavy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Literal

from .details import DetailsField, no_details

__all__ = [
    "STARTED",
    "Document",
    "EvaluationSample",
    "MetricResult",
    "Response",
    "RetrievedDocument",
    "SystemOutputs",
    "TargetCategory",
    "UnknownRanking",
]

STARTED = "started"
"""The one timing that is a moment and not a duration: when the request began, in seconds of any clock."""

GOLD_BY = "gold_by"
"""The key of a sample's metadata with the number of its grades by source: ``{"model": 8, "human": 2}``."""


FrameKind = Literal["pandas", "polars", "arrow"]
QueryTexts = tuple[str, str | None]
"""The question and the answer of a sample; ``None`` if there is no answer."""


class TargetCategory(Enum):
    """What a metric evaluates: the target space of the Auepora framework (``core.targets`` explains each).

    Example:
        >>> evaluate(samples, outputs, ["recall@1"])[0].target is TargetCategory.RETRIEVAL_RELEVANCE
        True
    """

    RETRIEVAL_RELEVANCE = auto()
    RETRIEVAL_ACCURACY = auto()
    GENERATION_RELEVANCE = auto()
    GENERATION_FAITHFULNESS = auto()
    GENERATION_CORRECTNESS = auto()
    LATENCY = auto()
    DIVERSITY = auto()
    NOISE_ROBUSTNESS = auto()
    NEGATIVE_REJECTION = auto()
    COUNTERFACTUAL_ROBUSTNESS = auto()
    COST = auto()


@dataclass
class Document:
    """A document or a chunk of one. An empty ``text`` means that only the id is known.

    Example:
        >>> Document("guide-3", "Turn it off.", parent_id="guide").parent, Document("guide").parent
        ('guide', 'guide')
    """

    doc_id: str
    text: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    parent_id: str | None = None
    span: tuple[int, int] | None = None
    """First character and one past the last, within the parent document."""

    @property
    def parent(self) -> str:
        """The id of the document this is a chunk of; a whole document is its own parent."""
        return self.doc_id if self.parent_id is None else self.parent_id


@dataclass
class RetrievedDocument:
    """One position of a ranking. The position in the list is the rank; ``rank`` repeats it for readers.

    Example:
        >>> RetrievedDocument(Document("guide"), score=0.8, rank=1).doc.doc_id
        'guide'
    """

    doc: Document
    score: float | None
    rank: int


class UnknownRanking(list[RetrievedDocument]):
    """A ranking that is unknown, which is not an empty one: it is omitted when an output is written."""


@dataclass
class Response:
    """An answer: the system's, or a reference. ``text=None`` is treated as an empty string.

    Example:
        >>> Response("Ada wrote it.", sentences=[{"text": "Ada wrote it.", "citations": ["ada"]}]).text
        'Ada wrote it.'
    """

    text: str
    structured: dict[str, Any] | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    sentences: list[dict[str, Any]] | None = None
    """Sentence-level citations: ``[{"text": ..., "citations": [ids]}]``."""

    def __post_init__(self) -> None:
        if self.text is None:
            self.text = ""


@dataclass
class EvaluationSample:
    """One sample of a dataset: a query and its annotations.

    ``relevant_docs=None`` means "not annotated"; ``[]`` means "annotated: nothing is relevant". A graded judgement is
    ``relevant_docs[i].metadata["relevance"]`` (an integer, 1 where absent). ``candidate_docs`` outside
    ``relevant_docs`` are judged non-relevant.

    Example:
        >>> sample = EvaluationSample("q3", "Who?", reference_answers=["Ada", "Lovelace"])
        >>> sample.reference_answer.text, sample.references
        ('Ada', ['Ada', 'Lovelace'])
    """

    sample_id: str
    query: str
    relevant_docs: list[Document] | None = None
    candidate_docs: list[Document] | None = None
    reference_answer: Response | None = None
    labels: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    reference_answers: list[str] = field(default_factory=list)
    """Further acceptable answers; given alone, the first becomes ``reference_answer``."""
    history: list[dict[str, Any]] = field(default_factory=list)
    """Earlier turns of the conversation."""
    cluster_id: str | None = None
    """The conversation or source document this sample belongs to; see ``cluster``."""
    relevant_groups: list[list[str]] = field(default_factory=list)
    """Groups of ids of ``relevant_docs`` that contain the same fact: finding one document of a group is enough."""

    def __post_init__(self) -> None:
        # A bare string is accepted as an answer, and as a list of one answer, as in files.
        if isinstance(self.reference_answer, str):
            self.reference_answer = Response(self.reference_answer)
        if isinstance(self.reference_answers, str):
            self.reference_answers = [self.reference_answers]
        if self.reference_answers is None:
            self.reference_answers = []
        if self.reference_answer is None and self.reference_answers:
            self.reference_answer = Response(text=self.reference_answers[0])
        if self.labels is None:
            self.labels = {}

    @property
    def cluster(self) -> str:
        """The unit of statistics: ``cluster_id``, else ``labels["variant_of"]``, else its own id.

        Derived on reading rather than stored, so that a copy with another ``sample_id`` does not keep the old cluster.
        """
        if self.cluster_id is not None:
            return self.cluster_id
        parent = self.labels.get("variant_of")
        return self.sample_id if parent is None else str(parent)

    @property
    def scenarios(self) -> tuple[str, ...]:
        """The scenarios in ``labels["scenario"]``, a string or a list, in lower case."""
        scenario = self.labels.get("scenario")
        if scenario is None:
            return ()
        several = scenario if isinstance(scenario, (list, tuple, set, frozenset)) else [scenario]
        return tuple(str(name).strip().lower() for name in several)

    @property
    def references(self) -> list[str]:
        """Every acceptable answer text, each once, ``reference_answer`` first."""
        first = [] if self.reference_answer is None else [self.reference_answer.text]
        return list(dict.fromkeys([*first, *self.reference_answers]))


@dataclass
class SystemOutputs:
    """What the system under evaluation returned for one sample.

    ``response=None`` means that no answer was requested; ``error`` is the message of a failure.

    Example:
        >>> output = SystemOutputs([RetrievedDocument(Document("ada"), 1.0, 1)], Response("Ada Lovelace"))
        >>> evaluate(samples[:1], [output], ["recall@1"])[0].value
        1.0
    """

    retrieved: list[RetrievedDocument]
    response: Response | None = None
    timings: dict[str, float] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    refused: bool | None = None
    citations: list[str] | None = None
    """Ids of cited documents; ``None`` means that this system gives no citations."""
    steps: list[dict[str, Any]] = field(default_factory=list)
    """Per hop of an agentic system: query, retrieved, timing."""
    usage: dict[str, Any] = field(default_factory=dict)
    repeat: int = 0
    """Which repetition of the same sample this is."""


def response_text(output: SystemOutputs) -> str:
    """The text of the answer, for metrics of answers: outputs without a response are skipped before."""
    assert output.response is not None
    return output.response.text


@dataclass
class MetricResult:
    """One metric's number over a dataset, with the outcome of every sample behind it.

    ``value`` is 0.0 where no sample counts; ``defined`` distinguishes that from a real zero.

    Example:
        >>> (result,) = evaluate(samples, outputs, ["recall@1"])
        >>> print(result)
        recall@1 0.5000, 0.0000 to 1.0000
        >>> list(result.scores), result.details.num_samples
        ([1.0, 0.0], 2)
    """

    name: str
    target: TargetCategory
    value: float
    details: DetailsField = field(default_factory=no_details)
    """A mapping with typed attributes; any mapping can be given or assigned."""
    scores: Sequence[float | None] | None = None
    """Per sample, in sample order: the number that entered the mean, or ``None``."""
    outcomes: Sequence[str] | None = None
    """Per sample: ``scored``, ``skipped:<reason>``, ``system_failed:<reason>`` or ``measure_failed:<reason>``."""
    signature: str | None = None
    defined: bool = True
    interval: tuple[float, float] | None = None
    slices: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """``recall@5 0.8300, 0.7500 to 0.9000``."""
        value = f"{self.name} {self.value:.4f}" if self.defined else f"{self.name} n/a"
        return value if self.interval is None else "{}, {:.4f} to {:.4f}".format(value, *self.interval)

    @property
    def known_value(self) -> float | None:
        """The value; ``None`` where no sample counts."""
        return self.value if self.defined else None


MetricResult.details = DetailsField()  # in the class it would be the default value
