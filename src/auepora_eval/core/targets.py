"""The Auepora target taxonomy: the names of the targets, and which output each compares with which ground truth."""

from collections.abc import Iterable
from dataclasses import dataclass

from ..errors import BadValueError, did_you_mean
from .grouping import group_pairs
from .types import MetricResult, TargetCategory

__all__ = ["TARGETS", "Target", "describe_target"]


@dataclass(frozen=True, slots=True)
class Target:
    """One target of the framework: the pair it compares, the annotations it needs, and its most important metrics."""

    category: TargetCategory
    stage: str
    """``retrieval``, ``generation`` or ``additional``."""
    title: str
    output: str
    """The evaluable output, first of the pair."""
    ground_truth: str
    """What it is compared with, second of the pair."""
    question: str
    needs: tuple[str, ...]
    """Sample annotations without which the target cannot be evaluated."""
    reads: tuple[str, ...] = ()
    """Fields of outputs without which it cannot be evaluated."""
    advice: str = ""
    """How to add what it needs."""
    aliases: tuple[str, ...] = ()
    """Other names of the target."""
    primary: tuple[str, ...] = ()
    """Candidates for its primary metric; the first that the data supports is used."""
    judged: str = ""
    """The metric that a judge computes for the target, where a judge is configured."""

    @property
    def name(self) -> str:
        """The name in plans and on the command line: ``generation_correctness``."""
        return self.category.name.lower()

    @property
    def pair(self) -> str:
        """The pair as the framework writes it, ``output – ground truth``."""
        return f"{self.output} – {self.ground_truth}"


_RETRIEVED, _RESPONSE = "retrieved documents", "response"
_GOLD_ADVICE = (
    "add relevant_docs to the samples: the ids of the documents that should be found (`auepora pool` collects "
    "candidates, `auepora judge relevance` grades them)"
)
_ANSWER_ADVICE = "save the answers: the field 'response' of the outputs"
_T = TargetCategory

