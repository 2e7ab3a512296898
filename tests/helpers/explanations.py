"""Explanations as text, as ``auepora explain`` prints them."""

from auepora_eval.render.markdown import report_markdown
from auepora_eval.render.terminal import report_text
from auepora_eval.report.explain import Explanation, explanation_report


def explanation_text(explanation: Explanation) -> str:
    """For a terminal."""
    return report_text(explanation_report(explanation))


def explanation_markdown(explanation: Explanation) -> str:
    """As a Markdown page."""
    return report_markdown(explanation_report(explanation)).rstrip("\n")
