"""Results as dictionaries and Markdown tables."""

from ..core.results import coverage, display_name, results_to_dict, results_to_markdown

__all__ = ["coverage", "display_name", "results_to_dict", "results_to_markdown"]