_LISTED = (
    Target(
        _T.RETRIEVAL_RELEVANCE, "retrieval", title="Retrieval relevance", output=_RETRIEVED, ground_truth="query",
        question="Do the retrieved documents hold what the query needs?", needs=("relevant_docs",),
        reads=("retrieved",),
        advice=_GOLD_ADVICE,
        aliases=("context_relevance", "document_relevance"),
        primary=("recall", "recall_doc", "span_recall"),
        judged="llm_context_sufficiency",
    ),
    Target(
        _T.RETRIEVAL_ACCURACY, "retrieval", title="Retrieval accuracy", output=_RETRIEVED,
        ground_truth="candidate documents",
        question="Are the right candidates ranked first?", needs=("relevant_docs",),
        reads=("retrieved",),
        advice=_GOLD_ADVICE,
        aliases=("ranking",),
        primary=("ndcg", "mrr", "map"),
    ),
    Target(
        _T.GENERATION_RELEVANCE, "generation", title="Answer relevance", output=_RESPONSE, ground_truth="query",
        question="Does the answer address the question?", needs=(),
        reads=("response",),
        advice=_ANSWER_ADVICE,
        aliases=("answer_relevance", "response_relevance"),
        primary=("answer_relevance",),
        judged="llm_answer_relevance",
    ),
    Target(
        _T.GENERATION_FAITHFULNESS, "generation", title="Answer faithfulness", output=_RESPONSE,
        ground_truth="documents", question="Does the answer stay within its evidence?", needs=(),
        reads=("response", "retrieved"),
        advice="save the answers with the texts of the retrieved documents, or give the texts as a corpus",
        aliases=("faithfulness", "answer_faithfulness", "groundedness"),
        primary=("support_density",),
        judged="llm_faithfulness",
    ),
    Target(
        _T.GENERATION_CORRECTNESS, "generation", title="Answer correctness", output=_RESPONSE,
        ground_truth="sample response or label",
        question="Does the answer say what the reference says (or carry the expected label)?",
        needs=("reference_answer",), reads=("response",),
        advice=(
            "add reference_answer to the samples: the answer that is expected (a table names its column with "
            "reference=NAME)"
        ),
        aliases=("correctness", "answer_correctness"),
        primary=("token_f1", "exact_match", "label_accuracy"),
        judged="llm_correctness",
    ),
    Target(
        _T.LATENCY, "additional", title="Latency", output="timings", ground_truth="none",
        question="How long does the user wait?", needs=(),
        reads=("timings",),
        advice="save timings in the outputs, such as {end_to_end: 0.8}; `auepora run` measures them",
        aliases=("speed",),
        primary=("mean_latency",),
    ),
    Target(
        _T.DIVERSITY, "additional", title="Diversity", output="retrieved documents or responses",
        ground_truth="each other", question="How varied is what the system returns?", needs=(),
        reads=("response",),
        advice=_ANSWER_ADVICE,
        aliases=("variety",),
        primary=("response_diversity", "distinct_n"),
    ),
    Target(
        _T.NOISE_ROBUSTNESS, "additional", title="Noise robustness",
        output="output on a noisy variant", ground_truth="output on its clean parent",
        question="Does quality survive noisy queries or noisy documents?",
        needs=("labels.variant_of", "labels.scenario"), reads=("response",),
        advice="add noisy variants of the questions with labels.variant_of and labels.scenario; `auepora perturb` "
        "writes them",
        aliases=("noise",),
        primary=("noise_robustness", "context_noise_accuracy"),
    ),
    Target(
        _T.NEGATIVE_REJECTION, "additional", title="Negative rejection", output="output",
        ground_truth="label (unanswerable)",
        question="Does the system decline what cannot be answered, and only that?", needs=("labels.scenario",),
        reads=("response",),
        advice="add questions that cannot be answered, with 'unanswerable' as labels.scenario",
        aliases=("rejection", "refusal", "abstention"),
        primary=("rejection_f1", "refusal_correctness"),
    ),
    Target(
        _T.COUNTERFACTUAL_ROBUSTNESS, "additional", title="Counterfactual robustness",
        output="output on a counterfactual variant", ground_truth="output on its base",
        question="Does the answer hold up when facts or wording are altered?",
        needs=("labels.variant_of", "labels.scenario"),
        reads=("response",),
        advice="add variants with labels.variant_of and 'counterfactual' as labels.scenario, or false documents "
        "with metadata.wrong_answer",
        aliases=("counterfactual",),
        primary=(
            "counterfactual_consistency", "misleading_rate", "mistake_reappearance_rate", "attack_success_rate",
        ),
    ),
    Target(
        _T.COST, "additional", title="Cost", output="usage", ground_truth="none",
        question="How many tokens and how much money does an answer take?", needs=(),
        reads=("usage",),
        advice="save the usage of the models in the outputs, such as {prompt_tokens: 812, completion_tokens: 95}",
        aliases=("usage",),
    ),
)  # fmt: skip
TARGETS: dict[TargetCategory, Target] = {target.category: target for target in _LISTED}
"""The targets in the order of the survey."""


def group_by_target(results: Iterable[MetricResult]) -> list[tuple[Target, list[MetricResult]]]:
    """The targets that have results, in the order of the framework, each with its results."""
    by_target = group_pairs((result.target, result) for result in results)
    return [(target, by_target[category]) for category, target in TARGETS.items() if category in by_target]


def describe_target(category: TargetCategory) -> Target:
    """The taxonomy entry of ``category``."""
    return TARGETS[category]


def find_target(name: str | TargetCategory) -> TargetCategory:
    """The target of a name or alias; upper case and hyphens are read, too."""
    if isinstance(name, TargetCategory):
        return name
    by_name: dict[str, TargetCategory] = {}
    for target in TARGETS.values():
        by_name |= dict.fromkeys((target.name, *target.aliases), target.category)
    found = by_name.get(name.strip().lower().replace("-", "_").replace(" ", "_"))
    if found is None:
        listed = ", ".join(target.name for target in TARGETS.values())
        hint = did_you_mean(name, by_name, otherwise=";")
        raise BadValueError(f"unknown target {name!r}{hint} the targets are {listed}")
    return found


def find_targets(names: Iterable[str | TargetCategory]) -> tuple[TargetCategory, ...]:
    """The targets of names, each once, in the order of the survey."""
    asked = {find_target(name) for name in names}
    return tuple(target for target in TARGETS if target in asked)
