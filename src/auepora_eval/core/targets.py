"""The Auepora target taxonomy: which output each target compares with which ground truth."""

from dataclasses import dataclass

from .types import TargetCategory

__all__ = ["TARGETS", "Target", "describe_target"]


@dataclass(frozen=True, slots=True)
class Target:
    """One target of the framework: the pair it compares, and the annotations it needs."""

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

    @property
    def pair(self) -> str:
        """The pair as the framework writes it, ``output – ground truth``."""
        return f"{self.output} – {self.ground_truth}"


_RETRIEVED, _RESPONSE = "retrieved documents", "response"
_T = TargetCategory

TARGETS: dict[TargetCategory, Target] = {
    target.category: target
    for target in (
        Target(
            _T.RETRIEVAL_RELEVANCE, "retrieval", "Retrieval relevance", _RETRIEVED, "query",
            "Do the retrieved documents hold what the query needs?", ("relevant_docs",),
        ),
        Target(
            _T.RETRIEVAL_ACCURACY, "retrieval", "Retrieval accuracy", _RETRIEVED, "candidate documents",
            "Are the right candidates ranked first?", ("relevant_docs",),
        ),
        Target(
            _T.GENERATION_RELEVANCE, "generation", "Answer relevance", _RESPONSE, "query",
            "Does the answer address the question?", (),
        ),
        Target(
            _T.GENERATION_FAITHFULNESS, "generation", "Answer faithfulness", _RESPONSE, "documents",
            "Does the answer stay within its evidence?", (),
        ),
        Target(
            _T.GENERATION_CORRECTNESS, "generation", "Answer correctness", _RESPONSE, "sample response or label",
            "Does the answer say what the reference says (or carry the expected label)?", ("reference_answer",),
        ),
        Target(
            _T.LATENCY, "additional", "Latency", "timings", "none",
            "How long does the user wait?", (),
        ),
        Target(
            _T.DIVERSITY, "additional", "Diversity", "retrieved documents or responses", "each other",
            "How varied is what the system returns?", (),
        ),
        Target(
            _T.NOISE_ROBUSTNESS, "additional", "Noise robustness",
            "output on a noisy variant", "output on its clean parent",
            "Does quality survive noisy queries or noisy documents?", ("labels.variant_of", "labels.scenario"),
        ),
        Target(
            _T.NEGATIVE_REJECTION, "additional", "Negative rejection", "output", "label (unanswerable)",
            "Does the system decline what cannot be answered, and only that?", ("labels.scenario",),
        ),
        Target(
            _T.COUNTERFACTUAL_ROBUSTNESS, "additional", "Counterfactual robustness",
            "output on a counterfactual variant", "output on its base",
            "Does the answer hold up when facts or wording are altered?",
            ("labels.variant_of", "labels.scenario"),
        ),
        Target(
            _T.COST, "additional", "Cost", "usage", "none",
            "How many tokens and how much money does an answer take?", (),
        ),
    )
}  # fmt: skip


def describe_target(category: TargetCategory) -> Target:
    """The taxonomy entry of ``category``."""
    return TARGETS[category]
