"""The metric reference in ``docs/metrics``: a page per metric, and an index by target."""

from pathlib import Path

from auepora_eval.core.targets import TARGETS
from auepora_eval.core.types import TargetCategory
from auepora_eval.report.cards import MetricCard, metric_cards
from tools.source_tree import REPO


def card_markdown(card: MetricCard) -> str:
    """The card of a metric as a page."""
    lines = [f"# `{card.pattern}`", "", card.summary]
    if card.formula:
        lines += ["", "$$", card.formula, "$$"]
    for paragraph in card.text:
        lines += ["", paragraph]
    lines += ["", "| | |", "|---|---|"]
    lines += [f"| {label} | {_escape_cell(value)} |" for label, value in card.facts()]
    if card.options:
        lines += ["", "## Options", "", "| option | type | default |", "|---|---|---|"]
        lines += [f"| `{name}` | {text} | `{card.options[name]}` |" for name, text in card.option_types.items()]
    if card.skips:
        lines += ["", "## Skips", "", "| reason | when |", "|---|---|"]
        lines += [f"| `{reason}` | {_escape_cell(why)} |" for reason, why in card.skips.items()]
    if card.prompts:
        lines += ["", "## Prompt" if len(card.prompts) == 1 else "## Prompts"]
    for prompt_id, prompt in card.prompts:
        lines += ["", f"`{prompt_id}`", "", "```text", prompt, "```"]
    return "\n".join(lines) + "\n"


def _escape_cell(text: str) -> str:
    return text.replace("|", "\\|")


def reference_pages() -> dict[str, str]:
    """The metric reference: file name to content."""
    cards = metric_cards()
    pages = {f"{card.name}.md": card_markdown(card) for card in cards}
    lines = [
        "# Metric reference",
        "",
        "Made from the registry by `make docs`; edit the metric's docstring, not these pages.",
        "Gold is found in rankings by id, span, text or document: see [Matching gold](../gold-matching.md).",
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
    write_reference(REPO / "docs" / "metrics")
