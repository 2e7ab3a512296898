"""What a metric declares about itself besides its formula."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import MetricDefinitionError
from .conventions import SignatureOption


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricMetadata:
    """What a metric declares about itself besides its formula; written as ``metadata = declare(...)`` in its class."""

    reads: frozenset[str] = frozenset()
    """Fields of an output that the metric needs: ``retrieved``, ``response``, ``timings``."""
    reads_depth: str = ""
    """The attribute with the number of documents that are read; signatures then show a smaller ``top_k`` of the run."""
    requires: tuple[str, ...] = ()
    """Attributes of samples that the metric needs, for ``required_fields``."""
    range: tuple[float, float] = (0.0, 1.0)
    higher_is_better: bool = True
    has_direction: bool = True  # false for the proportion of one of several classes
    binary: bool = False
    """Whether every score is 0 or 1, so that their mean is a proportion."""
    version: int = 1
    """Raised when the formula changes, so that old and new numbers are never subtracted."""

    counts_system_failures: bool = True
    """Whether a failed output counts at the worst value; latency, for example, has none."""
    always_counts_failures: bool = False
    """Whether it does so under all conventions, because failures are part of what is measured."""
    handles_failures: bool = False
    """Whether ``score`` handles failed outputs itself, as a metric over another metric does."""
    output_skips: frozenset[str] = frozenset({"no_response", "empty_answer", "no_text", "no_timing"})
    """Skip reasons caused by the output. Where the system failed, the failure takes precedence over these. A subclass
    adds reasons to the inherited ones."""

    by_chunk_id: bool = False
    """Whether it compares chunk ids, so that runs with different chunking cannot be compared by it."""
    by_parent_id: bool = False
    """Whether it compares ids of parent documents, which gold must then contain."""
    matches_gold: bool = False
    """Whether it finds gold in the way that the conventions name; other metrics that compare ids of chunks have no
    value unless gold is matched by id."""
    needs_all: bool = False
    """Whether the result needs the outcomes of all samples, to pair them or to break them down by group."""
    stat_names: tuple[str, ...] = ()
    """Names of statistics whose means belong in ``details``, one per column of ``Scores.stats``; of one that begins
    with ``num_`` it is the total."""
    calls_judge: bool = False
    """Whether the metric itself calls a judge."""
    controls: Mapping[str, bool] | None = None
    """The kinds of control items of a judge, each with whether it should be accepted; ``None``: by target."""

    suggested: bool = True
    """Whether the metric is among the defaults, where the user names no metrics."""
    suggested_with_spans: frozenset[str] = frozenset()
    """Suggests a metric that otherwise is not, where these have spans: ``gold``, ``returned`` or both."""
    suggested_for_target: bool = False
    """Suggests a metric that otherwise is not, where the user names its target."""
    requires_name: bool = False
    """Whether the user must name it, because the class alone does not say what is measured."""
    reads_files: bool = False
    """Whether options name files whose content is part of the metric, so that a stored spec must contain it."""
    follows_base: bool = False
    """Whether range and direction are those of another metric, which an option names."""
    worst_of_base: bool = False
    """Whether a failed answer counts at the worst value of that metric."""
    function_of: str = ""
    """The registered metric whose score decides this one, so that the two count once among metrics that got worse."""
    python_options: frozenset[str] = frozenset()
    """Options that cannot be written in a spec, such as a function."""

    reference: str = ""
    """Where the definition comes from."""
    skip_reasons: Mapping[str, str] = field(default_factory=dict)
    """Why a sample may be skipped, for the reference page."""
    failure_note: str = ""
    """How failed outputs count, for the reference page, where the default sentence does not suffice."""
    signature: Mapping[str, str | SignatureOption | None] | None = None
    """The options of its signature, in their order: by key the attribute with the value, or a ``SignatureOption``. A
    subclass adds options to the inherited ones, and takes one away with ``None``. Without a mapping the class is shown,
    and every option that is not the default."""
    option_help: Mapping[str, str] = field(default_factory=dict)
    """Explanations of its signature options, by key, or by ``key:value`` where the value matters."""
    prompt_names: tuple[str, ...] = ()
    """Names of the default prompts of a judged metric, for the reference page."""

    aliases: Mapping[str, Iterable[str]] = field(default_factory=dict)
    """Names in other tools, by tool: ``{"trec_eval": ("map", "map_cut_k")}``, where ``k`` is the cut-off. A mapping of
    names to options for a name that implies some."""
    peers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names in the tools that the cross-check compares with, by tool."""
    examples: tuple[Any, ...] = ()
    """Specs that the common tests evaluate."""


OWN_FIELDS = ("aliases", "peers", "examples", "function_of")
"""Fields that a subclass does not inherit: they belong to one name."""
JOINED_FIELDS = ("output_skips", "signature")
"""Fields that a subclass adds to; all others it replaces."""

REMOVED_HOOKS = {
    "derivation": "explain",
    "reference_score": "reference",
    "choices": "signature_options",
    "run_choices": "run_signature_options",
    "choice_words": "option_help",
    "rules": "active_conventions",
    "has_work": "is_applicable",
    "why_failed": "failure_message",
    "raised": "core.metrics_base.exception_outcome",
    "ruled_out": "applies",
    "checked": "core.metrics_base.check_score",
    "joined": "pair_samples",
    "taken": "select",
    "joins": "is_paired",
    "settles_failures": "handles_failures",
    "asks_on": "asks_follow_ups",
}
"""Former names of methods and attributes that a metric may override; a class that still defines one is refused."""


REMOVED_SAMPLE_HOOKS = {
    "precheck": "applies",
    "rows": "core.metrics_base.sample_rows",
    "on_exception": "core.metrics_base.exception_outcome",
    "check_score": "core.metrics_base.check_score",
}
"""The same for metrics of single samples."""


def refuse_removed_hooks(cls: type) -> None:
    """Raise if a class defines a hook of one of its bases that has another name now."""
    for base in cls.__mro__:
        for old, new in vars(base).get("_removed_hooks", {}).items():
            if old in vars(cls):
                raise MetricDefinitionError(f"{cls.__name__} defines '{old}', which is now called '{new}'; rename it")


class Declaration(dict[str, Any]):
    """The fields that a class declares; those of its bases are inherited."""


def declare(**fields: Any) -> Any:
    """The metadata of a metric class: only what differs from its base classes."""
    return Declaration(fields)


def declared_options(metric: object, metadata: MetricMetadata) -> dict[str, str]:
    """The options of a metric that its metadata declares for its signature."""
    options: dict[str, str] = {}
    last: dict[str, str] = {}
    for key, shown in (metadata.signature or {}).items():
        option = SignatureOption(shown) if isinstance(shown, str) else shown
        text = None if option is None else option.text(metric)
        if option is not None and text is not None:
            (last if option.last else options)[key] = text
    return options | last
