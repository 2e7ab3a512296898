"""Metric cards: descriptions of the registered metrics from their classes, and the reference pages made of them."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from pathlib import Path

from ..core.metrics_base import BatchMetric
from ..core.registry import MetricInfo, metric_infos
from ..core.targets import TARGETS
from ..core.types import TargetCategory
from ..judge.prompting import built_in_prompt
from .plain_math import plain_math

__all__ = ["MetricCard", "metric_card", "metric_cards", "reference_pages", "write_reference"]


@dataclass(frozen=True, slots=True)
class MetricCard:
    """The description of a metric."""

    name: str
    pattern: str
    summary: str
    formula: str
    text: tuple[str, ...]
    """The paragraphs of the explanation."""
    target: TargetCategory | None
    range: tuple[float, float] | None
    higher_is_better: bool | None
    options: dict[str, str]
    skips: dict[str, str]
    failures: str
    reference: str
    follows_base: bool = False
    """Whether target, range and direction are those of its base metric, which is an option."""
    prompts: tuple[tuple[str, str], ...] = ()
    """The prompts of a judged metric: name, version and digest, and the template."""

    @property
    def range_text(self) -> str:
        """The range as an interval."""
        if self.range is None:
            return "that of the other metric" if self.follows_base else "not declared"
        low, high = self.range
        lower = "(−∞" if math.isinf(low) else f"[{low:g}"
        upper = "∞)" if math.isinf(high) else f"{high:g}]"
        return f"{lower}, {upper}"

    @property
    def direction(self) -> str:
        """Which way is better."""
        if self.higher_is_better is None and self.follows_base:
            return "as there"
        return {True: "higher is better", False: "lower is better", None: "not declared"}[self.higher_is_better]

    def to_text(self) -> str:
        """The card for a terminal."""
        lines = [self.pattern, "", self.summary]
        if self.formula:
            lines += ["", f"    {plain_math(self.formula)}"]
        for paragraph in self.text:
            lines += ["", paragraph]
        lines += [""]
        lines += [f"{label}: {value}" for label, value in self._facts()]
        if self.options:
            lines += ["", "Options:", *(f"  {name} = {default}" for name, default in self.options.items())]
        if self.skips:
            lines += ["", "Skips a sample where:", *(f"  {reason}: {why}" for reason, why in self.skips.items())]
        for prompt_id, prompt in self.prompts:
            lines += ["", f"Prompt {prompt_id}:", *(f"  {line}".rstrip() for line in prompt.splitlines())]
        return "\n".join(lines)

    def to_markdown(self) -> str:
        """The card as a page of the reference."""
        lines = [f"# `{self.pattern}`", "", self.summary]
        if self.formula:
            lines += ["", "$$", self.formula, "$$"]
        for paragraph in self.text:
            lines += ["", paragraph]
        lines += ["", "| | |", "|---|---|"]
        lines += [f"| {label} | {_escape_cell(value)} |" for label, value in self._facts()]
        if self.options:
            lines += ["", "## Options", "", "| option | default |", "|---|---|"]
            lines += [f"| `{name}` | `{default}` |" for name, default in self.options.items()]
        if self.skips:
            lines += ["", "## Skips", "", "| reason | when |", "|---|---|"]
            lines += [f"| `{reason}` | {_escape_cell(why)} |" for reason, why in self.skips.items()]
        if self.prompts:
            lines += ["", "## Prompt" if len(self.prompts) == 1 else "## Prompts"]
        for prompt_id, prompt in self.prompts:
            lines += ["", f"`{prompt_id}`", "", "```text", prompt, "```"]
        return "\n".join(lines) + "\n"

    def _facts(self) -> list[tuple[str, str]]:
        facts = []
        if self.target is not None:
            facts.append(("Target", f"{self.target.name} ({TARGETS[self.target].pair})"))
        elif self.follows_base:
            facts.append(("Target", "that of the other metric"))
        facts += [("Range", f"{self.range_text}, {self.direction}"), ("A failed answer", self.failures)]
        if self.reference:
            facts.append(("Reference", self.reference))
        return facts


def _escape_cell(text: str) -> str:
    return text.replace("|", "\\|")


def metric_cards() -> list[MetricCard]:
    """The cards of all registered metrics."""
    return [metric_card(info) for info in metric_infos().values()]


def metric_card(info: MetricInfo) -> MetricCard:
    """The card of one metric."""
    cls = info.cls
    # Without a docstring of its own a dataclass shows its signature, which explains nothing.
    document = inspect.cleandoc(vars(cls).get("__doc__") or "")
    summary, formula, text = _parse_docstring(document)
    scored = issubclass(cls, BatchMetric)
    options = {
        name: "required" if parameter.default is inspect.Parameter.empty else repr(parameter.default)
        for name, parameter in info.options.items()
    }
    follows_base = getattr(cls, "follows_base", False)
    span = _declared_range(info) if scored else getattr(cls, "range", None)
    prompts = [built_in_prompt(name) for name in getattr(cls, "prompt_names", ())]
    return MetricCard(
        name=info.name,
        pattern=info.pattern,
        summary=summary,
        formula=formula,
        text=text,
        target=getattr(cls, "target", None),
        range=None if follows_base else span,
        higher_is_better=None if follows_base else getattr(cls, "higher_is_better", None),
        options=options,
        skips=dict(getattr(cls, "skip_reasons", {})),
        failures=_failure_rule(info),
        reference=getattr(cls, "reference", ""),
        follows_base=follows_base,
        prompts=tuple((prompt.id, prompt.text) for prompt in prompts),
    )


def _declared_range(info: MetricInfo) -> tuple[float, float] | None:
    """The range with default options; the range may depend on them."""
    required = {n: 5 for n, p in info.options.items() if p.default is inspect.Parameter.empty and n == info.at}
    try:
        built = info.cls(**required)
    except TypeError:
        built = None
    return getattr(built if built is not None else info.cls, "range", None)


def _failure_rule(info: MetricInfo) -> str:
    if not issubclass(info.cls, BatchMetric):
        return "not declared"
    if info.cls.failure_note:
        return info.cls.failure_note
    if not info.cls.counts_system_failures:
        return "leaves the mean"
    return "counts at the worst value"


def _parse_docstring(document: str) -> tuple[str, str, tuple[str, ...]]:
    """Summary, formula and further paragraphs of a docstring."""
    paragraphs = [" ".join(part.split()) for part in document.split("\n\n") if part.strip()]
    formula = next((p.removeprefix(".. math::").strip() for p in paragraphs if p.startswith(".. math::")), "")
    text = [p for p in paragraphs if not p.startswith(".. math::")]
    return (text[0] if text else ""), formula, tuple(text[1:])


def reference_pages() -> dict[str, str]:
    """The metric reference: file name to content."""
    cards = metric_cards()
    pages = {f"{card.name}.md": card.to_markdown() for card in cards}
    lines = [
        "# Metric reference",
        "",
        "Made from the registry by `make docs`; edit the metric's docstring, not these pages.",
    ]
    headings: list[tuple[TargetCategory | None, str, str]] = [
        (target, entry.title, f"{entry.question} Compares {entry.pair}.") for target, entry in TARGETS.items()
    ]
    headings.append((None, "Any target", "Metrics over another metric, whose target they have."))
    for target, title, question in headings:
        group = [card for card in cards if card.target is target]
        if group:
            lines += ["", f"## {title}", "", question, ""]
            lines += ["| metric | what it says | range |", "|---|---|---|"]
            lines += [
                f"| [`{card.pattern}`]({card.name}.md) | {_escape_cell(card.summary)} |"
                f" {card.range_text}, {card.direction} |"
                for card in group
            ]
    pages["README.md"] = "\n".join(lines) + "\n"
    return pages


def write_reference(folder: Path) -> None:
    """Write the reference pages, removing those of metrics that are gone."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = reference_pages()
    for stale in set(folder.glob("*.md")) - {folder / name for name in pages}:
        stale.unlink()
    for name, content in pages.items():
        (folder / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    import sys

    write_reference(Path(sys.argv[1]))
